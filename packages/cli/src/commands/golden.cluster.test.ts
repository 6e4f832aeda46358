/** What commands print with all capabilities at once, to the byte: as text, as data, and where rights are missing. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { daemonSets, namespaces, nodes, pods, secrets } from "@berth/kube";
import { workerPools } from "@berth/placement";
import { aNode, aPod, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { capabilityNames } from "../capability-names.ts";
import { startBerth } from "../composition.ts";
import { aDaemonSet, among, becomes, clusterWithKinds, grant } from "../testing/cluster.ts";
import { testFolder } from "../testing/harness.ts";

const NAMESPACE = "golden";
/** A value of the environment of a pod, and the content of a Secret. */
const PLANTED = "planted-secret";
const DEVICE = "example.com/device";
const CONFIG = `apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: network}
spec:
  taint: {key: example.com/wait, effect: NoSchedule}
  signals:
    pods: [{namespaces: [${NAMESPACE}], ownedBy: Anything, fromBefore: Count}]
  timeouts: {notReady: 1h, policy: Release}
---
apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata: {name: all}
spec: {mode: Both, maxHold: 1h}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: web}
spec:
  workloads: [{podSelector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ${NAMESPACE}}}}]
  node: {label: {key: example.com/web}}
  group: {by: OwnerUID, owner: {group: ate.dev, kind: WorkerPool}}
  hold: {resource: {group: ate.dev, version: v1alpha1, resource: workerpools}, finalizer: example.com/hold, onDelete: Wait}
  agent: {daemonSet: {namespace: ${NAMESPACE}, name: agent}, nodeSelector: Manage}
`;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await clusterWithKinds();
});

