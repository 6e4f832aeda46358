/** A cluster of one size with what the measured programs need to work on it, and the way back to a known state. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodes, type Pod, pods } from "@berth/kube";
import { aNode, aPod, type NodeBuilder, startTestCluster, type TestCluster } from "@berth/testcluster";
import { berthProgram, type Program } from "./process.ts";
import { type RawPatch, sendRawPatches } from "./raw-patches.ts";

/** Nodes that carry this label get `LABEL`. */
export const DEVICE = "feature.example.com/bench-device";
export const LABEL = "bench.example.com/accelerated";
/** User agent of the changes that `addDevice` makes. */
export const CHANGES = "bench-changes";
/** Where Berth records what it has written. */
const RECORD = "berth.dev/marks";
/** Requests in flight while the cluster is filled. */
const IN_FLIGHT = 16;

export interface BenchCluster extends AsyncDisposable {
  readonly cluster: TestCluster;
  /** Size of a node in a list, KB. */
  readonly kilobytes: number;
  /** All nodes; every second one carries the device. */
  readonly names: readonly string[];
  readonly withDevice: readonly string[];
  readonly withoutDevice: readonly string[];
  readonly kubeconfig: string;
  /** `bin/berth run` on it, through `server` when given. */
  berth(server?: string): Promise<Program>;
  /** Folder with the one rule. */
  readonly labelFolder: string;
  /** One merge patch of the label for each node with a device, `userAgent` bench-raw: the limit. */
  labelRaw(): Promise<void>;
  /** Gives a node without a device one, which its label has to follow. Resolves when the server has it. */
  addDevice(node: string): Promise<void>;
  /** Takes label and record off every node, and the device off those that had none. */
  reset(): Promise<void>;
  /** Creates that many pods, 11 KB each as the server answers them, spread over the nodes. */
  createPods(count: number): Promise<void>;
  /** How many pods there are now. */
  readonly pods: number;
}

/** What a node has with the labels and images that kubelet and cloud give it: the budgets are for this size. */
export const USUAL_KILOBYTES = 9;

/** Starts it and creates the nodes, of 2 KB, 9 KB or more. */
export async function startBenchCluster(
  count: number,
  kilobytes: number,
  onProgress: (text: string) => void,
): Promise<BenchCluster> {
  await using owned = new AsyncDisposableStack();
  const cluster = owned.use(await startTestCluster({ audit: true }));
  const changes = owned.use(cluster.connect({ userAgent: CHANGES }));
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const kubeconfig = await writeKubeconfig(folder, cluster);
  const labelFolder = await writeRule(folder);
  const names = Array.from({ length: count }, (_, index) => `node-${String(index).padStart(5, "0")}`);
  const withDevice = names.filter((_, index) => index % 2 === 0);
  const devices = new Set(withDevice);
  onProgress(`creating ${count} nodes of ${kilobytes} KB`);
  await forEach(names, async (name) => {
    const node = nodeOf(name, kilobytes);
    await cluster.client.create(
      nodes,
      (devices.has(name) ? node.labelled({ [DEVICE]: "true" }) : node).build(),
    );
  });
  const target = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  const added = new Set<string>();
  let podCount = 0;
  const disposal = owned.move();
  return {
    cluster,
    kilobytes,
    names,
    withDevice,
    withoutDevice: names.filter((name) => !devices.has(name)),
    kubeconfig,
    labelFolder,
    berth: async (server) => {
      const file = server === undefined ? kubeconfig : await writeKubeconfig(folder, cluster, server);
      const off = ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"];
      return berthProgram(["--kubeconfig", file, "--label-dir", labelFolder, ...off]);
    },
    labelRaw: () =>
      sendRawPatches(
        target,
        withDevice.map((node): RawPatch => ({ node, body: labels({ [LABEL]: "true" }) })),
      ),
    addDevice: async (node) => {
      added.add(node);
      await changes.patch(nodes, { name: node }, { type: "merge", body: labels({ [DEVICE]: "true" }) });
    },
    reset: async () => {
      const written = [...withDevice, ...added];
      const patches = written.map((node) => bare(node, devices.has(node)));
      await sendRawPatches(target, patches, { userAgent: "bench-reset" });
      added.clear();
    },
    createPods: async (wanted) => {
      onProgress(`creating ${wanted} pods of 11 KB`);
      const indexes = Array.from({ length: wanted }, (_, index) => index);
      await forEach(indexes, async (index) => {
        const pod = aPod(`pod-${String(index).padStart(6, "0")}`)
          .on(names[index % names.length] ?? "")
          .ofDaemonSet(`agents-${index % 20}`)
          .realistic()
          .with(withFewerVariables);
        await cluster.client.create(pods, pod.build());
        podCount++;
      });
    },
    get pods() {
      return podCount;
    },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

/** A node that kubelet alone has written is 2 KB. Whatever is above 9 KB are images. */
function nodeOf(name: string, kilobytes: number): NodeBuilder {
  const node = aNode(name);
  if (kilobytes < USUAL_KILOBYTES) return node;
  const more = Array.from({ length: (kilobytes - USUAL_KILOBYTES) * IMAGES_PER_KILOBYTE }, (_, index) => ({
    names: [`registry.example.com/team-${index % 20}/${name}/service-${index}@sha256:${"0".repeat(64)}`],
    sizeBytes: 100_000_000 + index,
  }));
  return node.realistic().with(({ status, ...rest }) => ({
    ...rest,
    status: { ...status, images: [...(status?.images ?? []), ...more] },
  }));
}

/** An image takes about 170 bytes. */
const IMAGES_PER_KILOBYTE = 6;

/** Variables of a container; with the managedFields that the server adds, a pod is 11 KB in a list then. */
const VARIABLES = 8;

export function withFewerVariables(pod: Pod): Pod {
  const containers = (pod.spec?.containers ?? []).map(({ env = [], ...container }) =>
    Object.assign(container, { env: env.slice(0, VARIABLES) }),
  );
  return { ...pod, spec: { ...pod.spec, containers } };
}

/** The node without what a measured program wrote. */
function bare(node: string, hasDevice: boolean): RawPatch {
  const marks = hasDevice ? { [LABEL]: null } : { [LABEL]: null, [DEVICE]: null };
  return { node, body: { metadata: { labels: marks, annotations: { [RECORD]: null } } } };
}

function labels(values: Readonly<Record<string, string>>): object {
  return { metadata: { labels: values } };
}

async function writeKubeconfig(folder: string, cluster: TestCluster, server?: string): Promise<string> {
  const file = join(folder, server === undefined ? "kubeconfig" : `kubeconfig-${new URL(server).port}`);
  await writeFile(file, cluster.kubeconfig(server === undefined ? {} : { server }), { mode: 0o600 });
  return file;
}

/** The rule in the form that Berth's label folder has: who has the device gets the label. */
async function writeRule(folder: string): Promise<string> {
  const path = join(folder, "labels");
  const [namespace = "", name = ""] = LABEL.split("/");
  await mkdir(join(path, namespace), { recursive: true });
  await writeFile(join(path, namespace, name), `${DEVICE}\n`);
  return path;
}

async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const each = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, each));
}
