import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { compareResourceVersions, type KubeClient, type Node, nodes, type Pod, pods } from "@berth/kube";
import { aNode, aPod, eventually, type TcpProxy } from "@berth/testcluster";

/** Names of images in the registry. */
export interface Images {
  /** amd64, arm64 and s390x. */
  readonly web: string;
  /** amd64. */
  readonly legacy: string;
  /** arm64. */
  readonly sensor: string;
}

/** The label that the sample rules derive. */
export const DERIVED = "accelerators/edgetpu";
export const USB_DEVICE: string = "feature.node.kubernetes.io/usb-fe_1a6e_089a.present";
const PCI_DEVICE = "feature.node.kubernetes.io/pci-0880_1ac1.present";

export interface World {
  readonly client: KubeClient;
  /** The folder of `--label-dir` in the demo. */
  readonly rules: string;
  /** The latest state of a node, from a watch. */
  readonly node: (name: string) => Node | undefined;
  /** Runs a command of berth on the cluster and returns its output. */
  readonly berth: (args: readonly string[]) => Promise<string>;
  readonly images: Images;
  /** An image that the registry has, and that no node can pull. */
  readonly unpullable: string;
  /** Berth reads this file when it is saved. */
  readonly policyFile: string;
  /** Berth reads this file when it is saved. */
  readonly footprintFile: string;
  /** Berth reads this file when it is saved. */
  readonly descheduleFile: string;
  /** What Berth connects to as the quota service. */
  readonly quota: TcpProxy;
  /** Has Berth printed this at any time? */
  readonly hasPrinted: (text: string) => boolean;
  /** Prints a further line. */
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/** One action, and its expected effect. */
export interface Scene {
  readonly title: string;
  /** If it returns a changed Node, only the state from that version on counts. */
  readonly act: (world: World) => Promise<unknown>;
  /** The expected effect, for the error message. */
  readonly expected: string;
  /** Throws until the effect is visible. */
  readonly seen: (world: World) => unknown;
}

/** Before Berth starts: creates four nodes that kwok simulates, and the first rule. */
export async function setTheStage({
  client,
  rules,
}: Pick<World, "client" | "rules">): Promise<readonly string[]> {
  const machines = [aNode("core-1"), aNode("core-2"), aNode("edge-1").arm64(), aNode("edge-2").arm64()];
  for (const machine of machines) await client.create(nodes, machine.fake().build());
  await client.patch(nodes, { name: "core-1" }, setLabel(PCI_DEVICE, "true"));
  await saveRule(rules, [USB_DEVICE]);
  return machines.map((machine) => machine.build().metadata?.name ?? "");
}

export const SCENES: readonly Scene[] = [
  {
    title: "A pod asks for an Edge TPU. No node has one, so the scheduler lets it wait",
    act: (world) => makePod(world, aPod("detector").selecting({ [DERIVED]: "true" })),
    expected: "the pod detector is Pending and unschedulable",
    seen: async ({ client }) => {
      const pod = await client.get(pods, { namespace: "default", name: "detector" });
      const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
      if (scheduled?.reason !== "Unschedulable") throw new Error("the scheduler has not looked at it yet");
    },
  },
  {
    title: "A device appears: a USB Edge TPU is plugged into edge-1",
    act: ({ client }) => client.patch(nodes, { name: "edge-1" }, setLabel(USB_DEVICE, "true")),
    expected: `edge-1 is labelled ${DERIVED}=true, and the pod runs there`,
    seen: async ({ client, node }) => {
      expectLabel(node("edge-1"), "true");
      const pod = await client.get(pods, { namespace: "default", name: "detector" });
      if (pod.spec?.nodeName !== "edge-1")
        throw new Error(`the pod is on ${pod.spec?.nodeName ?? "no node"}`);
    },
  },
  {
    title: "A rule file is edited: the PCI variant counts as well, and core-1 has one",
    act: ({ rules }) => saveRule(rules, [USB_DEVICE, PCI_DEVICE]),
    expected: `core-1 is labelled ${DERIVED}=true`,
    seen: ({ node }) => expectLabel(node("core-1"), "true"),
  },
  {
    title: "A user sets the derived label to another value by hand",
    act: ({ client }) => client.patch(nodes, { name: "core-1" }, setLabel(DERIVED, "maybe")),
    expected: `core-1 has ${DERIVED}=true again`,
    seen: ({ node }) => expectLabel(node("core-1"), "true"),
  },
  {
    title: "The device leaves edge-1",
    act: ({ client }) => client.patch(nodes, { name: "edge-1" }, setLabel(USB_DEVICE, null)),
    expected: `edge-1 loses ${DERIVED}`,
    seen: ({ node }) => expectLabel(node("edge-1"), undefined),
  },
];

/** Plays one scene. @throws NotEventuallyError without the expected effect within 30 s. */
export async function play(scene: Scene, world: World): Promise<void> {
  const changed = Object(await scene.act(world)) as Node;
  await eventually(
    async () => {
      if (changed.kind === "Node") expectArrived(world.node(changed.metadata?.name ?? ""), changed);
      await scene.seen(world);
    },
    { timeoutMs: 30_000, signal: world.signal },
  );
}

function expectArrived(seen: Node | undefined, changed: Node): void {
  const order = compareResourceVersions(
    seen?.metadata?.resourceVersion ?? "0",
    changed.metadata?.resourceVersion ?? "0",
  );
  if (order === undefined || order < 0) throw new Error("the change has not come over the watch yet");
}

/** Saves like a careful editor: writes the whole file under another name, then renames it. */
async function saveRule(rules: string, keys: readonly string[]): Promise<void> {
  const path = join(rules, DERIVED);
  await mkdir(dirname(path), { recursive: true });
  const draft = join(rules, "..", "edgetpu.draft");
  await writeFile(draft, `${keys.join("\n")}\n`);
  await rename(draft, path);
}

export function setLabel(
  key: string,
  value: string | null,
): { readonly type: "merge"; readonly body: object } {
  return { type: "merge", body: { metadata: { labels: { [key]: value } } } };
}

/** Creates a pod in the namespace default. */
export function makePod({ client }: Pick<World, "client">, pod: ReturnType<typeof aPod>): Promise<Pod> {
  return client.create(pods, pod.build(), { namespace: "default" });
}

export function expectLabel(node: Node | undefined, value: string | undefined): void {
  const found = node?.metadata?.labels?.[DERIVED];
  if (found !== value)
    throw new Error(`${node?.metadata?.name ?? "the node"} has ${DERIVED}=${found ?? "(nothing)"}`);
}
