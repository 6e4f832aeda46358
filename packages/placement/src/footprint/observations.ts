/** Wires the data that footprints read: pods, their owners, namespaces and volumes, and the agents' DaemonSets. */

import { NamespaceWatch } from "@berth/host";
import type { KubeClient, Pod } from "@berth/kube";
import type { Change, Component, Random } from "@berth/runtime";
import type { DaemonSetWatch } from "../node/daemonset-watch.ts";
import { isEmptySelector } from "../node/selector.ts";
import { isAgentChecked } from "./agent/check.ts";
import { FOOTPRINT, type Footprint, type NeedingPods, type PodGrouping } from "./footprint.ts";
import type { FootprintObservations, OwnerIdentity, Watching } from "./footprint-observations.ts";
import type { PodsAmong } from "./hold/held-pods.ts";
import { OwnerResolver } from "./owners.ts";
import { FootprintPods } from "./pod-watches.ts";
import { VolumeDrivers } from "./volume-drivers.ts";

export interface FootprintSightOptions extends Watching {
  readonly client: Pick<KubeClient, "get" | "read">;
  readonly random?: Random;
  /** Shared with other capabilities. Its creator checks nodes again when it changes. */
  readonly daemonSets: Pick<DaemonSetWatch, "daemonSet" | "want">;
  /** Data about this node has changed. Must not throw. */
  readonly onNode: (node: string) => void;
  /** Data that may affect any node has become known. Must not throw. */
  readonly onEverything: () => void;
  /** A pod has changed, also one without a node: for holds. Must not throw. */
  readonly onPod?: (change: Change<Pod>) => void;
  /** Berth now knows the owners of this pod, and of others below the same owner: for holds. Must not throw. */
  readonly onOwners?: (pod: Pod) => void;
  /** Data that decides about the pods of a namespace has changed: for holds. Must not throw. */
  readonly onNamespace?: () => void;
}

export interface FootprintWatches {
  readonly observations: FootprintObservations;
  /**
   * Sets all footprints in force; Berth does not watch data that none of them needs. `observations` knows only the pods of
   * exactly these objects. Call it at any time, also before the start.
   */
  want(footprints: readonly Footprint[]): void;
  /** See `FootprintPods`. `undefined`: not known yet. */
  podsOf(footprint: Footprint, among?: PodsAmong): readonly Pod[] | undefined;
  /** Why Berth cannot read the pods of this footprint or related data: in most cases a missing permission. */
  whyUnread(footprint: Footprint): string | undefined;
  readonly components: readonly Component[];
}

export function createFootprintObservations(options: FootprintSightOptions): FootprintWatches {
  const { daemonSets, onNode, onEverything, onOwners, onNamespace } = options;
  const changed = (nodes: ReadonlySet<string>): void => {
    nodes.forEach(onNode);
    onNamespace?.();
  };
  const pods = new FootprintPods({ ...options, onChange: onNode, onSynced: onEverything });
  const namespaces = new NamespaceWatch({
    ...options,
    name: "footprint-namespaces",
    onChange: (namespace) => changed(pods.nodesOfNamespace(namespace)),
    onSynced: onEverything,
  });
  const volumes = new VolumeDrivers({
    ...options,
    onChange: (namespace, claim) => changed(pods.nodesOfClaim(namespace, claim)),
    onSynced: onEverything,
  });
  const owners = new OwnerResolver({
    ...options,
    onChange(node, pod) {
      if (node !== "") onNode(node);
      onOwners?.(pod);
    },
    // The owner of a pod decides for which group the pod needs an agent, not whether.
    onMoved: onEverything,
  });
  return {
    observations: {
      pods: (footprint, node) => pods.pods(footprint, node),
      namespaceLabels: (name) => namespaces.namespaceLabels(name),
      owners: (pod) => owners.owners(pod),
      driverOfClaim: (namespace, claim) => volumes.driverOfClaim(namespace, claim),
      daemonSet: (namespace, name) => daemonSets.daemonSet(namespace, name),
    },
    want(footprints) {
      const workloads = footprints.flatMap((footprint) => footprint.workloads);
      // Pods come last, so that Berth asks for all related data before it decides about them.
      owners.want(
        footprints.flatMap(({ grouping }) => ownerKinds(grouping)),
        // A hold needs the owners of pods also when the grouping names no kind of them.
        footprints.some(({ hold, grouping }) => hold && ownerKinds(grouping).length === 0),
      );
      volumes.want(workloads.some(needsVolumes));
      namespaces.want(workloads.some(needsNamespaces));
      daemonSets.want(FOOTPRINT, footprints.some(isAgentChecked));
      pods.want(footprints);
    },
    podsOf: (footprint, among) => pods.podsOf(footprint, among),
    whyUnread({ workloads, grouping, hold }) {
      const kinds = ownerKinds(grouping);
      const parts = [
        pods,
        ...(workloads.some(needsNamespaces) ? [namespaces] : []),
        ...(workloads.some(needsVolumes) ? volumes.components : []),
      ];
      const problem = parts.map((part) => part.problem?.()).find((it) => it !== undefined);
      return problem ?? (kinds.length > 0 || hold !== undefined ? owners.whyUnread(kinds) : undefined);
    },
    components: [pods, namespaces, owners, ...volumes.components],
  };
}

const needsVolumes = ({ csiDrivers }: NeedingPods): boolean => csiDrivers.length > 0;
const needsNamespaces = ({ namespaceSelector }: NeedingPods): boolean => !isEmptySelector(namespaceSelector);

function ownerKinds(grouping: PodGrouping): readonly Pick<OwnerIdentity, "group" | "kind">[] {
  if (grouping.by === "OwnerUID") return [grouping.owner];
  return grouping.by === "PodLabel" && grouping.verify ? [grouping.verify] : [];
}
