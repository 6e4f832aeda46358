/** A new version reads what an older one stored: under its CRDs no field is lost, and nothing on nodes changes. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type KubeObject, nodes, type Resource } from "@berth/kube";
import { type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { foreignKinds, servedKinds } from "./kinds.ts";
import { clusterWithKinds } from "./testing/cluster.ts";
import { testFolder } from "./testing/harness.ts";

type Stored = KubeObject & { readonly status?: object };

/** Frozen: never write it again from newer code. One object a line, with every kind of document. */
const text = await readFile(join(import.meta.dirname, "testdata/stored-0.1.0.jsonl"), "utf8");
const stored = text
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Stored);
const resources: readonly Resource[] = [
  nodes,
  ...[...servedKinds, ...foreignKinds()].map((it) => it.resource),
];
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await clusterWithKinds();
});

it("reads each field that 0.1.0 stored, and plans no change of a node that its gate holds", async () => {
  const { client } = cluster;
  for (const object of stored) {
    const { name = "", namespace } = object.metadata ?? {};
    const of = { name, ...(namespace !== undefined && { namespace }) };
    const resource = resources.find((it) => it.kind === object.kind);
    if (resource === undefined) throw new Error(`${object.kind} is a kind no more`);
    await client.create(resource, object, namespace === undefined ? {} : { namespace });
    const body = { status: object.status };
    await client.patch(resource, of, { type: "merge", body }, { subresource: "status" });
    expect(await client.get(resource, of)).toMatchObject(object);
  }
  const served = servedKinds.map(({ resource }) => resource.kind);
  expect(new Set(stored.map(({ kind }) => kind ?? "")).isSupersetOf(new Set(served))).toBe(true);
  await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
  const { code, stdout } = await folder.berth("plan --kubeconfig kubeconfig");
  expect([code, stdout]).toEqual([0, expect.stringContaining("No changes of nodes: 1 looked at.")]);
  expect(stdout).toContain("cluster/network selects 1 node and holds 1.");
});
