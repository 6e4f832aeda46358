/**
 * Projects elsewhere: a hub, two projects and a cell, each a control plane of its own, with `berth run` in Berth's own
 * cluster and in the cell. No pods run: that an Instance is there shows that its deployment has arrived.
 */
import { deepStrictEqual, ok } from "node:assert";
import { instances, workloadDeployments, workloads } from "@berth/fleet";
import {
  customResourceDefinitions,
  defineResource,
  type KubeClient,
  type KubeObject,
  namespaces,
} from "@berth/kube";
import { startHttpProxy } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createWorkload } from "./fleet-fixture.ts";
import { addCells, barePlanes, type HubFixture } from "./hub-fixture.ts";
import { patiently } from "./patience.ts";

const CELL = `apiVersion: berth.dev/v1alpha1
kind: Fleet
metadata: { name: fleet }
spec: { mode: cell, cell: dfw-01, networking: "Off", provider: external }
`;

/** Berth's own cluster is the project `web`. */
const fleet = (projects: string): string => `apiVersion: berth.dev/v1alpha1
kind: Fleet
metadata: { name: fleet }
spec:
  mode: management
  hub: { kubeconfig: far }
  projects: ${projects}
`;
const WEB = "{ path: acme/web, kubeconfig: web }";
const BOTH = `{ kubeconfigs: [${WEB}, { path: acme/shop, kubeconfig: shop }] }`;
const CLUSTER = "meta.datumapis.com/upstream-cluster-name";

let fixture: HubFixture;
let web: KubeClient;
let shop: KubeClient;
let far: KubeClient;
let cell: KubeClient;
beforeAll(async () => {
  fixture = await barePlanes(["hub", "dfw-01"], ["shop", "far"]);
  web = fixture.plane("hub").client;
  shop = fixture.plane("shop").client;
  far = fixture.plane("far").client;
  cell = fixture.plane("dfw-01").client;
  const files = { web: "hub", shop: "shop", far: "far" };
  for (const [file, plane] of Object.entries(files))
    await fixture.writeKubeconfig(file, fixture.plane(plane).kubeconfig());
  await Promise.all([fixture.startHub(fleet(BOTH)), fixture.startCell("dfw-01", CELL)]);
  await addCells(fixture, ["dfw-01"]);
});
afterAll(() => fixture[Symbol.asyncDispose]());

async function create(client: KubeClient, name: string, image?: string): Promise<void> {
  await client.create(namespaces, { metadata: { name } }).catch(() => undefined);
  await createWorkload(client, { namespace: name, name, ...(image && { image }) });
}

/** The Instances that the project sees, and the sum that its Workload has. */
async function assertRuns(client: KubeClient, name: string): Promise<void> {
  await patiently(async () => {
    const { status } = await client.get(workloads, { namespace: name, name });
    const { items } = await client.list(instances, { namespace: name });
    deepStrictEqual([status?.replicas, items.map((it) => it.metadata?.name)], [1, [`${name}-us-dfw-0`]]);
  });
}

/** `cluster-acme_web IMAGE`, of the deployments of this name in the cell. */
async function inCell(name: string): Promise<readonly string[]> {
  const [deployments, spaces] = await Promise.all([cell.list(workloadDeployments), cell.list(namespaces)]);
  return deployments.items
    .filter(({ metadata }) => metadata?.name === `${name}-us-dfw`)
    .map(({ metadata, spec }) => {
      const space = spaces.items.find((it) => it.metadata?.name === metadata?.namespace);
      return `${space?.metadata?.labels?.[CLUSTER]} ${spec?.template.spec.runtime.sandbox?.containers[0]?.image}`;
    })
    .sort();
}

/** Resolves when every replica of the hub is connected to the project, or none. */
const untilConnected = (name: string, isIt: boolean): Promise<void> =>
  patiently(async () => {
    const all = await fixture.metrics("berth_cluster_reached", { cluster: name });
    deepStrictEqual(new Set(all), new Set([isIt ? 1 : 0]));
  });

it("A22 two projects with equal names share a hub elsewhere and a cell, and nothing of them mixes", async () => {
  await create(web, "equal", "registry.test/web:1");
  await create(shop, "equal", "registry.test/shop:1");
  await assertRuns(web, "equal");
  await assertRuns(shop, "equal");
  const [ofShop = "", ofWeb = ""] = await inCell("equal");
  expect([ofShop, ofWeb]).toEqual([
    "cluster-acme_shop registry.test/shop:1",
    "cluster-acme_web registry.test/web:1",
  ]);
  expect((await far.list(workloadDeployments)).items).toHaveLength(2);
  await shop.delete(workloads, { namespace: "equal", name: "equal" });
  await patiently(async () => {
    deepStrictEqual(await inCell("equal"), [ofWeb]);
    deepStrictEqual((await shop.list(workloadDeployments)).items, []);
  });
  await assertRuns(web, "equal");
});

