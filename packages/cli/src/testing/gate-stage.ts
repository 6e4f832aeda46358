/** A cluster with a node that a gate holds, for the commands that look at a cluster once. */
import { type DaemonSet, daemonSets, type Node, nodes, pods } from "@berth/kube";
import { aNode, aPod, eventually, type TestCluster } from "@berth/testcluster";
import { startBerth } from "../composition.ts";
import { type CliResult, testFolder } from "./harness.ts";

export const TAINT: string = "startup.k8s.io/initializing=wait:NoSchedule";
/** There has to be such a namespace. */
export const NAMESPACE: string = "gate-cli";
export const GATE: string = `apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: network}
spec:
  signals:
    pods: [{namespaces: [${NAMESPACE}], ownedBy: Anything, fromBefore: Count}]
  timeouts: {notReady: 1h, policy: Release}
`;

export interface GateStage extends AsyncDisposable {
  readonly command: (...args: readonly string[]) => Promise<CliResult>;
  /** Without the file of the gate. */
  readonly bare: (...args: readonly string[]) => Promise<CliResult>;
  /** A Berth that has seen the node `held`, until disposed of. */
  readonly running: () => Promise<AsyncDisposable>;
  readonly node: (name: string) => Promise<Node>;
  /** Keys, without that which the API server itself puts on new nodes. */
  readonly taintsOf: (name: string) => Promise<readonly string[]>;
  readonly config: { readonly path: string; readonly shown: string };
}

/** A node `held` with the taint, as admission leaves it, and one without, in a cluster with a gate from a file. */
export async function gateStage(cluster: TestCluster): Promise<GateStage> {
  await using owned = new AsyncDisposableStack();
  const files = { "gates.yaml": GATE, kubeconfig: cluster.kubeconfig() };
  const folder = owned.use(await testFolder(files));
  const { client } = cluster;
  owned.defer(() => client.deleteCollection(nodes, {}));
  owned.defer(() => client.deleteCollection(pods, { namespace: NAMESPACE }, { gracePeriodSeconds: 0 }));
  owned.defer(() => client.deleteCollection(daemonSets, { namespace: NAMESPACE }));
  await client.create(nodes, aNode("held").tainted(TAINT, "example.com/other:NoSchedule").build());
  await client.create(nodes, aNode("open").build());
  const made = owned.move();
  const node = (name: string): Promise<Node> => client.get(nodes, { name });
  const bare: GateStage["bare"] = (...args) => folder.berth([...args, "--kubeconfig", "kubeconfig"]);
  const config = { path: `${folder.path}/gates.yaml`, shown: "gates.yaml" };
  return {
    config,
    bare,
    command: (...args) => bare(...args, "--config", "gates.yaml"),
    async running() {
      await using started = new AsyncDisposableStack();
      started.use(await startBerth({ client: started.use(cluster.connect()), config: [config] }));
      await eventually(async () => {
        if (!("gate.berth.dev/network" in ((await node("held")).metadata?.annotations ?? {})))
          throw new Error("the node has not been seen");
      });
      return started.move();
    },
    node,
    taintsOf: async (name) =>
      ((await node(name)).spec?.taints ?? [])
        .map(({ key }) => key)
        .filter((key) => !key.startsWith("node.kubernetes.io/")),
    [Symbol.asyncDispose]: () => made.disposeAsync(),
  };
}

/** A pod that the gate looks for, on this node. */
export async function initPod(
  { client }: TestCluster,
  on: string,
  { readySince }: { readonly readySince?: string } = {},
): Promise<void> {
  const pod = aPod("init-1").in(NAMESPACE).on(on).labelled({ "startup.k8s.io/component": "init" }).build();
  await client.create(pods, pod);
  const ready = readySince === undefined ? "False" : "True";
  const conditions = [
    { type: "Ready", status: ready, lastTransitionTime: readySince ?? new Date().toISOString() },
  ];
  await client.patch(
    pods,
    { namespace: NAMESPACE, name: "init-1" },
    { type: "merge", body: { status: { phase: "Running", conditions } } },
    { subresource: "status" },
  );
}

/** In the namespace of the stage. */
export function aDaemonSet(name: string, spec: object = {}): DaemonSet {
  const labels = { app: name };
  return {
    metadata: { name, namespace: NAMESPACE },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: "main", image: "registry.test/app:1" }], ...spec },
      },
    },
  };
}
