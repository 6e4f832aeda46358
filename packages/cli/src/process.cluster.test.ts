/** `bin/berth` as a process: its pid, signals, and what a person sees. Needs `make build`. */
import { readlink, symlink } from "node:fs/promises";
import path from "node:path";
import { leases, namespaces, nodes } from "@berth/kube";
import { aNode, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { exitCodes } from "./exit-codes.ts";
import { becomes } from "./testing/cluster.ts";
import { type TestFolder, testFolder } from "./testing/harness.ts";
import { program, silentServer, start } from "./testing/process.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

const LABEL = "accelerators/one";
const OFF = "--metrics-bind-address 0 --health-probe-bind-address 0";

const files = (): Promise<TestFolder> =>
  testFolder({ [`labels/${LABEL}`]: "example.com/device\n", kubeconfig: cluster.kubeconfig() });

describe("bin/berth", () => {
  // A machine that stands still takes longer; what keeps the process from ending does so each time.
  it("becomes the pinned Node, so that its pid is berth's and SIGTERM ends it in order within 2 s", {
    retry: 3,
  }, async () => {
    await using folder = await files();
    // The original form, through a symbolic link as from a folder in PATH.
    const link = path.join(folder.path, "berth");
    await symlink(path.relative(folder.path, program), link);
    await using berth = start(`-kubeconfig kubeconfig -label-dir labels ${OFF}`, folder, link);
    await cluster.client.create(nodes, aNode("process-1").labelled({ "example.com/device": "x" }).build());
    await becomes(cluster.client, nodes, "process-1", { metadata: { labels: { [LABEL]: "true" } } });
    expect(await readlink(`/proc/${berth.pid}/exe`)).toBe(process.execPath);
    const askedAt = performance.now();
    process.kill(berth.pid, "SIGTERM");
    expect(await berth.ended).toBe(exitCodes.done);
    expect(performance.now() - askedAt).toBeLessThan(2000);
    expect(berth.stderr()).toBe("");
  });

  it("I-17 a leader whose Lease another process takes ends in order, and says so with a code of its own", async () => {
    const { client } = cluster;
    const namespace = "lease-lost";
    await client.create(namespaces, { metadata: { name: namespace } });
    await using folder = await files();
    const line = `run --kubeconfig kubeconfig --label-dir labels --leader-elect --namespace ${namespace}`;
    await using berth = start(`${line} ${OFF}`, folder);
    await eventually(() => expect(berth.stdout()).toContain('"leading"'));
    await eventually(async () => {
      const now = await client.get(leases, { namespace, name: "berth" });
      await client.replace(leases, { ...now, spec: { ...now.spec, holderIdentity: "another" } });
    });
    expect(await berth.ended).toBe(exitCodes.leaseLost);
    expect(berth.stderr()).toMatch(
      /^berth: lost leadership: another process holds the Lease lease-lost\/berth/,
    );
  });

  it("can be interrupted while it waits for a server that does not answer", async () => {
    await using folder = await files();
    await using silent = await silentServer();
    const line = `run --label-dir labels --master ${silent.url} --kubeconfig kubeconfig ${OFF}`;
    await using berth = start(line, folder);
    await silent.connected;
    process.kill(berth.pid, "SIGTERM");
    expect(await berth.ended).toBe(exitCodes.interrupted);
    expect(berth.stderr()).toBe("");
  });

  it("never prints the token, whatever goes wrong", async () => {
    await using folder = await files();
    const broken = cluster.kubeconfig().replace(/server: .*/, 'server: "https://127.0.0.1:1"');
    await folder.write("kubeconfig", broken);
    await using berth = start(`run --kubeconfig kubeconfig --log-level debug ${OFF}`, folder);
    expect(await berth.ended).toBe(exitCodes.cluster);
    expect(berth.stderr()).toMatch(/^berth: [^\n]+\n$/);
    expect(berth.stdout() + berth.stderr()).not.toContain(cluster.adminToken);
  });

  it("ends quietly when nobody reads its output any more", async () => {
    await using folder = await files();
    const script = await folder.write("script", `${program} --help | head -c 1`);
    await using berth = start(script, folder, "sh");
    expect(await berth.ended).toBe(0);
    expect(berth.stderr()).toBe("");
  });

  it("starts a cluster, tells where its kubeconfig is on the last line, and stops it", async () => {
    await using folder = await testFolder();
    await using started = start("cluster start --dir c --nodes 1", folder);
    const code = await started.ended;
    try {
      const kubeconfig = path.join(folder.path, "c", "kubeconfig");
      expect([code, started.stdout()]).toEqual([exitCodes.done, `${kubeconfig}\n`]);
      await using status = start("cluster status --dir c -o json", folder);
      expect(await status.ended).toBe(exitCodes.done);
      expect(JSON.parse(status.stdout())).toMatchObject({ state: "running" });
      await using explained = start("explain node node-1 --kubeconfig c/kubeconfig", folder);
      expect(await explained.ended).toBe(exitCodes.done);
    } finally {
      await using stopped = start("cluster stop --dir c", folder);
      expect(await stopped.ended).toBe(exitCodes.done);
    }
    await using gone = start("cluster status --dir c", folder);
    expect(await gone.ended).toBe(exitCodes.failed);
  });

  it("tells which address is taken, and the way out", async () => {
    await using folder = await files();
    const line =
      "run --kubeconfig kubeconfig --label-dir labels --metrics-bind-address 127.0.0.1:0 --health-probe-bind-address";
    await using first = start(`${line} 127.0.0.1:0`, folder);
    const port = await eventually(() => {
      const [, found = ""] = /"health":"http:\/\/127\.0\.0\.1:(\d+)"/.exec(first.stdout()) ?? [];
      expect(found).not.toBe("");
      return found;
    });
    await using second = start(`${line} 127.0.0.1:${port}`, folder);
    expect(await second.ended).toBe(exitCodes.failed);
    expect(second.stderr()).toContain("--health-probe-bind-address");
  });
});
