/** What all stories about footprints have in common: actor, a sentinel, and the state that counts. */
import { events, namespaces, nodes, pods, replicaSets, serviceAccounts } from "@berth/kube";
import {
  labelRules,
  type NodeFootprint,
  nodeFootprints,
  type WorkerPool,
  workerPools,
} from "@berth/placement";
import { aNode, type PerturbationStory, type Scene, type Stage, type Step } from "@berth/testcluster";
import { createStoryClock, type StoryClock, startBerthInStory } from "./berth.ts";
import {
  AGENT_LABEL,
  CLAIM_PREFIX,
  type FootprintView,
  footprintSpec,
  groupLabels,
  HOLD_MS,
  isHeld,
  isOverdue,
  needingPod,
  ORPHAN,
  type Owners,
  POOL,
  poolObject,
  SENTINEL_NODE,
  type StoryPod,
  setObject,
  unsettled,
} from "./footprint-oracle.ts";
import { forbiddenOfFootprints } from "./footprint-verdict.ts";
import { createNodeActor, type NodeActor } from "./node-scene.ts";
import {
  createLabelSentinel,
  document,
  type Guides,
  isObserved,
  localized,
  merge,
  namesOf,
  present,
  SENTINEL,
  STATUS,
  stateOfNode,
  statesOf,
  statusOf,
  stepsUntil,
  without,
} from "./scene.ts";

/** What the steps of a story can do. */
export interface FootprintActor extends Pick<NodeActor, "remove" | "label" | "annotate"> {
  /** With a label, an annotation and a taint of somebody else. */
  readonly addNode: (node: string) => Promise<void>;
  /** @param content its node by local name. */
  readonly addPod: (pod: string, content: LocalPod) => Promise<void>;
  /** Gone at once, unless it lingers. */
  readonly removePod: (pod: string) => Promise<void>;
  /** One that lingers may go now. */
  readonly endPod: (pod: string) => Promise<void>;
  readonly finishPod: (pod: string) => Promise<void>;
  readonly putFootprint: (footprint: string) => Promise<void>;
  readonly dropFootprint: (footprint: string) => Promise<void>;
  readonly addPool: (pool: string) => Promise<void>;
  /** Its deletion begins. */
  readonly removePool: (pool: string) => Promise<void>;
  /** Leaves it just these. */
  readonly setFinalizers: (pool: string, finalizers: readonly string[]) => Promise<void>;
  /** The pool owns it. */
  readonly addSet: (set: string, pool: string) => Promise<void>;
  /** `kubectl delete --cascade=orphan`: the rest is up to the garbage collector. */
  readonly orphanPool: (pool: string) => Promise<void>;
  /** The garbage collector has had the pool own this no more, and says so. */
  readonly orphanSet: (set: string, pool: string) => Promise<void>;
  /** Deletions have waited for as long as they may. */
  readonly passTime: () => void;
  /** The group of a pod of this pool. */
  readonly uidOf: (pool: string) => string;
  /** Whether our finalizer is on the pool. */
  readonly holds: (pool: string) => boolean;
  /** Whether its status says whether owners are held: it does once they have been read. */
  readonly hasReadOwners: (footprint: string) => boolean;
  /** Whether the label stands on the node. */
  readonly stands: (node: string) => boolean;
  readonly isClaimed: (node: string, group: string) => boolean;
}

/** A pod on a node and of a set, both by local name. */
export interface LocalPod extends Omit<StoryPod, "set"> {
  readonly set?: string;
}

export interface FootprintPlot {
  /** What counts, by local name. */
  readonly nodes: readonly string[];
  readonly pods: readonly string[];
  readonly footprints: readonly string[];
  /** Default none. Whoever names some has `owners`. */
  readonly pools?: readonly string[];
  /** What pools own. Default none. */
  readonly sets?: readonly string[];
  /** The step of `passTime`. Default none. */
  readonly late?: string;
  readonly owners: Owners;
  /** Before Berth starts. */
  prepare(actor: FootprintActor): Promise<void>;
  steps(actor: FootprintActor): readonly Step[];
}

