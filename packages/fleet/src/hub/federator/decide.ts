/** Decides what a deployment of a project needs on the hub. Pure. */
import type { Finding } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { type Withdrawal, type WithdrawalSpec, withdrawalName } from "../../api/cell.ts";
import { finalizers, hubNamespaceOf, annotations as keys, labels } from "../../api/keys.ts";
import type { Signer } from "../../api/origin.ts";
import type { HubReason } from "../../api/reasons.ts";
import type { Seen } from "../../api/seen.ts";
import type { DeploymentStatus, WorkloadDeployment } from "../../api/workload.ts";
import { sourceGeneration } from "../../deployment/build.ts";
import type { Carried } from "../../drivers/karmada/carried.ts";
import { type CellSeen, isForgotten, nameOf, uidOf } from "../cells/seen.ts";
import { mirrorStatus, type Staleness } from "../mirror/status.ts";
import type { Choice } from "../placement/choose.ts";
import { isDeleting, type ProjectSeen, recordAnnotations, recordText, sourceUidOf } from "../source.ts";
import { hubDeployment, hubPatch } from "./build.ts";
import { hubNamespace, namespaceFault } from "./namespace.ts";

export interface FederatorView {
  readonly project: ProjectSeen;
  /** In the project. */
  readonly deployment: WorkloadDeployment;
  /** Its namespace in the project. */
  readonly namespace: KubeObject | undefined;
  /** On the hub. `unknown`: the hub does not answer, or is not read yet. */
  readonly hubNamespace: Seen<KubeObject>;
  /** In that namespace, with the name of the deployment. */
  readonly hubDeployment: Seen<WorkloadDeployment>;
  /** When the hub was heard last, wall clock ms. Absent: it is heard. */
  readonly hubSinceMs?: number | undefined;
  /** Karmada chooses cells, and deletes in them. Absent: the hub does so. */
  readonly karmada?: KarmadaView | undefined;
  /** Asked only when there is no deployment on the hub. */
  readonly choose: () => Choice;
  /** Since this process leads, a proof was seen that the cells have nothing of it, or a Withdrawal was written. */
  readonly isProvenGone: boolean;
  /** Another source has its name on the hub: is that source proven absent in the project? */
  readonly isOtherAbsent: boolean;
  /** A cell has a later generation than the hub: see `CarryDecision.confirmSource`. */
  readonly isDoubted: boolean;
  /** An uncached read has just shown this generation of the deployment: see `FederatorDecision.confirm`. */
  readonly isConfirmed: boolean;
  readonly cells: readonly CellSeen[];
  /** Of this source. */
  readonly withdrawals: readonly Withdrawal[];
  readonly nowMs: number;
  readonly signer: Pick<Signer, "signRecord">;
}

export interface KarmadaView {
  /** `undefined`: there is no deployment on the hub. */
  readonly carried: Carried | undefined;
  /** Karmada still has a binding for the name. */
  readonly isBound: boolean;
  /** It is time to push it again: see `hubPatch`. */
  readonly push: string | undefined;
}