/** Without what differs from run to run. */
function settled(text: string): string {
  return text
    .replaceAll(cluster.client.server, "SERVER")
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}/g, "UID")
    .replace(/\(\d+[ms]\d*s? ago\)/g, "(AGE ago)")
    .replace(/ (\d+m)?\d+s {3,}/g, " AGE   ")
    .replace(/passedMs(\\?": )\d+/g, "passedMs$10")
    .replace(/ in \d+m\d+s/g, " in AGE")
    .replace(/berth-(startup-gate|image-facts)-[0-9a-f]{6,}/g, "berth-$1-HASH");
}

it("prints the same, to the byte", async () => {
  const { client } = cluster;
  await using folder = await testFolder({
    "labels/accelerators/one": `${DEVICE}\n`,
    "config.yaml": CONFIG,
    "pools.yaml": "apiVersion: berth.dev/v1alpha1\nkind: WorkerPools\nmetadata: {name: pools}\nspec: {}\n",
    kubeconfig: cluster.kubeconfig(),
  });
  await client.create(namespaces, { metadata: { name: NAMESPACE } });
  await client.create(
    nodes,
    aNode("one")
      .labelled({ [DEVICE]: "x" })
      .build(),
  );
  await client.create(nodes, aNode("two").arm64().build());
  const pool = { metadata: { name: "pool" }, spec: { replicas: 1, ateomImage: "registry.test/ateom:1" } };
  const made = await client.create(workerPools, pool, { namespace: NAMESPACE });
  const web = aPod("web").in(NAMESPACE).image("127.0.0.1:1/web:1").on("one").labelled({ app: "web" }).build();
  const uid = made.metadata?.uid ?? "";
  const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", controller: true, name: "pool", uid };
  const env = [{ name: "TOKEN", value: PLANTED }];
  const containers = web.spec?.containers.map((it) => ({ ...it, env })) ?? [];
  const annotations = { "example.com/note": PLANTED };
  const metadata = { ...web.metadata, annotations, ownerReferences: [owner] };
  await client.create(pods, { ...web, metadata, spec: { ...web.spec, containers } });
  await client.create(
    secrets,
    { metadata: { name: "planted" }, stringData: { token: PLANTED } },
    { namespace: NAMESPACE },
  );
  await client.create(pods, aPod("waits").in(NAMESPACE).image("127.0.0.1:1/app:1").build());
  const agent = aDaemonSet("agent", { container: "a", image: "127.0.0.1:1/a:1" });
  await client.create(daemonSets, agent, { namespace: NAMESPACE });

  const printed: string[] = [];
  const say = async (line: string, kubeconfig = "kubeconfig"): Promise<void> => {
    const { code, stdout, stderr } = await folder.berth(`${line} --kubeconfig ${kubeconfig}`);
    printed.push(settled(`$ berth ${line}\n${stdout}--- ${code}\n${stderr}`));
  };
  const files = "--label-dir labels --config config.yaml";
  const lookAtAll = async (): Promise<void> => {
    for (const format of ["", " -o json"]) {
      await say(`plan ${files}${format}`);
      await say(`plan one ${files}${format}`);
      await say(`explain node one ${files}${format}`);
      await say(`explain node two${format}`);
      await say(`explain pod ${NAMESPACE}/web ${files}${format}`);
      await say(`explain pod ${NAMESPACE}/waits${format}`);
      await say(`gate list ${files}${format}`);
      await say(`clean --config config.yaml${format}`);
    }
  };
  await lookAtAll();
  await say("plan --try config.yaml --exit-code");
  {
    await using connected = cluster.connect();
    const path = `${folder.path}/labels`;
    await using _berth = await startBerth({
      client: connected,
      labelFolder: { path, shown: "labels", options: { allowReserved: [] } },
      config: [{ path: `${folder.path}/config.yaml`, shown: "config.yaml" }],
      namespace: NAMESPACE,
      backfillAtStart: true,
    });
    const labels = { "accelerators/one": "true", "example.com/web": "true" };
    await becomes(client, nodes, "one", { metadata: { labels } });
    const taints = among(expect.objectContaining({ key: "example.com/wait" }));
    await becomes(client, nodes, "two", { spec: { taints } });
    await becomes(client, workerPools, `${NAMESPACE}/pool`, {
      metadata: { finalizers: ["example.com/hold"] },
    });
    await becomes(client, daemonSets, `${NAMESPACE}/agent`, {
      spec: { template: { spec: { nodeSelector: { "example.com/web": "true" } } } },
    });
  }
  await lookAtAll();
  await folder.berth(`snapshot taken ${files} --kubeconfig kubeconfig`);
  for (const line of [
    `plan ${files}`,
    ...["node one", "node two", `pod ${NAMESPACE}/waits`].map((it) => `explain ${it} ${files}`),
  ]) {
    // A gate says for how long it has held a node: at the time of the snapshot.
    const [live, later] = await Promise.all(
      ["--kubeconfig kubeconfig", "--from taken"].map((from) => folder.berth(`${line} -o json ${from}`)),
    );
    expect(settled(JSON.stringify(later))).toEqual(settled(JSON.stringify(live)));
  }
  expect(await readFile(`${folder.path}/taken`, "utf8")).not.toContain(PLANTED);
  for (const name of capabilityNames.all) await say(`clean --config config.yaml --capability ${name}`);
  await say(`clean --config config.yaml --config pools.yaml --restart-pods --namespace ${NAMESPACE}`);
  await using _granted = await grant(client, "golden-reader", "get list nodes");
  await folder.write("reader", cluster.kubeconfig({ user: await cluster.user("golden-reader") }));
  await eventually(async () =>
    expect((await folder.berth("explain node one --kubeconfig reader")).code).toBe(0),
  );
  for (const line of [`plan ${files}`, `explain node one ${files}`, `gate list ${files}`, "clean --yes"])
    await say(line, "reader");
  await say(`clean --config config.yaml --namespace ${NAMESPACE} --recorded --yes`);
  await say(`clean --config config.yaml --namespace ${NAMESPACE}`);
  await expect(printed.join("\n")).toMatchFileSnapshot(join(import.meta.dirname, "testdata/golden.txt"));
});
