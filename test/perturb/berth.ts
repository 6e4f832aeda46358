/** The product as stories start it: in this process, in a hurry, and ended at any moment; and the cluster it needs. */
import { type BerthOptions, crds, foreignKinds, servedKinds, startBerth } from "@berth/cli";
import { customResourceDefinitions, namespaces } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { type Connection, eventually, type Stage, type TestCluster } from "@berth/testcluster";
import { HOME } from "../../packages/fleet/src/testing/cell-actor.ts";
import { installCrds, quotaCrds } from "../../packages/fleet/src/testing/fixture-crds.ts";
import { hurriedClock } from "../../packages/runtime/src/testing/hurried-clock.ts";
import { noteWrites } from "./deschedule-writes.ts";

/**
 * How many times faster than real time its clock runs, so that what it puts off (coalescing, debouncing, reconnecting)
 * does not make up most of a replay. Its deadlines shrink as well: the shortest, for a patch, is real time.
 */
export const PACE = 50;

/** A hurried clock with a wall time that a story can put forward. */
export interface StoryClock extends Clock {
  /** What waits for a time of day looks at it again when its hurried timer ends. */
  leap(ms: number): void;
}

export function createStoryClock(): StoryClock {
  let aheadMs = 0;
  const clock = hurriedClock(PACE);
  return {
    ...clock,
    now: () => clock.now() + aheadMs,
    leap(ms) {
      aheadMs += ms;
    },
  };
}

/** Adds the CRDs of Berth; without them it would ask for them again and again. */
export async function prepareStories(cluster: TestCluster): Promise<TestCluster> {
  for (const crd of crds(foreignKinds())) await cluster.client.apply(customResourceDefinitions, crd);
  await installCrds(cluster.client, quotaCrds);
  await cluster.client.apply(namespaces, { metadata: { name: HOME } });
  await eventually(() => Promise.all(servedKinds.map(({ resource }) => cluster.client.list(resource))));
  return cluster;
}

export interface BerthInStory extends Partial<BerthOptions> {
  /** How many times faster than real time its clock runs. Default `PACE`. */
  readonly pace?: number;
  /** Is called with each write that Berth asks for. */
  readonly note?: Parameters<typeof noteWrites>[1];
}

/** Starts Berth behind the proxy of a telling. */
export async function startBerthInStory(
  { cluster }: Pick<Stage, "cluster">,
  { server }: Pick<Connection, "server">,
  { pace = PACE, note, ...options }: BerthInStory = {},
): Promise<AsyncDisposable> {
  await using owned = new AsyncDisposableStack();
  const direct = owned.use(cluster.connect({ server, userAgent: "berth/perturbed", fieldManager: "berth" }));
  const client = note === undefined ? direct : noteWrites(direct, note);
  // The CRDs are as old as the test run: they count as settled, so that what goes while nobody looks is gone.
  owned.use(await startBerth({ client, clock: hurriedClock(pace), crdGraceMs: 0, ...options }));
  return owned.move();
}

/** The same with a namespace of this telling alone: what it has declared outlives its processes. */
export async function startBerthWithState(
  stage: Stage,
  connection: Connection,
  options: BerthInStory = {},
): Promise<AsyncDisposable> {
  const namespace = stage.nameOf("state");
  await stage.cluster.client.apply(namespaces, { metadata: { name: namespace } });
  return startBerthInStory(stage, connection, { namespace, ...options });
}
