/** Which Workloads, deployments and Instances a change concerns. */
import type { Concerns, View } from "@berth/host";
import { type KubeObject, pathOf, type Resource } from "@berth/kube";
import {
  type AddOptions,
  type Change,
  type ClusterName,
  changed,
  fromStates,
  generationChanged,
  isConditionTrue,
  labelsChanged,
  type ObjectKey,
  or,
  type Predicate,
  toOwner,
  toSelf,
  urgencyOf,
  type WatchForOptions,
} from "@berth/runtime";
import { deploymentOfBinding, deploymentOfInstance } from "../api/keys.ts";
import type { Location, NetworkBinding, SubnetClaim } from "../api/networking.ts";
import { type Instance, type WorkloadDeployment, workloadDeployments, workloads } from "../api/workload.ts";
import type { LocationNamespaces } from "../network/location.ts";
import { citiesOf } from "../workload/decide.ts";
import { isServedBeside, keptLocation } from "./network-step.ts";
import { by, contextsOf, type FleetObjects, type FleetViews, type NetworkKind } from "./reads.ts";

/** What the controllers of the fleet decide about. */
export type Decided = "workloads" | "deployments" | "instances";

/** A key to look at again, and how soon. */
export interface Again extends Required<AddOptions> {
  readonly of: Decided;
  readonly key: ObjectKey;
}

/** The decisions of one kind that a change concerns. */
interface Concern<T extends KubeObject> {
  readonly of: Decided;
  /** Which changes count. Default all. */
  readonly when?: Predicate<T>;
  readonly keys: (change: Change<T>, views: FleetViews) => Iterable<ObjectKey>;
  readonly immediate?: WatchForOptions<T>["immediate"];
}

function each<T extends KubeObject>(...concerns: readonly Concern<T>[]) {
  return function* (change: Change<T>, views: FleetViews): Iterable<Again> {
    for (const { of, when, keys, immediate } of concerns) {
      if (when?.(change) === false) continue;
      const urgency = urgencyOf(change, immediate);
      for (const key of keys(change, views)) yield { of, key, ...urgency };
    }
  };
}

const always = (): true => true;
const comesOrGoes: Predicate = ({ type }) => type !== "updated";
/** Only what lets the next Instance be created, replaced or removed is urgent. */
const movesOn = changed<Instance>(({ status }) => isConditionTrue(status?.conditions, "Ready"));

interface WithContent extends KubeObject {
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** Spec, status or owners differ: a NetworkBinding of another owner is not that of its deployment. */
const contentChanged: Predicate<WithContent> = or(
  changed(({ spec }) => spec),
  changed(({ status }) => status),
  changed(({ metadata }) => metadata?.ownerReferences),
);

/** The keys of the objects that an index finds. */
function keysBy<T extends KubeObject>(view: View<T>, index: string, value = ""): readonly ObjectKey[] {
  return view.byIndex(index, value).map((it) => view.keyOf(it));
}

/** @param counted the namespaces whose Locations count now. */
export function fleetConcerns(
  cluster: ClusterName,
  counted: () => LocationNamespaces,
): Concerns<FleetObjects, Again> {
  const self = toSelf(cluster);
  const ownerOf = ({ kind, group }: Resource) => toOwner({ cluster, kind, group });
  return {
    ...networkConcerns(counted),
    workloads: each({ of: "workloads", keys: self, immediate: generationChanged }),
    deployments: each(
      { of: "deployments", keys: self, immediate: generationChanged },
      { of: "workloads", keys: ownerOf(workloads) },
      {
        // A Workload waits for the name of another one's deployment.
        of: "workloads",
        when: comesOrGoes,
        keys: ({ object }, views) => keysBy(views.workloads, by.deployment, pathOf(object.metadata)),
      },
    ),
    instances: each(
      { of: "instances", keys: self, immediate: always },
      { of: "deployments", keys: ownerOf(workloadDeployments), immediate: movesOn },
      {
        // A deployment waits for the name of another one's Instance.
        of: "deployments",
        when: comesOrGoes,
        keys({ object: { metadata: { namespace, name = "" } = {} } }, { deployments }) {
          const waiting = deployments.find(deploymentOfInstance(name) ?? "", namespace);
          return waiting ? [deployments.keyOf(waiting)] : [];
        },
        immediate: always,
      },
    ),
    pods: each({ of: "instances", keys: self, immediate: always }),
    namespaces: each(
      {
        of: "instances",
        keys: ({ object }, views) => keysBy(views.instances, by.namespace, object.metadata?.name),
        immediate: always,
      },
      {
        // Its labels say which namespace of its project it stands for.
        of: "deployments",
        when: labelsChanged,
        keys: ({ object }, views) => keysBy(views.deployments, by.namespace, object.metadata?.name),
      },
    ),
  };
}

/** The deployments of the object before and after a change. Labels of the networks concern none. */
function deployments<T extends WithContent>(
  map: (object: T, views: FleetViews) => readonly ObjectKey[],
): Concern<T> {
  return {
    of: "deployments",
    when: contentChanged,
    keys: (change, views) => fromStates<T>((object) => map(object, views))(change),
  };
}

function ofBinding({ metadata }: NetworkBinding, views: FleetViews): readonly ObjectKey[] {
  const name = deploymentOfBinding(metadata?.name ?? "");
  return name === undefined ? [] : [views.deployments.keyOf({ metadata: { ...metadata, name } })];
}

function ofContext(path: string, views: FleetViews): readonly ObjectKey[] {
  return views.networkBindings.byIndex(by.context, path).flatMap((it) => ofBinding(it, views));
}

function ofClaim(claim: SubnetClaim, views: FleetViews): readonly ObjectKey[] {
  return contextsOf(claim).flatMap((path) => ofContext(path, views));
}

function networkConcerns(
  counted: () => LocationNamespaces,
): Pick<Concerns<FleetObjects, Again>, NetworkKind> {
  /** One that has its own Location keeps it, whatever others come and go. */
  const mayTake = ({ metadata }: Location, views: FleetViews, deployment: WorkloadDeployment): boolean => {
    const kept = keptLocation(views, deployment, counted())?.metadata;
    return kept === undefined || pathOf(kept) === pathOf(metadata);
  };
  return {
    locations: each<Location>(
      deployments((location, views) =>
        [...citiesOf([location])]
          .flatMap((city) => views.deployments.byIndex(by.city, city))
          .flatMap((one) => (mayTake(location, views, one) ? [views.deployments.keyOf(one)] : [])),
      ),
      {
        of: "workloads",
        when: changed(({ spec }) => spec),
        keys: (change, views) =>
          fromStates<Location>((location) =>
            [...citiesOf([location])]
              .filter((city) => !isServedBeside(views, location, city, counted()))
              .flatMap((city) => keysBy(views.workloads, by.city, city)),
          )(change),
      },
    ),
    networks: each(
      deployments(({ metadata }, views) => keysBy(views.deployments, by.network, pathOf(metadata))),
      {
        // To a Workload it matters only whether a Network exists.
        of: "workloads",
        when: comesOrGoes,
        keys: ({ object }, views) => keysBy(views.workloads, by.network, pathOf(object.metadata)),
      },
    ),
    networkBindings: each(deployments(ofBinding)),
    networkContexts: each(deployments(({ metadata }, views) => ofContext(pathOf(metadata), views))),
    subnetClaims: each(deployments(ofClaim)),
    subnets: each(
      deployments(({ metadata }, views) =>
        views.subnetClaims.byIndex(by.subnet, pathOf(metadata)).flatMap((it) => ofClaim(it, views)),
      ),
    ),
  };
}
