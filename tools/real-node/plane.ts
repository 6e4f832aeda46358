/** A control plane on the bridge, and the nodes that belong to it. */
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { startTestCluster, type TestUser } from "@berth/testcluster";
import { helmFolder } from "../../scripts/chart/helm.ts";
import { run } from "../../scripts/run.ts";
import { type Address, HUB } from "./network.ts";
import { RealNode } from "./node.ts";
import type { Programs } from "./programs.ts";
import type { Stage } from "./stage.ts";

/** What all planes share. */
export interface Machine {
  readonly folder: string;
  readonly programs: Programs;
  readonly nextNode: () => Address;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface Plane extends Stage, AsyncDisposable {
  readonly name: string;
  /** Of all planes. It goes with them. */
  readonly folder: string;
  /** For a program on a node or in a pod. */
  readonly kubeconfigOf: (user: TestUser) => string;
}

export interface PlaneOptions {
  /** Default `cluster`. */
  readonly name?: string;
  /** Of the bridge. Default the first one. */
  readonly ip?: string;
}

const root = join(import.meta.dirname, "../..");
/** After so long without a word from its kubelet a node is not ready. Kubernetes waits 50 s by default. */
const GRACE_SECONDS = 12;
/** Runs a command, and prints what it prints on either output, also when it fails. */
const BOTH_OUTPUTS = 'if out=$("$0" "$@" 2>&1); then echo "$out"; else echo "$out" >&2; exit 1; fi';

export async function startPlane(machine: Machine, options: PlaneOptions = {}): Promise<Plane> {
  const { folder, programs, say, signal } = machine;
  const { name = "cluster", ip = HUB } = options;
  const cluster = await startTestCluster({
    with: ["controller-manager", "scheduler"],
    dir: join(folder, name),
    audit: true,
    signal,
    flags: {
      "kube-apiserver": [
        "--bind-address=0.0.0.0",
        `--advertise-address=${ip}`,
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
  const kubeconfig = join(folder, `${name}.kubeconfig`);
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const env = { ...process.env, KUBECONFIG: kubeconfig };
  const kubectl: Stage["kubectl"] = (args, input = "") =>
    run(programs.kubernetes, ["kubectl", ...args], { input, env, signal });
  const wait: Stage["wait"] = (what, condition) =>
    kubectl(["wait", ...what.split(" "), `--for=${condition}`, "--timeout=90s"]);
  /** The certificate of the API server is for its names in the cluster, not for its address on the bridge. */
  const kubeconfigOf = (user: TestUser): string =>
    cluster
      .kubeconfig({ user, server: cluster.url.replace("127.0.0.1", ip) })
      .replace("  cluster:\n", '  cluster:\n    tls-server-name: "kubernetes"\n');
  const nodes = new Map<string, RealNode>();
  const addNode: Stage["addNode"] = async (labels = "") => {
    const address = machine.nextNode();
    const { name: of } = address;
    const node = new RealNode({
      ...address,
      disk: join(folder, of),
      cgroup: `/${folder.split("/").at(-1)}/${of}`,
      programs,
      kubeconfigs: {
        kubelet: kubeconfigOf(await cluster.user(`system:node:${of}`, ["system:nodes"])),
        kubeProxy: kubeconfigOf(await cluster.user("system:kube-proxy")),
      },
      labels,
    });
    nodes.set(of, node);
    await node.boot();
    for (const condition of ["create", "condition=Ready"]) await wait(`node/${of}`, condition);
    return node;
  };
  return {
    name,
    folder,
    client: cluster.client,
    kubectl,
    // It prints on its standard error what hooks have printed, and keeps its files in HOME.
    helm: (args) =>
      run("/bin/sh", ["-c", BOTH_OUTPUTS, join(helmFolder(), "helm"), ...args], {
        env: { ...env, HOME: folder },
        signal,
      }),
    berth: (args) => run(join(root, "bin/berth"), args, { env, signal }),
    apply: (file) => kubectl(["apply", "-f", resolve(import.meta.dirname, "documents", file)]),
    wait,
    nodes,
    addNode,
    kubeconfigOf,
    auditLog: join(cluster.folder, "audit.log"),
    say,
    signal,
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}
