/**
 * A deployment moves between two cells that are played, while one of them does not answer, has no room, or is drained too,
 * and while Berth starts again. What is ready never falls below what is wanted, and no Instance is ever in both cells.
 */
import { deepStrictEqual, ok } from "node:assert";
import { startBerth } from "@berth/cli";
import {
  cells,
  fleetKind,
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { type KubeClient, namespaces, secrets } from "@berth/kube";
import { startTcpProxy, startTestCluster, type TcpProxy } from "@berth/testcluster";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { aCondition } from "../packages/fleet/src/deployment/testing/fixtures.ts";
import { Actor } from "../packages/fleet/src/testing/actor.ts";
import { HOME, type PlayedCells, playCells, statusOf } from "../packages/fleet/src/testing/cell-actor.ts";
import { hurriedClock } from "../packages/runtime/src/testing/hurried-clock.ts";
import { changeWorkload, conditionOf, createWorkload, imageChange } from "./fleet-fixture.ts";
import { patiently } from "./patience.ts";
import { prepareStories } from "./perturb/berth.ts";

/** How many times faster than real time Berth's clock runs. */
const PACE = 5;
const RENEW_MS = 500;
const NAMES = ["dfw-01", "dfw-02"] as const;
type Name = (typeof NAMES)[number];
const WANTED = 2;
const OF = { namespace: "default", name: "web" };

interface Played {
  readonly client: KubeClient;
  readonly link: TcpProxy;
  readonly actor: PlayedCells;
  /** Instances that live there now. */
  readonly live: Set<string>;
}

const owned = new AsyncDisposableStack();
let hub: KubeClient;
let played: ReadonlyMap<Name, Played>;
let berth: AsyncDisposable;
/** What must never be seen. */
const violations: string[] = [];
let isSettled = false;

const at = (name: Name): Played => {
  const found = played.get(name);
  ok(found, `there is no cell ${name}`);
  return found;
};
const otherThan = (name: Name): Name => (name === "dfw-01" ? "dfw-02" : "dfw-01");

async function run(): Promise<void> {
  const client = owned.use(await hubClient());
  const fleet = {
    spec: fleetKind.spec.parse({ mode: "management", hub: "self", projects: "self", networking: "Off" }),
  };
  berth = await startBerth({ client, fleet, namespace: HOME, clock: hurriedClock(PACE), crdGraceMs: 0 });
}
let hubClient: () => Promise<KubeClient>;

async function playCell(name: Name): Promise<Played> {
  const cluster = owned.use(await startTestCluster({ small: true }));
  await prepareStories(cluster);
  const link = owned.use(await startTcpProxy({ target: new URL(cluster.url) }));
  const actor = owned.use(await playCells(cluster.client, [name], { renewMs: RENEW_MS }));
  const live = new Set<string>();
  await owned.use(new Actor(cluster.client)).follow<Instance>({
    resource: instances,
    act: () => Promise.resolve(),
    onChange({ type, object: { metadata } }) {
      const { name: instance = "" } = metadata ?? {};
      if (type === "deleted") live.delete(instance);
      else live.add(instance);
      if (played?.get(otherThan(name))?.live.has(instance)) violations.push(`${instance} lives twice`);
    },
  });
  const kubeconfig = cluster.kubeconfig({ server: link.url });
  const data = { kubeconfig: Buffer.from(kubeconfig).toString("base64") };
  await hub.create(secrets, { metadata: { namespace: HOME, name }, data });
  const { metadata } = await cluster.client.get(namespaces, { name: "kube-system" });
  const spec = { city: "DFW", secretRef: { name }, uid: metadata?.uid ?? "" };
  await hub.create(cells, { metadata: { name }, spec });
  return { client: cluster.client, link, actor, live };
}

beforeAll(async () => {
  const cluster = owned.use(await startTestCluster({ small: true }));
  await prepareStories(cluster);
  hub = cluster.client;
  hubClient = () => Promise.resolve(cluster.connect({ userAgent: "berth/moves", fieldManager: "berth" }));
  const all = await Promise.all(NAMES.map(async (name) => [name, await playCell(name)] as const));
  played = new Map(all);
  await run();
  owned.defer(() => berth[Symbol.asyncDispose]());
  await owned.use(new Actor(hub)).follow({
    resource: workloads,
    act: () => Promise.resolve(),
    onChange({ object: { status } }) {
      if (isSettled && (status?.readyReplicas ?? 0) < WANTED)
        violations.push(`the Workload says ${status?.readyReplicas}`);
    },
  });
  await createWorkload(hub, { ...OF, replicas: WANTED });
  await isIn(await patiently(current), "registry.test/web:1");
  isSettled = true;
});
afterAll(() => owned.disposeAsync());

async function onHub(): Promise<WorkloadDeployment> {
  const { items } = await hub.list(workloadDeployments);
  const found = items.find(({ metadata }) => metadata?.namespace?.startsWith("ns-"));
  ok(found, "the hub has no deployment");
  return found;
}

async function current(): Promise<Name> {
  return (await onHub()).metadata?.labels?.["berth.dev/cell"] as Name;
}

async function inCell(name: Name): Promise<WorkloadDeployment | undefined> {
  return (await at(name).client.list(workloadDeployments)).items[0];
}

const imageOf = (deployment: WorkloadDeployment | undefined) =>
  deployment?.spec?.template.spec.runtime.sandbox?.containers[0]?.image;

/** It is there, and nowhere else, and its numbers and Instances are shown. */
function isIn(name: Name, image?: string): Promise<void> {
  return patiently(async () => {
    const [here, there] = await Promise.all([inCell(name), inCell(otherThan(name))]);
    deepStrictEqual([here === undefined, there], [false, undefined]);
    if (image !== undefined) deepStrictEqual(imageOf(here), image);
    deepStrictEqual([at(name).live.size, at(otherThan(name)).live.size], [WANTED, 0]);
    const { status } = await hub.get(workloads, OF);
    deepStrictEqual([status?.readyReplicas, status?.updatedReplicas], [WANTED, WANTED]);
    const shown = await hub.list(instances, { namespace: OF.namespace });
    deepStrictEqual(shown.items.map((it) => it.metadata?.name ?? "").sort(), [...at(name).live].sort());
  });
}

const drain = (name: Name, wanted: boolean) =>
  hub.patch(cells, { name }, { type: "merge", body: { spec: { drain: wanted || null } } });

const waitsFor = (reason: string) =>
  patiently(async () => deepStrictEqual(conditionOf(await onHub(), "Moving")?.reason, reason));

/** Its next cell has the deployment, and no Instance of it. */
const isBegun = (to: Name) => patiently(async () => ok((await inCell(to)) !== undefined, "it does not move"));

// In the other order a move would begin between the two, and its end takes two minutes.
beforeEach(async () => {
  const from = await current();
  for (const name of [from, otherThan(from)]) await drain(name, false);
});

describe("a drain", () => {
  it("of the last cell of a city changes nothing, and says why", async () => {
    const from = await current();
    for (const name of [otherThan(from), from]) await drain(name, true);
    await waitsFor("NoOtherCell");
    await isIn(from);
    const { status } = await patiently(async () => {
      const cell = await hub.get(cells, { name: from });
      deepStrictEqual(conditionOf(cell, "Drained")?.reason, "Waiting");
      return cell;
    });
    expect(status?.conditions?.find(({ type }) => type === "Drained")?.message).toBe(
      "1 deployment left: 1 cannot leave (NoOtherCell)",
    );
  });

  it("waits for cells that do not answer", async () => {
    const from = await current();
    at(from).link.stall();
    await patiently(async () =>
      deepStrictEqual(conditionOf(await hub.get(cells, { name: from }), "Reachable")?.status, "False"),
    );
    await drain(from, true);
    await waitsFor("CellUnreachable");
    at(from).link.pass();
    at(otherThan(from)).link.refuse();
    at(otherThan(from)).link.resetAll();
    await waitsFor("CellsNotRead");
    deepStrictEqual(await inCell(otherThan(from)), undefined);
    await drain(from, false);
    at(otherThan(from)).link.pass();
    await patiently(async () => deepStrictEqual(conditionOf(await onHub(), "Moving"), undefined));
    await isIn(from);
    expect(await current()).toBe(from);
  });

  it("during a roll rolls nothing where it is left, and starts the new template elsewhere", async () => {
    const from = await current();
    at(otherThan(from)).actor.pause();
    await drain(from, true);
    await isBegun(otherThan(from));
    await changeWorkload(hub, OF.namespace, imageChange("registry.test/web:2"), OF.name);
    await patiently(async () =>
      deepStrictEqual(imageOf(await inCell(otherThan(from))), "registry.test/web:2"),
    );
    expect(imageOf(await inCell(from))).toBe("registry.test/web:1");
    at(otherThan(from)).link.stall();
    await waitsFor("CellUnreachable");
    at(otherThan(from)).link.pass();
    at(otherThan(from)).actor.resume();
    await isIn(otherThan(from), "registry.test/web:2");
  });

  it("goes on where it was when Berth starts again", async () => {
    const from = await patiently(async () => {
      const { metadata } = await onHub();
      ok(!metadata?.annotations?.["berth.dev/placement"]?.includes("leaving"), "it has not left yet");
      return current();
    });
    at(otherThan(from)).actor.pause();
    await drain(from, true);
    await isBegun(otherThan(from));
    await berth[Symbol.asyncDispose]();
    at(otherThan(from)).actor.resume();
    await run();
    await isIn(otherThan(from));
    const drained = async () => conditionOf(await hub.get(cells, { name: from }), "Drained")?.status;
    await patiently(async () => expect(await drained()).toBe("True"));
  });

  it("that waits for the quota service of the next cell, and is taken back, leaves all where it was", async () => {
    const from = await current();
    const to = otherThan(from);
    const before = await inCell(from);
    at(to).actor.pause();
    await drain(from, true);
    await isBegun(to);
    const there = await inCell(to);
    ok(there);
    const conditions = [aCondition("ReplicasReady", "False", "QuotaBackendUnavailable")];
    const body = { status: { ...statusOf(there, 0), conditions } };
    const { name = "", namespace = "" } = there.metadata ?? {};
    const { client, actor } = at(to);
    const of = { name, namespace };
    await client.patch(workloadDeployments, of, { type: "merge", body }, { subresource: "status" });
    await waitsFor("QuotaBackendUnavailable");
    await drain(from, false);
    await isIn(from);
    expect((await inCell(from))?.metadata?.uid).toBe(before?.metadata?.uid);
    actor.resume();
  });

  it("has shown no number below what is wanted, and no Instance twice", () => {
    expect(violations).toEqual([]);
  });
});
