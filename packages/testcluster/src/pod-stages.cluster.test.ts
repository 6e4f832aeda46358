import {
  type ContainerStatus,
  isApiError,
  type KubeClient,
  type KubeObject,
  type Pod,
  pods,
} from "@berth/kube";
import { beforeAll, describe, expect, it } from "vitest";
import type { TestCluster } from "./cluster.ts";
import { eventually } from "./eventually.ts";
import { createNodes } from "./nodes.ts";
import { aPod, type PodBuilder } from "./pod-builder.ts";
import { sharedTestCluster } from "./shared.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster({ with: ["scheduler", "controller-manager", "kwok"] });
  await createNodes(cluster.client, 1, { fake: true });
});

/** The states of the first container, in order, until one has this reason. */
async function statesUntil(reason: string, pod: PodBuilder): Promise<readonly ContainerStatus[]> {
  const { metadata } = await cluster.client.create(pods, pod.build());
  const { name = "", resourceVersion = "" } = metadata ?? {};
  await using stream = await cluster.client.watch(pods, {
    namespace: "default",
    fieldSelector: `metadata.name=${name}`,
    resourceVersion,
  });
  const seen: ContainerStatus[] = [];
  for await (const event of stream) {
    if (event.type !== "MODIFIED") continue;
    const status = event.object.status?.containerStatuses?.[0];
    if (status !== undefined) seen.push(status);
    if (status?.state?.waiting?.reason === reason) return seen;
  }
  throw new Error(`the watch of ${name} ended before ${reason}`);
}

const read = (name: string): Promise<Pod> => cluster.client.get(pods, { namespace: "default", name });
const isReady = ({ status: observed }: Pod): boolean =>
  observed?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
const behaving = (name: string, behaviour: string): PodBuilder =>
  aPod(name).annotated({ "kwok.berth.dev/behaviour": behaviour });

describe("a pod on a node of kwok", () => {
  it.each([
    ["by its image", aPod("pull-image").image("registry.test/team/pull-failure:2")],
    ["by its digest", aPod("pull-digest").image(`pull-failure@sha256:${"0".repeat(64)}`)],
    ["by its annotation", behaving("pull-annotation", "pull-failure")],
  ])("fails to pull %s, and stays Pending", async (_how, pod) => {
    const states = await statesUntil("ImagePullBackOff", pod);
    const image = pod.build().spec?.containers[0]?.image ?? "";
    expect(states.map(({ state }) => state?.waiting?.reason)).toEqual(["ErrImagePull", "ImagePullBackOff"]);
    for (const { state } of states) expect(state?.waiting?.message).toContain(image);
    const stored = await read(pod.build().metadata?.name ?? "");
    expect(stored.status?.phase).toBe("Pending");
    expect(isReady(stored)).toBe(false);
  });

  it.each([
    ["by its image", aPod("crash-image").image("registry.test/crash-loop:1")],
    ["by its annotation", behaving("crash-annotation", "crash-loop")],
  ])("crashes %s, and waits to start again", async (_how, pod) => {
    const [first, last, ...more] = await statesUntil("CrashLoopBackOff", pod);
    expect(more).toEqual([]);
    expect(first).toMatchObject({ restartCount: 0, state: { terminated: { exitCode: 1, reason: "Error" } } });
    expect(last).toMatchObject({
      ready: false,
      restartCount: 1,
      state: { waiting: { reason: "CrashLoopBackOff", message: expect.stringContaining("main") } },
      lastState: { terminated: { exitCode: 1, reason: "Error" } },
    });
    expect((await read(pod.build().metadata?.name ?? "")).status?.phase).toBe("Running");
  });

  it("has a configuration error by its annotation", async () => {
    const [only, ...more] = await statesUntil(
      "CreateContainerConfigError",
      behaving("config", "config-error"),
    );
    expect(more).toEqual([]);
    expect(only?.state?.waiting?.message).toBe('configmap "missing" not found');
  });

  it("fails in the container whose image says so, and runs the others", async () => {
    await cluster.client.create(pods, aPod("half").container("bad", "registry.test/pull-failure:1").build());
    const { status } = await eventually(async () => {
      const pod = await read("half");
      expect(pod.status?.containerStatuses?.[1]?.state?.waiting?.reason).toBe("ImagePullBackOff");
      return pod;
    });
    expect(status?.phase).toBe("Pending");
    expect(status?.containerStatuses?.[0]).toMatchObject({ ready: true, state: { running: {} } });
  });

  it("is Ready with an address: at once, or after the time of its annotation", async () => {
    const slow = aPod("slow").annotated({ "kwok.berth.dev/ready-after": "3s" });
    await cluster.client.create(pods, slow.build());
    await cluster.client.create(pods, aPod("quick").build());
    const readyAt = async (name: string): Promise<number> => {
      const pod = await eventually(async () => {
        const found = await read(name);
        expect(isReady(found)).toBe(true);
        return found;
      });
      expect(pod.status?.podIP).toMatch(/^10\./);
      return Date.parse(pod.status?.startTime ?? "");
    };
    const quick = await readyAt("quick");
    expect(isReady(await read("slow"))).toBe(false);
    // Times on the wire have no fractions of a second.
    expect((await readyAt("slow")) - quick).toBeGreaterThanOrEqual(2000);
  });
});

describe("a pod that is evicted", () => {
  const evict = (name: string): Promise<unknown> =>
    cluster.client.create<KubeObject>(
      pods,
      { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "default" } },
      { subresource: "eviction" },
    );

  it("goes at once, and with a finalizer once that is taken off", async () => {
    const held = aPod("held").with((pod) => ({
      ...pod,
      metadata: { ...pod.metadata, finalizers: ["test.berth.dev/hold"] },
    }));
    for (const pod of [aPod("free"), held]) {
      const name = (await cluster.client.create(pods, pod.build())).metadata?.name ?? "";
      await eventually(async () => expect(isReady(await read(name))).toBe(true));
      await evict(name);
    }
    await gone(cluster.client, "free");
    const leaving = await read("held");
    expect(leaving.metadata?.deletionTimestamp).toBeDefined();
    const body = { metadata: { finalizers: null } };
    await cluster.client.patch(pods, { namespace: "default", name: "held" }, { type: "merge", body });
    await gone(cluster.client, "held");
  });
});

async function gone(client: KubeClient, name: string): Promise<void> {
  await eventually(async () => {
    const error = await client.get(pods, { namespace: "default", name }).catch((reason: unknown) => reason);
    expect(isApiError(error, "notFound")).toBe(true);
  });
}
