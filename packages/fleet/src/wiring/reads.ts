/** What a fleet reads. Each mode reads no more than it needs. */
import { createSharedParts, keepFields, type Read, type Reads, type Views } from "@berth/host";
import {
  type KubeObject,
  type Namespace,
  namespaces,
  type Pod,
  type Projection,
  pathOf,
  pods,
  type Resource,
} from "@berth/kube";
import type { IndexFunction } from "@berth/runtime";
import { deploymentName, labels, projectOfNamespace } from "../api/keys.ts";
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

export interface FleetObjects extends NetworkObjects {
  readonly workloads: Workload;
  readonly deployments: WorkloadDeployment;
  readonly instances: Instance;
  readonly pods: Pod;
  readonly namespaces: Namespace;
}

interface NetworkObjects {
  readonly locations: Location;
  readonly networks: Network;
  readonly networkBindings: NetworkBinding;
  readonly networkContexts: NetworkContext;
  readonly subnetClaims: SubnetClaim;
  readonly subnets: Subnet;
}

export type FleetViews = Views<FleetObjects, FleetSpec>;

export type NetworkKind = keyof NetworkObjects;

/** Those of the networks. All must be read before Berth says anything about them. */
export const NETWORK_KINDS: readonly NetworkKind[] = [
  "locations",
  "networks",
  "networkBindings",
  "networkContexts",
  "subnetClaims",
  "subnets",
];

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

/** What the Instances of one deployment have in common. A template may be large. */
export const SHARED: readonly string[] = [
  "metadata.annotations",
  "metadata.ownerReferences",
  "spec.controller",
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

export function ownersOf(object: KubeObject): readonly string[] {
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
export function projectsOf(namespace: Namespace): readonly string[] {
  const project = projectOfNamespace(namespace);
  return project === undefined ? [] : [project];
}

const isSingle = ({ mode }: FleetSpec): boolean => mode === "single";
const hasNetworks = ({ networking }: FleetSpec): boolean => networking !== "Off";

/** Their labels, or an annotation, name the project of their objects. */
const NAMESPACES = {
  metadataOnly: true,
  project: keepFields<Namespace>(["metadata.labels", "metadata.annotations"]),
  indexes: { [by.project]: projectsOf },
};

/** Templates are shared by all three kinds. */
export const fleetObject: Projection<KubeObject> = createSharedParts().after<KubeObject>(
  keepFields(FIELDS),
  SHARED,
);
const plainly = keepFields<KubeObject>(FIELDS);

/** All custom kinds are optional: Berth starts before the CRDs exist, and on a cluster without networks. */
function custom<T extends KubeObject>(
  resource: Resource<T>,
  isWanted: (fleet: FleetSpec) => boolean,
  indexes: Readonly<Record<string, IndexFunction<T>>> = {},
  isWritten = true,
): Read<T, FleetSpec> {
  // A projection of any object keeps its type.
  const project = (isWritten ? fleetObject : plainly) as unknown as Projection<T>;
  return {
    name: `fleet-${resource.plural}`,
    resource,
    isWritten,
    isAwaited: true,
    wanted: (fleet) => (isWanted(fleet) ? [{ optional: true, project, indexes }] : []),
  };
}

const networked = <T extends KubeObject>(
  resource: Resource<T>,
  indexes?: Readonly<Record<string, IndexFunction<T>>>,
): Read<T, FleetSpec> => custom(resource, hasNetworks, indexes, false);

export const fleetReads: Reads<FleetObjects, FleetSpec> = {
  workloads: custom(workloads, isSingle, {
    [by.network]: networksOf,
    [by.city]: (workload) => [...new Set(citiesNamed(workload))],
    [by.deployment]: deploymentsOf,
  }),
  deployments: custom(workloadDeployments, () => true, {
    [by.workload]: ({ spec }) => (spec === undefined ? [] : [spec.workloadRef.uid]),
    [by.city]: ({ spec }) => (spec === undefined ? [] : [spec.cityCode]),
    [by.network]: networksOf,
    [by.namespace]: namespaceOf,
  }),
  instances: custom(instances, () => true, { [by.deployment]: ownersOf, [by.namespace]: namespaceOf }),
  pods: {
    name: "fleet-pods",
    resource: pods,
    isWritten: true,
    isAwaited: true,
    wanted: ({ provider }) =>
      provider === "pods"
        ? [{ scope: { labelSelector: labels.deploymentUid }, project: keepFields(POD_FIELDS) }]
        : [],
  },
  namespaces: {
    name: "fleet-namespaces",
    resource: namespaces,
    isAwaited: true,
    wanted: (fleet) =>
      !isSingle(fleet) && (fleet.quota !== undefined || hasNetworks(fleet)) ? [NAMESPACES] : [],
  },
  locations: networked(locations, { [by.city]: (it) => [...citiesOf([it])] }),
  networks: networked(networks),
  networkBindings: networked(networkBindings, {
    [by.context]: ({ status }) => (status?.networkContextRef ? [pathOf(status.networkContextRef)] : []),
  }),
  networkContexts: networked(networkContexts),
  subnetClaims: networked(subnetClaims, {
    [by.context]: contextsOf,
    [by.subnet]: ({ metadata, status }) =>
      status?.subnetRef ? [pathOf({ ...metadata, ...status.subnetRef })] : [],
  }),
  subnets: networked(subnets),
};
