import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect, loadKubeconfig, nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import {
  ClusterExistsError,
  type DetachedCluster,
  type DetachedClusterOptions,
  detachedClusterStatus,
  startDetachedCluster,
  stopDetachedCluster,
} from "./detached.ts";
import { eventually } from "./eventually.ts";
import { findFreePort } from "./ports.ts";
import { identify } from "./process-identity.ts";

async function temporary(): Promise<AsyncDisposable & { readonly dir: string; readonly parent: string }> {
  const parent = await mkdtemp(path.join(tmpdir(), "berth-detached-test-"));
  const dir = path.join(parent, "cluster");
  return {
    dir,
    parent,
    async [Symbol.asyncDispose]() {
      await stopDetachedCluster({ dir });
      await rm(parent, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Starts a cluster as the CLI does: from a process that ends afterwards. */
function startFromAnotherProcess(options: DetachedClusterOptions): ReturnType<typeof spawn> {
  const script = `
    import { startDetachedCluster } from ${JSON.stringify(new URL("./detached.ts", import.meta.url).href)};
    console.log(JSON.stringify(await startDetachedCluster(${JSON.stringify(options)})));
  `;
  const node = ["--conditions=berth-source", "--input-type=module", "--eval", script];
  return spawn(process.execPath, node, { stdio: ["ignore", "pipe", "inherit"] });
}

describe("a detached cluster", () => {
  it("outlives who started it, is usable through its kubeconfig, and stops with its data kept", async () => {
    await using place = await temporary();
    const { dir } = place;
    expect(await detachedClusterStatus({ dir })).toMatchObject({ state: "stopped" });

    const starter = startFromAnotherProcess({ dir, nodes: 3 });
    const output = (await starter.stdout?.toArray())?.join("") ?? "";
    // The stream ended, so nobody who still runs holds it.
    const { url, kubeconfig } = JSON.parse(output) as DetachedCluster;
    await eventually(async () => expect(await identify(starter.pid ?? 0)).toBeUndefined());

    const status = await detachedClusterStatus({ dir });
    expect(status).toMatchObject({ state: "running", url, kubeconfig: path.join(dir, "kubeconfig") });
    expect(status.components.map(({ name }) => name)).toEqual(["etcd", "kube-apiserver", "kwok"]);
    expect((await stat(kubeconfig)).mode & 0o777).toBe(0o600);
    expect(await readFile(kubeconfig, "utf8")).toContain("certificate-authority-data: ");
    expect(await readyNodes(kubeconfig)).toEqual(["node-1", "node-2", "node-3"]);

    await expect(startDetachedCluster({ dir })).rejects.toThrow(ClusterExistsError);
    expect(await readyNodes(kubeconfig)).toHaveLength(3);

    expect(await stopDetachedCluster({ dir })).toEqual(["etcd", "kube-apiserver", "kwok"]);
    for (const { pid } of status.components) expect(await identify(pid)).toBeUndefined();
    expect(await detachedClusterStatus({ dir })).toMatchObject({ state: "stopped" });
    await expect(access(kubeconfig)).rejects.toThrow("ENOENT");
    expect(await stopDetachedCluster({ dir })).toEqual([]);

    const again = await startDetachedCluster({ dir });
    expect(await readyNodes(again.kubeconfig)).toHaveLength(3);
  });

  it("shows that a component has ended", async () => {
    await using place = await temporary();
    const { dir } = place;
    await startDetachedCluster({ dir });
    const { components } = await detachedClusterStatus({ dir });
    const server = components.find(({ name }) => name === "kube-apiserver");
    process.kill(server?.pid ?? 0, "SIGKILL");
    await eventually(async () => {
      const status = await detachedClusterStatus({ dir });
      expect(status.state).toBe("degraded");
      expect(status.components).toContainEqual({ ...server, running: false });
    });
    expect(await stopDetachedCluster({ dir })).toEqual(["etcd"]);
  });

  it("leaves nothing behind when its start is killed halfway, and can be started then", async () => {
    await using place = await temporary();
    const { dir } = place;
    const starter = startFromAnotherProcess({ dir });
    await eventually(() => access(path.join(dir, "kube-apiserver.log")));
    expect((await detachedClusterStatus({ dir })).state).toBe("starting");
    await expect(startDetachedCluster({ dir })).rejects.toThrow(ClusterExistsError);
    await expect(stopDetachedCluster({ dir })).rejects.toThrow(ClusterExistsError);
    starter.kill("SIGKILL");
    await once(starter, "exit");
    expect((await detachedClusterStatus({ dir })).state).toBe("stopped");
    await eventually(async () => expect(await processesNaming(dir)).toEqual([]));
    // As etcd leaves it when it is killed while it makes its data: it would wait for a leader for ever.
    await rm(path.join(dir, "etcd"), { recursive: true, force: true });
    await mkdir(path.join(dir, "etcd", "member", "wal"), { recursive: true });
    await writeFile(path.join(dir, "etcd", "member", "wal", "0000000000000000-0000000000000000.wal"), "");
    await startDetachedCluster({ dir });
    expect((await detachedClusterStatus({ dir })).state).toBe("running");
  });

  it("removes what it made when the start fails", async () => {
    await using place = await temporary();
    const { dir } = place;
    const port = await findFreePort();
    // It does not end while a connection is open, whoever made it.
    const squatter = createServer((socket) => socket.destroy()).listen(port, "127.0.0.1");
    await once(squatter, "listening");
    await expect(startDetachedCluster({ dir, port })).rejects.toThrow(/address already in use/);
    expect(await readdir(place.parent)).toEqual([]);
    expect(await processesNaming(dir)).toEqual([]);
    squatter.close();
    await once(squatter, "close");
  });
});

async function readyNodes(kubeconfig: string): Promise<readonly string[]> {
  const resolved = await loadKubeconfig([kubeconfig], { environment: {} });
  await using client = connect(resolved.connect);
  const { items } = await client.list(nodes);
  return items
    .filter(({ status }) =>
      status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
    )
    .map(({ metadata }) => metadata?.name ?? "");
}

/** Processes whose command line has this text in it. */
async function processesNaming(text: string): Promise<readonly string[]> {
  const ps = spawn("ps", ["-eo", "pid=,args="], { stdio: ["ignore", "pipe", "inherit"] });
  return (await ps.stdout.toArray())
    .join("")
    .split("\n")
    .filter((line) => line.includes(text));
}
