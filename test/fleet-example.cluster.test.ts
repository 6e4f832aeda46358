/** The example of a fleet, as a new user runs it: outside the cluster. Only its port is another: tests share the machine. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Workload, workloadDeployments, workloads } from "@berth/fleet";
import { leases, namespaces, nodes, pods } from "@berth/kube";
import { aNode, findFreePort } from "@berth/testcluster";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { Fixture } from "./fixture.ts";
import { aDeployment } from "./fleet-fixture.ts";
import { sharedFullCluster } from "./footprint-cluster.ts";
import { patiently } from "./patience.ts";

const examples = path.join(import.meta.dirname, "../examples/fleet");
const OF = { namespace: "default", name: "hello" };

it("F1 examples/fleet runs three pods in one cluster, with nothing but the CRDs; its Fleet changes while Berth runs", async () => {
  const cluster = await sharedFullCluster();
  const { client } = cluster;
  for (const name of ["n-1", "n-2", "n-3"]) await client.create(nodes, aNode(name).fake().build());
  await using fixture = new Fixture(cluster, "fleet-example");
  const example = (await readFile(path.join(examples, "single.yaml"), "utf8")).replaceAll(
    "8443",
    String(await findFreePort()),
  );
  const { path: config } = await fixture.file("single.yaml", example);
  const berth = await fixture.spawn({ args: ["--config", config] });
  await berth.ready();
  const text = await readFile(path.join(examples, "workload.yaml"), "utf8");
  await client.create(workloads, parse(text) as Workload);
  await patiently(async () => {
    const { status } = await client.get(workloads, OF);
    expect(status).toMatchObject({ readyReplicas: 3, conditions: [{ type: "Available", status: "True" }] });
    const { items } = await client.list(pods, { namespace: "default" });
    expect(items.map((pod) => pod.status?.phase)).toEqual(["Running", "Running", "Running"]);
  });
  const inTwo = parse(
    text.replace(/cityCodes: .*/, "cityCodes: [DFW, XYZ]").replace("hello", "in-two"),
  ) as Workload;
  await expect(client.create(workloads, inTwo, { dryRun: true })).rejects.toThrow(/XYZ/);
  await writeFile(config, example.replace("[DFW", "[XYZ, DFW"));
  await patiently(async () => void (await client.create(workloads, inTwo, { dryRun: true })));
  await writeFile(config, example.replace("mode: single", "mode: cell\n  cell: dfw-01"));
  await patiently(() =>
    Promise.resolve(expect(berth.log.map((entry) => entry["reason"])).toContain("FleetNotInForce")),
  );
  await client.create(workloads, inTwo, { dryRun: true });
  await client.delete(workloads, OF);
  await patiently(async () => expect((await client.list(pods, { namespace: "default" })).items).toEqual([]));
});

it("8.7 a cell that is told nothing but its name runs what a hub brings, for any city, and keeps the Lease by which the hub hears it", async () => {
  const cluster = await sharedFullCluster();
  const { client } = cluster;
  await client.create(nodes, aNode("zrh-1").fake().build());
  await using fixture = new Fixture(cluster, "cell-alone");
  const berth = await fixture.spawn({ args: ["--mode", "cell", "--cell", "zrh-01", "--namespace", "cells"] });
  await berth.ready();
  const namespace = "ns-zrh";
  await client.create(namespaces, { metadata: { name: namespace } });
  const { spec, ...deployment } = aDeployment({ namespace });
  await client.create(workloadDeployments, {
    ...deployment,
    ...(spec && { spec: { ...spec, cityCode: "ZRH" } }),
  });
  await patiently(async () => {
    const { status } = await client.get(workloadDeployments, { namespace, name: "w-us-dfw" });
    expect(status).toMatchObject({ readyReplicas: 1 });
  });
  const renewed = async (): Promise<string | undefined> =>
    (await client.get(leases, { namespace: "cells", name: "compute-cell-zrh-01" })).spec?.renewTime;
  const first = await renewed();
  await patiently(async () => expect(await renewed()).not.toBe(first));
});
