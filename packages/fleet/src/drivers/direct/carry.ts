/** Decides what a cell needs for one deployment of the hub. Pure. */
import type { Finding } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { type Withdrawal, type WithdrawalSpec, withdrawalName } from "../../api/cell.ts";
import { finalizers, annotations as keys } from "../../api/keys.ts";
import { originAnnotations, type Place } from "../../api/origin.ts";
import {
  type CellPlacement,
  isSameTarget,
  parsePlacement,
  type Target,
  targetsOf,
} from "../../api/placement.ts";
import type { HubReason } from "../../api/reasons.ts";
import type { Instance, WorkloadDeployment } from "../../api/workload.ts";
import {
  type CellSeen,
  cellWith,
  type Found,
  isForgotten,
  nameOf,
  targetOf,
  uidOf,
} from "../../hub/cells/seen.ts";
import { namespaceFault, upstreamMarks } from "../../hub/federator/namespace.ts";
import { type Choice, holderOf, isWithdrawnBy } from "../../hub/placement/choose.ts";
import { decideMove, type MoveFacts } from "../../hub/placement/move.ts";
import { isDeleting, type Source, sourceUidOf } from "../../hub/source.ts";
import { type CellPatch, carried, isDoubtful, labelsOf, type PatchView, patchesOf } from "./patches.ts";

export interface CarryView extends PatchView {
  /** The copies of its Instances on the hub. */
  readonly copies: readonly Instance[];
  readonly source: Source;
  /** The placement that the deployment in the project records, as text: see `recordText`. */
  readonly recorded: string | undefined;
  /** Its status was shown on the hub or in the project, so a cell may have it. */
  readonly ranBefore: boolean;
  readonly cells: readonly CellSeen[];
  /** Deployments with its namespace and name that this hub did not make, by the uids of their cells. */
  readonly foreign: ReadonlySet<string>;
  /** Its namespace on the hub, and the namespaces of that name in cells that are synced. */
  readonly namespace: KubeObject;
  readonly namespaceIn: (cellUid: string) => KubeObject | undefined;
  /** With its namespace and name. */
  readonly withdrawals: readonly Withdrawal[];
  /** Cells where an uncached read did not find it, with their Lease renewed since it was being deleted. By uid. */
  readonly proven: ReadonlySet<string>;
  /** A creation may still arrive in this cell: its answer was lost, or another process led until now. */
  readonly isLatePossible: (cellUid: string) => boolean;
  /** Asked when its cell was forgotten, and when its placement cannot be read. */
  readonly choose: () => Choice;
  readonly move: MoveFacts;
  readonly hub: string;
}

/** Requests are sent in the order of the fields. Empty: settled. */
export interface CarryDecision {
  /** Another placement, written to the hub's deployment. Nothing else happens before. */
  readonly place?:
    | {
        readonly placement: CellPlacement;
        readonly reason: HubReason;
        /** Default: in which cell it is. */
        readonly message?: string;
      }
    | undefined;
  readonly create?:
    | {
        readonly cellUid: string;
        /** Sent first. Absent: it is there. */
        readonly namespace?: KubeObject | undefined;
        readonly deployment: WorkloadDeployment;
      }
    | undefined;
  readonly patch?: readonly CellPatch[] | undefined;
  /** Bound to the uid. */
  readonly delete?: readonly Found[] | undefined;
  /** Uncached reads that are needed for a proof. */
  readonly prove?: readonly CellSeen[] | undefined;
  /** An uncached read of the project has to show its generation. */
  readonly confirmSource?: true | undefined;
  /** An uncached read has to show that it is ready there. */
  readonly confirm?: Target | undefined;
  /** Others move first. */
  readonly isQueued?: true | undefined;
  /** Why it cannot move. */
  readonly moveWaits?: Finding | undefined;
  readonly recheckAfterMs?: number | undefined;
  readonly withdraw?: readonly WithdrawalSpec[] | undefined;
  /** Copies to delete, as nothing else may do it. */
  readonly deleteCopies?: readonly Instance[] | undefined;
  /** The finalizer goes. `isProven`: no cell has it any more, or a Withdrawal stands for it. */
  readonly release?: { readonly isProven: boolean } | undefined;
  readonly findings: readonly Finding[];
}

const settled: CarryDecision = Object.freeze({ findings: [] });
const waits = (reason: HubReason, message: string): CarryDecision => ({ findings: [{ reason, message }] });

/** The first row that fits. */
export function decideCarry(view: CarryView): CarryDecision {
  const { deployment, source } = view;
  const written = deployment.metadata?.annotations?.[keys.placement];
  const placement = parsePlacement(written);
  if (isDeleting(deployment)) {
    if (!deployment.metadata?.finalizers?.includes(finalizers.direct) || source === "unknown") return settled;
    if (source !== "live") return decideEnd(view, placement);
    // Another program deleted it. The federator makes it again where it is, once it has recorded that.
    return placement === undefined || view.recorded === written ? release(view, false) : settled;
  }
  if (source === "deleting" || source === "gone") return settled;
  return source === "live" ? decideLive(view, placement) : { ...settled, patch: patchesOf(view, placement) };
}

