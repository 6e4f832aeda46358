/** How often Berth reads one thing: as a running process, and in a command. */
import { eventually } from "@berth/testcluster";
import { expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { clusterWithKinds } from "../testing/cluster.ts";
import { testFolder } from "../testing/harness.ts";

const CONFIG = `apiVersion: berth.dev/v1alpha1
kind: DeschedulePolicy
metadata: {name: default}
spec: {}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: web}
spec:
  workloads: [{podSelector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {team: a}}}]
  node: {label: {key: example.com/web}}
  agent: {daemonSet: {namespace: default, name: agent}}
---
apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: network}
spec:
  taint: {key: example.com/wait, effect: NoSchedule}
  signals:
    pods: [{namespaces: [default], selector: {matchLabels: {app: init}}, ownedBy: Anything, fromBefore: Count}]
    daemonSets: [{namespace: default, name: agent}]
---
apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata: {name: all}
spec: {mode: Both}
`;

/** Those that read pods or namespaces. */
const READERS = [
  "deschedule-pods",
  "deschedule-namespaces",
  "footprint-pods",
  "footprint-namespaces",
  "gate-pods",
  "unscheduled-pods",
  "namespaces",
];

it("watches pods twice and namespaces once for all capabilities, and lists them as often for a plan", async () => {
  const cluster = await clusterWithKinds();
  const { client } = cluster;
  await using folder = await testFolder({ "config.yaml": CONFIG, kubeconfig: cluster.kubeconfig() });
  const watchesOf = async (resource: string): Promise<number> => {
    const lines = (await client.read("/metrics")).split("\n").filter((line) => {
      const isWatch = line.startsWith("apiserver_longrunning_requests{") && line.includes('verb="WATCH"');
      return isWatch && line.includes(`resource="${resource}"`);
    });
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  };
  const before = { pods: await watchesOf("pods"), namespaces: await watchesOf("namespaces") };
  {
    await using connected = cluster.connect();
    await using berth = await startBerth({
      client: connected,
      config: [{ path: `${folder.path}/config.yaml`, shown: "config.yaml" }],
      namespace: "default",
    });
    await eventually(async () => {
      const { body } = await berth.metrics.expose();
      for (const informer of READERS)
        expect(body).toMatch(new RegExp(`^berth_informer_synced{.*informer="${informer}".*} 1$`, "m"));
      // A watch that another has replaced counts until the server has noticed its end.
      expect(await watchesOf("pods")).toBe(before.pods + 2);
      expect(await watchesOf("namespaces")).toBe(before.namespaces + 1);
    });
  }
  const mark = await cluster.audit.mark();
  const { code, stderr } = await folder.berth("plan --config config.yaml --kubeconfig kubeconfig -o json");
  expect([code, stderr]).toEqual([0, ""]);
  const lists = await cluster.audit.tallySince(mark, { verb: "list" });
  const counted = Object.fromEntries(lists.map(({ resource, count }) => [resource, count]));
  // The gate reads pods that have ended too, of one namespace.
  expect(counted).toMatchObject({ nodes: 1, pods: 2, namespaces: 1, "daemonsets.apps": 1 });
});
