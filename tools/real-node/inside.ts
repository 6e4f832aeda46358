/** The half of `make real-node` that has namespaces of its own: starts the cluster, and plays the scenes. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { startRegistry } from "@berth/testcluster";
import type { Architecture } from "../../scripts/image/architectures.ts";
import { push } from "../../scripts/image/push.ts";
import { shell } from "../../scripts/run.ts";
import { assemble, busyboxRoot } from "./images.ts";
import { addressOf, createBridge, HUB } from "./network.ts";
import { REGISTRY } from "./node-config.ts";
import { type Machine, startPlane } from "./plane.ts";
import type { Programs } from "./programs.ts";
import { CAPABILITIES, gate } from "./scenes/capabilities.ts";
import { THREE_NODE_FAULTS, TWO_NODE_FAULTS } from "./scenes/faults.ts";
import { FLEET, startFleet } from "./scenes/fleet.ts";
import { installation } from "./scenes/uninstall.ts";
import { type Scene, since } from "./stage.ts";

const root = join(import.meta.dirname, "../..");
const architecture: Architecture = process.arch === "arm64" ? "arm64" : "amd64";
const other: Architecture = architecture === "amd64" ? "arm64" : "amd64";

const startedAt = performance.now();
const say = (line: string): void => console.log(`${since(startedAt).padStart(8)} ${line}`);
const stop = new AbortController();
process.stdin.resume().on("end", () => stop.abort(new Error("interrupted")));

const { folder, programs, what } = JSON.parse(process.argv[2] ?? "") as {
  readonly folder: string;
  readonly programs: Programs;
  /** `nodes`: two of them, and no scenes: a person does the rest. */
  readonly what: "cluster" | "fleet" | "nodes";
};
let count = 0;
const machine: Machine = { folder, programs, nextNode: () => addressOf(++count), say, signal: stop.signal };

async function playAll(): Promise<void> {
  await createBridge();
  await using registry = await startRegistry();
  openOnBridge(registry.url);
  await pushImages(registry.url);
  say(`The registry is at ${REGISTRY}`);
  if (what === "fleet") {
    await using planes = await startFleet(machine);
    for (const scene of FLEET) await play(scene, planes);
  } else {
    await using plane = await startPlane(machine);
    await play(twoNodes, plane);
    if (what === "nodes") return void (await once(stop.signal, "abort"));
    const { install, uninstall } = installation();
    const onTwoNodes = [install, ...CAPABILITIES, ...TWO_NODE_FAULTS];
    for (const scene of [...onTwoNodes, gate, ...THREE_NODE_FAULTS, ...uninstall]) await play(scene, plane);
  }
  say("Everything was seen");
}

async function play<On>({ title, play }: Scene<On>, on: On): Promise<void> {
  say(`── ${title}`);
  say(`   seen: ${await play(on)}`);
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
