/** Replicas of Berth that come, go and take over under architecture policies. Nothing schedules pods here. */
import { daemonSets } from "@berth/kube";
import { architecturePolicies, BOOTSTRAP_ANNOTATION } from "@berth/placement";
import { anImage, eventually, startRegistry, type TestCluster, type TestRegistry } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { aDaemonSet } from "../packages/cli/src/testing/cluster.ts";
import {
  createArchitectureFixture,
  isHeld,
  type StartedBerth,
  sharedArchitectureCluster,
  tolerationsFor,
  tolerationsOf,
} from "./architecture-fixture.ts";
import { NAMESPACE } from "./fixture.ts";

let cluster: TestCluster;
let registry: TestRegistry;
const images = { both: "", amd: "" };
beforeAll(async () => {
  [cluster, registry] = await Promise.all([sharedArchitectureCluster(), startRegistry()]);
  const both = anImage("replicas/both:1").platforms("linux/amd64", "linux/arm64");
  images.both = (await registry.push(both)).reference;
  images.amd = (await registry.push(anImage("replicas/amd:1").platforms("linux/amd64"))).reference;
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
});

const replica = (identity: string) => ({ identity, lease: { namespace: NAMESPACE, name: "berth" } });

/** Objects that an informer of it holds. */
async function known(
  { berth }: StartedBerth,
  informer: "unscheduled-pods" | "daemonsets-of-architecture",
): Promise<number> {
  const line = new RegExp(`^berth_informer_objects\\{.*informer="${informer}".*\\} (\\d+)$`, "m");
  return Number(line.exec((await berth.metrics.expose()).body)?.[1]);
}

it("A-B7 pods and DaemonSets tolerate the taint before a node gets it, once confirmed, and it goes with the policy", async () => {
  await using fixture = await createArchitectureFixture(cluster, "confirmed", [registry]);
  const { client } = cluster;
  const { name: namespace } = fixture;
  await fixture.add("n", (it) => it.arm64());
  await client.create(daemonSets, aDaemonSet("agent", { image: images.both }), { namespace });
  await fixture.create(fixture.pod("waits").image(images.amd));
  await fixture.policy("all", { mode: "Taint", bootstrap: "Confirm" });
  await fixture.start();
  const conditions = expect.arrayContaining([expect.objectContaining({ reason: "ConfirmationRequired" })]);
  const waiting = { phase: "Bootstrapping", uncovered: 0, conditions };
  await eventually(async () => expect(await fixture.status("all")).toMatchObject(waiting));
  await fixture.tainted("n", []);
  expect(tolerationsOf(await fixture.readPod("waits"))).toEqual(tolerationsFor(["amd64"]));
  const { spec } = await client.get(daemonSets, { namespace, name: "agent" });
  expect(tolerationsOf(spec?.template ?? {})).toEqual(tolerationsFor(["amd64", "arm64"]));
  const body = { metadata: { annotations: { [BOOTSTRAP_ANNOTATION]: "true" } } };
  await client.patch(architecturePolicies, { name: "all" }, { type: "merge", body });
  await fixture.tainted("n", ["arm64"]);
  await eventually(async () =>
    expect(await fixture.status("all")).toMatchObject({ phase: "Tainting", taintedNodes: 1, uncovered: 0 }),
  );
  await client.delete(architecturePolicies, { name: "all" });
  await fixture.tainted("n", []);
});

it("a bootstrap is brought to its end by a replica that takes over, whatever was gone before it did", async () => {
  await using fixture = await createArchitectureFixture(cluster, "taken-over", [registry]);
  const { name: namespace } = fixture;
  await fixture.add("n");
  const unread = aDaemonSet("agent", { image: "127.0.0.1:1/team/none:1" });
  await cluster.client.create(daemonSets, unread, { namespace });
  await fixture.create(fixture.pod("gone-before").image(images.amd));
  const first = await fixture.start(replica("first"));
  await fixture.policy("all", { mode: "Taint" });
  await eventually(async () => expect(await fixture.status("all")).toMatchObject({ uncovered: 1 }));
  const second = await fixture.start(replica("second"));
  await eventually(async () => {
    expect([
      await known(second, "unscheduled-pods"),
      await known(second, "daemonsets-of-architecture"),
    ]).toEqual([1, 1]);
  });
  await fixture.deletePod("gone-before");
  await eventually(async () => expect(await known(second, "unscheduled-pods")).toBe(0));
  await first.berth[Symbol.asyncDispose]();
  await cluster.client.delete(daemonSets, { namespace, name: "agent" });
  await fixture.tainted("n", ["amd64"]);
});

it("S-1 each replica has the images of stored pods looked up, for each answers reviews", async () => {
  await using fixture = await createArchitectureFixture(cluster, "each", [registry]);
  await fixture.policy("all", { mode: "Taint" });
  for (const name of ["first", "second"]) {
    const started = await fixture.start(replica(name));
    await eventually(async () => expect(await known(started, "unscheduled-pods")).toBe(0));
  }
  const { reference, repository } = await registry.push(anImage("replicas/each:1").platforms("linux/amd64"));
  const mark = registry.requests.mark();
  await fixture.create(fixture.pod("each").image(reference));
  await eventually(() =>
    expect(registry.requests.countSince(mark, { repository, kind: "manifest" })).toBe(2),
  );
});

it("pods that a policy held are let go when it is deleted, also when that was while no Berth ran", async () => {
  await using fixture = await createArchitectureFixture(cluster, "let-go");
  await fixture.policy("all", { mode: "Affinity", maxHold: "1h" });
  const { berth } = await fixture.start({ asked: "Ignore" });
  await fixture.asking();
  for (const name of ["held-1", "held-2"])
    expect(isHeld(await fixture.create(fixture.pod(name).image(`127.0.0.1:1/${name}`)))).toBe(true);
  await berth[Symbol.asyncDispose]();
  await cluster.client.delete(architecturePolicies, { name: "all" });
  // The CRDs are as young as the test: without it a policy that is gone is not taken for deleted yet.
  await fixture.start({ crdGraceMs: 0 });
  for (const name of ["held-1", "held-2"]) await fixture.letGo(name);
});
