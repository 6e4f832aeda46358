/**
 * Decides the next step of a deployment whose cell is drained. Pure. Each step is one write of the placement on the hub, so
 * a process that stops at any point leaves one that another process goes on from.
 */
import type { Finding } from "@berth/host";
import { findCondition } from "@berth/runtime";
import type { CellPlacement, Target } from "../../api/placement.ts";
import type { HubReason } from "../../api/reasons.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { boundedCount, sourceGeneration } from "../../deployment/build.ts";
import { type CellSeen, cellWith, type Found, isDraining, isForgotten, uidOf } from "../cells/seen.ts";
import { isEchoOf } from "../mirror/status.ts";
import { isDeleting } from "../source.ts";
import type { Choice } from "./choose.ts";

export interface MoveView {
  /** Of the hub. */
  readonly deployment: WorkloadDeployment;
  readonly placement: CellPlacement;
  /** All Cells. */
  readonly cells: readonly CellSeen[];
  /** Deployments of its source, in cells that are synced. */
  readonly found: readonly Found[];
  readonly facts: MoveFacts;
  /** A proof shows that the cell which it leaves has nothing of it, and nothing can arrive there. */
  readonly isGone: boolean;
}

/** What the process that leads knows of moves, and what it lets happen. */
export interface MoveFacts {
  /** Chooses `next`. Asked last: it looks at all that other cells have. */
  readonly choose: (placement: CellPlacement) => Choice;
  /** It is its turn: few others move. */
  readonly mayBegin: () => boolean;
  /** An uncached read has just shown it ready in its next cell, with the present spec. */
  readonly isConfirmed: boolean;
  /** For how long this process has seen it move to its next cell, ms. */
  readonly forMs: number;
  /** How long it may take to become ready there, ms. */
  readonly timeoutMs: number;
  /** Its last move took too long: until the next one, ms. */
  readonly restsForMs: number;
  /** The drain may come from a backup of the hub. */
  readonly isUnconfirmed: boolean;
}

/** Empty: settled. */
export interface MoveDecision {
  readonly place?: {
    readonly placement: CellPlacement;
    readonly reason: HubReason;
    readonly message: string;
  };
  /** The next cell has to be read uncached. */
  readonly confirm?: Target;
  /** Others move first. */
  readonly isQueued?: true;
  /** Why it waits, where a person may have to act. */
  readonly waits?: Finding;
  readonly recheckAfterMs?: number;
}

/** The first row that fits. */
export function decideMove(view: MoveView): MoveDecision {
  const { placement, cells } = view;
  if (placement.leaving !== undefined) return decideLeaving(view, placement.leaving);
  if (placement.next !== undefined) return decideNext(view, placement.next);
  const current = cellWith(cells, placement.uid);
  return current !== undefined && isDraining(current) ? begin(view, current) : {};
}

function begin({ placement, facts, found }: MoveView, current: CellSeen): MoveDecision {
  if (facts.restsForMs > 0) {
    const message =
      "it did not become ready in another cell: it is tried again after an hour, or by another drain";
    return { ...waits("MoveTimedOut", message), recheckAfterMs: facts.restsForMs };
  }
  if (current.state.is !== "synced") return awayFrom(placement, current);
  if (facts.isUnconfirmed)
    return waits(
      "DrainUnconfirmed",
      `the hub was restored from a backup, and so may be the drain: undrain cell ${placement.cell}, and drain it again if it is meant`,
    );
  // Berth creates it there first: what its cell has not taken cannot be compared with what another one has.
  if (!found.some((it) => uidOf(it.cell) === placement.uid)) return {};
  if (!facts.mayBegin()) return { isQueued: true };
  const choice = facts.choose(placement);
  if (choice.is === "none") return waits(choice.reason, choice.message);
  const { next } = choice.placement;
  const message = `it becomes ready in cell ${next?.cell}, as cell ${placement.cell} is drained`;
  return { place: { placement: choice.placement, reason: "Moving", message } };
}

