/** What `berth plan` says of objects beside nodes, and of footprints that are tried, on a real API server. */

import { daemonSets, nodes, pods } from "@berth/kube";
import { nodeFootprints } from "@berth/placement";
import { aNode, aPod, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { agentOf, aPool, footprintCluster, writeFootprint } from "../footprint/testing/footprint-cluster.ts";
import { type CliResult, cli, testFolder } from "../testing/harness.ts";

const namespace = "default";
const LABEL = "example.com/web";
const FINALIZER = "example.com/hold";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await footprintCluster();
  const { client } = cluster;
  for (const name of ["n1", "n2"]) await client.create(nodes, aNode(name).build());
});
afterEach(() => cluster.client.deleteCollection(nodeFootprints, {}));

const WORKLOADS = `workloads: [{podSelector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ${namespace}}}}]`;
const documentOf = (more: string, name = "web"): string =>
  `{apiVersion: berth.dev/v1alpha1, kind: NodeFootprint, metadata: {name: ${name}}, spec: {${WORKLOADS}, node: {label: {key: ${LABEL}}}${more}}}\n`;

async function plan(text: string, line: readonly string[] = ["--config", "f.yaml"]): Promise<CliResult> {
  const kubeconfig = cluster.kubeconfig();
  await using folder = await testFolder({ "f.yaml": text, kubeconfig });
  const given = ["plan", "--exit-code", "--kubeconfig", "kubeconfig", ...line];
  return await cli(given, { folder: folder.path });
}

describe("a hold", () => {
  const HOLD =
    ", group: {by: OwnerUID, owner: {group: ate.dev, kind: WorkerPool}}" +
    `, hold: {resource: {group: ate.dev, version: v1alpha1, resource: workerpools}, finalizer: ${FINALIZER}, onDelete: Wait}`;

  it("is shown with the owners that would get the finalizer, and not those that have it", async () => {
    await aPool(cluster, "new");
    await aPool(cluster, "held", [FINALIZER]);
    const { code, stdout } = await plan(documentOf(HOLD));
    expect(stdout).toContain(
      `workerpools.ate.dev ${namespace}/new: the finalizer ${FINALIZER} would be put on\n`,
    );
    expect(stdout).not.toContain(`${namespace}/held`);
    expect(code).toBe(exitCodes.changes);
  });

  it("is of nobody where the cluster does not have the kind", async () => {
    const { code, stderr } = await plan(documentOf(HOLD.replace("workerpools", "navies")));
    expect([code, stderr]).toEqual([exitCodes.done, ""]);
  });
});

describe("Manage", () => {
  it("is shown with the nodes on which pods of the DaemonSet would end", async () => {
    await cluster.client.create(daemonSets, agentOf());
    const more = (mode: string): string =>
      documentOf(`, agent: {daemonSet: {namespace: ${namespace}, name: agent}, nodeSelector: ${mode}}`);
    const { code, stdout } = await plan(more("Manage"));
    expect(stdout).toContain(
      `DaemonSet ${namespace}/agent would be made to ask for ${LABEL}=true: its pods on 2 nodes (n1, n2) would end at once\n`,
    );
    expect(code).toBe(exitCodes.changes);
    const one = await plan(more("Manage"), ["n1", "--config", "f.yaml"]);
    expect([one.code, one.stdout]).toEqual([
      exitCodes.done,
      expect.not.stringContaining("would be made to ask"),
    ]);
    const verified = await plan(more("Verify"));
    expect([verified.code, verified.stdout]).toEqual([
      exitCodes.done,
      expect.not.stringContaining("would be made to ask"),
    ]);
  });
});

describe("an agent", () => {
  it("that cannot run where pods need it is warned about, unless that is silenced", async () => {
    const { client } = cluster;
    const taint = { key: "example.com/gpu", effect: "NoSchedule" } as const;
    await client.create(nodes, aNode("n3").tainted(taint).build());
    await client.create(daemonSets, { ...agentOf(), metadata: { name: "away", namespace } });
    await client.create(pods, aPod("web").labelled({ app: "web" }).on("n3").build(), { namespace });
    const text = documentOf(`, agent: {daemonSet: {namespace: ${namespace}, name: away}}`);
    const warning =
      `the agent of config/web cannot run on 1 of 1 node with pods that need it: the DaemonSet ${namespace}/away ` +
      "cannot run on the node n3: it does not tolerate the taint example.com/gpu:NoSchedule (AgentUnschedulable).\n";
    expect((await plan(text)).stdout).toContain(warning);
    const silent = await plan(text, ["--config", "f.yaml", "--silence", "AgentUnschedulable"]);
    expect(silent.stdout).not.toContain(warning);
    await client.delete(nodes, { name: "n3" });
  });
});

describe("plan --try", () => {
  it("ends as with files that cannot be used where what is tried has a fault, and what runs goes on", async () => {
    const workloads = [{ podSelector: { matchLabels: { app: "web" } } }];
    await writeFootprint(cluster, "running", { workloads, node: { label: { key: LABEL } } });
    const line = ["--try", "f.yaml"];
    const { code, stdout, stderr } = await plan(documentOf("", "tried"), line);
    expect(stderr).toContain("nodefootprint/tried: error: ");
    expect(stdout).toContain("cluster/running: 0 of 2 nodes need its agent.\n");
    expect(stdout).not.toContain("cluster/tried");
    expect(code).toBe(exitCodes.faults);
    const sound = await plan(documentOf("", "running"), line);
    expect([sound.code, sound.stderr]).toEqual([exitCodes.done, ""]);
  });

  it("counts what would cease to be in force, and with --exit-code ends as with changes", async () => {
    const workloads = [{ podSelector: { matchLabels: { app: "web" } } }];
    await writeFootprint(cluster, "running", { workloads, node: { label: { key: `${LABEL}-old` } } });
    await writeFootprint(cluster, "second", { workloads, node: { label: { key: LABEL } } });
    const { code, stdout } = await plan(documentOf("", "running"), ["--try", "f.yaml"]);
    expect(stdout).toMatch(/\n1 document would cease to be in force: nodefootprint\/second\n$/);
    expect(code).toBe(exitCodes.changes);
  });

  it("ends so too with a file that `run` would be given", async () => {
    const { code } = await plan(`${documentOf("", "a")}---\n${documentOf("", "b")}`);
    expect(code).toBe(exitCodes.faults);
  });
});
