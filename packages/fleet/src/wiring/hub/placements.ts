/**
 * The hub's side of a deployment: its placement, its status, Withdrawals and its end. It talks to no cell, so none that
 * hangs holds it up. Its keys are deployments of the hub.
 */
import type { CarriedOut, Finding, Intent } from "@berth/host";
import { earliest, findCondition, type ObjectKey, type Reconcile, toKeyText } from "@berth/runtime";
import { finalizers, annotations as keys, labels } from "../../api/keys.ts";
import { formatPlacement, isSameTarget, parsePlacement } from "../../api/placement.ts";
import type { HubReason } from "../../api/reasons.ts";
import {
  type DeploymentStatus,
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
} from "../../api/workload.ts";
import type { CarryDecision } from "../../drivers/direct/carry.ts";
import { type Found, targetOf } from "../../hub/cells/seen.ts";
import { mirrorStatus } from "../../hub/mirror/status.ts";
import { isDeleting, sourceUidOf } from "../../hub/source.ts";
import { deletionOf, finalizersTo, statusTo } from "../intents.ts";
import { carryDecision } from "./carry.ts";
import { withdrawalOf } from "./federator.ts";
import { Pace } from "./pace.ts";
import type { HubParts } from "./parts.ts";
import { Sender, type Sending, sendEach } from "./sender.ts";

/** Of one deployment. A roll of many Instances waits a second for its numbers; a cell that never rests gets no more. */
const STATUS_PACE = { everyMs: 1_000, burst: 10 };

export function placements(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know, memory, moves, counts, cellPace, asked } = parts;
  const sender = new Sender({
    host,
    set: planes.hub.set,
    resource: workloadDeployments,
    action: "PlaceDeployment",
  });
  const pace = new Pace(host.clock, STATUS_PACE);
  const mirror = async (
    sending: Sending<WorkloadDeployment>,
    found: readonly Found[],
    decision: CarryDecision,
  ): Promise<CarriedOut> => {
    const { key, object: deployment } = sending;
    const status = mirrored(parts, deployment, found, decision);
    if (status === undefined) {
      counts.onHub(key, false);
      return {};
    }
    const cellUid = cellUidOf(deployment);
    const waitMs = cellPace.wait(cellUid) || pace.take(toKeyText(key));
    if (waitMs > 0) return { recheckAfterMs: waitMs };
    cellPace.take(cellUid);
    const marked = refused(parts, deployment);
    const told = await sender.send(sending, [
      {
        ...statusTo(status, "StatusMirrored", "its cell says so", deployment.status),
        ...(marked && {
          orElse: statusTo(marked, "StatusRefused", "the numbers are old", deployment.status),
        }),
      },
    ]);
    counts.onHub(key, true);
    return told;
  };
  return async (key, context) => {
    if (know.hubUnread() !== undefined) return undefined;
    const deployment = know.onHub(key);
    const sourceUid = deployment && sourceUidOf(deployment);
    // Deployments of projects, where this cluster is one.
    if (deployment === undefined || sourceUid === undefined) {
      beginNext(parts, key, undefined);
      return sender.forget(key);
    }
    const sending = { key, object: deployment, context };
    // In the queue of its project: one that does not answer holds up no other.
    const askProject = (): void => asked.federator.ask([know.upstream(key) ?? []].flat(), "high", true);
    if (know.isUnproven(key, sourceUid)) askProject();
    if (!isDeleting(deployment) && know.source(key, sourceUid) === "gone") {
      const message = "the project has no such deployment any more";
      await sender.send(sending, [deletionOf(workloadDeployments, deployment, message, "it")]);
      return undefined;
    }
    // Karmada has placed it.
    if (deployment.metadata?.annotations?.[keys.placement] === undefined) return sender.settle(key);
    const { decision, found } = carryDecision(parts, deployment);
    if (decision.place?.reason === "TakenOver") moves.suspect();
    if (decision.confirmSource === true) {
      memory.doubt(sourceUid);
      askProject();
    }
    beginNext(parts, key, decision);
    if (decision.place?.reason === "MoveTimedOut")
      moves.rests(deployment, know.cellWith(cellUidOf(deployment)));
    sender.tell(sending, [decision.findings, whyItStays(deployment, decision) ?? []].flat());
    if (decision.confirm !== undefined)
      asked.carry.ask([{ ...key, cluster: decision.confirm.cell as ObjectKey["cluster"] }], "high", true);
    // Before the request: its answer may come after the news that the deployment is gone.
    if (decision.release?.isProven) memory.gone(sourceUid);
    const intents = intentsOf(parts, deployment, decision);
    const recheckAfterMs = await sendEach(
      () => sender.send(sending, intents),
      async () => (decision.place === undefined ? mirror(sending, found, decision) : {}),
    );
    return { recheckAfterMs: earliest(recheckAfterMs, decision.recheckAfterMs) };
  };
}

