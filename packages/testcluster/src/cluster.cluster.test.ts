import { spawn } from "node:child_process";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { customResourceDefinitions, isApiError, nodes, pods } from "@berth/kube";
import { afterEach, describe, expect, it } from "vitest";
import type { ComponentName } from "./assets.ts";
import { startTestCluster } from "./cluster.ts";
import { eventually } from "./eventually.ts";
import { aNode } from "./node-builder.ts";
import { identify } from "./process-identity.ts";
import { restoreSharedTestClusters, sharedTestCluster } from "./shared.ts";

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

  it("is small with the generic API server, which serves CRDs and no pods", async () => {
    await using cluster = await startTestCluster({ small: true });
    await expect(cluster.client.list(customResourceDefinitions)).resolves.toMatchObject({ items: [] });
    await expect(cluster.client.list(pods)).rejects.toSatisfy((error) => isApiError(error, "notFound"));
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

it("stopping and starting a component brings etcd back with its data after a crash", async () => {
  const cluster = await sharedTestCluster();
  await cluster.client.create(nodes, aNode("n1").build());
  await cluster.stopComponent("etcd", "SIGKILL");
  await cluster.startComponent("etcd");
  const node = await eventually(() => cluster.client.get(nodes, { name: "n1" }));
  expect(node.metadata?.name).toBe("n1");
});

const COMPONENTS: readonly ComponentName[] = ["etcd", "kube-apiserver"];