function decideNext(view: MoveView, next: Target): MoveDecision {
  const { placement, cells, found, deployment, facts } = view;
  const [from, to] = [cellWith(cells, placement.uid), cellWith(cells, next.uid)];
  const [here, there] = [placement, next].map(({ uid, epoch }) =>
    found.find((it) => uidOf(it.cell) === uid && it.origin.epoch === epoch && !isDeleting(it.deployment)),
  );
  if (to !== undefined && isForgotten(to)) return lose(placement, next);
  // From a backup of the hub, the move may have ended since: what runs in the next cell is all there is.
  const mayGiveUp = here !== undefined || there === undefined || from?.state.is !== "synced";
  if (mayGiveUp && from !== undefined && !isDraining(from))
    return giveUp(placement, next, "MoveEnded", `cell ${placement.cell} is not drained any more`);
  if (mayGiveUp && to !== undefined && isDraining(to))
    return giveUp(placement, next, "MoveEnded", `cell ${next.cell} is drained too`);
  if (from?.state.is !== "synced") return awayFrom(placement, from);
  if (there !== undefined && isReadyAs(deployment, there.deployment)) {
    if (!facts.isConfirmed) return { confirm: next };
    const { next: _, ...rest } = placement;
    const { cell, uid, epoch, start } = placement;
    const message = `it is ready in cell ${next.cell}, and leaves cell ${cell}`;
    return {
      place: {
        placement: { ...rest, ...targetOnly(next), leaving: { cell, uid, epoch, start } },
        reason: "Moved",
        message,
      },
    };
  }
  const leftMs = facts.timeoutMs - facts.forMs;
  if (mayGiveUp && leftMs <= 0) {
    const message = `it did not become ready in cell ${next.cell} within ${Math.round(facts.timeoutMs / 1000)} s`;
    return giveUp(placement, next, "MoveTimedOut", message);
  }
  const waiting = to?.state.is === "synced" ? blockedIn(next, there) : awayFrom(next, to);
  return { ...waiting, ...(mayGiveUp && { recheckAfterMs: leftMs }) };
}

function decideLeaving({ placement, cells, isGone }: MoveView, leaving: Target): MoveDecision {
  const cell = cellWith(cells, leaving.uid);
  if (cell !== undefined && isForgotten(cell)) return lose(placement, leaving);
  if (!isGone) return cell?.state.is === "synced" ? {} : awayFrom(leaving, cell);
  const { leaving: _, ...rest } = placement;
  return { place: { placement: rest, reason: "Left", message: `it has left cell ${leaving.cell}` } };
}

function targetOnly({ cell, uid, epoch, start }: Target): Target {
  return { cell, uid, epoch, start };
}

/** Its own cell goes on with it, and the other one ends what it has. */
function giveUp(placement: CellPlacement, next: Target, reason: HubReason, message: string): MoveDecision {
  const { next: _, ...rest } = placement;
  return { place: { placement: { ...rest, leaving: next }, reason, message } };
}

/** Instances may run on in a cell that was given up: their ordinals are not used again. */
function lose(placement: CellPlacement, { cell, start }: Target): MoveDecision {
  const { next: _next, leaving: _leaving, lost = [], ...rest } = placement;
  const message = `cell ${cell} was given up`;
  return { place: { placement: { ...rest, lost: [...lost, start] }, reason: "CellForgotten", message } };
}

function waits(reason: string, message: string): MoveDecision {
  return { waits: { reason, message } };
}

function awayFrom({ cell }: Pick<Target, "cell">, seen: CellSeen | undefined): MoveDecision {
  if (seen === undefined) return waits("CellUnreachable", `the move waits: there is no Cell ${cell}`);
  // Forgotten, but heard: carry has placed it elsewhere.
  if (seen.state.is === "synced") return {};
  return waits(seen.state.reason, `the move waits for cell ${cell}: ${seen.state.message}`);
}

/** Instances that come up one after the other are no wait. */
function blockedIn({ cell }: Target, there: Found | undefined): MoveDecision {
  const conditions = there?.deployment.status?.conditions;
  const block =
    findCondition(conditions, "Failing") ??
    ["ReplicasReady", "Available"]
      .map((type) => findCondition(conditions, type))
      .find((it) => it !== undefined && it.status !== "True" && it.reason !== "InstancesProvisioning");
  return block === undefined ? {} : waits(block.reason, `the move waits in cell ${cell}: ${block.message}`);
}

/** All that is wanted is ready in this cell, and of the present template. */
export function isReadyAs(hub: WorkloadDeployment, inCell: WorkloadDeployment): boolean {
  const { readyReplicas = 0, updatedReplicas = 0 } = inCell.status ?? {};
  const generation = sourceGeneration(hub);
  if (generation === undefined || !isEchoOf(inCell, hub, generation)) return false;
  return Math.min(readyReplicas, updatedReplicas) >= boundedCount(hub);
}
