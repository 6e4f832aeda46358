/** The informers of a fleet. Each mode reads no more than it needs. */
import { type Host, keepFields } from "@berth/host";
import { type KubeObject, type Namespace, namespaces, type Pod, pods, type Resource } from "@berth/kube";
import type { Informer } from "@berth/runtime";
import { labels, projectOf } from "../api/keys.ts";
import {
  type Location,
  locations,
  type Network,
  type NetworkBinding,
  type NetworkContext,
  networkBindings,
  networkContexts,
  networks,
  type Subnet,
  type SubnetClaim,
  subnetClaims,
  subnets,
} from "../api/networking.ts";
import {
  type Instance,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "../api/workload.ts";
import type { FleetSpec } from "../fleet/document.ts";

/** Names of indexes: Workloads by network, deployments by Workload, Instances by deployment; Instances and bindings by namespace. */
export const by = {
  network: "network",
  workload: "workload",
  deployment: "deployment",
  namespace: "namespace",
  project: "project",
} as const;

export interface Caches {
  readonly deployments: Informer<WorkloadDeployment>;
  readonly instances: Informer<Instance>;
  /** Only where Workloads are: not in a cell. */
  readonly workloads?: Informer<Workload>;
  /** Only with the provider `pods`. */
  readonly pods?: Informer<Pod>;
  /** Only where labels of a namespace name its project. */
  readonly namespaces?: Informer<Namespace>;
  /** Absent while networking is off by configuration. */
  readonly networking?: NetworkCaches;
}

export interface NetworkCaches {
  readonly locations: Informer<Location>;
  readonly networks: Informer<Network>;
  readonly bindings: Informer<NetworkBinding>;
  readonly contexts: Informer<NetworkContext>;
  readonly subnetClaims: Informer<SubnetClaim>;
  readonly subnets: Informer<Subnet>;
}

/**
 * The fields of an object of the fleet that are read: by decisions, and to find its owner when it changes. A status is
 * kept whole, because the next one begins with it.
 */
const FIELDS = [
  "metadata.creationTimestamp",
  "metadata.deletionTimestamp",
  "metadata.generation",
  "metadata.labels",
  "metadata.annotations",
  "metadata.finalizers",
  "metadata.ownerReferences",
  "spec",
  "status",
];

/** The fields of a Pod that the provider reads, see `pods/`. */
const POD_FIELDS = [
  "metadata.creationTimestamp",
  "metadata.deletionTimestamp",
  "metadata.ownerReferences",
  "spec.nodeName",
  "status.phase",
  "status.reason",
  "status.message",
  "status.podIP",
  "status.conditions[].type",
  "status.conditions[].status",
  "status.conditions[].message",
  "status.containerStatuses[].name",
  "status.containerStatuses[].image",
  "status.containerStatuses[].state",
  "status.containerStatuses[].lastState",
  "status.containerStatuses[].restartCount",
];

const labelOf =
  (key: string) =>
  ({ metadata }: KubeObject): readonly string[] => {
    const value = metadata?.labels?.[key];
    return value === undefined ? [] : [value];
  };

/** The value of the index `by.network`. */
export function networkKey({ metadata }: KubeObject, name: string = metadata?.name ?? ""): string {
  return `${metadata?.namespace ?? ""}/${name}`;
}

function networksOf(workload: Workload): readonly string[] {
  const interfaces = workload.spec?.template.spec.networkInterfaces ?? [];
  return [...new Set(interfaces.map(({ network }) => networkKey(workload, network.name)))];
}

/** The project of a namespace, for `by.project`. At most one. */
export function projectsOf({ metadata }: Namespace): readonly string[] {
  const project = projectOf(metadata?.labels?.[labels.upstreamCluster] ?? "");
  return project === undefined ? [] : [project];
}

/** All are optional, so that Berth starts before the CRDs exist, and on a cluster without networks. */
export function createCaches({ runtime }: Pick<Host, "runtime">, spec: FleetSpec): Caches {
  const optional = { optional: true } as const;
  const plain = <T extends KubeObject>(resource: Resource<T>): Informer<T> =>
    runtime.informer(resource, optional);
  return {
    deployments: runtime.informer<WorkloadDeployment>(workloadDeployments, {
      ...optional,
      project: keepFields(FIELDS),
      indexes: { [by.workload]: ({ spec }) => (spec === undefined ? [] : [spec.workloadRef.uid]) },
    }),
    instances: runtime.informer<Instance>(instances, {
      ...optional,
      project: keepFields(FIELDS),
      indexes: {
        [by.deployment]: labelOf(labels.deploymentUid),
        [by.namespace]: ({ metadata }) => [metadata?.namespace ?? ""],
      },
    }),
    ...(spec.mode === "single" && {
      workloads: runtime.informer<Workload>(workloads, {
        ...optional,
        project: keepFields(FIELDS),
        indexes: { [by.network]: networksOf },
      }),
    }),
    ...(spec.provider === "pods" && {
      pods: runtime.informer<Pod>(pods, {
        scope: { labelSelector: labels.deploymentUid },
        project: keepFields(POD_FIELDS),
      }),
    }),
    ...(spec.mode === "cell" &&
      spec.quota !== undefined && {
        namespaces: runtime.informer<Namespace>(namespaces, {
          project: keepFields(["metadata.labels"]),
          indexes: { [by.project]: projectsOf },
        }),
      }),
    ...(spec.networking !== "Off" && {
      networking: {
        locations: plain(locations),
        networks: plain(networks),
        bindings: runtime.informer<NetworkBinding>(networkBindings, {
          ...optional,
          indexes: { [by.namespace]: ({ metadata }) => [metadata?.namespace ?? ""] },
        }),
        contexts: plain(networkContexts),
        subnetClaims: plain(subnetClaims),
        subnets: plain(subnets),
      },
    }),
  };
}
