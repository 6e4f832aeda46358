import type { Resource } from "@berth/kube";
import { createVirtualClock, type VirtualClock } from "../clock.ts";
import type { ClusterControllerOptions } from "../clusters/cluster-controller.ts";
import { type ClusterSet, type ClusterSetOptions, createClusterSet } from "../clusters/cluster-set.ts";
import type { FleetView } from "../clusters/fleet-view.ts";
import type { Controller } from "../controller.ts";
import { createSilentLogger } from "../json-log.ts";
import { type ClusterName, clusterName, keyOf, type ObjectKey } from "../key.ts";
import type { MetricsRegistry } from "../metrics.ts";
import { createMetricsRegistry } from "../prometheus.ts";
import { ClusterWorld } from "./cluster-world.ts";
import { type Thing, things } from "./things.ts";

export interface Fleet extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly metrics: MetricsRegistry;
  readonly set: ClusterSet;
  readonly view: FleetView<Thing>;
  readonly controller: Controller;
  /** The server of a cluster, made on first use. */
  readonly world: (name: string) => ClusterWorld;
  readonly join: (...names: readonly string[]) => void;
  readonly leave: (name: string) => Promise<void>;
  /** The names of the things that the view shows of a cluster. */
  readonly shown: (name: string) => readonly string[];
  /** Ends all. Nothing may be left on the clock then. */
  stop(): Promise<void>;
}

/** A key of a thing. */
export const keyIn = (cluster: string, name: string): ObjectKey =>
  keyOf(clusterName(cluster), { metadata: { name } });

/** Clusters with things, a view of them, and a controller that runs from the beginning. */
export async function startFleet({
  random = () => 0,
  refusesStreams = false,
  limit,
  ...controlling
}: Partial<ClusterControllerOptions> &
  Pick<ClusterSetOptions, "limit"> & {
    readonly random?: () => number;
    readonly refusesStreams?: boolean;
  } = {}): Promise<Fleet> {
  const clock = createVirtualClock();
  const metrics = createMetricsRegistry({ processMetrics: false });
  const common = { clock, random, log: createSilentLogger(), metrics };
  const set = createClusterSet({
    ...common,
    name: "cells",
    ...(limit && { limit }),
    reportingController: "c",
    reportingInstance: "i",
  });
  const resource: Resource<Thing> = things;
  const view = set.view({
    resource,
    project: (thing) => thing,
    indexes: { all: () => ["all"] },
  });
  const controller = set.controller({
    name: "touch",
    reconcile: async ({ cluster, name }, { signal }) => {
      await set.get(cluster)?.client.get(things, { name }, { signal });
      return undefined;
    },
    ...controlling,
  });
  const worlds = new Map<string, ClusterWorld>();
  const world = (name: string): ClusterWorld => {
    const known = worlds.get(name) ?? new ClusterWorld(clock, `uid-${name}`, refusesStreams);
    worlds.set(name, known);
    return known;
  };
  const stopping = new AbortController();
  const runs = [await set.start(stopping.signal), await controller.start(stopping.signal)];
  const stop = async (): Promise<void> => {
    stopping.abort();
    for (const cluster of worlds.values()) cluster.become("up");
    const ended = Promise.all(runs.map((running) => running.ended));
    await clock.advance(60_000);
    await ended;
  };
  return {
    clock,
    metrics,
    set,
    view,
    controller,
    world,
    join: (...names) => {
      for (const name of names)
        set.join(clusterName(name), { to: world(name).connect(), identity: `uid-${name}` });
    },
    leave: async (name) => {
      const left = set.leave(clusterName(name));
      await clock.advance(1_000);
      await left;
    },
    shown: (name) => namesOf(view, clusterName(name)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function namesOf(view: FleetView<Thing>, of: ClusterName): readonly string[] {
  return [...view.list(of)].map(({ metadata }) => metadata?.name ?? "").sort();
}
