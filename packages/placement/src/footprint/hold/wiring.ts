/** Wires the hold code: Berth keeps owners until their pods are gone. */
import { type Component, type Controller, createController, keyOf, WRITES } from "@berth/runtime";
import type { NodeHost } from "../../node/wired.ts";
import { type FootprintProgress } from "../conditions.ts";
import { type Footprint, type Footprints } from "../footprint.ts";
import { followLostNodes, lossOf } from "../lost-nodes.ts";
import { type FootprintWatches } from "../observations.ts";
import { HeldOwners } from "./held-owners.ts";
import { resourceName } from "./held-resource.ts";
import { createHoldReconciler } from "./reconciler.ts";
import { HoldWatches, type OwnerKey, toOwnerText } from "./watches.ts";

type Parts = "client" | "informers" | "cluster" | "nodes" | "events" | "metrics" | "log" | "clock";

export interface HoldDeps extends Pick<NodeHost, Parts> {
  readonly watches: Pick<FootprintWatches, "observations" | "podsOf">;
  /** The status of this footprint may have changed; without a rule, of any that holds owners. Must not throw. */
  readonly onChange: (rule?: string) => void;
}

export interface WiredHolds {
  /** Call its methods when pods change, or data that decides about pods. */
  readonly watches: HoldWatches;
  /**
   * Sets the footprints in force. Returns all footprints that hold owners. Some of these stay in force only because
   * their document has a fault, and Berth must watch their pods as well.
   */
  want(footprints: Footprints): readonly Footprint[];
  /** Why Berth cannot keep the hold. */
  problem(footprint: Footprint): string | undefined;
  progress(footprint: Footprint): Pick<FootprintProgress, "held" | "owners" | "holdProblem">;
  readonly components: readonly Component[];
}

/** Delay that collects changes of one owner, ms: its pods come and go together, and each check reads all of them. */
const OWNER_COALESCE_MS = 1000;

export function wireHolds(options: HoldDeps): WiredHolds {
  const { client, cluster, nodes, events, onChange, watches: seen, ...common } = options;
  const { observations } = seen;
  const held = new HeldOwners({ onChange });
  const watches = new HoldWatches({
    ...common,
    client,
    cluster,
    observations,
    onOwner: (key) => controller.enqueue(key),
    onRead: () => onChange(),
  });
  const gone = new Set<string>();
  const controller: Controller<OwnerKey> = createController<OwnerKey>({
    ...common,
    name: "footprint-finalizers",
    reconcile: createHoldReconciler({
      client,
      watches,
      observations: { ...observations, podsOf: (footprint, among) => seen.podsOf(footprint, among) },
      held,
      lossOf: (name) => {
        if (gone.has(name)) return "gone";
        return nodes.synced ? lossOf(nodes.get(keyOf(cluster, { metadata: { name } }))) : undefined;
      },
      events,
      clock: common.clock,
    }),
    queue: { coalesceMs: OWNER_COALESCE_MS },
    toText: toOwnerText,
  });
  const lostNodes = followLostNodes(nodes, () => watches.lookAgain(), gone);
  const problem = ({ hold }: Footprint): string | undefined => {
    if (hold === undefined) return undefined;
    const resources = [hold.resource, ...hold.ownedResources].map(resourceName);
    return watches.whyUnread(hold) ?? client.whyRefused(resources, WRITES)?.message;
  };
  return {
    watches,
    want(footprints) {
      watches.want(footprints);
      return watches.footprints;
    },
    problem,
    progress: (footprint) => ({
      held: held.of(footprint.rule),
      ...(footprint.hold && { owners: watches.sightOf(footprint.hold.resource) }),
      holdProblem: problem(footprint),
    }),
    components: [lostNodes, watches, controller],
  };
}
