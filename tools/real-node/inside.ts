/** The half of `make real-node` that has namespaces of its own: starts the cluster, and plays the scenes. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join, resolve } from "node:path";
import { startRegistry, startTestCluster, type TestCluster, type TestUser } from "@berth/testcluster";
import { helmFolder } from "../../scripts/chart/helm.ts";
import type { Architecture } from "../../scripts/image/architectures.ts";
import { push } from "../../scripts/image/push.ts";
import { run, shell } from "../../scripts/run.ts";
import { assemble, busyboxRoot } from "./images.ts";
import { addressOf, createBridge, HUB } from "./network.ts";
import { RealNode } from "./node.ts";
import { REGISTRY } from "./node-config.ts";
import type { Programs } from "./programs.ts";
import { CAPABILITIES, gate } from "./scenes/capabilities.ts";
import { THREE_NODE_FAULTS, TWO_NODE_FAULTS } from "./scenes/faults.ts";
import { installation } from "./scenes/uninstall.ts";
import { type Scene, type Stage, since } from "./stage.ts";

/** After so long without a word from its kubelet a node is not ready. Kubernetes waits 50 s by default. */
const GRACE_SECONDS = 12;
const root = join(import.meta.dirname, "../..");
const architecture: Architecture = process.arch === "arm64" ? "arm64" : "amd64";
const other: Architecture = architecture === "amd64" ? "arm64" : "amd64";

const startedAt = performance.now();
const say = (line: string): void => console.log(`${since(startedAt).padStart(8)} ${line}`);
const stop = new AbortController();
process.stdin.resume().on("end", () => stop.abort(new Error("interrupted")));

const { folder, programs, isByHand } = JSON.parse(process.argv[2] ?? "") as {
  readonly folder: string;
  readonly programs: Programs;
  /** Two nodes, and no scenes: a person does the rest. */
  readonly isByHand: boolean;
};
async function playAll(): Promise<void> {
  await createBridge();
  await using cluster = await startCluster();
  await using registry = await startRegistry();
  openOnBridge(registry.url);
  await pushImages(registry.url);
  say(`The control plane runs at ${HUB}, the registry at ${REGISTRY}`);
  const stage = await createStage(cluster);
  const play = async ({ title, play }: Scene): Promise<void> => {
    say(`── ${title}`);
    say(`   seen: ${await play(stage)}`);
  };
  await play(twoNodes);
  if (isByHand) return void (await once(stop.signal, "abort"));
  const { install, uninstall } = installation();
  const onTwoNodes = [install, ...CAPABILITIES, ...TWO_NODE_FAULTS];
  for (const scene of [...onTwoNodes, gate, ...THREE_NODE_FAULTS, ...uninstall]) await play(scene);
  say("Everything was seen");
}

const twoNodes: Scene = {
  title: "Two nodes are switched on",
  play: async ({ addNode, kubectl }) => {
    await Promise.all([addNode(), addNode()]);
    const info = await kubectl(["get", "node/node-1", "-o", "jsonpath={.status.nodeInfo}"]);
    const { kubeletVersion, containerRuntimeVersion } = JSON.parse(info) as Record<string, string>;
    return `both are Ready, with kubelet ${kubeletVersion} and ${containerRuntimeVersion}`;
  },
};

async function startCluster(): Promise<TestCluster> {
  return startTestCluster({
    with: ["controller-manager", "scheduler"],
    dir: join(folder, "cluster"),
    audit: true,
    signal: stop.signal,
    flags: {
      "kube-apiserver": [
        "--bind-address=0.0.0.0",
        `--advertise-address=${HUB}`,
        "--endpoint-reconciler-type=lease",
        "--authorization-mode=Node",
        "--enable-admission-plugins=NodeRestriction",
        // It calls webhooks at the pods behind their Service: no kube-proxy runs beside it.
        "--enable-aggregator-routing=true",
        // No name server knows the nodes.
        "--kubelet-preferred-address-types=InternalIP",
      ],
      "kube-controller-manager": [
        `--node-monitor-grace-period=${GRACE_SECONDS}s`,
        "--node-monitor-period=2s",
      ],
    },
  });
}

