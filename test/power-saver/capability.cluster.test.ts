/** The capability in the list of a Berth, on a real API server: all that a user sees of it comes from its one file. */
import { crds, type RunningBerth } from "@berth/cli";
import { customResourceDefinitions, type KubeObject } from "@berth/kube";
import { systemClock } from "@berth/runtime";
import { aPod, eventually, sharedTestCluster } from "@berth/testcluster";
import { expect, it, vi } from "vitest";
import { runCommand } from "../command.ts";
import { createNamespace, Fixture, metric, taintsOf } from "../fixture.ts";
import { kind } from "./capability.ts";

vi.mock("../../packages/cli/src/capabilities.ts", async (load) => {
  const real = await load<typeof import("../../packages/cli/src/capabilities.ts")>();
  const { powerSaver } = await import("./capability.ts");
  return {
    ...real,
    nodeCapabilities: [...real.nodeCapabilities, powerSaver],
    capabilities: [...real.capabilities, powerSaver],
  };
});

const NAME = "saver";
const NOTE = "quiet.saver.test/night";
const TAINT = "saver.test/night=:NoSchedule";

it("taints a quiet node, counts it, takes the taint back, and is cleaned", async () => {
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  await using fixture = new Fixture(cluster, NAME);
  for (const crd of crds()) await client.apply(customResourceDefinitions, crd);
  await eventually(() => client.list(kind.resource));
  await createNamespace(cluster, NAME);
  const tier = { tier: "batch" };
  const pod = (name: string, node: string, labels = tier) =>
    fixture.create(aPod(name).in(NAME).on(fixture.nodeName(node)).labelled(labels));
  for (const node of ["quiet", "empty", "busy"]) await fixture.add(node);
  for (const node of ["quiet", "busy"]) await pod(`batch-${node}`, node);
  await pod("web", "busy", { tier: "web" });
  const document = { metadata: { name: "night" }, spec: { podLabel: { key: "tier", value: "batch" } } };
  await client.create(kind.resource, document);
  const { path: kubeconfig } = await fixture.file("kubeconfig", cluster.kubeconfig());
  const berth = (...args: readonly string[]) => runCommand(...args, "--kubeconfig", kubeconfig);
  const becomes = (expected: object): Promise<void> =>
    eventually(async () => {
      const { status } = await client.get<KubeObject & { status?: object }>(kind.resource, { name: "night" });
      expect(status).toMatchObject(expected);
    });
  const start = (aheadMs: number): Promise<RunningBerth> =>
    fixture.run({}, { clock: { ...systemClock, now: () => systemClock.now() + aheadMs } });
  const seen = async (node: string): Promise<readonly [boolean, readonly string[]]> => {
    const found = await fixture.readNode(node);
    const taints = taintsOf(found).filter((taint) => taint.startsWith("saver.test/"));
    return [found.metadata?.annotations?.[NOTE] !== undefined, taints];
  };

  const plan = await berth("plan");
  expect(plan).toContain(`annotation/${NOTE}`);
  expect(plan).toContain(fixture.nodeName("empty"));
  expect(plan).not.toContain(fixture.nodeName("busy"));
  {
    await using _first = await start(0);
    await becomes({ quiet: 2, saving: 0, conditions: [{ type: "Ready", reason: "PowerSaverInForce" }] });
  }
  const explained = await berth("explain", "node", fixture.nodeName("quiet"));
  expect(explained).toContain(`pod ${NAME}/batch-quiet`);
  expect(explained).toMatch(/gets the taint in \d+ s/);

  // Ten minutes later, as the record on the node tells the next process.
  await using second = await start(600_000);
  await becomes({ quiet: 0, saving: 2 });
  expect(await metric(second, "berth_power_saver_nodes", { phase: "saving" })).toBe(2);
  expect(await seen("quiet")).toEqual([true, [TAINT]]);
  expect(await seen("busy")).toEqual([false, []]);
  await pod("late", "quiet", { tier: "web" });
  await eventually(async () => expect(await seen("quiet")).toEqual([false, []]));
  await becomes({ quiet: 0, saving: 1 });
  await second[Symbol.asyncDispose]();

  expect(await seen("empty")).toEqual([true, [TAINT]]);
  await berth("clean", "--capability", "power-saver", "--yes");
  expect(await seen("empty")).toEqual([false, []]);
});