function decideLive(view: CarryView, placement: CellPlacement | undefined): CarryDecision {
  const { cells, deployment } = view;
  const sourceUid = sourceUidOf(deployment) ?? "";
  if (placement === undefined) return place(view.choose());
  const holder = holderOf({ ...view, sourceUid, placement, found: view.found.filter(isNews(placement)) });
  const cell = cellWith(cells, placement.uid);
  if (holder !== undefined && isLater(holder, placement, cell)) return takeOver(view, holder, placement);
  if (cell !== undefined && isForgotten(cell)) return place(view.choose());
  const own = view.found.filter((it) => it.origin.sourceUid === sourceUid);
  const leaves = decideLeaving(view, own, placement.leaving);
  const {
    place: step,
    waits: moveWaits,
    ...move
  } = decideMove({
    deployment,
    placement,
    cells,
    found: own,
    facts: view.move,
    isGone: leaves === "gone",
  });
  if (step !== undefined) return { ...settled, place: step };
  return {
    ...bring(view, own, placement),
    ...move,
    ...(moveWaits && { moveWaits }),
    patch: patchesOf(view, placement),
    ...(isDoubtful(view) && { confirmSource: true }),
    ...(typeof leaves === "object" && leaves),
  };
}

/** Other epochs up to the last one are of moves: the cell that gets it, and those that were given up. */
function isNews({ epoch, last }: CellPlacement): (found: Found) => boolean {
  return ({ origin }) => origin.epoch <= epoch || origin.epoch > last;
}

/** A cell is ahead of the hub. Where its own cell runs on, that may have been a move, which then goes on. */
function takeOver(view: CarryView, holder: Found, placement: CellPlacement): CarryDecision {
  const last = Math.max(placement.last, holder.origin.epoch);
  const target = targetOf(holder);
  const runsOn = view.found.some(
    (it) =>
      isSameTarget(targetOf(it), placement) &&
      it.origin.sourceUid === holder.origin.sourceUid &&
      !isDeleting(it.deployment) &&
      it.deployment.metadata?.annotations?.[keys.hold] === undefined,
  );
  const { next: _next, leaving: _leaving, ...rest } = placement;
  const isMove = runsOn && target.uid !== placement.uid && target.start !== placement.start;
  const taken = isMove ? { ...rest, last, next: target } : { ...rest, ...target, last };
  return { ...settled, place: { placement: taken, reason: "TakenOver" } };
}

/**
 * What its own cell and the next one still need. The first that waits says why. Once the next one has it, its own cell gets
 * it no more: the hub may be from a backup of the middle of a move that has ended.
 */
function bring(view: CarryView, own: readonly Found[], placement: CellPlacement): CarryDecision {
  const { next } = placement;
  const isBrought = next !== undefined && own.some((it) => isThere(it, next, view.withdrawals));
  for (const target of isBrought ? [] : [placement, next]) {
    if (target === undefined || own.some((it) => isThere(it, target, view.withdrawals))) continue;
    const decision = bringTo(view, target, target === placement);
    if (decision !== settled) return decision;
  }
  return settled;
}

function isThere(found: Found, target: Target, withdrawals: readonly Withdrawal[]): boolean {
  return (
    isSameTarget(targetOf(found), target) &&
    !isDeleting(found.deployment) &&
    withdrawals.every((it) => !isWithdrawnBy(it, found))
  );
}

function bringTo(view: CarryView, target: Target, isCurrent: boolean): CarryDecision {
  const { cells, foreign, deployment, withdrawals } = view;
  const cell = cellWith(cells, target.uid);
  if (cell?.state.is !== "synced") return settled;
  if (foreign.has(target.uid)) {
    const having = cells.filter((it) => foreign.has(uidOf(it))).map(nameOf);
    return having.length > 1
      ? waits(
          "AmbiguousCell",
          `cells ${having.join(", ")} have deployments of this name that are not of this hub`,
        )
      : waits("NameTaken", `cell ${target.cell} has another deployment of this name`);
  }
  if (view.found.some((it) => uidOf(it.cell) === target.uid))
    return waits("Withdrawing", `cell ${target.cell} still has an earlier deployment of this name`);
  const origin = { hub: view.hub, sourceUid: sourceUidOf(deployment) ?? "", ...target };
  if (withdrawals.some((it) => isWithdrawnBy(it, { cell, origin })))
    return waits("Withdrawing", `it is being deleted from cell ${target.cell}`);
  const unread = cells.filter(
    (it) => isOfCity(it, deployment) && it.state.is !== "synced" && !isForgotten(it),
  );
  // The next cell was chosen when all of them were read.
  if (isCurrent && view.ranBefore && unread.length > 0) {
    const message = `it ran before, and cells may have it that do not answer: ${unread.map(nameOf).join(", ")}`;
    return waits("CellsNotRead", message);
  }
  const create = { cellUid: target.uid, deployment: cellDeployment(view, target) };
  const present = view.namespaceIn(target.uid);
  if (present === undefined) return { ...settled, create: { ...create, namespace: cellNamespace(view) } };
  const fault = namespaceFault(present, cellNamespace(view));
  return fault === undefined
    ? { ...settled, create }
    : waits(fault.reason, `cell ${target.cell}: ${fault.message}`);
}

