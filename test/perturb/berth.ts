/** The product as stories start it: in this process, in a hurry, and ended at any moment; and the cluster it needs. */
import { crds, foreignKinds, servedKinds, startBerth } from "@berth/cli";
import { customResourceDefinitions, namespaces } from "@berth/kube";
import { type Clock, systemClock } from "@berth/runtime";
import { type Connection, eventually, type Stage, type TestCluster } from "@berth/testcluster";
import { installCrds, quotaCrds } from "../../packages/fleet/src/testing/fixture-crds.ts";

export interface BerthInStory {
  readonly labelFolder?: string;
}

/**
 * How many times faster than real time its clock runs, so that what it puts off (coalescing, debouncing, reconnecting)
 * does not make up most of a replay. Its deadlines shrink as well: the shortest, for a patch, is real time.
 */
export const PACE = 50;

const hurriedClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * PACE,
  schedule: (delayMs, callback) => systemClock.schedule(delayMs / PACE, callback),
};

/** Adds the CRDs of Berth; without them it would ask for them again and again. */
export async function prepareStories(cluster: TestCluster): Promise<TestCluster> {
  for (const crd of crds(foreignKinds())) await cluster.client.apply(customResourceDefinitions, crd);
  await installCrds(cluster.client, quotaCrds);
  await eventually(() => Promise.all(servedKinds.map(({ resource }) => cluster.client.list(resource))));
  return cluster;
}

/** Starts Berth behind the proxy of a telling. */
export async function startBerthInStory(
  stage: Stage,
  { server }: Connection,
  { labelFolder }: BerthInStory = {},
): Promise<AsyncDisposable> {
  const { cluster } = stage;
  await using owned = new AsyncDisposableStack();
  // Of this telling alone: what it has declared outlives its processes, and no other telling has declared it.
  const namespace = stage.nameOf("state");
  await cluster.client.apply(namespaces, { metadata: { name: namespace } });
  const client = owned.use(cluster.connect({ server, userAgent: "berth/perturbed", fieldManager: "berth" }));
  const folder = labelFolder && { path: labelFolder, shown: labelFolder, options: { allowReserved: [] } };
  // The CRD is as old as the test run: it counts as settled, so that a rule that goes while nobody looks is gone.
  const settled = { crdGraceMs: 0 };
  const options = { ...settled, ...(folder && { labelFolder: folder }), namespace };
  owned.use(await startBerth({ client, clock: hurriedClock, ...options }));
  return owned.move();
}
