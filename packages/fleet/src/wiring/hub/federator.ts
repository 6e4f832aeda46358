/** Brings the deployments of projects to the hub, and their status back. Its keys are deployments of projects. */

import { type KubeObject, namespaces } from "@berth/kube";
import { earliest, type ObjectKey, type Reconcile, type ReconcileContext } from "@berth/runtime";
import { buildWithdrawal, type WithdrawalSpec, withdrawals } from "../../api/cell.ts";
import { hubNamespaceOf, annotations as keys } from "../../api/keys.ts";
import { parsePlacement } from "../../api/placement.ts";
import { seenOf } from "../../api/seen.ts";
import { type WorkloadDeployment, workloadDeployments } from "../../api/workload.ts";
import { decideFederation, type FederatorDecision } from "../../hub/federator/decide.ts";
import { hasRun } from "../../hub/mirror/status.ts";
import { type ProjectSeen, sourceUidOf } from "../../hub/source.ts";
import { creationOf, deletionOf, statusTo } from "../intents.ts";
import { HubAsk } from "./ask.ts";
import { karmadaView } from "./karmada.ts";
import type { Place } from "./knowledge.ts";
import { type HubParts, LOOK_AGAIN_MS } from "./parts.ts";
import { isProvenAbsent, readUncached } from "./prove-absent.ts";
import { presentClient, Sender, type Sending, sendEach } from "./sender.ts";

export function federator(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know } = parts;
  const { project: views } = planes.views;
  const sender = new Sender({
    host,
    set: planes.projects,
    resource: workloadDeployments,
    action: "FederateDeployment",
  });
  return async (key, context) => {
    const project = know.project(key.cluster);
    if (project?.isSynced !== true) return undefined;
    const deployment = views.deployments.get(key);
    const mayEnd = await proveOther(parts, key, deployment, context);
    if (deployment === undefined) {
      sender.forget(key);
      return mayEnd ? undefined : { recheckAfterMs: LOOK_AGAIN_MS };
    }
    const view = viewOf(parts, key, deployment, project);
    let decision = decideFederation(view);
    if (decision.confirm === true)
      decision = (await isConfirmed(parts, key, deployment, context))
        ? decideFederation({ ...view, isConfirmed: true })
        : { ...decision, recheckAfterMs: LOOK_AGAIN_MS };
    const recheckAfterMs = await carryOut(parts, sender, { key, object: deployment, context }, decision);
    const { uid = "" } = deployment.metadata ?? {};
    if (decision.mark !== undefined && deployment.metadata?.deletionTimestamp !== undefined)
      parts.memory.forget(uid);
    return { recheckAfterMs: earliest(recheckAfterMs, decision.recheckAfterMs) };
  };
}

/** Reads it uncached: does it still have this generation? Cells may have waited for that. */
async function isConfirmed(
  parts: HubParts,
  { cluster, ...place }: ObjectKey,
  { metadata: seen }: WorkloadDeployment,
  context: ReconcileContext,
): Promise<boolean> {
  const client = presentClient(parts.planes.projects, cluster);
  const present = await readUncached(client, workloadDeployments, place, context);
  const { uid = "", generation = 0 } = present?.metadata ?? {};
  if (uid !== seen?.uid || generation !== seen.generation) return false;
  parts.memory.confirm(uid, generation);
  askCells(parts, { namespace: seen.annotations?.[keys.federationNamespace] ?? "", name: place.name });
  return true;
}

function askCells(parts: HubParts, place: Place): void {
  const deployment = parts.know.onHub(place);
  if (deployment !== undefined) new HubAsk(parts).cellsOf(deployment);
}

/** `false`: the hub has another source under its name, which the project has as well: the view is behind. */
async function proveOther(
  parts: HubParts,
  { cluster, namespace: upstream, name }: ObjectKey,
  deployment: WorkloadDeployment | undefined,
  context: ReconcileContext,
): Promise<boolean> {
  const { planes, know, memory, asked } = parts;
  if (know.hubUnread() !== undefined) return true;
  const namespace = planes.views.project.namespaces.get({ cluster, namespace: "", name: upstream });
  const place: Place = { namespace: hubNamespaceOf(namespace?.metadata?.uid ?? ""), name };
  const onHub = know.onHub(place);
  const sourceUid = onHub && sourceUidOf(onHub);
  if (
    sourceUid === undefined ||
    sourceUid === deployment?.metadata?.uid ||
    memory.isAbsent(cluster, sourceUid)
  )
    return true;
  const client = presentClient(planes.projects, cluster);
  const inProject = { cluster, namespace: upstream, name };
  if (!(await isProvenAbsent(memory, client, workloadDeployments, inProject, sourceUid, context)))
    return false;
  asked.placements.ask([know.hubKey(place)], "high", true);
  askCells(parts, place);
  return true;
}

