/** The part of the demo where a Workload becomes running pods. The demo plays the quota service, which is not Berth. */
import { type InstanceStatus, instances, type Workload, type WorkloadSpec, workloads } from "@berth/fleet";
import { toCustomResourceDefinition } from "@berth/host";
import { type CustomResourceDefinition, customResourceDefinitions, type KubeClient, pods } from "@berth/kube";
import { product } from "@berth/placement";
import { findCondition } from "@berth/runtime";
import { anImage, eventually } from "@berth/testcluster";
import { foreignKinds } from "../kinds.ts";
import type { Company } from "./company.ts";
import { claimCrd, grantClaims } from "./quota-service.ts";
import type { Images, Scene, World } from "./story.ts";

const NAMESPACE = "default";
const API = { namespace: NAMESPACE, name: "api" };
const ours = { namespace: NAMESPACE, labelSelector: "compute.datumapis.com/workload-name=api" };

/** @param quota the kubeconfig of the quota service. */
export const fleetDocument = (quota: string): string => `apiVersion: berth.dev/v1alpha1
kind: Fleet
metadata:
  name: demo
spec:
  mode: single
  cities: [DFW]
  project:
    id: demo
  quota:
    from: Kubeconfig
    kubeconfig: ${quota}
`;

/** Creates the kinds of the fleet, and those in `more`. Resolves when the API server serves them. */
export async function serveFleetKinds(
  client: KubeClient,
  signal: AbortSignal,
  more: readonly CustomResourceDefinition[] = [],
): Promise<void> {
  const own = foreignKinds(["fleet"]).map((kind) => toCustomResourceDefinition(kind, product));
  const crds = [...own, ...more];
  for (const crd of crds) await client.create(customResourceDefinitions, crd);
  for (const { spec } of crds) {
    const path = `/apis/${spec?.group}/${spec?.versions[0]?.name}/${spec?.names.plural}?limit=1`;
    await eventually(() => client.read(path), { timeoutMs: 30_000, signal });
  }
}

/** Before Berth starts: creates the kinds of the fleet, and ResourceClaim. @returns an image that no node can pull. */
export async function setTheFleetStage(
  { client, signal }: Pick<World, "client" | "signal">,
  company: Pick<Company, "push">,
): Promise<string> {
  await serveFleetKinds(client, signal, [claimCrd]);
  // kwok lets the pull of an image with this name fail.
  return company.push(anImage("shop/pull-failure:1").platforms("linux/amd64"));
}

export const FLEET_SCENES: readonly Scene[] = [
  {
    title: "A Workload is applied: three instances in Dallas. The quota service has room for three",
    act: ({ client, images }) => client.create(workloads, { metadata: API, spec: specOf(images) }),
    expected: "three pods run, each created when the one before it was ready",
    seen: async (world) => {
      await grantClaims(world.client, 3);
      await expectReady(3, world);
      await expectInOrder(world);
    },
  },
  {
    title: "Its image is changed to one that no node can pull",
    act: (world) => setImage(world.unpullable, world),
    expected: "berth explain has the image as the one reason at its top, and two instances still run",
    seen: async (world) => {
      await grantClaims(world.client, 3);
      await expectReady(2, world);
      const [top = ""] = (await world.berth(["explain", "workload", "default/api"])).split("\n");
      if (!top.startsWith("ImageUnavailable")) throw new Error(`berth explain says ${top}`);
      world.say(`  ${top}`);
    },
  },
  {
    title: "The image is corrected",
    act: (world) => setImage(world.images.web, world),
    expected: "the instance that failed is replaced, and three run again",
    seen: async (world) => {
      await grantClaims(world.client, 3);
      await expectReady(3, world);
    },
  },
  {
    title: "The Workload is scaled to four. The budget is three",
    act: (world) => scale(4, world),
    expected: "the fourth instance says that it waits for quota, and has no pod",
    seen: async (world) => {
      await grantClaims(world.client, 3);
      await expectWaiting(3, "QuotaExceeded", world);
    },
  },
  {
    title: "The budget is raised to four",
    act: ({ client }) => grantClaims(client, 4),
    expected: "the fourth pod runs, and no user did anything",
    seen: (world) => expectReady(4, world),
  },
  {
    title: "The quota service goes away, and the Workload is scaled to five",
    act: async (world) => {
      world.quota.refuse();
      world.quota.resetAll();
      await scale(5, world);
    },
    expected: "only the fifth instance waits. Nothing that runs is shown as down",
    seen: async (world) => {
      await expectWaiting(4, "QuotaBackendUnavailable", world);
      await expectReady(4, world);
    },
  },
  {
    title: "The quota service comes back, with room for five",
    act: ({ client, quota }) => {
      quota.pass();
      return grantClaims(client, 5);
    },
    expected: "the fifth pod runs",
    seen: async (world) => {
      await grantClaims(world.client, 5);
      await expectReady(5, world);
    },
  },
];