/** The end of a move in the cell that it leaves. `gone`: it has nothing of it, and nothing can arrive there any more. */
function decideLeaving(
  view: CarryView,
  own: readonly Found[],
  leaving: Target | undefined,
): "gone" | Pick<CarryDecision, "delete" | "prove" | "recheckAfterMs"> | undefined {
  if (leaving === undefined) return undefined;
  const cell = cellWith(view.cells, leaving.uid);
  if (cell?.state.is !== "synced") return undefined;
  const there = own.filter((it) => isSameTarget(targetOf(it), leaving));
  const present = there.filter((it) => !isDeleting(it.deployment));
  if (present.length > 0) return { delete: present };
  if (there.length > 0) return undefined;
  if (view.isLatePossible(leaving.uid)) return { recheckAfterMs: LATE_LOOK_MS };
  return view.proven.has(leaving.uid) ? "gone" : { prove: [cell] };
}

/** Until the next look whether a request may still arrive. */
const LATE_LOOK_MS = 10_000;

/**
 * The hub follows a cell that has a later placement, or the same one in another place. A lower epoch is an older
 * placement: from a backup of the cell, or by a request that came late.
 */
function isLater({ cell, origin }: Found, placement: CellPlacement, placed: CellSeen | undefined): boolean {
  if (origin.epoch !== placement.epoch) return origin.epoch > placement.epoch;
  if (uidOf(cell) === placement.uid) return origin.start !== placement.start;
  return placed?.state.is === "synced";
}

function isOfCity({ cell }: CellSeen, { spec }: WorkloadDeployment): boolean {
  return cell.spec?.city === spec?.cityCode;
}

function place(choice: Choice): CarryDecision {
  if (choice.is === "none") return waits(choice.reason, choice.message);
  return {
    ...settled,
    place: { placement: choice.placement, reason: choice.isTakeover ? "TakenOver" : "CellForgotten" },
  };
}

function cellNamespace({ namespace }: CarryView): KubeObject {
  const { name = "" } = namespace.metadata ?? {};
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, ...upstreamMarks(namespace) } };
}

/** Start and epoch are written here only: later the cell's are taken. */
function cellDeployment({ deployment, hub, signer }: CarryView, target: Target): WorkloadDeployment {
  const { name = "", namespace = "" } = deployment.metadata ?? {};
  const origin = { hub, sourceUid: sourceUidOf(deployment) ?? "", epoch: target.epoch, start: target.start };
  const where: Place = { cellUid: target.uid, namespace, name };
  const { apiVersion, kind, spec } = deployment;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: {
      name,
      namespace,
      labels: labelsOf(deployment),
      annotations: { ...carried(deployment), ...originAnnotations(origin, where, signer) },
    },
    ...(spec && { spec }),
  };
}

function release({ copies }: CarryView, isProven: boolean): CarryDecision {
  const deleteCopies = copies.filter((it) => !isDeleting(it));
  return copies.length === 0
    ? { ...settled, release: { isProven } }
    : { ...settled, ...(deleteCopies.length > 0 && { deleteCopies }) };
}

/** Its source is being deleted or gone: nothing of it may stay in any cell. */
function decideEnd(view: CarryView, placement: CellPlacement | undefined): CarryDecision {
  const { deployment, cells, found, proven, withdrawals } = view;
  const { name = "", namespace = "" } = deployment.metadata ?? {};
  const sourceUid = sourceUidOf(deployment) ?? "";
  const own = found.filter((it) => it.origin.sourceUid === sourceUid);
  const present = own.filter((it) => !isDeleting(it.deployment));
  if (present.length > 0) return { ...settled, delete: present };
  // Without a placement that can be read, any cell of its city may have it.
  const places: readonly (Target | Omit<Target, "epoch" | "start">)[] =
    placement === undefined
      ? cells.filter((it) => isOfCity(it, deployment)).map((it) => ({ cell: nameOf(it), uid: uidOf(it) }))
      : targetsOf(placement);
  const prove: CellSeen[] = [];
  const withdraw: WithdrawalSpec[] = [];
  for (const target of places) {
    const cell = cellWith(cells, target.uid);
    if (cell !== undefined && isForgotten(cell)) continue;
    const spec = {
      cell: target.cell,
      cellUid: target.uid,
      namespace,
      name,
      sourceUid,
      ...("epoch" in target && { epoch: target.epoch, start: target.start }),
    };
    if (withdrawals.some((it) => it.metadata?.name === withdrawalName(spec))) continue;
    if (cell?.state.is !== "synced" || view.isLatePossible(target.uid)) withdraw.push(spec);
    else if (own.some((it) => uidOf(it.cell) === target.uid)) return settled;
    else if (!proven.has(target.uid)) prove.push(cell);
  }
  if (prove.length > 0 || withdraw.length > 0)
    return { ...settled, ...(prove.length > 0 && { prove }), ...(withdraw.length > 0 && { withdraw }) };
  return release(view, true);
}
