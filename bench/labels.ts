import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bearerToken, connect, type KubeClient, nodes } from "@berth/kube";
import { type AuditMark, aNode, eventually, startTestCluster, type TestCluster } from "@berth/testcluster";
import { startBerth } from "./process.ts";
import { type RawPatch, type RawTarget, sendRawPatches } from "./raw-patches.ts";
import { type Figure, median } from "./report.ts";

const DEVICE = "feature.example.com/bench-device";
const LABEL = "bench.example.com/accelerated";
const RECORD = "berth.dev/marks";
const MB = 1024 * 1024;

export interface LabelsBenchOptions {
  readonly nodes: number;
  /** Interleaved pairs of raw and Berth. */
  readonly pairs: number;
  /** Resident memory is read this long after the last label. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

/** Half of the nodes carry a device; the time from process start until the last of them is labelled, against the raw limit. */
export async function benchLabels(options: LabelsBenchOptions): Promise<readonly Figure[]> {
  await using cluster = await startTestCluster({ audit: true });
  await using client = connect({
    server: cluster.url,
    ca: cluster.ca,
    credential: bearerToken(cluster.adminToken),
    userAgent: "bench",
  });
  await using folder = await workFolder(cluster);
  const names = Array.from({ length: options.nodes }, (_, index) => `node-${String(index).padStart(5, "0")}`);
  const withDevice = names.filter((_, index) => index % 2 === 0);
  options.onProgress(`creating ${names.length} nodes of 9 KB`);
  await createNodes(client, names, new Set(withDevice));

  const target: RawTarget = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  const bare = withDevice.map(
    (node): RawPatch => ({
      node,
      body: { metadata: { labels: { [LABEL]: null }, annotations: { [RECORD]: null } } },
    }),
  );
  const labelled = withDevice.map(
    (node): RawPatch => ({ node, body: { metadata: { labels: { [LABEL]: "true" } } } }),
  );
  const raws: number[] = [];
  const berths: number[] = [];
  for (let pair = 1; pair <= options.pairs; pair++) {
    const mark = await cluster.audit.mark();
    await sendRawPatches(target, labelled);
    raws.push(
      (await lastPatchAt(cluster, mark, "bench-raw")) - (await firstPatchAt(cluster, mark, "bench-raw")),
    );
    await sendRawPatches(target, bare);
    berths.push(await timeBerth(cluster, folder.args, withDevice.length));
    options.onProgress(
      `pair ${pair} of ${options.pairs}: raw ${seconds(raws.at(-1))}, berth ${seconds(berths.at(-1))}`,
    );
    if (pair < options.pairs) await sendRawPatches(target, bare);
  }
  const atRest = await restAfterRestart(cluster, client, folder.args, options);
  const ratio = median(berths.map((berth, index) => berth / (raws[index] ?? Number.NaN)));
  const size = `${names.length} nodes, ${withDevice.length} labels`;
  return [
    {
      what: `${size}: process start to last label / raw patches`,
      value: ratio,
      unit: "x",
      budget: 1.25,
      detail: `berth ${seconds(median(berths))}, raw ${seconds(median(raws))}, median of ${options.pairs} pairs`,
    },
    ...atRest,
  ];
}

/** A second start on the converged cluster: what it writes, and what it holds in memory. */
async function restAfterRestart(
  cluster: TestCluster,
  client: KubeClient,
  args: readonly string[],
  options: LabelsBenchOptions,
): Promise<readonly Figure[]> {
  const mark = await cluster.audit.mark();
  await using berth = startBerth(args);
  options.onProgress(`restarted on the converged cluster; reading its memory in ${options.restSeconds} s`);
  await new Promise((resolve) => setTimeout(resolve, options.restSeconds * 1000));
  const { resident, peak } = await berth.memory();
  // A label that appears shows that it is at work, and not merely silent.
  await client.patch(
    nodes,
    { name: "node-00001" },
    { type: "merge", body: { metadata: { labels: { [DEVICE]: "true" } } } },
  );
  await eventually(async () => {
    const node = await client.get(nodes, { name: "node-00001" });
    if (node.metadata?.labels?.[LABEL] !== "true")
      throw new Error(`node-00001 is not labelled\n${berth.log}`);
  });
  const writes = await cluster.audit.countSince(mark, {
    verb: "patch",
    resource: "nodes",
    userAgent: "berth",
  });
  return [
    {
      what: "node writes after a restart, at rest",
      value: writes - 1,
      unit: "requests",
      budget: 0,
      detail: "audit log; one node changed afterwards and was labelled",
    },
    {
      what: `resident memory ${options.restSeconds} s after sync`,
      value: resident / MB,
      unit: "MB",
      detail: `peak ${(peak / MB).toFixed(0)} MB`,
    },
  ];
}

/** Milliseconds from the spawn of the process until the server received the last of `expected` patches. */
async function timeBerth(cluster: TestCluster, args: readonly string[], expected: number): Promise<number> {
  const mark = await cluster.audit.mark();
  await using berth = startBerth(args);
  await eventually(
    async () => {
      const count = await cluster.audit.countSince(mark, {
        verb: "patch",
        resource: "nodes",
        userAgent: "berth",
        code: 200,
      });
      if (count < expected) throw new Error(`${count} of ${expected} nodes are labelled\n${berth.log}`);
    },
    { timeoutMs: 120_000, everyMs: 500, signal: berth.ended },
  );
  return (await lastPatchAt(cluster, mark, "berth")) - berth.startedAt;
}

async function patchTimes(
  cluster: TestCluster,
  mark: AuditMark,
  userAgent: string,
): Promise<readonly number[]> {
  const entries = await cluster.audit.entriesSince(mark, { verb: "patch", resource: "nodes", userAgent });
  return entries.map(({ receivedAt }) => Date.parse(receivedAt)).toSorted((a, b) => a - b);
}

async function firstPatchAt(cluster: TestCluster, mark: AuditMark, userAgent: string): Promise<number> {
  return (await patchTimes(cluster, mark, userAgent)).at(0) ?? Number.NaN;
}

async function lastPatchAt(cluster: TestCluster, mark: AuditMark, userAgent: string): Promise<number> {
  return (await patchTimes(cluster, mark, userAgent)).at(-1) ?? Number.NaN;
}

async function createNodes(
  client: KubeClient,
  names: readonly string[],
  withDevice: ReadonlySet<string>,
): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let name = names[next++]; name !== undefined; name = names[next++]) {
      const node = aNode(name).realistic();
      await client.create(nodes, (withDevice.has(name) ? node.labelled({ [DEVICE]: "true" }) : node).build());
    }
  };
  await Promise.all(Array.from({ length: 16 }, work));
}

/** A kubeconfig and a label folder, removed afterwards. */
async function workFolder(
  cluster: TestCluster,
): Promise<AsyncDisposable & { readonly args: readonly string[] }> {
  const path = await mkdtemp(join(tmpdir(), "berth-bench-"));
  const kubeconfig = join(path, "kubeconfig");
  const labels = join(path, "labels");
  const [namespace = "", name = ""] = LABEL.split("/");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  await mkdir(join(labels, namespace), { recursive: true });
  await writeFile(join(labels, namespace, name), `${DEVICE}\n`);
  const off = ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"];
  return {
    args: ["--kubeconfig", kubeconfig, "--label-dir", labels, ...off],
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

function seconds(ms: number | undefined): string {
  return `${((ms ?? Number.NaN) / 1000).toFixed(2)} s`;
}
