/** Footprints in `plan`, `explain` and `clean`, on a real API server. */

import { daemonSets, nodes, pods } from "@berth/kube";
import { type WorkerPool, workerPools } from "@berth/placement";
import { aNode, aPod, eventually, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { agentOf, aPool, footprintCluster, podOf } from "../footprint/testing/footprint-cluster.ts";
import { type CliResult, cli, type TestFolder, testFolder } from "../testing/harness.ts";

const LABEL = "example.com/agent";
const FINALIZER = "example.com/hold";
const FILE = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: agent}
spec:
  workloads: [{podSelector: {matchLabels: {app: web}}}]
  group: {by: OwnerUID, owner: {group: ate.dev, kind: WorkerPool}}
  node:
    label: {key: ${LABEL}}
    claims: {annotationPrefix: example.com/claim.}
  hold:
    resource: {group: ate.dev, version: v1alpha1, resource: workerpools}
    finalizer: ${FINALIZER}
    onDelete: Wait
  agent: {daemonSet: {namespace: default, name: agent}}
`;

let cluster: TestCluster;
let folder: TestFolder;
let pool: WorkerPool;

beforeAll(async () => {
  cluster = await footprintCluster();
  folder = await testFolder({ "footprints.yaml": FILE, kubeconfig: cluster.kubeconfig() });
  const { client } = cluster;
  pool = await aPool(cluster, "pool");
  for (const name of ["n1", "n2", "n3"]) {
    const labels = name === "n2" ? { [LABEL]: "true" } : {};
    await client.create(nodes, aNode(name).labelled(labels).build());
  }
  for (const pod of [podOf(pool, "web", "n1"), aPod("stray").on("n3")])
    await client.create(pods, pod.labelled({ app: "web" }).build(), { namespace: "default" });
  const { spec, ...agent } = agentOf({ [LABEL]: "true" });
  const template = {
    ...spec?.template,
    spec: { containers: [], ...spec?.template.spec, priorityClassName: "" },
  };
  await client.create(daemonSets, { ...agent, spec: { selector: {}, ...spec, template } });
});
afterAll(async () => {
  await folder?.[Symbol.asyncDispose]();
});

const berth = (...line: readonly string[]): Promise<CliResult> =>
  cli([...line, "--kubeconfig", "kubeconfig", "--config", "footprints.yaml"], { folder: folder.path });

async function labelOf(name: string): Promise<string | undefined> {
  return (await cluster.client.get(nodes, { name })).metadata?.labels?.[LABEL];
}

describe("berth plan", () => {
  it("shows which nodes gain and lose the agent and what that saves, and writes nothing", async () => {
    const { code, stdout } = await berth("plan");
    expect(code).toBe(0);
    expect(stdout).toContain("config/agent: 1 of 3 nodes needs its agent");
    expect(stdout).toContain("the label would be set on 1 (n1) and would be removed from 1 (n2)");
    expect(stdout).toContain("default/agent saves its pod on 2 nodes (n2, n3)");
    expect(stdout).toContain("AgentPriority");
    expect([await labelOf("n1"), await labelOf("n2")]).toEqual([undefined, "true"]);
  });

  it("prints the same as data", async () => {
    const { stdout } = await berth("plan", "-o", "json");
    const { footprints } = JSON.parse(stdout) as { footprints: readonly object[] };
    expect(footprints).toEqual([
      expect.objectContaining({
        footprint: "config/agent",
        label: `${LABEL}=true`,
        nodes: 3,
        needed: 1,
        unknown: 0,
        gain: ["n1"],
        lose: ["n2"],
        agent: expect.objectContaining({
          follows: true,
          unserved: [],
          saved: ["n2", "n3"],
        }) as object,
      }),
    ]);
  });
});

describe("berth explain node", () => {
  it("names the pods that need the agent with their group and claim, and those that do not count with why", async () => {
    const { metadata: { uid = "" } = {} } = pool;
    const { code, stdout } = await berth("explain", "node", "n1");
    expect(code).toBe(0);
    expect(stdout).toContain("footprint config/agent");
    expect(stdout).toMatch(/phase +Pending/);
    expect(stdout).toMatch(new RegExp(`pod default/web +needs the agent, for ${uid}`));
    expect(stdout).toMatch(new RegExp(`claim example\\.com/claim\\.${uid} +by default/web, not written yet`));
    const stray = await berth("explain", "node", "n3");
    expect(stray.stdout).toMatch(/pod default\/stray +does not count: it has no /);
    expect(stray.stdout).toMatch(/phase +Idle/);
  });
});

describe("berth explain pod", () => {
  it("says for whom a pod needs the agent and where its node stands, or why it does not count", async () => {
    const { metadata: { uid = "" } = {} } = pool;
    const { code, stdout } = await berth("explain", "pod", "default/web");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(`config/agent +needs the agent, for ${uid}; on n1, ${LABEL}=true: not set \\(Pending\\)`),
    );
    const stray = await berth("explain", "pod", "default/stray");
    expect(stray.stdout).toMatch(/config\/agent +does not count: it has no /);
  });

  it("knows the owners of a pod without a node, too, and prints the same as data", async () => {
    const { metadata: { uid = "" } = {} } = pool;
    const unbound = podOf(pool, "unbound").labelled({ app: "web" });
    await cluster.client.create(pods, unbound.build(), { namespace: "default" });
    const { stdout } = await berth("explain", "pod", "default/unbound", "-o", "json");
    const { footprints } = JSON.parse(stdout) as { footprints: readonly object[] };
    expect(footprints).toEqual([{ footprint: "config/agent", is: "Counts", group: uid }]);
  });
});

describe("berth clean --capability footprint", () => {
  it("takes marks off nodes and finalizers off owners, once it is told to", async () => {
    const { client } = cluster;
    const of = { namespace: "default", name: "pool" };
    const finalizers = async (): Promise<readonly string[]> =>
      (await client.get(workerPools, of)).metadata?.finalizers ?? [];
    {
      await using own = cluster.connect();
      await using _running = await startBerth({
        client: own,
        config: [{ path: `${folder.path}/footprints.yaml`, shown: "footprints.yaml" }],
      });
      await eventually(async () => {
        expect([await labelOf("n1"), await labelOf("n2")]).toEqual(["true", undefined]);
        expect(await finalizers()).toEqual([FINALIZER]);
      });
    }
    const shown = await berth("clean", "--capability", "footprint");
    expect(shown.stdout).toContain(`label/${LABEL}`);
    expect(shown.stdout).toContain(
      `workerpools.ate.dev default/pool: finalizer ${FINALIZER}: would be removed`,
    );
    expect(await finalizers()).toEqual([FINALIZER]);
    const { code } = await berth("clean", "--capability", "footprint", "--yes");
    expect(code).toBe(0);
    expect([await labelOf("n1"), await finalizers()]).toEqual([undefined, []]);
    const { stdout } = await berth("clean", "--capability", "footprint");
    expect(stdout).toContain("There is nothing to clean.");
  });
});
