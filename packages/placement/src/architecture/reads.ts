/** What architecture policies read: the unscheduled pods, labels of namespaces and DaemonSets, while Berth needs them. */
import { type Concerns, namespacesRead, pick, type Reads, type Views } from "@berth/host";
import { type DaemonSet, type KubeObject, type Namespace, type Pod, pods } from "@berth/kube";
import { daemonSetsRead } from "../node/daemonsets.ts";
import { slimPodMetadata, slimPodSpec } from "../node/pod-fields.ts";
import { UNSCHEDULED } from "../node/pod-nodes.ts";
import { taintKeys } from "./compile.ts";
import { ARCHITECTURE_GATE } from "./document.ts";
import { standingCondition } from "./pod-condition.ts";
import { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";

interface Objects {
  readonly daemonSets: DaemonSet;
  readonly pods: Pod;
  readonly namespaces: Namespace;
}
export type ArchitectureViews = Views<Objects, ArchitectureReading>;

export interface ArchitectureReading extends Pick<ArchitecturePolicies, "policies"> {
  /** Pods of earlier policies may still have our gate. */
  readonly isLingering?: boolean;
}

const consequence = "what depends on them is unknown";
const isNeeded = ({ policies, isLingering = false }: ArchitectureReading): boolean =>
  policies.length > 0 || isLingering;

export const architectureReads: Reads<Objects, ArchitectureReading> = {
  daemonSets: daemonSetsRead(ARCHITECTURE, (reading) => taintKeys(reading).length > 0),
  pods: {
    name: "unscheduled-pods",
    resource: pods,
    consequence,
    wanted: (reading) =>
      isNeeded(reading) ? [{ scope: { fieldSelector: UNSCHEDULED }, project: slimPod, indexes }] : [],
  },
  namespaces: namespacesRead({ name: "namespaces", consequence }, isNeeded),
};

const indexes = {
  namespace: ({ metadata }: Pod): readonly string[] => [metadata?.namespace ?? ""],
  gated: (pod: Pod): readonly string[] => (isKeptPending(pod) ? ["gated"] : []),
};

export interface ArchitectureWorkload {
  readonly kind: "Pod" | "DaemonSet";
  readonly object: KubeObject;
}

/** The workloads to decide about again. */
export const architectureConcerns: Concerns<Objects, ArchitectureWorkload> = {
  namespaces({ object: { metadata: { name = "" } = {} } }, views) {
    const sets = [...views.daemonSets.list()].filter(({ metadata }) => metadata?.namespace === name);
    return [
      ...views.pods.byIndex("namespace", name).map((object) => ({ kind: "Pod", object }) as const),
      ...sets.map((object) => ({ kind: "DaemonSet", object }) as const),
    ];
  },
};

/** After a conflict, a patch waits for the next version, even if that version changes nothing relevant. */
export const architectureVersions: Concerns<Objects, ArchitectureWorkload> = {
  pods: ({ object }) => [{ kind: "Pod", object }],
  daemonSets: ({ object }) => [{ kind: "DaemonSet", object }],
};

/** Does the pod have our scheduling gate, or our condition that it can run nowhere? */
export function isKeptPending(pod: Pod): boolean {
  const gates = pod.spec?.schedulingGates ?? [];
  return gates.some(({ name }) => name === ARCHITECTURE_GATE) || standingCondition(pod) !== undefined;
}

/** Keeps only our condition. */
function slimPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const condition = standingCondition(pod);
  return {
    ...(metadata && { metadata: slimPodMetadata(metadata) }),
    ...(spec && { spec: slimPodSpec(spec) }),
    ...(status && { status: { ...pick(status, ["phase"]), ...(condition && { conditions: [condition] }) } }),
  };
}