export function footprintStory(
  name: string,
  plot: FootprintPlot,
  options: Pick<PerturbationStory, "oldestView"> = {},
): PerturbationStory {
  const guides = [nodeFootprints, labelRules, pods];
  return {
    name,
    ...options,
    resources: [nodes, ...guides, ...(plot.pools ? [workerPools] : []), ...(plot.sets ? [replicaSets] : [])],
    ownStatusOf: [nodeFootprints, labelRules],
    unperturbed: [events, namespaces, serviceAccounts],
    guides,
    setUp: (stage) => setUpFootprintScene(stage, plot),
  };
}

async function setUpFootprintScene(stage: Stage, plot: FootprintPlot): Promise<Scene> {
  const clock = createStoryClock();
  const actor = createFootprintActor(stage, plot, clock);
  // Of two footprints that hold the same owners the older one counts, by the second, and then by name.
  await plot.prepare(actor);
  const fence = await createSentinel(stage, plot);
  const steps = plot.steps(actor);
  const isLate = (pool: WorkerPool): boolean => isOverdue(pool, clock.now());
  const isSettled = (): boolean => unsettled(viewNow(stage, plot), isLate).length === 0;
  return {
    start: (connection) => startBerthInStory(stage, connection, { clock }),
    fence,
    steps: stepsUntil(steps, isSettled),
    state: () => stateOf(stage, plot),
    forbidden: (all) =>
      forbiddenOfFootprints(
        all.filter(({ name }) => name !== SENTINEL),
        namesOf(steps),
        plot.late,
      ),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function viewNow(stage: Stage, plot: FootprintPlot): FootprintView {
  return {
    nodes: present(stage, nodes, plot.nodes),
    pods: present(stage, pods, plot.pods),
    footprints: present(stage, nodeFootprints, plot.footprints),
    pools: present(stage, workerPools, plot.pools),
    sets: present(stage, replicaSets, plot.sets),
  };
}

/** All that counts, without uids, times, and what makes names of this run unlike others. */
function stateOf(stage: Stage, plot: FootprintPlot): unknown {
  const state = {
    nodes: statesOf(stage, nodes, plot.nodes, stateOfNode),
    footprints: statesOf(stage, nodeFootprints, plot.footprints, stateOfFootprint),
    pools: statesOf(stage, workerPools, plot.pools ?? [], stateOfPool),
    sets: (plot.sets ?? []).filter((name) => stage.latest(replicaSets, name) !== undefined),
  };
  return JSON.parse(JSON.stringify(localized(stage, state)).replaceAll(UID, "uid"));
}

const UID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

function stateOfPool({ metadata }: WorkerPool): unknown {
  const { finalizers = [], deletionTimestamp } = metadata ?? {};
  return { finalizers: finalizers.toSorted(), isDeleted: deletionTimestamp !== undefined };
}

function stateOfFootprint(footprint: NodeFootprint): unknown {
  const { conditions, holds = [], ...counts } = statusOf(footprint);
  return {
    ...counts,
    holds: without(holds, "since"),
    conditions: without(conditions, "message"),
  };
}

/**
 * One object for each watch. The pods of its footprint come by the very watch that those of the story come by, and each
 * footprint leaves the nodes of the other alone. At each round its pod is of another group, which claims its node, and the
 * footprint says that it was seen. A label rule answers for nodes: it is written by the same hand as marks of footprints. The finalizer of a
 * pool is taken off at each round.
 */
async function createSentinel(stage: Stage, { owners, pools }: FootprintPlot): Promise<Scene["fence"]> {
  let edits = 0;
  const prefix = "sentinel.example.com/claim.";
  const spec = (): object =>
    footprintSpec(owners, {
      label: "sentinel.example.com/agent",
      prefix,
      leaves: POOL,
      delay: edits % 2 === 0 ? "0s" : "0ms",
    });
  const label = await createLabelSentinel(stage, aNode(SENTINEL).labelled(SENTINEL_NODE));
  await stage.create(pods, needingPod(SENTINEL, { node: stage.nameOf(SENTINEL), group: `round-${edits}` }));
  await stage.create(nodeFootprints, document(nodeFootprints, SENTINEL, spec()));
  if (pools !== undefined) await stage.create(workerPools, poolObject(SENTINEL));
  const guides: Guides = {
    async change() {
      edits += 1;
      const labels = groupLabels(`round-${edits}`);
      await stage.patch(pods, SENTINEL, merge({ metadata: { labels } }));
      await stage.patch(nodeFootprints, SENTINEL, merge({ spec: spec() }));
    },
    // The pod answers on its node, and no node is written while the watch of nodes stands still.
    answered: () => isObserved(stage, nodeFootprints),
  };
  // Its finalizer is put back each time.
  const torn = (): object => ({ finalizers: null, annotations: { "sentinel/round": `${label.round()}` } });
  return {
    resource: nodes,
    companions: [nodeFootprints, labelRules, pods, ...(pools ? [workerPools] : [])],
    name: SENTINEL,
    async change() {
      await Promise.all([
        guides.change(),
        label.change(),
        pools && stage.patch(workerPools, SENTINEL, merge({ metadata: torn() })),
      ]);
    },
    answered() {
      const { annotations = {} } = stage.latest(nodes, SENTINEL)?.metadata ?? {};
      const claims = Object.keys(annotations).filter((key) => key.startsWith(prefix));
      const isGuarded = pools === undefined || isHeld(stage.latest(workerPools, SENTINEL) ?? {});
      return (
        label.answered() && isGuarded && claims.join() === `${prefix}round-${edits}` && guides.answered()
      );
    },
    guides,
  };
}

function createFootprintActor(stage: Stage, { owners }: FootprintPlot, clock: StoryClock): FootprintActor {
  const { remove, label, annotate } = createNodeActor(stage);
  const setFinalizers = async (pool: string, finalizers: readonly string[]): Promise<void> => {
    await stage.patch(workerPools, pool, merge({ metadata: { finalizers } }));
  };
  return {
    remove,
    label,
    annotate,
    async addNode(name) {
      const node = aNode(name)
        .labelled(POOL)
        .annotated({ "example.com/note": name })
        .tainted("example.com/dedicated=ml:NoSchedule");
      await stage.create(nodes, node.build());
    },
    async addPod(name, { node, set: local, ...content }) {
      const set = local === undefined ? undefined : stage.latest(replicaSets, local);
      await stage.create(
        pods,
        needingPod(name, { ...content, node: stage.nameOf(node), ...(set && { set }) }),
      );
    },
    removePod: (pod) => stage.remove(pods, pod),
    async endPod(pod) {
      await stage.patch(pods, pod, merge({ metadata: { finalizers: null } }));
    },
    async finishPod(pod) {
      const body = { status: { phase: "Succeeded" } };
      await stage.patch(pods, pod, merge(body), STATUS);
    },
    async putFootprint(name) {
      await stage.create(nodeFootprints, document(nodeFootprints, name, footprintSpec(owners)));
    },
    dropFootprint: (footprint) => stage.remove(nodeFootprints, footprint),
    async addPool(name) {
      await stage.create(workerPools, poolObject(name));
    },
    removePool: (pool) => stage.remove(workerPools, pool),
    setFinalizers,
    async addSet(set, pool) {
      await stage.create(replicaSets, setObject(set, stage.latest(workerPools, pool) ?? {}));
    },
    orphanPool: (pool) => orphanPool(stage, pool),
    async orphanSet(set, pool) {
      const body = { metadata: { ownerReferences: null } };
      await stage.patch(replicaSets, set, merge(body));
      const { finalizers = [] } = stage.latest(workerPools, pool)?.metadata ?? {};
      await setFinalizers(
        pool,
        finalizers.filter((one) => one !== ORPHAN),
      );
    },
    passTime: () => clock.leap(HOLD_MS),
    uidOf: (pool) => stage.latest(workerPools, pool)?.metadata?.uid ?? "",
    holds: (pool) => isHeld(stage.latest(workerPools, pool) ?? {}),
    hasReadOwners: (footprint) =>
      stage
        .latest(nodeFootprints, footprint)
        ?.status?.conditions?.some(({ type }) => type === "OwnersHeld") ?? false,
    stands: (node) => stage.latest(nodes, node)?.metadata?.labels?.[AGENT_LABEL] !== undefined,
    isClaimed: (node, group) =>
      stage.latest(nodes, node)?.metadata?.annotations?.[`${CLAIM_PREFIX}${group}`] !== undefined,
  };
}

/** Begins the deletion of a pool, after which what it owns belongs to nobody. */
export async function orphanPool(stage: Stage, pool: string): Promise<void> {
  const of = { namespace: "default", name: stage.nameOf(pool) };
  await stage.cluster.client.delete(workerPools, of, { propagationPolicy: "Orphan" });
  // It is being deleted already: this changes nothing, and notes whose doing that is.
  await stage.remove(workerPools, pool);
}
