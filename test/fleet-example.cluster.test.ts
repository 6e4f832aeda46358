/** The example of a fleet, as a new user runs it: outside the cluster. Only its port is another: tests share the machine. */
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Workload, workloads } from "@berth/fleet";
import { nodes, pods } from "@berth/kube";
import { aNode, findFreePort } from "@berth/testcluster";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";
import { startBerthProcess } from "./product.ts";

const examples = path.join(import.meta.dirname, "../examples/fleet");
const OF = { namespace: "default", name: "hello" };

it("F1 examples/fleet runs three pods in one cluster, with nothing but the CRDs", async () => {
  const cluster = await sharedFullCluster();
  const { client } = cluster;
  await using folder = await mkdtempDisposable(path.join(tmpdir(), "berth-fleet-example-"));
  const kubeconfig = path.join(folder.path, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  for (const name of ["n-1", "n-2", "n-3"]) await client.create(nodes, aNode(name).fake().build());
  const config = path.join(folder.path, "single.yaml");
  const example = await readFile(path.join(examples, "single.yaml"), "utf8");
  await writeFile(config, example.replaceAll("8443", String(await findFreePort())));
  const off = ["--metrics-bind-address", "0", "--health-probe-bind-address", "127.0.0.1:0"];
  await using berth = startBerthProcess({
    args: ["run", "--config", config, "--kubeconfig", kubeconfig, ...off],
  });
  await berth.ready();
  const workload = parse(await readFile(path.join(examples, "workload.yaml"), "utf8")) as Workload;
  await client.create(workloads, workload);
  await patiently(async () => {
    const { status } = await client.get(workloads, OF);
    expect(status).toMatchObject({ readyReplicas: 3, conditions: [{ type: "Available", status: "True" }] });
    const { items } = await client.list(pods, { namespace: "default" });
    expect(items.map((pod) => pod.status?.phase)).toEqual(["Running", "Running", "Running"]);
  });
  await client.delete(workloads, OF);
  await patiently(async () => expect((await client.list(pods, { namespace: "default" })).items).toEqual([]));
});