/** The registry listens on the loopback alone, which is another one in each node. */
function openOnBridge(url: string): void {
  const { hostname: host, port } = new URL(url);
  const server = createServer((client) => {
    const upstream = connect(Number(port), host);
    client.on("error", () => upstream.destroy()).pipe(upstream);
    upstream.on("error", () => client.destroy()).pipe(client);
  });
  server.listen(5000, HUB).unref();
}

async function pushImages(registry: string): Promise<void> {
  const { host } = new URL(registry);
  const busybox = await busyboxRoot(join(folder, "busybox"), programs.busybox);
  const page = ["httpd", "-f", "-p", "8080", "-h", "/www"];
  const make = async (name: string, Cmd: readonly string[], ...architectures: readonly Architecture[]) => {
    // The first process of a container ignores SIGTERM, if it does not ask for it.
    const StopSignal = Cmd === page ? "SIGKILL" : "SIGTERM";
    const config = { Cmd, Env: ["PATH=/bin"], User: "65534", StopSignal };
    await push(await assemble(folder, { root: busybox, config, architectures }), `${host}/${name}`);
  };
  await make("library/busybox:1.36", ["sh"], architecture);
  await make("pause:1", ["sleep", "2147483647"], architecture);
  await make("web:1", page, architecture, other);
  await make("foreign:1", page, other);
  await push(join(root, "build/image"), `${host}/berth:1`);
}

/** Runs a command, and prints what it prints on either output, also when it fails. */
const BOTH_OUTPUTS = 'if out=$("$0" "$@" 2>&1); then echo "$out"; else echo "$out" >&2; exit 1; fi';

async function createStage(cluster: TestCluster): Promise<Stage> {
  const kubeconfig = join(folder, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const env = { ...process.env, KUBECONFIG: kubeconfig };
  const kubectl: Stage["kubectl"] = (args, input = "") =>
    run(programs.kubernetes, ["kubectl", ...args], { input, env, signal: stop.signal });
  const wait: Stage["wait"] = (what, condition) =>
    kubectl(["wait", ...what.split(" "), `--for=${condition}`, "--timeout=90s"]);
  /** The certificate of the API server is for its names in the cluster, not for its address on the bridge. */
  const kubeconfigOf = (user: TestUser): string =>
    cluster
      .kubeconfig({ user, server: cluster.url.replace("127.0.0.1", HUB) })
      .replace("  cluster:\n", '  cluster:\n    tls-server-name: "kubernetes"\n');
  const nodes = new Map<string, RealNode>();
  let count = 0;
  const addNode: Stage["addNode"] = async (labels = "") => {
    const address = addressOf(++count);
    const { name } = address;
    const node = new RealNode({
      ...address,
      disk: join(folder, name),
      cgroup: `/${folder.split("/").at(-1)}/${name}`,
      programs,
      kubeconfigs: {
        kubelet: kubeconfigOf(await cluster.user(`system:node:${name}`, ["system:nodes"])),
        kubeProxy: kubeconfigOf(await cluster.user("system:kube-proxy")),
      },
      labels,
    });
    nodes.set(name, node);
    await node.boot();
    for (const condition of ["create", "condition=Ready"]) await wait(`node/${name}`, condition);
    return node;
  };
  return {
    client: cluster.client,
    kubectl,
    // It prints on its standard error what hooks have printed, and keeps its files in HOME.
    helm: (args) =>
      run("/bin/sh", ["-c", BOTH_OUTPUTS, join(helmFolder(), "helm"), ...args], {
        env: { ...env, HOME: folder },
        signal: stop.signal,
      }),
    berth: (args) => run(join(root, "bin/berth"), args, { env }),
    apply: (file) => kubectl(["apply", "-f", resolve(import.meta.dirname, "documents", file)]),
    wait,
    nodes,
    addNode,
    auditLog: join(cluster.folder, "audit.log"),
    say,
    signal: stop.signal,
  };
}

try {
  await playAll();
} catch (error) {
  const reason: unknown = stop.signal.aborted ? stop.signal.reason : error;
  console.error(`real-node: ${reason instanceof Error ? reason.message : String(reason)}`);
  // For what the nodes said: their folders are removed.
  if (!stop.signal.aborted) console.error(await shell(`tail -n 5 ${folder}/node-*/log/*.log`));
  process.exitCode = stop.signal.aborted ? 130 : 1;
}
// Children of nodes hold the loop; this is the first process here, and all others end with it.
process.exit();
