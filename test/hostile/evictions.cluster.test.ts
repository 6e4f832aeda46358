/** A tenant against the evictions of the others: its pods fill the breaker. */
import type { RunningBerth } from "@berth/cli";
import { namespaces, nodes, type Pod, podDisruptionBudgets, pods } from "@berth/kube";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { hurriedClock } from "../../packages/runtime/src/testing/hurried-clock.ts";
import { Fixture, metric } from "../fixture.ts";
import { PATIENT } from "../patience.ts";
import { documentsText, type FileDocument } from "../product.ts";

const DEVICE = "hostile.test/device";
/** Each has a node of its own, which loses the device. */
const TENANTS = ["evil", "worse", "good"] as const;
const SPARE = "spare";
const LABELS = { test: "breaker" };

let cluster: TestCluster;
let berth: RunningBerth;
const owned = new AsyncDisposableStack();

beforeAll(async () => {
  cluster = await sharedTestCluster();
  const room = { cpu: "99", memory: "99Gi", pods: "999" };
  for (const name of [...TENANTS, SPARE]) {
    const labels = { [DEVICE]: "yes", "kubernetes.io/hostname": name };
    await cluster.client.create(nodes, aNode(name).labelled(labels).capacity(room).build());
    // Admission has added the taint that new nodes are not ready.
    await cluster.client.patch(nodes, { name }, { type: "merge", body: { spec: { taints: null } } });
    if (name !== SPARE) await cluster.client.create(namespaces, { metadata: { name } });
  }
  const policy: FileDocument = {
    kind: "DeschedulePolicy",
    name: "breaker",
    spec: { for: "0s", keys: [DEVICE], podSelector: { matchLabels: LABELS }, requireFit: "False" },
  };
  const fixture = owned.use(new Fixture(cluster, "evictions"));
  const config = [await fixture.file("berth.yaml", documentsText([policy]))];
  // It evicts nothing in its first ten seconds: they pass faster.
  berth = await fixture.run({}, { config, clock: hurriedClock(5) });
});
afterAll(() => owned.disposeAsync());

interface Crowd {
  readonly namespace: string;
  readonly on: string;
  readonly count: number;
  /** The number of the first. Default 0. */
  readonly from?: number;
}

/** Running pods that ask for the device, each of an owner of its own. @returns their names. */
async function crowd({ namespace, on, count, from = 0 }: Crowd): Promise<readonly string[]> {
  const names = Array.from({ length: count }, (_, at) => `${on}-${from + at}`);
  await Promise.all(
    names.map(async (name) => {
      const pod = aPod(name)
        .in(namespace)
        .on(on)
        .labelled(LABELS)
        .selecting({ [DEVICE]: "yes" });
      const built = pod.ownedBy("ReplicaSet", name, name).ready().build();
      await cluster.client.create(pods, built, { namespace });
      const body = { status: built.status };
      await cluster.client.patch(
        pods,
        { namespace, name },
        { type: "merge", body },
        { subresource: "status" },
      );
    }),
  );
  return names;
}

async function lose(name: string, isLost = true): Promise<void> {
  const body = { metadata: { labels: { [DEVICE]: isLost ? null : "yes" } } };
  await cluster.client.patch(nodes, { name }, { type: "merge", body });
}

/** Evicted or gone. */
async function isGoing(namespace: string, name: string): Promise<boolean> {
  const { items } = await cluster.client.list(pods, { namespace });
  const pod = items.find((it: Pod) => it.metadata?.name === name);
  return pod?.metadata?.deletionTimestamp !== undefined || pod === undefined;
}

const evicted = (name: string): Promise<unknown> =>
  eventually(async () => expect(await isGoing("good", name)).toBe(true), PATIENT);

const refuseAll = (namespace: string): Promise<unknown> =>
  cluster.client.create(podDisruptionBudgets, {
    metadata: { name: "all", namespace },
    spec: { maxUnavailable: 0, selector: {} },
  });

it("S-16 eleven pods of a hundred that a tenant's budget holds stop no eviction in another namespace", async () => {
  for (const namespace of ["evil", "worse"]) await refuseAll(namespace);
  await crowd({ namespace: "good", on: SPARE, count: 82 });
  await crowd({ namespace: "worse", on: "worse", count: 6 });
  const [held = ""] = await crowd({ namespace: "evil", on: "evil", count: 11 });
  const [honest = ""] = await crowd({ namespace: "good", on: "good", count: 1 });
  await lose("evil");
  await lose("good");
  await evicted(honest);
  expect(await isGoing("evil", held)).toBe(false);
});

it("S-16 nor do eleven of one tenant and six of another, which its budget has refused", async () => {
  await lose("evil", false);
  await lose("worse");
  await eventually(async () => {
    const refused = await metric(berth, "berth_evictions_refused_total", { reason: "DisruptionBudget" });
    expect(refused).toBeGreaterThanOrEqual(6);
  }, PATIENT);
  await lose("evil");
  const [honest = ""] = await crowd({ namespace: "good", on: "good", count: 1, from: 1 });
  await evicted(honest);
});
