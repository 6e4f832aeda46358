/**
 * The side of one cell: what carry decides about a deployment of the hub, as far as it is in this cell. Its keys are
 * deployments of the hub, each in the cluster of a cell that has it or should have it.
 */
import type { CarriedOut, Intent } from "@berth/host";
import { isApiError, namespaces } from "@berth/kube";
import { earliest, type ObjectKey, type Reconcile, type ReconcileContext } from "@berth/runtime";
import { annotations as keys } from "../../api/keys.ts";
import {
  type CellPlacement,
  isSameTarget,
  parsePlacement,
  type Target,
  targetsOf,
} from "../../api/placement.ts";
import { type WorkloadDeployment, workloadDeployments } from "../../api/workload.ts";
import { type CarryDecision, decideCarry } from "../../drivers/direct/carry.ts";
import { type CellSeen, type Found, foundIn, nameOf, targetOf, uidOf } from "../../hub/cells/seen.ts";
import { hasRun, ranBefore } from "../../hub/mirror/status.ts";
import { chooseNext } from "../../hub/placement/choose.ts";
import { isReadyAs } from "../../hub/placement/move.ts";
import { recordText, sourceUidOf } from "../../hub/source.ts";
import { creationOf, deletionOf } from "../intents.ts";
import { type Place, placeOf } from "./knowledge.ts";
import { Mutations } from "./mutations.ts";
import { type HubParts, LOOK_AGAIN_MS } from "./parts.ts";
import { proveGone } from "./prove-absent.ts";
import { presentClient, Sender, type Sending, sendEach } from "./sender.ts";

/** What becomes of a deployment of the hub. The hub and each cell do their parts of it. */
export function carryDecision(
  parts: HubParts,
  deployment: WorkloadDeployment,
): { readonly decision: CarryDecision; readonly found: readonly Found[] } {
  const { know, memory, moves } = parts;
  const place = placeOf(deployment);
  const placement = parsePlacement(deployment.metadata?.annotations?.[keys.placement]);
  const sourceUid = sourceUidOf(deployment) ?? "";
  const source = know.source(place, sourceUid);
  const wished = know.wished(place);
  const upstream = wished?.metadata?.uid === sourceUid ? wished : undefined;
  const ran = ranBefore(deployment) || (upstream !== undefined && hasRun(upstream));
  const city = deployment.spec?.cityCode ?? "";
  const cells = know.cellsFor(place, city, placement);
  const { found, foreign } = know.inCells(place, cells);
  const proven = cells.filter(
    (it) => memory.provenForMs(proofOf(deployment, placement, uidOf(it)), know.engaged(it)) !== undefined,
  );
  const choice = { city, sourceUid, ranBefore: ran, cells, found };
  const decision = decideCarry({
    deployment,
    copies: know.copiesOf(deployment),
    source,
    wantedGeneration: source === "live" ? upstream?.metadata?.generation : undefined,
    confirmedGeneration: memory.confirmedGeneration(sourceUid),
    recorded: upstream && recordText(upstream, know.signer),
    ranBefore: ran,
    cells,
    found,
    foreign,
    namespace: know.hubNamespace(place.namespace) ?? {},
    namespaceIn: (cellUid) => {
      const cell = cells.find((it) => uidOf(it) === cellUid);
      const seen = know.inCell(cell, { namespace: "", name: place.namespace }, (it) => it.namespaces);
      return seen.is === "there" ? seen.value : undefined;
    },
    withdrawals: know.withdrawals(place),
    proven: new Set(proven.map(uidOf)),
    isLatePossible: (cellUid) => memory.isLatePossible(creationIn(place, cellUid)),
    choose: () => know.choose(place, upstream, { ...choice, placement }),
    move: moves.facts(deployment, placement, {
      place,
      cells,
      choose: (from) => chooseNext({ ...choice, placement: from, withdrawals: know.withdrawals(place) }),
    }),
    hub: know.hubUid,
    signer: know.signer,
  });
  return { decision, found };
}

/** It may have been in the same cell before. */
function proofOf(
  { metadata }: WorkloadDeployment,
  placement: CellPlacement | undefined,
  cellUid: string,
): string {
  const { epoch } = targetsOf(placement).find(({ uid }) => uid === cellUid) ?? {};
  return `${metadata?.uid}/${cellUid}/${epoch}`;
}

function creationIn({ namespace, name }: Place, cellUid: string): string {
  return `${namespace}/${name}/${cellUid}`;
}