it("a project that hangs delays no other, and goes on where it was", async () => {
  await create(shop, "waiting");
  await assertRuns(shop, "waiting");
  const pid = fixture.plane("shop").pidOf("kube-apiserver") ?? 0;
  process.kill(pid, "SIGSTOP");
  try {
    await untilConnected("shop", false);
    await create(web, "meanwhile");
    await assertRuns(web, "meanwhile");
    expect(await inCell("waiting")).toHaveLength(1);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  await untilConnected("shop", true);
  await create(shop, "again");
  await assertRuns(shop, "again");
});

it("a project that leaves the list is left as it is, and is taken up again when it is back and its kubeconfig is right", async () => {
  await fixture.configure(fleet(`{ kubeconfigs: [${WEB}] }`));
  await untilConnected("shop", false);
  await shop.delete(workloads, { namespace: "waiting", name: "waiting" });
  await create(web, "after");
  await assertRuns(web, "after");
  expect(await inCell("waiting")).toHaveLength(1);
  // Its credential has expired meanwhile, and another program writes a new one into the file.
  const plane = fixture.plane("shop");
  await fixture.writeKubeconfig("shop", plane.kubeconfig({ user: { ...plane.admin, token: "expired" } }));
  await fixture.configure(fleet(BOTH));
  await patiently(async () => ok(await fixture.says(/1 of 2 clusters are not reached: shop/)));
  await fixture.writeKubeconfig("shop", plane.kubeconfig());
  await patiently(async () => {
    deepStrictEqual(await inCell("waiting"), []);
    deepStrictEqual((await shop.list(workloads, { namespace: "waiting" })).items, []);
  });
  await assertRuns(shop, "again");
});

it("a project is the cluster that it was: with another one nothing is written", async () => {
  const wrong = fleet("{ kubeconfigs: [{ path: acme/web, kubeconfig: shop }] }");
  await create(shop, "not-of-web");
  await assertRuns(shop, "not-of-web");
  // It may be about to write what is not waited for above.
  await fixture.stopHub();
  const mark = await fixture.plane("shop").audit.mark();
  await fixture.startHub(wrong);
  await patiently(async () => ok(await fixture.says(/1 of 1 clusters are not reached: web/)));
  const entries = await fixture.plane("shop").audit.entriesSince(mark, { userAgent: "berth/" });
  expect(entries.filter(({ verb }) => !["get", "list", "watch"].includes(verb))).toEqual([]);
});

const projects = defineResource({
  group: "resourcemanager.miloapis.com",
  version: "v1alpha1",
  plural: "projects",
  kind: "Project",
  namespaced: false,
});

async function setProject(name: string, ready: "True" | "False"): Promise<void> {
  const condition = { type: "Ready", status: ready, reason: "Test", message: "" };
  const status = { conditions: [{ ...condition, lastTransitionTime: "2026-01-01T00:00:00Z" }] };
  const body = { spec: { ownerRef: { kind: "Organization", name: "acme" } } };
  await web.apply(projects, { ...projectOf(name), ...body }, { fieldManager: "milo", force: true });
  await web.patch(projects, { name }, { type: "merge", body: { status } }, { subresource: "status" });
}

function projectOf(name: string): KubeObject {
  return {
    apiVersion: "resourcemanager.miloapis.com/v1alpha1",
    kind: "Project",
    metadata: { name },
  };
}

it("projects that Milo has join and leave while Berth runs, and one control plane is one project", async () => {
  await using owned = new AsyncDisposableStack();
  const plane = fixture.plane("hub");
  const certificate = await plane.authority.issueServing(["127.0.0.1"]);
  const under = /^\/apis\/resourcemanager\.miloapis\.com\/v1alpha1\/projects\/[^/]+\/control-plane/;
  const milo = owned.use(await startHttpProxy({ target: plane.url, ca: plane.ca, certificate, under }));
  await fixture.writeKubeconfig("milo", plane.kubeconfig({ server: milo.url }));
  await web.create(customResourceDefinitions, PROJECTS);
  await patiently(() => setProject("web", "True"));
  await fixture.startHub(fleet("{ milo: { kubeconfig: milo } }"));
  await create(web, "by-milo");
  await assertRuns(web, "by-milo");
  expect(await inCell("by-milo")).toEqual([expect.stringContaining("cluster-acme_web ")]);
  await setProject("twin", "False");
  await setProject("twin", "True");
  await patiently(async () => ok(await fixture.says(/projects with the cluster of another one: twin/)));
  await untilConnected("web", true);
  await web.delete(projects, { name: "web" });
  await web.delete(projects, { name: "twin" });
  await untilConnected("web", false);
  expect(await inCell("by-milo")).toHaveLength(1);
  await setProject("web", "True");
  await create(web, "by-milo-again");
  await assertRuns(web, "by-milo-again");
});

/** As Milo declares it, without what Berth does not read. */
const PROJECTS = {
  metadata: { name: "projects.resourcemanager.miloapis.com" },
  spec: {
    group: "resourcemanager.miloapis.com",
    scope: "Cluster",
    names: { kind: "Project", plural: "projects", singular: "project", listKind: "ProjectList" },
    versions: [
      {
        name: "v1alpha1",
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
} as const;
