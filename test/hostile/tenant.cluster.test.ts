/**
 * What a tenant writes into Workloads, in a cell: no webhook refuses it there, so what Berth makes of it must hold by
 * itself. Floods, stolen tokens, evictions and silent projects have files of their own.
 */
import { deepStrictEqual } from "node:assert";
import { instances, type WorkloadDeployment, workloadDeployments } from "@berth/fleet";
import { isApiError, type KubeClient } from "@berth/kube";
import type { TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { locations, networkBindings, networks } from "../../packages/fleet/src/api/networking.ts";
import { type ResourceClaim, resourceClaims } from "../../packages/fleet/src/api/quota.ts";
import { installCrds, networkingCrds, quotaCrds } from "../../packages/fleet/src/testing/fixture-crds.ts";
import { type ClaimGrants, grantClaims } from "../../packages/fleet/src/testing/grant-claims.ts";
import { networkHands } from "../../packages/fleet/src/testing/network-hands.ts";
import {
  aDeployment,
  conditionOf,
  type FleetFixture,
  fleetFixture,
  lookAt,
  nameOf,
  verdict,
  type WorkloadChoice,
} from "../fleet-fixture.ts";
import { sharedFullCluster } from "../footprint-cluster.ts";
import { patiently } from "../patience.ts";
import type { BerthProcess } from "../product.ts";

const NAMESPACE = "evil";
const PROJECT = {
  "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web",
  "meta.datumapis.com/upstream-namespace": NAMESPACE,
};
const seen = () => lookAt(client, NAMESPACE);

let cluster: TestCluster;
let client: KubeClient;
let fixture: FleetFixture;
let berth: BerthProcess;
let quota: ClaimGrants;
const owned = new AsyncDisposableStack();
beforeAll(async () => {
  cluster = await sharedFullCluster();
  client = cluster.client;
  await installCrds(client, [...networkingCrds, ...quotaCrds]);
  owned.use(await networkHands(client));
  quota = owned.use(await grantClaims(client, { budget: 20 }));
  const counted = { locations: { namespaces: ["default"] } };
  const spec = { mode: "cell", cell: "dfw-01", quota: { from: "Cluster" }, ...counted } as const;
  fixture = owned.use(await fleetFixture(cluster, { spec }));
  await fixture.namespace(NAMESPACE, PROJECT);
  await addNetwork("default");
  await addLocation("default", "DFW");
  berth = owned.use(await fixture.start());
});
afterAll(async () => {
  deepStrictEqual(await fixture.refused(), []);
  await owned.disposeAsync();
});

const addNetwork = (name: string) =>
  client.create(networks, { metadata: { namespace: NAMESPACE, name }, spec: { ipam: { mode: "Auto" } } });

const addLocation = (namespace: string, city: string) =>
  client.create(locations, {
    metadata: { namespace, name: city.toLowerCase() },
    spec: {
      locationClassName: "self-managed",
      topology: { "topology.datum.net/city-code": city },
      provider: {},
    },
  });

type Template = NonNullable<WorkloadDeployment["spec"]>["template"];

/** A deployment as the federation brings it, with what the tenant wrote. */
async function bring(
  name: string,
  change: Partial<Template["spec"]>,
  {
    city = "DFW",
    ...choice
  }: Pick<WorkloadChoice, "replicas" | "metadata"> & { readonly city?: string } = {},
): Promise<void> {
  const { spec, ...deployment } = aDeployment({ namespace: NAMESPACE, name, ...choice });
  const template = spec && { ...spec.template, spec: { ...spec.template.spec, ...change } };
  await client.create(workloadDeployments, {
    ...deployment,
    ...(spec && template && { spec: { ...spec, template, cityCode: city } }),
  });
}

it("S-13 a Pod has no capabilities but those of the Fleet, no token, and a bound for its storage", async () => {
  await bring("plain", {});
  await patiently(async () =>
    expect(verdict(await seen().instance("plain-us-dfw-0"), "Ready")).toBe("True/Available"),
  );
  const { spec } = await seen().pod("plain-us-dfw-0");
  expect(spec).toMatchObject({
    automountServiceAccountToken: false,
    securityContext: { seccompProfile: { type: "RuntimeDefault" } },
  });
  expect(spec?.containers).toEqual([
    expect.objectContaining({
      resources: expect.objectContaining({
        limits: { cpu: "1", memory: "2Gi", "ephemeral-storage": "10Gi" },
      }),
      securityContext: {
        allowPrivilegeEscalation: false,
        capabilities: {
          drop: ["ALL"],
          add: ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"],
        },
      },
    }),
  ]);
});

it("S-13 keys that other programs obey do not reach the Pod, and the deployment names them", async () => {
  const obeyed = {
    "iam.gke.io/gcp-service-account": "admin",
    "k8s.v1.cni.cncf.io/networks": "host",
    "meta.datumapis.com/upstream-cluster-name": "cluster-victim",
    "sidecar.istio.io/inject": "false",
    "topology.kubernetes.io/zone": "a",
  };
  const profile = { "container.apparmor.security.beta.kubernetes.io/web": "unconfined" };
  const index = { "compute.datumapis.com/instance-index": "9" };
  const metadata = {
    labels: { team: "a", ...obeyed, ...index },
    annotations: { plain: "b", ...obeyed, ...profile },
  };
  await bring("keys", {}, { metadata });
  const pod = await patiently(() => seen().pod("keys-us-dfw-0"));
  expect(pod.metadata).toMatchObject({
    labels: { team: "a", "compute.datumapis.com/instance-index": "0" },
    annotations: { plain: "b" },
  });
  const reached = Object.keys({ ...pod.metadata?.labels, ...pod.metadata?.annotations });
  const leftOut = Object.keys({ ...obeyed, ...profile }).sort();
  expect(reached.filter((key) => leftOut.includes(key))).toEqual([]);
  await patiently(async () =>
    expect(conditionOf(await seen().deployment("keys-us-dfw"), "TemplateApplied")).toMatchObject({
      reason: "KeysLeftOut",
      message: expect.stringContaining(leftOut.join(", ")),
    }),
  );
});

it("S-15 a template that is too large, by itself or times its Instances, makes no Instance until it is smaller", async () => {
  const padded = (bytes: number) => ({ annotations: { blob: "x".repeat(bytes) } });
  await bring("large", {}, { metadata: padded(100_000) });
  await bring("many", {}, { metadata: padded(20_000), replicas: 1000 });
  const of = { namespace: NAMESPACE, name: "large-us-dfw" };
  await patiently(async () => {
    for (const name of [of.name, "many-us-dfw"])
      expect(verdict(await seen().deployment(name), "Progressing")).toBe("False/TemplateTooLarge");
  });
  const made = (await seen().instances()).filter((it) => /^(?:large|many)-/.test(nameOf(it)));
  expect(made).toEqual([]);
  const body = { spec: { template: { metadata: padded(1) } } };
  await client.patch(workloadDeployments, of, { type: "merge", body });
  await patiently(async () =>
    expect(verdict(await seen().instance("large-us-dfw-0"), "Ready")).toBe("True/Available"),
  );
});

it("S-15 a Location in the namespace of a tenant serves no city, and the deployment names it", async () => {
  await addLocation(NAMESPACE, "LAX");
  await bring("claimed", {}, { city: "LAX" });
  await patiently(async () =>
    expect(conditionOf(await seen().deployment("claimed-us-dfw"), "Available")).toMatchObject({
      reason: "NoMatchingLocation",
      message: expect.stringContaining(`Location ${NAMESPACE}/lax does not count`),
    }),
  );
});

it("S-13 limits that no quota counts run nothing, and the Instance says which", async () => {
  const asking = (resources: object) => ({
    runtime: {
      resources: { instanceType: "datumcloud/d1-standard-2" },
      sandbox: { containers: [{ name: "web", image: "registry.test/web:1", resources }] },
    },
  });
  const limits = { cpu: "4", memory: "8Gi" };
  const wrong = [
    ["unlimited", { limits: { cpu: "0", memory: "0" } }, "limits[cpu]"],
    ["half", { limits: { cpu: "4" } }, "limits[memory]"],
    ["device", { limits: { ...limits, "hostile.test/gpu": "1" } }, "limits[hostile.test/gpu]"],
    ["cheap", { limits, requests: { cpu: "1m" } }, "requests[cpu]"],
  ] as const;
  for (const [name, resources] of wrong) await bring(name, asking(resources));
  await patiently(async () => {
    for (const [name, , field] of wrong)
      expect(conditionOf(await seen().instance(`${name}-us-dfw-0`), "Ready")).toMatchObject({
        reason: "ConfigurationError",
        message: expect.stringContaining(`containers[0].resources.${field}`),
      });
  });
  const names = new Set((await seen().pods()).map(nameOf));
  expect(wrong.filter(([name]) => names.has(`${name}-us-dfw-0`))).toEqual([]);
});

it("S-13 a claim that a tenant writes for less than the Pod gets opens no gate", async () => {
  quota.pause();
  await bring("dear", {});
  const of = { namespace: NAMESPACE, name: "instance-dear-us-dfw-0" };
  const own = await patiently(() => client.get(resourceClaims, of));
  await patiently(async () => {
    await client.delete(resourceClaims, of).catch((error: unknown) => {
      if (!isApiError(error, "notFound")) throw error;
    });
    await client.create(resourceClaims, smaller(own));
  });
  quota.resume();
  await patiently(async () =>
    expect(verdict(await seen().instance("dear-us-dfw-0"), "Ready")).toBe("True/Available"),
  );
  expect((await client.get(resourceClaims, of)).spec).toEqual(own.spec);
});

function smaller({
  metadata: { namespace = "", name = "", labels = {} } = {},
  spec,
}: ResourceClaim): ResourceClaim {
  const requests = (spec?.requests ?? []).map((it) => Object.assign({}, it, { amount: 1 }));
  return { metadata: { namespace, name, labels }, ...(spec && { spec: { ...spec, requests } }) };
}

it("S-13 a network in the namespace of another is not bound, and the deployment names it", async () => {
  await bring("foreign", { networkInterfaces: [{ network: { name: "default", namespace: "victim" } }] });
  await patiently(async () => {
    expect(conditionOf(await seen().deployment("foreign-us-dfw"), "Available")).toMatchObject({
      status: "False",
      reason: "ForeignNetwork",
      message: expect.stringContaining("network default in namespace victim"),
    });
    expect(verdict(await seen().instance("foreign-us-dfw-0"), "Ready")).toBe("False/SchedulingGatesPresent");
  });
  const bound = await client.list(networkBindings);
  expect(bound.items.filter(({ spec }) => spec?.network.namespace === "victim")).toEqual([]);
});

it("S-13 a label on a Network leads to no look at the deployments that use it", async () => {
  await addNetwork("other");
  await bring("last", { networkInterfaces: [{ network: { name: "other" } }] }, { replicas: 0 });
  const of = (name: string) => ({ namespace: NAMESPACE, name });
  const looks = (): Promise<number> => berth.metric("compute_reconcile_total", { controller: "deployment" });
  let mtu = 1400;
  await patiently(async () => {
    const before = await looks();
    for (const label of ["a", "b", "c"])
      await client.patch(networks, of("default"), {
        type: "merge",
        body: { metadata: { labels: { label } } },
      });
    // Two changes that do lead to a look at one deployment: the second look is after those that the labels would cause.
    for (const after of [1, 2]) {
      mtu += 1;
      await client.patch(networks, of("other"), { type: "merge", body: { spec: { mtu } } });
      await patiently(async () => expect(await looks()).toBeGreaterThanOrEqual(before + after));
    }
    expect(await looks()).toBe(before + 2);
  });
  expect((await client.list(instances, { namespace: NAMESPACE })).items.length).toBeGreaterThan(0);
});
