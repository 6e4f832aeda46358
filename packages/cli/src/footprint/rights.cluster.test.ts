/** Footprints with the rights of Berth's own manifests alone, on a real API server. */

import { admissionServerSpec } from "@berth/host";
import {
  deployments,
  mutatingWebhookConfigurations,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
} from "@berth/kube";
import { workerPools } from "@berth/placement";
import { aNode, aPod, eventually, findFreePort, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { loadSettings } from "../config/settings.ts";
import type { ExtraRights } from "../manifests-rights.ts";
import { testFolder } from "../testing/harness.ts";
import { installed } from "../testing/installed.ts";
import { agentOf, aPool, footprintCluster, podOf, refTo } from "./testing/footprint-cluster.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster();
});

const WEB = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: web}
spec:
  workloads: [{podSelector: {matchLabels: {app: web}}}]
  node: {label: {key: example.com/web}, claims: {annotationPrefix: example.com/web.}}
  group: {by: OwnerUID, owner: {group: apps, kind: Deployment}}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: storage}
spec:
  preset: csi
  workloads: [{csiDrivers: [csi.example.com], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}]
  wait: {inject: Webhook, port: 9}
`;

describe("the manifests for footprints", () => {
  it("give what waits, claims by owners and volumes take, and nothing is refused", async () => {
    const { client } = cluster;
    const namespace = "default";
    await using own = await installed(cluster, "waits", {});
    const mark = await cluster.audit.mark();
    await using folder = await testFolder({ "footprints.yaml": WEB });
    const port = await findFreePort();
    const url = `https://127.0.0.1:${port}`;
    const spec = admissionServerSpec.parse({ bindAddress: `127.0.0.1:${port}`, url });
    await client.create(nodes, aNode("n1").build());
    await client.create(persistentVolumes, {
      metadata: { name: "v" },
      spec: {
        accessModes: ["ReadWriteOnce"],
        capacity: { storage: "1Gi" },
        csi: { driver: "csi.example.com", volumeHandle: "v" },
        claimRef: { namespace, name: "c" },
      },
    });
    await client.create(
      persistentVolumeClaims,
      {
        metadata: { name: "c" },
        spec: {
          accessModes: ["ReadWriteOnce"],
          resources: { requests: { storage: "1Gi" } },
          storageClassName: "",
          volumeName: "v",
        },
      },
      { namespace },
    );
    const volumes = [{ name: "c", persistentVolumeClaim: { claimName: "c" } }];
    const pod = aPod("db")
      .on("n1")
      .with((it) => ({ ...it, spec: { containers: [], ...it.spec, volumes } }));
    await client.create(pods, pod.build(), { namespace });
    await using berth = await startBerth({
      client: own.client,
      installation: "waits",
      namespace: own.namespace,
      admission: { spec, namespace: own.namespace },
      config: [{ path: `${folder.path}/footprints.yaml`, shown: "footprints.yaml" }],
    });
    await eventually(async () => {
      const { metadata } = await client.get(nodes, { name: "n1" });
      expect(metadata?.labels?.["footprint.berth.dev/storage"]).toBe("true");
      const { items } = await client.list(mutatingWebhookConfigurations);
      expect(items.map((it) => it.metadata?.name)).toEqual(["berth-waits-footprint"]);
    });
    await eventually(async () => {
      const made = await client.create(
        pods,
        { ...pod.build(), metadata: { name: "db2" } },
        { namespace, dryRun: true },
      );
      expect(made.spec?.initContainers?.map(({ name }) => name)).toEqual(["wait-for-agent"]);
    });
    await eventually(() => expect(berth.problems()).toEqual([]));
    const refused = await cluster.audit.entriesSince(mark, { user: own.user.name, code: 403 });
    expect(refused.map(({ verb, resource }) => `${verb} ${resource}`)).toEqual([]);
  });
});

const SUBSTRATE = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: atelet}
spec: {preset: agent-substrate/owner-uid}
`;

/** As `berth manifests --config` has them. */
async function rightsOfText(text: string): Promise<ExtraRights> {
  await using folder = await testFolder({ "footprints.yaml": text });
  const settings = await loadSettings({ config: ["footprints.yaml"] }, folder.path);
  return { documents: settings };
}

describe.each([
  { by: "their flag", name: "by-flag", rights: () => Promise.resolve({ flags: new Set(["workerPools"]) }) },
  { by: "the document alone", name: "by-document", rights: () => rightsOfText(SUBSTRATE) },
])("with the rights for WorkerPools by $by", ({ name, rights }) => {
  it("the preset for agent-substrate without its pull request marks, holds, deletes and needs no other", async () => {
    const { client } = cluster;
    const namespace = "default";
    await using own = await installed(cluster, name, await rights());
    const mark = await cluster.audit.mark();
    await using folder = await testFolder({ "footprints.yaml": SUBSTRATE });
    const of = { namespace, name };
    const pool = await aPool(cluster, name);
    await client.create(nodes, aNode(name).build());
    const pod = podOf(pool, name, name).labelled({ "ate.dev/worker-pool": name });
    await client.create(pods, pod.build(), { namespace });
    // As the controller of agent-substrate makes it.
    const { spec } = agentOf({}, name);
    const metadata = { name, ownerReferences: [refTo(pool)] };
    await client.create(deployments, { metadata, ...(spec && { spec }) }, { namespace });
    await using berth = await startBerth({
      client: own.client,
      installation: name,
      namespace: own.namespace,
      config: [{ path: `${folder.path}/footprints.yaml`, shown: "footprints.yaml" }],
    });
    await eventually(async () => {
      const { metadata: marked } = await client.get(nodes, { name });
      expect(marked?.labels?.["ate.dev/atelet"]).toBe("true");
      const { metadata: held } = await client.get(workerPools, of);
      expect(held?.finalizers).toEqual(["ate.dev/release-node-claims"]);
    });
    await client.delete(workerPools, of);
    await eventually(async () => {
      const { items } = await client.list(deployments, { namespace });
      expect(items.map((it) => it.metadata?.name)).not.toContain(name);
    });
    await client.delete(pods, of, { gracePeriodSeconds: 0 });
    await eventually(async () => expect((await client.list(workerPools, { namespace })).items).toEqual([]));
    const refused = await cluster.audit.entriesSince(mark, { user: own.user.name, code: 403 });
    expect(refused.map(({ verb, resource }) => `${verb} ${resource}`)).toEqual([]);
    expect(berth.problems()).toEqual([]);
  });
});