function specOf({ web }: Images): WorkloadSpec {
  return {
    template: {
      spec: {
        runtime: {
          resources: { instanceType: "datumcloud/d1-standard-2" },
          sandbox: { containers: [{ name: "api", image: web }] },
        },
        networkInterfaces: [{ network: { name: "default" } }],
      },
    },
    placements: [{ name: "us", cityCodes: ["DFW"], scaleSettings: { minReplicas: 3 } }],
  };
}

function setImage(image: string, world: World): Promise<Workload> {
  return replace("/spec/template/spec/runtime/sandbox/containers/0/image", image, world);
}

function scale(count: number, world: World): Promise<Workload> {
  return replace("/spec/placements/0/scaleSettings/minReplicas", count, world);
}

function replace(path: string, value: unknown, { client }: World): Promise<Workload> {
  return client.patch(workloads, API, { type: "json", body: [{ op: "replace", path, value }] });
}

/** So many Instances are Ready, and so many pods run. */
async function expectReady(count: number, { client }: World): Promise<void> {
  const { metadata, status } = await client.get(workloads, API);
  if (status?.observedGeneration !== metadata?.generation) throw new Error("Berth has not seen the change");
  if (status?.readyReplicas !== count) throw new Error(`${status?.readyReplicas} instances are ready`);
  const { items } = await client.list(pods, ours);
  const running = items.filter((pod) => pod.status?.phase === "Running").length;
  if (running !== count) throw new Error(`${running} pods run`);
}

/** The Instance is held because of quota, with this reason, and no pod exists for it. */
async function expectWaiting(ordinal: number, because: string, { client }: World): Promise<void> {
  const name = `api-us-dfw-${ordinal}`;
  const { status } = await client.get(instances, { namespace: NAMESPACE, name });
  const { ready, granted } = { ready: reasonOf(status, "Ready"), granted: reasonOf(status, "QuotaGranted") };
  if (ready !== "PendingQuota" || granted !== because) throw new Error(`${name} says ${ready}, ${granted}`);
  const { items } = await client.list(pods, ours);
  if (items.some(({ metadata }) => metadata?.name === name)) throw new Error(`there is a pod ${name}`);
}

/** No Instance is older than the readiness of the one before it. The API server counts in seconds. */
async function expectInOrder({ client }: World): Promise<void> {
  const { items } = await client.list(instances, ours);
  const ordered = items.toSorted((a, b) => ((a.metadata?.name ?? "") < (b.metadata?.name ?? "") ? -1 : 1));
  for (const [at, { metadata }] of ordered.entries()) {
    const readySince = findCondition(ordered[at - 1]?.status?.conditions, "Ready")?.lastTransitionTime ?? "";
    if ((metadata?.creationTimestamp ?? "") < readySince) throw new Error(`${metadata?.name} came too early`);
  }
}

function reasonOf(status: InstanceStatus | undefined, type: string): string | undefined {
  return findCondition(status?.conditions, type)?.reason;
}
