/** What commands print with all capabilities at once, to the byte: as text, as data, and where rights are missing. */
import { join } from "node:path";
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  daemonSets,
  namespaces,
  nodes,
  pods,
} from "@berth/kube";
import { labelRules, nodeFootprints, workerPools } from "@berth/placement";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { crds, foreignKinds } from "../kinds.ts";
import { cli, testFolder } from "../testing/harness.ts";

const NAMESPACE = "golden";
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
  cluster = await sharedTestCluster();
  for (const crd of crds(foreignKinds))
    await eventually(() => cluster.client.apply(customResourceDefinitions, crd));
  for (const kind of [labelRules, nodeFootprints, workerPools])
    await eventually(() => cluster.client.list(kind));
});

/** Without what differs from run to run. */
function settled(text: string): string {
  return text
    .replaceAll(cluster.client.server, "SERVER")
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}/g, "UID")
    .replace(/\(\d+[ms]\d*s? ago\)/g, "(AGE ago)")
    .replace(/ (\d+m)?\d+s {3,}/g, " AGE   ")
    .replace(/"passedMs": \d+/g, '"passedMs": 0')
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
  const owner = {
    apiVersion: "ate.dev/v1alpha1",
    kind: "WorkerPool",
    controller: true,
    name: "pool",
    uid: made.metadata?.uid ?? "",
  };
  await client.create(pods, { ...web, metadata: { ...web.metadata, ownerReferences: [owner] } });
  await client.create(pods, aPod("waits").in(NAMESPACE).image("127.0.0.1:1/app:1").build());
  const labels = { app: "agent" };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: "a", image: "127.0.0.1:1/a:1" }] },
  };
  const spec = { selector: { matchLabels: labels }, template };
  await client.create(daemonSets, { metadata: { name: "agent" }, spec }, { namespace: NAMESPACE });

  const printed: string[] = [];
  const say = async (line: string, kubeconfig = "kubeconfig"): Promise<void> => {
    const { code, stdout, stderr } = await cli([...line.split(" "), "--kubeconfig", kubeconfig], {
      folder: folder.path,
    });
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
    await eventually(async () => {
      const { metadata, spec } = await client.get(nodes, { name: "one" });
      expect(metadata?.labels).toMatchObject({ "accelerators/one": "true", "example.com/web": "true" });
      const { metadata: other, spec: tainted } = await client.get(nodes, { name: "two" });
      expect(tainted?.taints).toContainEqual(expect.objectContaining({ key: "example.com/wait" }));
      expect([other?.labels, spec?.taints]).toBeDefined();
      const held = await client.get(workerPools, { namespace: NAMESPACE, name: "pool" });
      expect(held.metadata?.finalizers).toContain("example.com/hold");
      const agent = await client.get(daemonSets, { namespace: NAMESPACE, name: "agent" });
      expect(agent.spec?.template.spec?.nodeSelector).toEqual({ "example.com/web": "true" });
    });
  }
  await lookAtAll();
  for (const name of ["labels", "gates", "architecture", "footprint", "worker-pools"])
    await say(`clean --config config.yaml --capability ${name}`);
  await say(`clean --config config.yaml --config pools.yaml --restart-pods --namespace ${NAMESPACE}`);
  const rbac = "rbac.authorization.k8s.io";
  const name = "golden-reader";
  const rules = [{ apiGroups: [""], resources: ["nodes"], verbs: ["get", "list"] }];
  await client.create(clusterRoles, { metadata: { name }, rules });
  await client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name },
    subjects: [{ apiGroup: rbac, kind: "User", name }],
  });
  await folder.write("reader", cluster.kubeconfig({ user: await cluster.user(name) }));
  await eventually(async () => {
    const { code } = await cli(["explain", "node", "one", "--kubeconfig", "reader"], { folder: folder.path });
    expect(code).toBe(0);
  });
  for (const line of [`plan ${files}`, `explain node one ${files}`, `gate list ${files}`, "clean --yes"])
    await say(line, "reader");
  await say(`clean --config config.yaml --namespace ${NAMESPACE} --recorded --yes`);
  await say(`clean --config config.yaml --namespace ${NAMESPACE}`);
  await client.delete(clusterRoleBindings, { name });
  await client.delete(clusterRoles, { name });
  await expect(printed.join("\n")).toMatchFileSnapshot(join(import.meta.dirname, "testdata/golden.txt"));
});
