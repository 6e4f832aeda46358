import { spawn } from "node:child_process";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { isApiError, type KubeClient, namespaces, nodes, pods, type WatchEvent } from "@berth/kube";
import { afterEach, describe, expect, it } from "vitest";
import type { ComponentName } from "./assets.ts";
import { startTestCluster } from "./cluster.ts";
import { eventually } from "./eventually.ts";
import { aNode } from "./node-builder.ts";
import { aPod } from "./pod-builder.ts";
import { identify } from "./process-identity.ts";
import { restoreSharedTestClusters, sharedTestCluster } from "./shared.ts";

/** For what takes several programs several steps, each as soon as it gets to it. */
const CONTROLLERS = { timeoutMs: 60_000 };

const ALL = { with: ["scheduler", "controller-manager", "kwok"] } as const;

afterEach(() => restoreSharedTestClusters());

describe("startTestCluster", () => {
  it("answers as the pinned Kubernetes, to the admin and to nobody without a credential", async () => {
    const cluster = await sharedTestCluster();
    const version = JSON.parse(await cluster.client.read("/version")) as { gitVersion: string };
    expect(version.gitVersion).toBe("v1.36.3");
    await expect(cluster.client.list(nodes)).resolves.toMatchObject({ items: [] });
    await using stranger = cluster.connect({ user: { name: "x", groups: [], token: "wrong" } });
    await expect(stranger.list(nodes)).rejects.toSatisfy((error) => isApiError(error, "unauthorized"));
  });

  it("knows users by token and by client certificate, without rights", async () => {
    await using cluster = await startTestCluster({ users: [{ name: "walker", groups: ["visitors"] }] });
    for (const user of [await cluster.user("walker"), await cluster.user("driver", ["drivers"])]) {
      await using client = cluster.connect({ user });
      const refusal = await client.list(nodes).catch((error: unknown) => error);
      expect(isApiError(refusal, "forbidden")).toBe(true);
      expect(String(refusal)).toContain(user.name);
    }
    expect("token" in (await cluster.user("walker"))).toBe(true);
  });

  it("leaves no process and no file behind", async () => {
    let pids: readonly number[] = [];
    let folder = "";
    {
      await using cluster = await startTestCluster();
      folder = cluster.folder;
      pids = COMPONENTS.map((name) => cluster.pidOf(name)).filter((pid) => pid !== undefined);
      expect(pids).toHaveLength(2);
      for (const pid of pids) expect(await identify(pid)).toBeDefined();
    }
    for (const pid of pids) expect(await identify(pid)).toBeUndefined();
    await expect(access(folder)).rejects.toThrow("ENOENT");
  });

  it("leaves none behind either when this process is killed", async () => {
    const script = `
      import { startTestCluster } from ${JSON.stringify(new URL("./cluster.ts", import.meta.url).href)};
      const cluster = await startTestCluster({ with: ["scheduler"] });
      const pids = ["etcd", "kube-apiserver", "kube-scheduler"].map((name) => cluster.pidOf(name));
      console.log(JSON.stringify({ pids, folder: cluster.folder }));
      setInterval(() => {}, 1000);
    `;
    const node = ["--conditions=berth-source", "--input-type=module", "--eval", script];
    const parent = spawn(process.execPath, node, { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(parent.stdout, "data")) as [Buffer];
    const { pids, folder } = JSON.parse(line.toString()) as { pids: readonly number[]; folder: string };
    for (const pid of pids) expect(await identify(pid)).toBeDefined();
    parent.kill("SIGKILL");
    await eventually(async () => {
      for (const pid of pids) expect(await identify(pid)).toBeUndefined();
      await expect(access(folder)).rejects.toThrow("ENOENT");
    });
  });

  it("reports the last lines of a component that ends while it starts, and leaves nothing running", async () => {
    const failing = startTestCluster({ flags: { "kube-apiserver": ["--no-such-flag"] } });
    await expect(failing).rejects.toThrow(/kube-apiserver ended \(exit 1\)[\s\S]*no-such-flag/);
  });

  it("runs a deployment's worth of machinery: a pod is scheduled, runs, and goes", async () => {
    const { client } = await sharedTestCluster(ALL);
    for (const name of ["node-1", "node-2"]) await client.create(nodes, aNode(name).fake().build());
    await client.create(pods, aPod("p1").build());
    const running = await eventually(async () => {
      const pod = await client.get(pods, { namespace: "default", name: "p1" });
      expect(pod.status?.phase).toBe("Running");
      return pod;
    }, CONTROLLERS);
    expect(["node-1", "node-2"]).toContain(running.spec?.nodeName);
    expect(running.status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("True");
    await client.delete(pods, { namespace: "default", name: "p1" });
    await eventually(() => expectGone(client, "p1"), CONTROLLERS);
  });

  it("makes a node of any architecture Ready when it is kwok's, and only then", async () => {
    const cluster = await sharedTestCluster(ALL);
    await cluster.client.create(nodes, aNode("theirs").arm64().fake().labelled({ kept: "yes" }).build());
    await cluster.client.create(nodes, aNode("ours").notReady().build());
    const theirs = await eventually(async () => {
      const node = await cluster.client.get(nodes, { name: "theirs" });
      expect(node.status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("True");
      return node;
    });
    expect(theirs.status?.nodeInfo?.architecture).toBe("arm64");
    expect(theirs.metadata?.labels).toMatchObject({ kept: "yes", "kubernetes.io/arch": "arm64" });
    const ours = await cluster.client.get(nodes, { name: "ours" });
    expect(ours.status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("False");
  });
});

describe("stopping and starting components", () => {
  it.each(["SIGTERM", "SIGKILL"] as const)(
    "brings the API server back with its data after %s",
    async (signal) => {
      const cluster = await sharedTestCluster();
      await cluster.client.create(nodes, aNode("n1").build());
      await cluster.stopComponent("kube-apiserver", signal);
      expect(cluster.pidOf("kube-apiserver")).toBeUndefined();
      await expect(cluster.client.get(nodes, { name: "n1" })).rejects.toSatisfy((error) =>
        isApiError(error, "unreachable", "timeout"),
      );
      await cluster.startComponent("kube-apiserver");
      await eventually(() => cluster.client.get(nodes, { name: "n1" }));
    },
  );

  it("brings etcd back with its data after a crash", async () => {
    const cluster = await sharedTestCluster();
    await cluster.client.create(nodes, aNode("n1").build());
    await cluster.stopComponent("etcd", "SIGKILL");
    await cluster.startComponent("etcd");
    const node = await eventually(() => cluster.client.get(nodes, { name: "n1" }));
    expect(node.metadata?.name).toBe("n1");
  });
});

describe("compacted history", () => {
  it("is gone for continue tokens and for watches once the API server was restarted too, and not before", async () => {
    const cluster = await sharedTestCluster();
    const { client } = cluster;
    const isExpired = (error: unknown): boolean => isApiError(error, "expired");
    const old = (await client.list(namespaces)).metadata.resourceVersion ?? "";
    for (const name of ["a", "b", "c"]) await client.create(namespaces, { metadata: { name } });
    const page = await client.list(namespaces, { limit: 2 });
    const rest = { limit: 2, continue: page.metadata.continue ?? "" };
    await client.create(namespaces, { metadata: { name: "d" } });

    const present = await cluster.compact();
    expect(BigInt(present)).toBeGreaterThan(BigInt(old));
    expect(BigInt(await cluster.compact())).toBeGreaterThanOrEqual(BigInt(present));
    expect((await client.list(namespaces, rest)).items).toHaveLength(2);
    expect(await firstEvent(client, old)).toMatchObject({
      type: "ADDED",
      object: { metadata: { name: "a" } },
    });

    await cluster.stopComponent("kube-apiserver");
    await cluster.startComponent("kube-apiserver");
    await expect(client.list(namespaces, rest)).rejects.toSatisfy(isExpired);
    await expect(firstEvent(client, old)).rejects.toSatisfy(isExpired);
  });
});

const COMPONENTS: readonly ComponentName[] = ["etcd", "kube-apiserver"];

async function expectGone(client: KubeClient, name: string): Promise<void> {
  const answer = await client.get(pods, { namespace: "default", name }).catch((error: unknown) => error);
  expect(isApiError(answer, "notFound")).toBe(true);
}

async function firstEvent(
  client: KubeClient,
  resourceVersion: string,
): Promise<WatchEvent<object> | undefined> {
  await using stream = await client.watch(namespaces, { resourceVersion, timeoutSeconds: 10 });
  for await (const event of stream) return event;
  return undefined;
}
