/** From the creation of a pod to its node, with the real scheduler: without Berth, of images it knows, of such it does not. */
import { nodes, type Pod, pods } from "@berth/kube";
import { aNode, type NodeBuilder } from "@berth/testcluster";
import { type ArchitectureStage, creation, NAMESPACE_OF_PODS } from "./architecture-stage.ts";
import { type ObjectSight, watchObjects } from "./object-sight.ts";
import { type Figure, median, quantile } from "./report.ts";

/** Of each architecture; each takes 110 pods. */
const NODES = 5;
/** Pods of each kind, one at a time: what is measured is one pod's way, and no queue. */
const PODS = 100;
/** Before them, not counted. */
const WARM_UP = 20;
const TIMEOUT_MS = 30_000;

/** `schedules`, without nodes yet. */
export async function benchBind(
  stage: ArchitectureStage,
  onProgress: (text: string) => void,
): Promise<readonly Figure[]> {
  for (let index = 0; index < NODES; index++) {
    await addNode(stage, aNode(`amd-${index}`));
    await addNode(stage, aNode(`arm-${index}`).arm64());
  }
  const known = (await stage.push("known", 1)).references;
  const unknown = (await stage.push("unknown", WARM_UP + PODS)).references;
  const plain = await measure(stage, "plain", known);
  onProgress(`created to bound, nobody asked: ${text(plain)}`);
  await using berth = await stage.startBerth("Affinity");
  const hit = await measure(stage, "hit", known);
  const miss = await measure(stage, "miss", unknown);
  berth.ended.throwIfAborted();
  onProgress(`created to bound: ${text(hit)} of a known image, ${text(miss)} of one that nobody knew`);
  return toFigures({ plain, hit, miss });
}

/** The API server taints each new node as not ready, and the controller that would take that off does not run. */
async function addNode({ cluster: { client } }: ArchitectureStage, node: NodeBuilder): Promise<void> {
  const name = (await client.create(nodes, node.build())).metadata?.name ?? "";
  await client.patch(nodes, { name }, { type: "merge", body: { spec: { taints: null } } });
}

/** One after the other. Milliseconds each. */
async function measure(
  stage: ArchitectureStage,
  kind: string,
  images: readonly string[],
): Promise<readonly number[]> {
  await using sight = await watchObjects<Pod>(stage.cluster.client, {
    resource: pods,
    namespace: NAMESPACE_OF_PODS,
    project: ({ metadata, spec }) => ({ ...(metadata && { metadata }), ...(spec && { spec }) }),
  });
  const times: number[] = [];
  for (let index = 0; index < WARM_UP + PODS; index++) {
    const took = await bind(stage, sight, {
      name: `${kind}-${index}`,
      image: images[index % images.length] ?? "",
    });
    if (index >= WARM_UP) times.push(took);
  }
  await stage.clear();
  return times;
}

async function bind(
  { raw }: ArchitectureStage,
  sight: ObjectSight<Pod>,
  { name, image }: { readonly name: string; readonly image: string },
): Promise<number> {
  const bound = sight.until(
    name,
    ({ spec }) => (spec?.nodeName ?? "") !== "",
    AbortSignal.timeout(TIMEOUT_MS),
  );
  const [{ sentAt }, at] = await Promise.all([raw.send(creation(name, [image])), bound]);
  return at - sentAt;
}

function text(times: readonly number[]): string {
  return `p50 ${median(times).toFixed(1)} ms, p99 ${quantile(times, 0.99).toFixed(1)} ms`;
}

type Kind = "plain" | "hit" | "miss";

function toFigures(times: Readonly<Record<Kind, readonly number[]>>): readonly Figure[] {
  const whose: Readonly<Record<Kind, string>> = {
    plain: "nobody is asked",
    hit: "Berth knows its image",
    miss: "nobody knows its image",
  };
  const detail = `${PODS} pods one at a time, the real scheduler; from the request to a watcher's version with a node`;
  return (["plain", "hit", "miss"] as const).flatMap((kind): readonly Figure[] => [
    {
      id: `architecture-bind-${kind}-p50`,
      what: `a pod's creation to its node, ${whose[kind]}: p50`,
      value: median(times[kind]),
      unit: "ms",
      ...(kind === "plain" && { detail }),
    },
    {
      id: `architecture-bind-${kind}-p99`,
      what: `a pod's creation to its node, ${whose[kind]}: p99`,
      value: quantile(times[kind], 0.99),
      unit: "ms",
    },
  ]);
}
