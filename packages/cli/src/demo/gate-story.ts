/** The part of the demo where Berth holds new nodes until they are ready. */
import { daemonSets, events, type Node, namespaces, nodes, pods } from "@berth/kube";
import { aNode, aPod, eventually } from "@berth/testcluster";
import { makePod, type Scene, type World } from "./story.ts";

/** The label of the nodes that the gate selects. The annotation below says that a node has its images. */
const POOL = { "example.com/pool": "fresh" };
const IMAGES = "example.com/images";
const TAINT = "startup.k8s.io/initializing";
const AGENT = { namespace: "kube-system", name: "network-agent" };

/** Berth's own namespace. Without it, Berth could only gate nodes after their creation. */
export const NAMESPACE = "berth-system";

export const GATE: string = `apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata:
  name: network-and-images
spec:
  nodeSelector:
    matchLabels:
      example.com/pool: fresh
  signals:
    daemonSets:
      - namespace: ${AGENT.namespace}
        name: ${AGENT.name}
    annotations:
      - key: ${IMAGES}
        value: cached
  stableFor: 1s
  timeouts:
    notReady: 4s
`;

/** Before Berth starts: creates its namespace, and the agent of every node in the pool. */
export async function setTheGateStage({ client }: Pick<World, "client">): Promise<void> {
  await client.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } });
  const labels = { app: AGENT.name };
  await client.create(
    daemonSets,
    {
      apiVersion: "apps/v1",
      kind: "DaemonSet",
      metadata: AGENT,
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            nodeSelector: POOL,
            tolerations: [{ operator: "Exists" }],
            containers: [{ name: "agent", image: "registry.test/network-agent:1" }],
          },
        },
      },
    },
    { namespace: AGENT.namespace },
  );
}

export const GATE_SCENES: readonly Scene[] = [
  {
    title: "A node joins the pool. The API server itself puts the taint of the startup gate on it",
    act: async ({ client, signal }) => {
      await whenGated(client, signal);
      await makePod({ client }, aPod("tenant").selecting(POOL));
      return join("fresh-1", client);
    },
    expected: "fresh-1 is held, its network agent runs there, and the pod tenant waits",
    seen: async ({ client, node }) => {
      expectHeld(node("fresh-1"), true);
      const { items } = await client.list(pods, {
        namespace: AGENT.namespace,
        labelSelector: `app=${AGENT.name}`,
      });
      const agent = items.find(({ spec }) => spec?.nodeName === "fresh-1");
      if (agent?.status?.phase !== "Running") throw new Error("the network agent does not run yet");
      const tenant = await client.get(pods, { namespace: "default", name: "tenant" });
      if (tenant.spec?.nodeName !== undefined) throw new Error(`the pod is on ${tenant.spec.nodeName}`);
    },
  },
  {
    title: "It warms up: its images are there",
    act: ({ client }) => client.patch(nodes, { name: "fresh-1" }, cached),
    expected: "fresh-1 is released a second later, and the pod tenant runs there",
    seen: async ({ client, node }) => {
      expectHeld(node("fresh-1"), false);
      const tenant = await client.get(pods, { namespace: "default", name: "tenant" });
      if (tenant.spec?.nodeName !== "fresh-1") throw new Error("the pod is not there yet");
    },
  },
  {
    title: "Another node joins, and its images never come",
    act: ({ client }) => join("fresh-2", client),
    expected: "after four seconds Berth says that fresh-2 takes too long, and keeps holding it",
    seen: async ({ client, node }) => {
      expectHeld(node("fresh-2"), true);
      const { items } = await client.list(events, { namespace: "default" });
      if (!items.some(({ reason, regarding }) => reason === "TimedOut" && regarding?.name === "fresh-2"))
        throw new Error("Berth has not said so yet");
    },
  },
  {
    title: "A user releases it: berth gate release fresh-2 --reason 'images come from the local mirror'",
    act: ({ berth }) =>
      berth(["gate", "release", "fresh-2", "--reason", "images come from the local mirror"]),
    expected: "fresh-2 is released, and stays so",
    seen: ({ node }) => expectHeld(node("fresh-2"), false),
  },
];

/** Waits until the API server applies the policy, which takes a second or two. Checks it with dry-run creations. */
async function whenGated(client: World["client"], signal: AbortSignal): Promise<void> {
  const joining = aNode("joining").labelled(POOL).build();
  await eventually(
    async () => {
      const { spec } = await client.create(nodes, joining, { dryRun: true });
      if (spec?.taints?.some(({ key }) => key === TAINT) !== true)
        throw new Error("new nodes are not gated yet");
    },
    { timeoutMs: 30_000, signal },
  );
}

function join(name: string, client: World["client"]): Promise<Node> {
  return client.create(nodes, aNode(name).labelled(POOL).fake().build());
}

const cached = { type: "merge", body: { metadata: { annotations: { [IMAGES]: "cached" } } } } as const;

function expectHeld(node: Node | undefined, held: boolean): void {
  const isHeld = node?.spec?.taints?.some(({ key }) => key === TAINT) === true;
  if (node === undefined || isHeld !== held) throw new Error(`the node is ${isHeld ? "held" : "not held"}`);
}
