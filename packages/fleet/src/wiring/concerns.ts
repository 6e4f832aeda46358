/** Which Workloads, deployments and Instances a change concerns. */
import type { Concerns } from "@berth/host";
import { type KubeObject, pathOf } from "@berth/kube";
import {
  type AddOptions,
  type Change,
  type ClusterName,
  changed,
  fromStates,
  generationChanged,
  isConditionTrue,
  keyOf,
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
import type { NetworkBinding, SubnetClaim } from "../api/networking.ts";
import { type Instance, workloadDeployments, workloads } from "../api/workload.ts";
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

/** @param counted the namespaces whose Locations count now. */
export function fleetConcerns(
  cluster: ClusterName,
  counted: () => LocationNamespaces,
): Concerns<FleetObjects, Again> {
  const self = toSelf(cluster);
  const ownerOf = ({ kind, group }: typeof workloads | typeof workloadDeployments) =>
    toOwner({ cluster, kind, group });
  const keys = (found: readonly KubeObject[]): readonly ObjectKey[] => found.map((it) => keyOf(cluster, it));
  return {
    ...networkConcerns(cluster, counted),
    workloads: each({ of: "workloads", keys: self, immediate: generationChanged }),
    deployments: each(
      { of: "deployments", keys: self, immediate: generationChanged },
      { of: "workloads", keys: ownerOf(workloads) },
      {
        // A Workload waits for the name of another one's deployment.
        of: "workloads",
        when: ({ type }) => type !== "updated",
        keys: ({ object }, views) => keys(views.workloads.byIndex(by.deployment, pathOf(object.metadata))),
      },
    ),
    instances: each(
      { of: "instances", keys: self, immediate: always },
      { of: "deployments", keys: ownerOf(workloadDeployments), immediate: movesOn },
      {
        // A deployment waits for the name of another one's Instance.
        of: "deployments",
        when: ({ type }) => type !== "updated",
        keys({ object: { metadata: { namespace, name = "" } = {} } }, { deployments }) {
          const waiting = deployments.find(deploymentOfInstance(name) ?? "", namespace);
          return waiting ? [keyOf(cluster, waiting)] : [];
        },
        immediate: always,
      },
    ),
    pods: each({ of: "instances", keys: self, immediate: always }),
    namespaces: each(
      {
        of: "instances",
        keys: ({ object }, views) => keys(views.instances.byIndex(by.namespace, object.metadata?.name ?? "")),
        immediate: always,
      },
      {
        // Its labels say which namespace of its project it stands for.
        of: "deployments",
        when: labelsChanged,
        keys: ({ object }, views) =>
          keys(views.deployments.byIndex(by.namespace, object.metadata?.name ?? "")),
      },
    ),
  };
}

/** Labels of these concern nothing. */
function networkConcerns(
  cluster: ClusterName,
  counted: () => LocationNamespaces,
): Pick<Concerns<FleetObjects, Again>, NetworkKind> {
  const keys = (found: readonly KubeObject[]): readonly ObjectKey[] => found.map((it) => keyOf(cluster, it));
  const ofBinding = ({ metadata }: NetworkBinding): readonly ObjectKey[] => {
    const { namespace = "", name = "" } = metadata ?? {};
    const deployment = deploymentOfBinding(name);
    return deployment === undefined ? [] : [{ cluster, namespace, name: deployment }];
  };
  const ofContext = (path: string, { networkBindings }: FleetViews): readonly ObjectKey[] =>
    networkBindings.byIndex(by.context, path).flatMap(ofBinding);
  const ofClaim = (claim: SubnetClaim, views: FleetViews): readonly ObjectKey[] =>
    contextsOf(claim).flatMap((path) => ofContext(path, views));
  const deployments = <T extends WithContent>(
    map: (object: T, views: FleetViews) => readonly ObjectKey[],
  ): Concern<T> => ({
    of: "deployments",
    when: contentChanged,
    keys: (change, views) => fromStates<T>((object) => map(object, views))(change),
  });
  return {
    locations: each(
      deployments((location, views) => {
        const here = [...citiesOf([location])].flatMap((city) => views.deployments.byIndex(by.city, city));
        // One that has its own Location keeps it, whatever others come and go.
        return keys(
          here.filter((one) => {
            const kept = keptLocation(views, one, counted())?.metadata;
            return kept === undefined || pathOf(kept) === pathOf(location.metadata);
          }),
        );
      }),
      {
        of: "workloads",
        when: changed(({ spec }) => spec),
        keys: (change, views) =>
          fromStates<typeof change.object>((location) =>
            [...citiesOf([location])].flatMap((city) =>
              isServedBeside(views, location, city, counted())
                ? []
                : keys(views.workloads.byIndex(by.city, city)),
            ),
          )(change),
      },
    ),
    networks: each(
      deployments(({ metadata }, views) => keys(views.deployments.byIndex(by.network, pathOf(metadata)))),
      {
        // To a Workload it matters only whether a Network exists.
        of: "workloads",
        when: ({ type }) => type !== "updated",
        keys: ({ object }, views) => keys(views.workloads.byIndex(by.network, pathOf(object.metadata))),
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
