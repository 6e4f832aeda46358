/** The part of the demo where an agent runs only on nodes with pods that need it. Uses a real DaemonSet. */
import { writeFile } from "node:fs/promises";
import { type DaemonSet, type Deployment, daemonSets, deployments, nodes, pods } from "@berth/kube";
import type { Scene, World } from "./story.ts";

const NAMESPACE = "kube-system";
const AGENT = "apm-agent";
const LABEL = `footprint.berth.dev/${AGENT}`;
/** The label of pods that the agent observes. */
const OBSERVED = { "example.com/apm": "true" };
const SHOP = { namespace: "default", name: "shop" };
const SHOPS = 3;

const FOOTPRINT = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata:
  name: ${AGENT}
spec:
  preset: log
  workloads:
    - podSelector:
        matchLabels:
          example.com/apm: "true"
  release:
    delay: 2s
  agent:
    daemonSet:
      namespace: ${NAMESPACE}
      name: ${AGENT}
    nodeSelector: Manage
`;

export const FOOTPRINT_SCENES: readonly Scene[] = [
  {
    title: "A vendor's agent is installed, as a DaemonSet: it runs on every node, and every node pays for it",
    act: async ({ client }) => {
      await client.create(daemonSets, agent(), { namespace: NAMESPACE });
      return undefined;
    },
    expected: "the agent runs on every node",
    seen: async (world) => {
      const { items } = await world.client.list(nodes);
      await expectAgentOn(
        items.map(({ metadata }) => metadata?.name ?? ""),
        world,
      );
    },
  },
  {
    title: "A NodeFootprint is saved: only beside pods that want to be observed. There is none yet",
    act: async ({ footprintFile }) => {
      await writeFile(footprintFile, FOOTPRINT);
      return undefined;
    },
    expected: "Berth had the DaemonSet ask for its label, and the agent runs nowhere",
    seen: (world) => expectAgentOn([], world),
  },
  {
    title: "A shop is deployed: three pods that want to be observed, each on a node of its own",
    act: async ({ client, images }) => {
      await client.create(deployments, shop(images.web), { namespace: SHOP.namespace });
      return undefined;
    },
    expected: "the agent runs on the three nodes of the shop, and on no other",
    seen: (world) => expectBesideShop(SHOPS, world),
  },
  {
    title:
      "The shop is scaled to one pod. Agents stay for two seconds (release.delay), in case they are needed again",
    act: (world) => scale(1, world),
    expected: "the agent runs beside the pod that is left, and on no other node",
    seen: (world) => expectBesideShop(1, world),
  },
  {
    title: "The shop closes",
    act: (world) => scale(0, world),
    expected: "the agent runs nowhere, and no node carries a mark of it",
    seen: async (world) => {
      await expectBesideShop(0, world);
      for (const { metadata } of (await world.client.list(nodes)).items) {
        const keys = Object.keys({ ...metadata?.labels, ...metadata?.annotations });
        if (keys.some((key) => key.startsWith(LABEL))) throw new Error(`${metadata?.name} is marked`);
      }
    },
  },
];

function agent(): DaemonSet {
  return {
    metadata: { name: AGENT, namespace: NAMESPACE },
    spec: {
      selector: { matchLabels: { app: AGENT } },
      template: {
        metadata: { labels: { app: AGENT } },
        spec: {
          priorityClassName: "system-node-critical",
          tolerations: [{ operator: "Exists" }],
          containers: [{ name: "agent", image: "registry.test/apm-agent:1" }],
        },
      },
    },
  };
}

function shop(image: string): Deployment {
  const labels = { app: SHOP.name, ...OBSERVED };
  const selector = { matchLabels: { app: SHOP.name } };
  return {
    metadata: SHOP,
    spec: {
      replicas: SHOPS,
      selector,
      template: {
        metadata: { labels },
        spec: {
          containers: [{ name: "shop", image }],
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: "kubernetes.io/hostname",
              whenUnsatisfiable: "DoNotSchedule",
              labelSelector: selector,
            },
          ],
        },
      },
    },
  };
}

async function scale(replicas: number, { client }: World): Promise<undefined> {
  await client.patch(deployments, SHOP, { type: "merge", body: { spec: { replicas } } });
}

/** Throws unless the shop has this number of pods, and the agent runs on exactly their nodes. */
async function expectBesideShop(count: number, world: World): Promise<void> {
  const shops = await placesOf(SHOP.namespace, SHOP.name, world);
  if (shops.length !== count) throw new Error(`the shop runs on ${shops.join(", ") || "no node"}`);
  await expectAgentOn(shops, world);
}

async function expectAgentOn(wanted: readonly string[], world: World): Promise<void> {
  const found = await placesOf(NAMESPACE, AGENT, world);
  if (found.toSorted().join() !== wanted.toSorted().join())
    throw new Error(`the agent runs on ${found.join(", ") || "no node"}`);
}

/** The node of each pod with this label `app`. @throws Error when a pod does not run. */
async function placesOf(namespace: string, app: string, { client }: World): Promise<readonly string[]> {
  const { items } = await client.list(pods, { namespace, labelSelector: `app=${app}` });
  return items.map(({ metadata, spec, status }) => {
    if (status?.phase !== "Running" || spec?.nodeName === undefined)
      throw new Error(`${metadata?.name} does not run`);
    return spec.nodeName;
  });
}
