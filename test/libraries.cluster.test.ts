/** The programs in the READMEs of kube and runtime, run as they are printed. That of testcluster is a test itself. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { configMaps, type KubeClient, leases, nodes, pods } from "@berth/kube";
import {
  type AuditMark,
  aNode,
  aPod,
  eventually,
  restoreSharedTestClusters,
  sharedTestCluster,
  startTcpProxy,
} from "@berth/testcluster";
import { afterEach, describe, expect, it } from "vitest";
import { RECONNECTED } from "./patience.ts";
import { expectToStop, startProgram } from "./program.ts";

const packages = join(import.meta.dirname, "../packages");
/** What a reader takes in at one glance. */
const MOST_LINES = 45;

async function exampleOf(name: string): Promise<{ readonly text: string; readonly folder: string }> {
  const folder = join(packages, name);
  const [, text = ""] = /^```ts\n(.*?)^```$/ms.exec(await readFile(join(folder, "README.md"), "utf8")) ?? [];
  return { text, folder };
}

it.each(["kube", "runtime", "testcluster"])("the program in the README of %s is short", async (name) => {
  const lines = (await exampleOf(name)).text.trimEnd().split("\n");
  expect(lines.length).toBeGreaterThan(20);
  expect(lines.length).toBeLessThanOrEqual(MOST_LINES);
});

afterEach(() => restoreSharedTestClusters());

const namesWith = async (client: KubeClient, labelSelector: string): Promise<readonly string[]> =>
  (await client.list(nodes, { labelSelector })).items.map(({ metadata }) => `${metadata?.name}`).sort();

describe("the program in the README of kube", () => {
  it("labels nodes through a broken connection and a lost history, and ends when told", async () => {
    const cluster = await sharedTestCluster();
    const { client, audit } = cluster;
    const labelled = (...names: readonly string[]): Promise<void> =>
      eventually(
        async () => expect(await namesWith(client, "example.com/seen=true")).toEqual(names),
        RECONNECTED,
      );
    const mine = { userAgent: "labeller/1", resource: "nodes" };
    /** Nodes that it has written since; the last one before that may be once more, as the answer may be lost. */
    const patched = async (mark: AuditMark, last: string): Promise<readonly string[]> => {
      const entries = await audit.entriesSince(mark, { ...mine, verb: "patch" });
      return entries.map(({ name }) => name).filter((name) => name !== last);
    };
    for (const name of ["n1", "n2"]) await client.create(nodes, aNode(name).build());
    await using link = await startTcpProxy({ target: new URL(cluster.url) });
    await using program = await startProgram(cluster, await exampleOf("kube"), { server: link.url });
    await labelled("n1", "n2");
    await client.create(nodes, aNode("n3").build());
    await labelled("n1", "n2", "n3");

    // A connection that breaks: it goes on where it was, without another list.
    const broken = await audit.mark();
    link.resetAll();
    await client.create(nodes, aNode("n4").build());
    await labelled("n1", "n2", "n3", "n4");
    expect(await audit.countSince(broken, { ...mine, verb: "list" })).toBe(0);
    expect(await patched(broken, "n3")).toEqual(["n4"]);

    // Its version is forgotten: it lists again, and what it labelled before costs nothing.
    const forgotten = await audit.mark();
    await client.create(configMaps, { metadata: { namespace: "default", name: "moves-the-version-on" } });
    await cluster.stopComponent("kube-apiserver", "SIGKILL");
    await cluster.compact();
    await cluster.startComponent("kube-apiserver");
    await client.create(nodes, aNode("n5").build());
    await labelled("n1", "n2", "n3", "n4", "n5");
    expect(await audit.countSince(forgotten, { ...mine, verb: "list" })).toBeGreaterThan(0);
    expect(await patched(forgotten, "n4")).toEqual(["n5"]);
    await expectToStop(program);
  });
});

it("the program in the README of runtime counts pods, and ends when told, the lease given up", async () => {
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const name of ["n1", "n2"]) await client.create(nodes, aNode(name).build());
  await using program = await startProgram(cluster, await exampleOf("runtime"));
  const counted = (...counts: readonly string[]): Promise<void> =>
    eventually(async () => {
      const { items } = await client.list(nodes);
      expect(items.map(({ metadata }) => metadata?.annotations?.["example.com/pods"])).toEqual(counts);
    });
  await counted("0", "0");
  for (const name of ["p1", "p2"]) await client.create(pods, aPod(name).on("n2").build());
  await counted("0", "2");
  await client.delete(pods, { namespace: "default", name: "p1" }, { gracePeriodSeconds: 0 });
  await counted("0", "1");

  await expectToStop(program);
  const lease = await client.get(leases, { namespace: "default", name: "pod-counter" });
  expect(lease.spec?.holderIdentity).toBe("");
});
