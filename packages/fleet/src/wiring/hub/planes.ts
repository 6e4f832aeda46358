/** The clusters that a hub works with, and what is read of each. */
import { type Host, keepFields } from "@berth/host";
import {
  type ConnectOptions,
  type KubeClient,
  type KubeObject,
  type Namespace,
  namespaces,
  type Projection,
  type Secret,
  secrets,
} from "@berth/kube";
import {
  type ClusterName,
  type ClusterSet,
  clusterName,
  type FleetView,
  findCondition,
  type ViewRequest,
} from "@berth/runtime";
import { type Cell, cells, type Withdrawal, withdrawals } from "../../api/cell.ts";
import {
  type InterpreterCustomization,
  interpreterCustomizations,
  type MemberCluster,
  memberClusters,
  type PropagationPolicy,
  propagationPolicies,
  type ResourceBinding,
  resourceBindings,
} from "../../api/karmada.ts";
import { hubNamespaceOf, annotations as keys, labels } from "../../api/keys.ts";
import { MILO, projects as milosProjects, PROJECT_IDENTITY, type Project } from "../../api/milo.ts";
import { parsePlacement, targetsOf } from "../../api/placement.ts";
import type { HubReason } from "../../api/reasons.ts";
import {
  type Instance,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "../../api/workload.ts";
import type { FleetSpec, ProjectPlace } from "../../fleet/document.ts";
import { keptDeploymentStatus } from "../../hub/cells/kept.ts";
import { CELL_LIMIT } from "../../hub/cells/seen.ts";
import { citiesNamed } from "../../workload/decide.ts";
import { by, fleetObject, ownersOf } from "../reads.ts";
import { cellDeployment, cellInstance, cellNamespace } from "./cell-objects.ts";

/** Names of indexes, beside those of `by`. */
export const hubBy = {
  /** Of a deployment on the hub: the uids of the cells that have it or get it. Of a Withdrawal, and of a Cell: its own. */
  cellUid: "cellUid",
  /** Of a deployment on the hub that waits until all cells of its city are read: the city. */
  unread: "unread",
  /** Of a Withdrawal: `namespace/name` of its deployment. */
  place: "place",
  /** Of a deployment on the hub that moves to another cell: `next`. */
  move: "move",
  /** Of a namespace in a project: the one on the hub that is for it. */
  hubNamespace: "hubNamespace",
} as const;

const WAITS: HubReason = "CellsNotRead";

/** The connections that a Fleet names. */
export interface HubConnections {
  /** Of requests to cells. Default: the name of the product. */
  readonly userAgent?: string;
  /** Absent: the hub is Berth's own cluster. */
  readonly hub?: ConnectOptions;
  /** Absent: the only project is Berth's own cluster. `milo`: its API server, which the caller closes. */
  readonly projects?: { readonly listed: readonly ListedProject[] } | { readonly milo: KubeClient };
}

/** A project of the Fleet's list. */
export interface ListedProject extends Pick<ProjectPlace, "path"> {
  readonly to: ConnectOptions;
}

export interface ProjectPlane {
  readonly cluster: ClusterName;
  /** `acme/web`, or the name alone. */
  readonly path: string;
}

/** The sets may be one and the same: a server has one connection, and one watch of each kind. */
export interface Planes {
  readonly own: { readonly set: ClusterSet; readonly name: ClusterName };
  readonly hub: { readonly set: ClusterSet; readonly name: ClusterName };
  readonly projects: ClusterSet;
  readonly cells: ClusterSet;
  /** Those that have joined, by the name in the marks of their namespaces. */
  readonly projectNamed: Map<string, ProjectPlane>;
  readonly views: PlaneViews;
}

export interface PlaneViews {
  readonly cells: FleetView<Cell>;
  readonly withdrawals: FleetView<Withdrawal>;
  readonly secrets: FleetView<Secret>;
  /** What Milo says of its projects, if it is asked. */
  readonly discovered?: FleetView<Project>;
  /** With the driver `karmada`. */
  readonly karmada?: KarmadaViews;
  readonly workloads: FleetView<Workload>;
  readonly project: ObjectViews;
  readonly hub: ObjectViews;
  readonly cell: ObjectViews;
}

/** Of the hub. */
export interface KarmadaViews {
  readonly policies: FleetView<PropagationPolicy>;
  readonly bindings: FleetView<ResourceBinding>;
  readonly clusters: FleetView<MemberCluster>;
  readonly interpreters: FleetView<InterpreterCustomization>;
}

/** What is read of each project, hub and cell. */
export interface ObjectViews {
  readonly deployments: FleetView<WorkloadDeployment>;
  readonly instances: FleetView<Instance>;
  readonly namespaces: FleetView<Namespace>;
}

/** The name of the project that Berth's own cluster is, unless the Fleet gives one. */
const DEFAULT_PROJECT = "single";

/** @param home Berth's own namespace. */
export function createPlanes(
  { runtime, client, cluster }: Host,
  spec: FleetSpec,
  { hub: toHub, projects: toProjects }: HubConnections,
  home: string,
): Planes {
  const own = { set: runtime.clusters("own"), name: cluster };
  own.set.join(own.name, { to: client });
  const hub = toHub === undefined ? own : { set: runtime.clusters("hub"), name: clusterName("hub") };
  if (toHub !== undefined) hub.set.join(hub.name, { to: toHub });
  const projects = toProjects === undefined ? own.set : runtime.clusters("projects");
  const projectNamed = new Map<string, ProjectPlane>();
  if (toProjects === undefined) {
    const path = spec.project?.id ?? DEFAULT_PROJECT;
    projectNamed.set(path, { cluster: own.name, path });
  }
  const discovered = toProjects && "milo" in toProjects ? discovery(runtime, toProjects.milo) : undefined;
  const cellSet = runtime.clusters("cells", { limit: CELL_LIMIT });
  const known = new Map<ClusterSet, ObjectViews>();
  const objectsOf = (set: ClusterSet): ObjectViews => {
    const views = known.get(set) ?? objectViews(set);
    known.set(set, views);
    return views;
  };
  const hubObjects = objectsOf(hub.set);
  const onHub = (namespace: string, name: string): WorkloadDeployment | undefined =>
    hubObjects.deployments.get({ cluster: hub.name, namespace, name });
  return {
    own,
    hub,
    projects,
    cells: cellSet,
    projectNamed,
    views: {
      cells: own.set.view({
        resource: cells,
        project: (it) => it,
        indexes: {
          [hubBy.cellUid]: ({ spec }) => (spec === undefined ? [] : [spec.uid]),
          [by.city]: ({ spec }) => (spec === undefined ? [] : [spec.city]),
        },
      }),
      withdrawals: own.set.view({
        resource: withdrawals,
        project: (it) => it,
        indexes: {
          [hubBy.cellUid]: ({ spec: of }) => (of === undefined ? [] : [of.cellUid]),
          [hubBy.place]: ({ spec: of }) => (of === undefined ? [] : [`${of.namespace}/${of.name}`]),
        },
      }),
      secrets: own.set.view({
        resource: secrets,
        project: keepFields<Secret>(["data.kubeconfig", "data.key", "data.hub"]),
        scope: { namespace: home },
      }),
      ...(discovered && { discovered }),
      ...(spec.driver === "karmada" && { karmada: karmadaViews(hub.set) }),
      workloads: projects.view({
        resource: workloads,
        project: asFleetObject<Workload>(),
        indexes: { [by.namespace]: namespaceOf, [by.city]: citiesNamed },
      }),
      project: objectsOf(projects),
      hub: hubObjects,
      cell: objectViews(cellSet, {
        deployments: { project: cellDeployment(onHub) },
        instances: { project: cellInstance, indexes: ofDeployments },
        namespaces: { project: cellNamespace },
      }),
    },
  };
}

function karmadaViews(set: ClusterSet): KarmadaViews {
  return {
    policies: set.view({
      resource: propagationPolicies,
      project: keepFields<PropagationPolicy>(["metadata.deletionTimestamp", "spec"]),
      indexes: { [by.namespace]: namespaceOf },
    }),
    bindings: set.view({
      resource: resourceBindings,
      project: keptBinding,
      indexes: { [by.namespace]: namespaceOf },
    }),
    clusters: set.view({
      resource: memberClusters,
      project: keepFields<MemberCluster>(["metadata.labels", "status.conditions"]),
    }),
    interpreters: set.view({
      resource: interpreterCustomizations,
      project: keepFields<InterpreterCustomization>(["spec"]),
    }),
  };
}

/** City codes of all Cells, and of the clusters that have joined Karmada. */
export function citiesServed({ own, hub, views: { cells: known, karmada } }: Planes): ReadonlySet<string> {
  const members = Array.from(
    karmada?.clusters.list(hub.name) ?? [],
    ({ metadata }) => metadata?.labels?.[labels.city],
  );
  return new Set(
    [...members, ...Array.from(known.list(own.name), ({ spec }) => spec?.city)].filter(
      (it) => it !== undefined,
    ),
  );
}

/** Why nothing may follow from what Karmada does not have. `undefined`: it is read, or does not carry the fleet. */
export function karmadaUnread({ hub, views: { karmada } }: Planes): string | undefined {
  if (karmada === undefined) return undefined;
  const { policies, bindings, clusters, interpreters } = karmada;
  const states = [policies, bindings, clusters, interpreters].map((it) => it.state(hub.name));
  if (states.includes("absent")) return "the hub does not serve the kinds of Karmada";
  return states.every((it) => it === "synced") ? undefined : "what Karmada has on the hub is not read yet";
}

const bindingFields = keepFields<ResourceBinding>([
  "spec.resource",
  "spec.clusters",
  "status.conditions",
  "status.aggregatedStatus",
]);

/** Other kinds may be carried as well. What cells say is kept as far as the hub could store it. */
const keptBinding: Projection<ResourceBinding> = (object) => {
  const { status, ...rest } = bindingFields(object);
  const { conditions, aggregatedStatus = [] } = status ?? {};
  if (rest.spec?.resource?.kind !== workloadDeployments.kind) return rest;
  const items = aggregatedStatus.map(({ status: said, ...it }) => {
    const kept = keptDeploymentStatus(said);
    return kept === undefined ? it : Object.assign(it, { status: kept });
  });
  return { ...rest, status: { ...(conditions && { conditions }), aggregatedStatus: items } };
};

function discovery(runtime: Host["runtime"], to: KubeClient): FleetView<Project> {
  const set = runtime.clusters("discovery");
  set.join(MILO, { to, identityNamespace: PROJECT_IDENTITY });
  return set.view({
    resource: milosProjects,
    project: keepFields<Project>(["metadata.deletionTimestamp", "spec.ownerRef", "status.conditions"]),
  });
}

const namespaceOf = ({ metadata }: KubeObject): readonly string[] => [metadata?.namespace ?? ""];

/** A projection of any object keeps its type. */
function asFleetObject<T extends KubeObject>(): Projection<T> {
  return fleetObject as unknown as Projection<T>;
}

/** What is kept of each object of a plane, and how it is found. A cell has many: nothing else asks for them by more. */
interface Kept {
  readonly deployments: Pick<ViewRequest<WorkloadDeployment>, "project" | "indexes">;
  readonly instances: Pick<ViewRequest<Instance>, "project" | "indexes">;
  readonly namespaces: Pick<ViewRequest<Namespace>, "project" | "indexes">;
}

const ofDeployments = { [by.deployment]: (it: Instance) => ownersOf(it) };

const ofOurs: Kept = {
  deployments: {
    project: asFleetObject(),
    indexes: {
      [by.workload]: ({ spec }) => (spec === undefined ? [] : [spec.workloadRef.uid]),
      [by.namespace]: namespaceOf,
      [by.city]: ({ spec }) => (spec === undefined ? [] : [spec.cityCode]),
      [hubBy.cellUid]: ({ metadata }) =>
        targetsOf(parsePlacement(metadata?.annotations?.[keys.placement])).map(({ uid }) => uid),
      [hubBy.move]: ({ metadata }) =>
        parsePlacement(metadata?.annotations?.[keys.placement])?.next === undefined ? [] : ["next"],
      [hubBy.unread]: ({ spec, status }) =>
        spec !== undefined && findCondition(status?.conditions, "Stale")?.reason === WAITS
          ? [spec.cityCode]
          : [],
    },
  },
  instances: { project: asFleetObject(), indexes: ofDeployments },
  namespaces: {
    project: keepFields<Namespace>(["metadata.labels", "metadata.annotations", "metadata.deletionTimestamp"]),
    indexes: { [hubBy.hubNamespace]: ({ metadata }) => [hubNamespaceOf(metadata?.uid ?? "")] },
  },
};

/** @param kept default: all that decisions read. */
export function objectViews(
  set: ClusterSet,
  { deployments, instances: ofInstances, namespaces: of }: Kept = ofOurs,
): ObjectViews {
  return {
    deployments: set.view({ resource: workloadDeployments, ...deployments }),
    instances: set.view({ resource: instances, ...ofInstances }),
    namespaces: set.view({ resource: namespaces, metadataOnly: true, ...of }),
  };
}