export function carry(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know, asked, memory, moves, strays } = parts;
  const mutations = new Mutations(host.clock);
  const sender = new Sender<WorkloadDeployment>({
    host,
    set: planes.hub.set,
    resource: workloadDeployments,
    action: "CarryDeployment",
    done: (deployment, intent, stored) => isOfSpec(intent) && mutations.note(deployment, stored),
  });
  return async (key, context) => {
    const cell = know.cellOf(key.cluster);
    const engaged = planes.cells.get(key.cluster);
    if (know.hubUnread() !== undefined || cell?.state.is !== "synced" || engaged === undefined)
      return undefined;
    strays.note(key, cell);
    const deployment = know.onHub(key);
    const onHub = know.hubKey(key);
    if (deployment?.metadata?.annotations?.[keys.placement] === undefined) return sender.forget(onHub);
    const { decision } = carryDecision(parts, deployment);
    // Its hub writes it first. Another look may be due to what a view has learned since.
    if (decision.place !== undefined) {
      asked.placements.ask([onHub], "high", true);
      return undefined;
    }
    const placement = parsePlacement(deployment.metadata.annotations[keys.placement]);
    const id = proofOf(deployment, placement, engaged.identity ?? "");
    const sending = { key: onHub, object: deployment, context };
    const { patches, findings, recheckAfterMs } = mutations.without(decision.patch ?? [], deployment);
    sender.tell(sending, findings);
    if (decision.delete !== undefined) memory.unprove(id);
    const waits = [
      recheckAfterMs,
      decision.recheckAfterMs,
      await noting(parts, sending, (send) =>
        sendEach(
          () => send(create(parts, sender, sending, cell, decision)),
          () => send(sender.send(sending, changesIn(parts, cell, { ...decision, patch: patches }))),
        ),
      ),
    ];
    // Its proof may count only now: the hub has to let the deployment go.
    if (decision.release !== undefined || decision.deleteCopies !== undefined)
      asked.placements.ask([onHub], "high", true);
    if (decision.prove?.some((it) => uidOf(it) === uidOf(cell))) {
      const source = { ...placeOf(deployment), sourceUid: sourceUidOf(deployment) };
      await proveGone(parts, engaged, id, source, context);
      waits.push(LOOK_AGAIN_MS);
    }
    if (placement !== undefined && decision.confirm?.uid === uidOf(cell)) {
      if (await isReadyIn(parts, cell, deployment, decision.confirm, context)) {
        moves.confirmed(deployment, placement);
        asked.placements.ask([onHub], "high", true);
      } else waits.push(LOOK_AGAIN_MS);
    }
    return { recheckAfterMs: earliest(...waits) };
  };
}

/** Reads its next cell uncached. */
async function isReadyIn(
  { planes, know }: HubParts,
  cell: CellSeen,
  deployment: WorkloadDeployment,
  target: Target,
  { signal }: ReconcileContext,
): Promise<boolean> {
  const client = presentClient(planes.cells, nameOf(cell) as ObjectKey["cluster"]);
  const present = await client.get(workloadDeployments, placeOf(deployment), { signal });
  const found = foundIn(cell, present, { hub: know.hubUid, signer: know.signer });
  return found !== undefined && isSameTarget(targetOf(found), target) && isReadyAs(deployment, present);
}

/** It creates a deployment in a cell, or changes its spec there. */
function isOfSpec(intent: Intent): boolean {
  return intent.do === "create"
    ? intent.on?.resource === workloadDeployments
    : intent.do === "patch" && intent.patch.type === "merge" && "spec" in intent.patch.body;
}

/** Of a condition, characters. */
const MAX_MESSAGE = 1024;

/** Notes for its status why the cell does not take it. */
async function noting(
  { memory, asked }: HubParts,
  { key, object: { metadata } }: Sending<WorkloadDeployment>,
  run: (send: (sent: Promise<CarriedOut>) => Promise<CarriedOut>) => Promise<number | undefined>,
): Promise<number | undefined> {
  let refusal: string | undefined;
  const uid = metadata?.uid ?? "";
  try {
    return await run(async (sent) => {
      const result = await sent;
      refusal ??= result.problem;
      return result;
    });
  } catch (error) {
    // Without an answer it stays as it was.
    refusal ??= isApiError(error, "forbidden", "serverError") ? error.message : memory.refusalOf(uid);
    throw error;
  } finally {
    if (memory.refused(uid, refusal?.slice(0, MAX_MESSAGE))) asked.placements.ask([key], "high", true);
  }
}

/** Its answer may be lost: then it may arrive as long as requests are late. */
async function create(
  { planes, memory }: HubParts,
  sender: Sender<WorkloadDeployment>,
  sending: Sending<WorkloadDeployment>,
  cell: CellSeen,
  { create: wanted }: CarryDecision,
): Promise<CarriedOut> {
  if (wanted === undefined || wanted.cellUid !== uidOf(cell)) return {};
  const via = presentClient(planes.cells, nameOf(cell) as ObjectKey["cluster"]);
  if (wanted.namespace !== undefined) {
    const made = await sender.send(sending, [
      creationOf(namespaces, wanted.namespace, `its namespace in cell ${nameOf(cell)}`, via),
    ]);
    if (made.problem !== undefined) return made;
  }
  const place = creationIn(placeOf(sending.object), uidOf(cell));
  memory.sent(place);
  const made = await sender.send(sending, [
    creationOf(workloadDeployments, wanted.deployment, `its deployment in cell ${nameOf(cell)}`, via),
  ]);
  memory.answered(place);
  return made;
}

function changesIn({ planes }: HubParts, cell: CellSeen, decision: CarryDecision): readonly Intent[] {
  const isHere = (it: Found): boolean => uidOf(it.cell) === uidOf(cell);
  const via = presentClient(planes.cells, nameOf(cell) as ObjectKey["cluster"]);
  const what = `its deployment in cell ${nameOf(cell)}`;
  return [
    ...(decision.patch ?? [])
      .filter(({ found }) => isHere(found))
      .map(
        ({ found, body }): Intent => ({
          do: "patch",
          on: { resource: workloadDeployments, seen: found.deployment, via },
          patch: { type: "merge", body },
          reason: "DeploymentChanged",
          message: "the deployment in the cell follows that of the hub",
          what,
        }),
      ),
    ...(decision.delete ?? [])
      .filter(isHere)
      .map((found) =>
        deletionOf(workloadDeployments, found.deployment, "it does not belong there any more", what, via),
      ),
  ];
}
