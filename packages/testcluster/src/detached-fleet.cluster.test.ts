import { mkdtempDisposable, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect, loadKubeconfig, namespaces, nodes } from "@berth/kube";
import { expect, it } from "vitest";
import { restoreDetachedCluster, saveDetachedCluster } from "./detached.ts";
import { detachedClustersIn, startDetachedFleet, stopDetachedClusters } from "./detached-fleet.ts";
import { eventually } from "./eventually.ts";

it("a fleet has a hub without Nodes and cells with two; one plane is put back to a copy, its versions too", async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), "berth-fleet-test-"));
  const { path: dir } = folder;
  await using _stopped = { [Symbol.asyncDispose]: async () => void (await stopDetachedClusters(dir)) };
  const planes = await startDetachedFleet({ dir, planes: ["hub", "dfw-01"] });
  expect([...(await detachedClustersIn(dir)).keys()]).toEqual(["dfw-01", "hub"]);
  await using hub = await clientOf(planes.get("hub")?.kubeconfig ?? "");
  await using cell = await clientOf(planes.get("dfw-01")?.kubeconfig ?? "");
  expect((await hub.list(nodes)).items).toEqual([]);
  expect((await cell.list(nodes)).items).toHaveLength(2);

  const [of, file] = [path.join(dir, "dfw-01"), path.join(dir, "copy")];
  await cell.create(namespaces, { metadata: { name: "before" } });
  await saveDetachedCluster({ dir: of, file });
  const names = Array.from({ length: 100 }, (_, at) => `after-${at}`);
  const made = await Promise.all(names.map((name) => cell.create(namespaces, { metadata: { name } })));
  const versions = made.map(({ metadata }) => Number(metadata?.resourceVersion));
  await writeFile(path.join(dir, "broken"), "no copy");
  await expect(restoreDetachedCluster({ dir: of, file: path.join(dir, "broken") })).rejects.toThrow("tar");
  expect(await cell.get(namespaces, { name: "after-9" })).toMatchObject({ metadata: { name: "after-9" } });

  await restoreDetachedCluster({ dir: of, file });
  const { items, metadata } = await cell.list(namespaces);
  const left = items.map((it) => it.metadata?.name);
  expect(left).toContain("before");
  expect(left).not.toContain("after-9");
  expect(Number(metadata?.resourceVersion)).toBeLessThan(Math.max(...versions));
  // kwok and the controllers run again.
  await cell.create(nodes, { metadata: { name: "node-3", annotations: { "kwok.x-k8s.io/node": "fake" } } });
  await eventually(async () => {
    const { status } = await cell.get(nodes, { name: "node-3" });
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Ready", status: "True" }));
  });
  expect(await stopDetachedClusters(dir)).toMatchObject(
    new Map([
      ["dfw-01", expect.arrayContaining(["kwok"])],
      ["hub", expect.arrayContaining(["etcd"])],
    ]),
  );
  expect((await readdir(of)).filter((name) => name.startsWith("restore-"))).toEqual([]);
});

it.each([
  ["a/b", /no name of a plane/],
  ["Hub", /no name of a plane/],
  ["hub", /two planes/],
])("a plane is not called %s", async (name, message) => {
  await expect(startDetachedFleet({ dir: "/nowhere", planes: ["hub", name] })).rejects.toThrow(message);
});

async function clientOf(kubeconfig: string) {
  return connect((await loadKubeconfig([kubeconfig], { environment: {} })).connect);
}
