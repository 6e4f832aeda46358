/** Which deployments a change of the networks concerns. Their labels concern none. */
import { type KubeObject, pathOf } from "@berth/kube";
import {
  type ClusterName,
  changed,
  fromStates,
  type Informer,
  keyOf,
  labelsChanged,
  type ObjectKey,
  or,
  type Predicate,
  type Source,
  watchFor,
} from "@berth/runtime";
import { deploymentOfBinding } from "../api/keys.ts";
import type { NetworkBinding, SubnetClaim } from "../api/networking.ts";
import { citiesOf } from "../workload/decide.ts";
import { by, type Caches, contextsOf } from "./caches.ts";
import type { NetworkStep } from "./network-step.ts";

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

export function networkSources(
  caches: Caches,
  cluster: ClusterName,
  network: Pick<NetworkStep, "concerns">,
): readonly Source<ObjectKey>[] {
  const { networking, deployments, namespaces } = caches;
  if (networking === undefined) return [];
  const { locations, networks, networkBindings, networkContexts, subnetClaims, subnets } = networking;
  const keysBy = (index: string, value: string): readonly ObjectKey[] =>
    deployments.byIndex(index, value).map((it) => keyOf(cluster, it));
  const ofBinding = ({ metadata }: NetworkBinding): readonly ObjectKey[] => {
    const name = deploymentOfBinding(metadata?.name ?? "");
    return name === undefined ? [] : [{ cluster, namespace: metadata?.namespace ?? "", name }];
  };
  const ofContext = (path: string): readonly ObjectKey[] =>
    networkBindings.byIndex(by.context, path).flatMap(ofBinding);
  const ofClaim = (claim: SubnetClaim): readonly ObjectKey[] => contextsOf(claim).flatMap(ofContext);
  const source = <T extends WithContent>(
    informer: Informer<T>,
    map: (object: T) => readonly ObjectKey[],
  ): Source<ObjectKey> => watchFor<T>({ informer, predicate: contentChanged, map: fromStates(map) });
  return [
    source(locations, (it) =>
      [...citiesOf([it])]
        .flatMap((city) => deployments.byIndex(by.city, city))
        .filter((one) => network.concerns(it, one))
        .map((one) => keyOf(cluster, one)),
    ),
    source(networks, ({ metadata }) => keysBy(by.network, pathOf(metadata))),
    source(networkBindings, ofBinding),
    source(networkContexts, ({ metadata }) => ofContext(pathOf(metadata))),
    source(subnetClaims, ofClaim),
    source(subnets, ({ metadata }) => subnetClaims.byIndex(by.subnet, pathOf(metadata)).flatMap(ofClaim)),
    // The labels of a namespace say which namespace of its project it stands for.
    ...(namespaces
      ? [
          watchFor({
            informer: namespaces,
            predicate: labelsChanged,
            map: ({ object: { metadata } }) => keysBy(by.namespace, metadata?.name ?? ""),
          }),
        ]
      : []),
  ];
}
