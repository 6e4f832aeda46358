/** The data that footprints decide from: what they read, and the owners of pods. */
import { createViews, labelsIn, type ReadAt } from "@berth/host";
import type { KubeClient, Pod } from "@berth/kube";
import type { Component, ObjectKey, Random } from "@berth/runtime";
import { daemonSetsIn } from "../node/daemonsets.ts";
import type { Footprint, PodGrouping } from "./footprint.ts";
import type { FootprintObservations, OwnerIdentity } from "./footprint-observations.ts";
import type { PodsAmong } from "./hold/held-pods.ts";
import type { HoldWatches } from "./hold/watches.ts";
import { OwnerResolver } from "./owners.ts";
import {
  driverIn,
  type FootprintViews,
  footprintConcerns,
  footprintReads,
  needsNamespaces,
  needsVolumes,
  podsIn,
} from "./reads.ts";

export interface FootprintWatches {
  readonly observations: FootprintObservations;
  /** Pods of a footprint, each once. `undefined`: not known yet. Without a node only when the footprint holds owners. */
  podsOf(footprint: Footprint, among?: PodsAmong): readonly Pod[] | undefined;
  /** Why Berth cannot read the pods of this footprint or related data: in most cases a missing permission. */
  whyUnread(footprint: Footprint): string | undefined;
  /**
   * Sets all footprints in force; Berth does not watch data that none of them needs. `observations` knows only the pods
   * of these. Call it at any time, also before the start.
   */
  want(footprints: readonly Footprint[]): void;
}

/** Must not throw. */
export interface FootprintListener {
  /** Data about this node has changed. */
  onNode(node: string): void;
  /** Data that may affect any node has become known. */
  onEverything(): void;
  /** Where agents run may have changed. */
  onAgents?(): void;
  /** For each version of a DaemonSet. */
  onDaemonSet?(key: ObjectKey): void;
  /** Holds follow each pod, also one without a node. */
  holds?(): Pick<HoldWatches, "lookAgain" | "podChanged" | "ownersKnown">;
}

/** As in a running Berth. */
export function watchFootprints(
  options: ReadAt & { readonly client: Pick<KubeClient, "get" | "read">; readonly random?: Random },
  listener: FootprintListener,
): FootprintWatches & { readonly views: FootprintViews; readonly components: readonly Component[] } {
  const onEverything = (): void => {
    listener.onEverything();
    listener.holds?.().lookAgain();
  };
  const views: FootprintViews = createViews(footprintReads, {
    ...options,
    concerns: footprintConcerns,
    versions: {
      daemonSets({ object }) {
        listener.onDaemonSet?.(views.daemonSets.keyOf(object));
        return [];
      },
    },
    onChange: { pods: (change) => listener.holds?.().podChanged(change) },
    onKeys(nodes, of) {
      for (const node of nodes) listener.onNode(node);
      if (of !== "pods" && of !== "daemonSets") listener.holds?.().lookAgain();
    },
    onAll: (of) => (of === "daemonSets" ? listener.onAgents?.() : onEverything()),
  });
  const owners = new OwnerResolver({
    ...options,
    onChange(node, pod) {
      if (node !== "") listener.onNode(node);
      listener.holds?.().ownersKnown(pod);
    },
    // The owner of a pod decides for which group the pod needs an agent, not whether.
    onMoved: onEverything,
  });
  return { ...observeFootprints(views, owners), views, components: [...views.components, owners] };
}

export function observeFootprints(
  views: FootprintViews,
  owners: Pick<OwnerResolver, "owners" | "want" | "whyUnread">,
): FootprintWatches {
  const wantOwners = (footprints: readonly Footprint[]): void =>
    owners.want(
      footprints.flatMap(({ grouping }) => ownerKinds(grouping)),
      // A hold needs the owners of pods also when the grouping names no kind of them.
      footprints.some(({ hold, grouping }) => hold && ownerKinds(grouping).length === 0),
    );
  // Of another footprint the views may lack fields.
  let wanted: ReadonlySet<Footprint> = new Set();
  const podsOf = (footprint: Footprint, among?: Parameters<typeof podsIn>[2]): readonly Pod[] | undefined =>
    wanted.has(footprint) ? podsIn(views.pods, footprint, among) : undefined;
  return {
    observations: {
      pods: (footprint, node) => podsOf(footprint, { node }),
      namespaceLabels: labelsIn(views.namespaces),
      owners: (pod) => owners.owners(pod),
      driverOfClaim: (namespace, claim) => driverIn(views, namespace, claim),
      ...daemonSetsIn(views.daemonSets),
    },
    podsOf,
    whyUnread({ workloads, grouping, hold }) {
      const kinds = ownerKinds(grouping);
      const parts = [
        views.pods,
        ...(workloads.some(needsNamespaces) ? [views.namespaces] : []),
        ...(workloads.some(needsVolumes) ? [views.claims, views.volumes] : []),
      ];
      const problem = parts.map((part) => part.problem()).find((it) => it !== undefined);
      return problem ?? (kinds.length > 0 || hold !== undefined ? owners.whyUnread(kinds) : undefined);
    },
    want(footprints) {
      wanted = new Set(footprints);
      wantOwners(footprints);
      views.want(footprints);
    },
  };
}

function ownerKinds(grouping: PodGrouping): readonly Pick<OwnerIdentity, "group" | "kind">[] {
  if (grouping.by === "OwnerUID") return [grouping.owner];
  return grouping.by === "PodLabel" && grouping.verify ? [grouping.verify] : [];
}