function viewOf(
  parts: HubParts,
  { cluster, namespace: upstream, name }: ObjectKey,
  deployment: WorkloadDeployment,
  project: ProjectSeen,
): Parameters<typeof decideFederation>[0] {
  const { planes, know, memory, host, moves } = parts;
  const { uid = "", annotations } = deployment.metadata ?? {};
  const namespace = planes.views.project.namespaces.get({ cluster, namespace: "", name: upstream });
  const recorded = annotations?.[keys.federationNamespace];
  const place: Place = { namespace: recorded ?? hubNamespaceOf(namespace?.metadata?.uid ?? ""), name };
  const unread = know.hubUnread();
  const unknown = { is: "unknown", because: unread ?? "" } as const;
  const onHub = know.onHub(place);
  const city = deployment.spec?.cityCode ?? "";
  const cells = know.cellsFor(place, city, parsePlacement(annotations?.[keys.placement]));
  return {
    project,
    deployment,
    namespace,
    hubNamespace: unread === undefined ? seenOf<KubeObject>(know.hubNamespace(place.namespace)) : unknown,
    hubDeployment: unread === undefined ? seenOf(onHub) : unknown,
    hubSinceMs: know.hubSinceMs,
    karmada: unread === undefined ? karmadaView(parts, place, onHub) : undefined,
    choose() {
      const choice = know.choose(place, deployment, {
        city,
        sourceUid: uid,
        placement: undefined,
        ranBefore: hasRun(deployment),
        cells,
        found: know.inCells(place, cells, deployment).found,
      });
      // Nobody has deleted it on the hub: that would be recorded.
      if (choice.is === "placed" && choice.isTakeover && annotations?.[keys.placement] === undefined)
        moves.suspect();
      return choice;
    },
    isProvenGone: memory.isProvenGone(uid),
    isOtherAbsent: memory.isAbsent(cluster, (onHub && sourceUidOf(onHub)) ?? ""),
    isDoubted: memory.isDoubted(uid),
    isConfirmed: false,
    cells,
    withdrawals: unread === undefined ? know.withdrawals(place) : [],
    nowMs: host.clock.now(),
    // Not read before the hub is.
    signer: { signRecord: (...record) => know.signer.signRecord(...record) },
  };
}

async function carryOut(
  { know, counts, hubClient, ownClient }: HubParts,
  sender: Sender<WorkloadDeployment>,
  sending: Sending<WorkloadDeployment>,
  decision: FederatorDecision,
): Promise<number | undefined> {
  const { mark, createNamespace, create, patch, withdraw = [], status, findings } = decision;
  sender.tell(sending, findings);
  if (mark !== undefined) {
    const marked = await sender.send(sending, [
      {
        do: "patch",
        patch: { type: "merge", body: { metadata: mark } },
        reason: "DeploymentMarked",
        message: "the deployment says where it is on the hub, and waits for it at its end",
      },
    ]);
    return marked.recheckAfterMs;
  }
  const send = (...intents: Parameters<typeof sender.send>[1]) => sender.send(sending, intents);
  const via = hubClient;
  const { metadata } = sending.object;
  const place: Place = {
    namespace: metadata?.annotations?.[keys.federationNamespace] ?? "",
    name: metadata?.name ?? "",
  };
  const seen = know.onHub(place);
  return sendEach(
    async () => {
      const made = createNamespace
        ? await send(creationOf(namespaces, createNamespace, "its namespace on the hub", via))
        : {};
      if (create === undefined || made.problem !== undefined) return made;
      return send(creationOf(workloadDeployments, create, "its deployment on the hub", via));
    },
    () =>
      patch !== undefined && seen !== undefined
        ? send({
            do: "patch",
            on: { resource: workloadDeployments, seen, via },
            patch: { type: "merge", body: patch },
            reason: "DeploymentChanged",
            message: "the deployment on the hub follows that of the project",
            what: "its deployment on the hub",
          })
        : send(),
    () => {
      const message = "the project does not want it any more";
      const what = "its deployment on the hub";
      return decision.delete === undefined
        ? send()
        : send(deletionOf(workloadDeployments, decision.delete, message, what, via));
    },
    () => send(...withdraw.map((spec) => withdrawalOf(spec, ownClient))),
    async () => {
      if (status === undefined) return {};
      const told = await send(statusTo(status, "StatusMirrored", "the hub says so", sending.object.status));
      counts.inProject(place);
      return told;
    },
  );
}

/** Creates a Withdrawal. */
export function withdrawalOf(
  spec: WithdrawalSpec,
  via: HubParts["ownClient"],
): ReturnType<typeof creationOf> {
  return creationOf(withdrawals, buildWithdrawal(spec), `its Withdrawal from cell ${spec.cell}`, via);
}
