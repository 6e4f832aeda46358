/** The informers of a fleet. Each mode reads no more than it needs. */
import { createSharedParts, type Host, type Intent, keepFields } from "@berth/host";
import {
  type KubeObject,
  type Namespace,
  namespaces,
  type Pod,
  pathOf,
  pods,
  type Resource,
} from "@berth/kube";
import type { Informer, InformerOptions } from "@berth/runtime";
import { deploymentName, labels, projectOf } from "../api/keys.ts";
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
import { ownerOf } from "../api/owner.ts";
import {
  type Instance,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "../api/workload.ts";
import type { FleetSpec } from "../fleet/document.ts";
import { citiesNamed, citiesOf } from "../workload/decide.ts";
import { OwnWrites } from "./own-writes.ts";

/** Names of indexes. Values are names, codes, uids, or `namespace/name`. */
export const by = {
  network: "network",
  workload: "workload",
  deployment: "deployment",
  namespace: "namespace",
  project: "project",
  city: "city",
  context: "context",
  subnet: "subnet",
} as const;

export interface Caches {
  readonly deployments: OwnWrites<WorkloadDeployment>;
  readonly instances: OwnWrites<Instance>;
  /** Only where Workloads are: not in a cell. */
  readonly workloads?: OwnWrites<Workload>;
  /** Only with the provider `pods`. */
  readonly pods?: OwnWrites<Pod>;
  /** Only where labels of a namespace name its project. */
  readonly namespaces?: Informer<Namespace>;
  /** Absent while networking is off by configuration. */
  readonly networking?: NetworkCaches;
}

/** By the plurals of the kinds. */
export interface NetworkCaches {
  readonly locations: Informer<Location>;
  readonly networks: Informer<Network>;
  readonly networkBindings: Informer<NetworkBinding>;
  readonly networkContexts: Informer<NetworkContext>;
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

/** What the Instances of one template have in common. A template may be large. */
const SHARED = [
  "metadata.annotations",
  "spec.template",
  "spec.runtime",
  "spec.volumes",
  "spec.networkInterfaces",
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

function ownersOf(object: KubeObject): readonly string[] {
  const owner = ownerOf(object);
  return owner === undefined ? [] : [owner.uid];
}

/** Interfaces name networks of their own namespace. */
function networksOf({ metadata, spec }: Workload | WorkloadDeployment): readonly string[] {
  const interfaces = spec?.template.spec.networkInterfaces ?? [];
  return [...new Set(interfaces.map(({ network }) => pathOf({ ...metadata, name: network.name })))];
}

/** The NetworkContexts of a claim, for `by.context`: that of its spec, and that whose claim Berth would call so. */
export function contextsOf({ metadata, spec }: SubnetClaim): readonly string[] {
  const { namespace = "", name = "" } = metadata ?? {};
  const named = name.endsWith("-0") ? [name.slice(0, -2)] : [];
  return [...new Set([...(spec?.networkContext ? [spec.networkContext.name] : []), ...named])].map(
    (context) => `${namespace}/${context}`,
  );
}

/** The names of the deployments that a Workload asks for, with its namespace. */
function deploymentsOf({ metadata, spec }: Workload): readonly string[] {
  const { namespace = "", name: workload = "" } = metadata ?? {};
  return (spec?.placements ?? []).flatMap(({ name, cityCodes }) =>
    cityCodes.map((city) => `${namespace}/${deploymentName(workload, name, city)}`),
  );
}

const namespaceOf = ({ metadata }: KubeObject): readonly string[] => [metadata?.namespace ?? ""];

/** The project of a namespace, for `by.project`. At most one. */
export function projectsOf({ metadata }: Namespace): readonly string[] {
  const project = projectOf(metadata?.labels?.[labels.upstreamCluster] ?? "");
  return project === undefined ? [] : [project];
}

/** All are optional, so that Berth starts before the CRDs exist, and on a cluster without networks. */
export function createCaches({ runtime, clock }: Pick<Host, "runtime" | "clock">, spec: FleetSpec): Caches {
  const optional = { optional: true } as const;
  const fields = createSharedParts().after<KubeObject>(keepFields(FIELDS), SHARED);
  const plain = <T extends KubeObject>(
    resource: Resource<T>,
    indexes: NonNullable<InformerOptions<T>["indexes"]> = {},
  ): Informer<T> => runtime.informer(resource, { ...optional, indexes });
  const written = <T extends KubeObject>(
    resource: Resource<T>,
    options: Pick<InformerOptions<T>, "indexes" | "optional" | "project" | "scope">,
  ): OwnWrites<T> =>
    new OwnWrites({
      resource,
      informer: runtime.informer(resource, options),
      indexes: options.indexes,
      project: options.project,
      clock,
    });
  return {
    deployments: written<WorkloadDeployment>(workloadDeployments, {
      ...optional,
      project: fields,
      indexes: {
        [by.workload]: ({ spec }) => (spec === undefined ? [] : [spec.workloadRef.uid]),
        [by.city]: ({ spec }) => (spec === undefined ? [] : [spec.cityCode]),
        [by.network]: networksOf,
        [by.namespace]: namespaceOf,
      },
    }),
    instances: written<Instance>(instances, {
      ...optional,
      project: fields,
      indexes: {
        [by.deployment]: ownersOf,
        [by.namespace]: namespaceOf,
      },
    }),
    ...(spec.mode === "single" && {
      workloads: written<Workload>(workloads, {
        ...optional,
        project: fields,
        indexes: {
          [by.network]: networksOf,
          [by.city]: (workload) => [...new Set(citiesNamed(workload))],
          [by.deployment]: deploymentsOf,
        },
      }),
    }),
    ...(spec.provider === "pods" && {
      pods: written<Pod>(pods, {
        scope: { labelSelector: labels.deploymentUid },
        project: keepFields(POD_FIELDS),
      }),
    }),
    ...(spec.mode === "cell" &&
      (spec.quota !== undefined || spec.networking !== "Off") && {
        namespaces: runtime.informer<Namespace>(namespaces, {
          project: keepFields(["metadata.labels"]),
          indexes: { [by.project]: projectsOf },
        }),
      }),
    ...(spec.networking !== "Off" && {
      networking: {
        locations: plain(locations, { [by.city]: (it) => [...citiesOf([it])] }),
        networks: plain(networks),
        networkBindings: plain(networkBindings, {
          [by.context]: ({ status }) => (status?.networkContextRef ? [pathOf(status.networkContextRef)] : []),
        }),
        networkContexts: plain(networkContexts),
        subnetClaims: plain(subnetClaims, {
          [by.context]: contextsOf,
          [by.subnet]: ({ metadata, status }) =>
            status?.subnetRef ? [pathOf({ ...metadata, ...status.subnetRef })] : [],
        }),
        subnets: plain(subnets),
      },
    }),
  };
}

/** For `done` of each controller: what it wrote, all controllers of the process see at once. */
export function noteWrite(caches: Caches, intent: Intent, of: Written): void {
  const { resource, seen } = intent.on ?? { resource: of.resource, seen: of.object };
  const all = [caches.workloads, caches.deployments, caches.instances, caches.pods];
  const cache = all.find((it) => it?.resource === resource);
  if (intent.do === "delete") cache?.noteDeleted(seen ?? {});
  else cache?.note(of.stored);
}

/** The object of the decision, and the object that was written as the API server returned it. */
interface Written {
  readonly resource: Resource;
  readonly object: KubeObject;
  readonly stored: KubeObject | undefined;
}
