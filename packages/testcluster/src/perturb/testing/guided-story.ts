/** A controller that decides about nodes by a rule of another kind, whose watch is slower than that of the nodes. */
import { type ConfigMap, configMaps, isApiError, type KubeClient, type Node, nodes } from "@berth/kube";
import { aNode } from "../../node-builder.ts";
import { flaps } from "../forbidden.ts";
import type { PerturbationStory, Scene, Stage } from "../story.ts";
import { INPUT, OUTPUT } from "./tiny-controller.ts";

/** A device comes, and the rule goes by which it mattered. @param asks the harness can ask about the rules alone. */
export function guidedStory(asks: boolean): PerturbationStory {
  return {
    name: "guided",
    resources: [nodes, configMaps],
    guides: [configMaps],
    setUp: (stage) => setUp(stage, asks),
  };
}

const SENTINEL = "sentinel";
const RULE = "rule";
const ROUND = "tiny/round";
/** Says which round of the sentinel was seen. */
const SEEN = "tiny/seen";
/** By so much the news that a rule has gone is late: longer than a list of nodes takes. Milliseconds. */
const LATE_MS = 400;

type Fence = Scene["fence"];

async function setUp(stage: Stage, asks: boolean): Promise<Scene> {
  const label = async (name: string, value: string | null): Promise<void> => {
    await stage.patch(nodes, name, { type: "merge", body: { metadata: { labels: { [INPUT]: value } } } });
  };
  const labelsOf = (name: string): Readonly<Record<string, string>> =>
    stage.latest(nodes, name)?.metadata?.labels ?? {};
  for (const name of [SENTINEL, "n1"]) await stage.create(nodes, aNode(name).build());
  for (const name of [SENTINEL, RULE])
    await stage.create(configMaps, { metadata: { namespace: "default", name } });
  let round = 0;
  const guides: NonNullable<Fence["guides"]> = {
    async change() {
      round += 1;
      const body = { metadata: { annotations: { [ROUND]: String(round) } } };
      await stage.patch(configMaps, SENTINEL, { type: "merge", body });
    },
    answered: () => stage.latest(configMaps, SENTINEL)?.metadata?.annotations?.[SEEN] === String(round),
  };
  let present = false;
  const fence: Fence = {
    resource: nodes,
    companions: [configMaps],
    name: SENTINEL,
    async change() {
      present = !present;
      await Promise.all([guides.change(), label(SENTINEL, present ? "on" : null)]);
    },
    answered: () => (labelsOf(SENTINEL)[OUTPUT] !== undefined) === present && guides.answered(),
    ...(asks && { guides }),
  };
  return {
    start: async ({ server }) =>
      startGuidedController(stage.cluster.connect({ server }), {
        sentinel: stage.nameOf(SENTINEL),
        rule: stage.nameOf(RULE),
      }),
    fence,
    steps: [
      { name: "device-comes", run: () => label("n1", "on") },
      { name: "rule-goes", run: () => stage.remove(configMaps, RULE) },
    ],
    state: () => ({ input: labelsOf("n1")[INPUT], output: labelsOf("n1")[OUTPUT] }),
    forbidden: (history) => flaps(history.filter(({ name }) => name !== SENTINEL)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

interface Names {
  readonly sentinel: string;
  readonly rule: string;
}

/** Sets OUTPUT on nodes that have INPUT while the rule is there; of the sentinel always. */
function startGuidedController(client: KubeClient, { sentinel, rule }: Names): AsyncDisposable {
  const stop = new AbortController();
  const { signal } = stop;
  const known = new Map<string, Node>();
  let inForce: boolean | undefined;

  async function reconcile({ metadata = {} }: Node): Promise<void> {
    const { name = "", uid = "", resourceVersion, labels = {} } = metadata;
    if (inForce === undefined) return;
    const wanted = labels[INPUT] !== undefined && (inForce || name === sentinel);
    if (wanted === (labels[OUTPUT] !== undefined)) return;
    const body = { metadata: { uid, resourceVersion, labels: { [OUTPUT]: wanted ? "true" : null } } };
    await tolerant(client.patch(nodes, { name }, { type: "merge", body }));
  }

  async function takeNode(node: Node): Promise<void> {
    known.set(node.metadata?.name ?? "", node);
    await reconcile(node);
  }

  async function takeRule({ metadata = {} }: ConfigMap, exists: boolean): Promise<void> {
    const { name = "", namespace = "", annotations = {} } = metadata;
    if (name === rule) inForce = exists;
    for (const node of known.values()) await reconcile(node);
    if (name !== sentinel || annotations[SEEN] === annotations[ROUND]) return;
    const body = { metadata: { annotations: { [SEEN]: annotations[ROUND] ?? null } } };
    await tolerant(client.patch(configMaps, { namespace, name }, { type: "merge", body }));
  }

  async function followNodes(): Promise<void> {
    const { items, metadata } = await client.list(nodes, { signal });
    for (const node of items) await takeNode(node);
    await using watch = await client.watch(nodes, {
      resourceVersion: metadata.resourceVersion ?? "",
      signal,
    });
    for await (const event of watch)
      if (event.type === "ADDED" || event.type === "MODIFIED") await takeNode(event.object);
  }

  async function followRules(): Promise<void> {
    const { items, metadata } = await client.list(configMaps, { namespace: "default", signal });
    inForce = items.some((one) => one.metadata?.name === rule);
    for (const one of items) await takeRule(one, true);
    const resourceVersion = metadata.resourceVersion ?? "";
    await using watch = await client.watch(configMaps, { namespace: "default", resourceVersion, signal });
    for await (const event of watch) {
      if (event.type === "BOOKMARK") continue;
      if (event.type === "DELETED") await new Promise((resolve) => setTimeout(resolve, LATE_MS));
      await takeRule(event.object, event.type !== "DELETED");
    }
  }

  const running = Promise.all([again(followNodes, signal), again(followRules, signal)]);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      await client.close();
    },
  };
}

/** Begins anew whenever the server breaks off, until stopped. */
async function again(follow: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await follow();
    } catch (error) {
      if (!isApiError(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

/** A newer version is on its way, or the object is gone: either is told by the watch. */
async function tolerant(write: Promise<unknown>): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!isApiError(error, "conflict", "notFound")) throw error;
  }
}