/** Empty: settled. Requests are sent in the order of the fields. */
export interface FederatorDecision {
  /** Finalizers and annotations that the project's deployment should have. Nothing else happens before. */
  readonly mark?: {
    readonly finalizers: readonly string[];
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly createNamespace?: KubeObject | undefined;
  readonly create?: WorkloadDeployment | undefined;
  /** A merge patch of the hub's deployment. */
  readonly patch?: object | undefined;
  /**
   * The hub or a cell has a later generation than the view of the project: the view may be behind, or the project was restored.
   * Only an uncached read tells which.
   */
  readonly confirm?: true | undefined;
  /** The hub's deployment, bound to its uid. */
  readonly delete?: WorkloadDeployment | undefined;
  readonly withdraw?: readonly WithdrawalSpec[] | undefined;
  /** The whole status of the project's deployment, when it differs. */
  readonly status?: DeploymentStatus | undefined;
  /** Absent where an event starts the next decision. */
  readonly recheckAfterMs?: number | undefined;
  readonly findings: readonly Finding[];
}

/** How long a deployment may have no cell before its condition says so, ms. */
const UNPLACED_MS = 60_000;
const RECHECK_MS = 10_000;

const settled: FederatorDecision = Object.freeze({ findings: [] });
const found = (reason: HubReason, message: string): FederatorDecision => ({
  findings: [{ reason, message }],
});

/** The first row that fits. */
export function decideFederation(view: FederatorView): FederatorDecision {
  const { project, deployment, namespace } = view;
  const { metadata, spec } = deployment;
  const listed = metadata?.finalizers ?? [];
  const isMarked = listed.includes(finalizers.federator);
  if (isDeleting(deployment)) return isMarked ? decideEnd(view) : settled;
  if (spec === undefined || namespace?.metadata?.uid === undefined) return settled;
  // Else the hub would federate its own copies when it is a project as well.
  if (namespace.metadata.labels?.[labels.upstreamCluster] !== undefined) return settled;
  if (listed.includes(finalizers.workload))
    return found(
      "StillLocal",
      "mode single made it, and its Instances run in this cluster: delete its Workload, and apply it again",
    );
  const name = hubNamespaceOf(namespace.metadata.uid);
  if (!isMarked || metadata?.annotations?.[keys.federationNamespace] !== name) {
    const mark = { finalizers: isMarked ? listed : [...listed, finalizers.federator] };
    return { ...settled, mark: { ...mark, annotations: { [keys.federationNamespace]: name } } };
  }
  if (view.hubNamespace.is === "unknown" || view.hubDeployment.is === "unknown") return showStale(view);
  const hub = view.hubDeployment.is === "there" ? view.hubDeployment.value : undefined;
  if (hub !== undefined && isDeleting(hub))
    return sourceUidOf(hub) === metadata.uid ? record(view, hub) : settled;
  const upstream = metadata.namespace ?? "";
  const ours = hubNamespace(name, project, upstream);
  if (view.hubNamespace.is === "there") {
    const fault = namespaceFault(view.hubNamespace.value, ours);
    if (fault !== undefined) return { ...found(fault.reason, fault.message), recheckAfterMs: RECHECK_MS };
  }
  if (hub === undefined) {
    const choice = view.karmada ? undefined : view.choose();
    if (choice?.is === "none") return decideUnplaced(view, choice);
    return {
      ...settled,
      ...(view.hubNamespace.is === "none" && { createNamespace: ours }),
      create: hubDeployment(deployment, name, choice?.placement),
    };
  }
  return decideThere(view, hub);
}

function decideThere(view: FederatorView, hub: WorkloadDeployment): FederatorDecision {
  const { deployment, karmada } = view;
  const { metadata } = deployment;
  const of = sourceUidOf(hub) ?? (karmada && isOfOriginal(hub, deployment) ? metadata?.uid : undefined);
  if (of === undefined) return found("NameTaken", `deployment ${metadata?.name} of the hub has no source`);
  if (of !== metadata?.uid) return view.isOtherAbsent ? { ...settled, delete: hub } : settled;
  const status = statusOf(view, hub);
  const { recheckAfterMs } = karmada?.carried ?? {};
  const isAhead = view.isDoubted || (sourceGeneration(hub) ?? 0) > (metadata.generation ?? 0);
  if (isAhead && !view.isConfirmed) return { ...settled, confirm: true, status };
  return { ...settled, patch: hubPatch(deployment, hub, karmada?.push), status, recheckAfterMs };
}

/** The original marks no source. Its namespace is named after that of the project, so it can only be one of its Workloads. */
function isOfOriginal(hub: WorkloadDeployment, { spec }: WorkloadDeployment): boolean {
  return hub.spec?.workloadRef.uid === spec?.workloadRef.uid;
}

function statusOf({ deployment, karmada, nowMs }: FederatorView, hub: WorkloadDeployment) {
  const view = { to: deployment, generation: deployment.metadata?.generation, nowMs };
  if (karmada === undefined) return mirrorStatus({ ...view, from: hub, own: { Placed: undefined } });
  const { from, stale, own = {} } = karmada.carried ?? {};
  const { Available: _, ...others } = own;
  // Instances of before may run on: only their number says so.
  return mirrorStatus({ ...view, from, stale, own: deployment.status?.readyReplicas ? others : own });
}

/** Another program deletes it on the hub. Its placement is kept in the project, so that it is made again where it is. */
function record({ deployment, signer }: FederatorView, hub: WorkloadDeployment): FederatorDecision {
  const placement = hub.metadata?.annotations?.[keys.placement];
  if (placement === undefined || recordText(deployment, signer) === placement) return settled;
  const annotations = recordAnnotations(deployment, placement, signer);
  return { ...settled, mark: { finalizers: deployment.metadata?.finalizers ?? [], annotations } };
}

/** The finalizer goes when the hub has nothing of it, and when cells have nothing or a Withdrawal stands for it. */
function decideEnd(view: FederatorView): FederatorDecision {
  const { deployment, namespace, hubDeployment: there, isProvenGone } = view;
  const { metadata, spec } = deployment;
  const recorded = metadata?.annotations?.[keys.federationNamespace];
  // Users of the project can write it: it must not name what another project has on the hub.
  const name = namespace?.metadata?.uid && hubNamespaceOf(namespace.metadata.uid);
  if (recorded !== undefined && name && recorded !== name)
    return {
      ...settled,
      mark: { finalizers: metadata?.finalizers ?? [], annotations: { [keys.federationNamespace]: name } },
    };
  const released = {
    ...settled,
    mark: { finalizers: (metadata?.finalizers ?? []).filter((it) => it !== finalizers.federator) },
  };
  if (recorded === undefined) return released;
  if (there.is === "unknown") return showStale(view);
  const hub = there.is === "there" && sourceUidOf(there.value) === metadata?.uid ? there.value : undefined;
  if (hub !== undefined) return isDeleting(hub) ? settled : { ...settled, delete: hub };
  if (view.karmada !== undefined) return view.karmada.isBound ? settled : released;
  if (isProvenGone) return released;
  // Another program deleted the hub's deployment, or its server was restored: any cell of the city may have it.
  const missing = view.cells
    .filter((it) => it.cell.spec?.city === spec?.cityCode && !isForgotten(it))
    .map((it) => ({
      cell: nameOf(it),
      cellUid: uidOf(it),
      namespace: recorded,
      name: metadata?.name ?? "",
      sourceUid: metadata?.uid ?? "",
    }))
    .filter((it) => view.withdrawals.every((one) => one.metadata?.name !== withdrawalName(it)));
  return missing.length === 0 ? released : { ...settled, withdraw: missing };
}

function showStale({
  deployment,
  hubDeployment: there,
  hubSinceMs,
  nowMs,
}: FederatorView): FederatorDecision {
  if (hubSinceMs === undefined || deployment.status === undefined) return settled;
  const message = there.is === "unknown" ? there.because : "the hub is not read";
  const stale: Staleness = { reason: "HubUnreachable", message, sinceMs: hubSinceMs };
  const status = mirrorStatus({
    to: deployment,
    generation: deployment.metadata?.generation,
    from: undefined,
    stale,
    nowMs,
  });
  return { ...settled, status };
}

function decideUnplaced(
  { deployment, nowMs }: FederatorView,
  { reason, message }: Extract<Choice, { is: "none" }>,
): FederatorDecision {
  const ageMs = nowMs - Date.parse(deployment.metadata?.creationTimestamp ?? "");
  const isNew = ageMs < UNPLACED_MS && deployment.status === undefined;
  const status = isNew
    ? undefined
    : mirrorStatus({
        to: deployment,
        generation: deployment.metadata?.generation,
        from: undefined,
        own: {
          // Instances of before may run on: only their number says so.
          ...(deployment.status?.readyReplicas
            ? {}
            : { Available: { status: "False", reason, message } as const }),
          Placed: { status: "False", reason, message },
        },
        nowMs,
      });
  return { ...found(reason, message), status, recheckAfterMs: RECHECK_MS };
}