/** Notes how far its move is, and has those looked at that may begin now. */
function beginNext({ moves, asked }: HubParts, key: ObjectKey, decision: CarryDecision | undefined): void {
  if (decision?.place?.reason === "Moving") return moves.begins(key);
  moves.looked(key, decision?.isQueued === true);
  asked.placements.ask(moves.due(), "high", true);
}

function cellUidOf({ metadata }: WorkloadDeployment): string {
  return parsePlacement(metadata?.annotations?.[keys.placement])?.uid ?? "";
}

/** All that is not in a cell. */
function intentsOf(
  { ownClient }: HubParts,
  { metadata }: WorkloadDeployment,
  { place, withdraw = [], deleteCopies = [], release }: CarryDecision,
): readonly Intent[] {
  if (place !== undefined) {
    const { placement, reason, message = `the deployment is in cell ${placement.cell}` } = place;
    const body = {
      metadata: {
        labels: { [labels.cell]: placement.cell },
        annotations: { [keys.placement]: formatPlacement(placement) },
      },
    };
    return [{ do: "patch", patch: { type: "merge", body }, reason, message, announce: "Normal" }];
  }
  const left = (metadata?.finalizers ?? []).filter((it) => it !== finalizers.direct);
  return [
    ...withdraw.map((spec) => withdrawalOf(spec, ownClient)),
    ...deleteCopies.map((copy) => copyDeletion(copy)),
    ...(release ? [finalizersTo(left)] : []),
  ];
}

function copyDeletion(copy: Instance): Intent {
  return deletionOf(instances, copy, "its deployment ends", "the copy of its Instance");
}

/** What stands in place of a status that the hub refuses: the numbers of before, marked. */
function refused({ host }: HubParts, to: WorkloadDeployment): DeploymentStatus | undefined {
  const nowMs = host.clock.now();
  const message = "the API server of the hub refuses the status of the cell: its Events say why";
  const stale = { reason: "StatusRefused", message, sinceMs: nowMs } as const;
  return mirrorStatus({ to, generation: undefined, from: undefined, stale, nowMs });
}

/** Why it cannot leave a cell that is drained. What was found before is true until it is its turn again. */
function whyItStays(
  { status }: WorkloadDeployment,
  { moveWaits, isQueued }: CarryDecision,
): Finding | undefined {
  const { reason, message } = findCondition(status?.conditions, "Moving") ?? {};
  return isQueued && reason !== undefined && message !== undefined ? { reason, message } : moveWaits;
}

/** The status that the hub should have, when it differs. */
function mirrored(
  { know, host, memory }: HubParts,
  to: WorkloadDeployment,
  all: readonly Found[],
  decision: CarryDecision,
) {
  const placement = parsePlacement(to.metadata?.annotations?.[keys.placement]);
  const cell = know.cellWith(placement?.uid ?? "");
  const from = all.find(
    (it) =>
      placement !== undefined &&
      isSameTarget(targetOf(it), placement) &&
      it.origin.sourceUid === sourceUidOf(to) &&
      !isDeleting(it.deployment),
  );
  const nowMs = host.clock.now();
  const [waits] = decision.findings;
  const stays = whyItStays(to, decision);
  const own = { Moving: stays && ({ ...stays, status: "False" } as const) };
  const view = {
    to,
    generation: Number(to.metadata?.annotations?.[keys.sourceGeneration]),
    own,
    nowMs,
  };
  if (cell?.state.is === "synced" && from === undefined && waits !== undefined) {
    // Nothing runs there, and nothing will soon: the last numbers are none of now.
    const { reason, message } = waits;
    const stale = { reason: reason as HubReason, message, sinceMs: nowMs };
    return mirrorStatus({ ...view, from: undefined, stale });
  }
  if (cell?.state.is === "synced") {
    const message = memory.refusalOf(to.metadata?.uid ?? "");
    const refusal = message && ({ status: "True", reason: "CellRefuses", message } as const);
    return mirrorStatus({ ...view, from: from?.deployment, own: { ...own, Stale: refusal || undefined } });
  }
  const sinceMs = cell === undefined ? nowMs : know.lostSinceMs(cell);
  if (sinceMs === undefined) return undefined;
  const { reason = "CellUnreachable", message = "there is no Cell of this uid" } = cell?.state ?? {};
  const stale = { reason, message: `cell ${placement?.cell}: ${message}`, sinceMs } as const;
  return mirrorStatus({ ...view, from: undefined, stale });
}
