/**
 * The scene of WorkerPools: hands, the documents, a sentinel, and the state that counts.
 *
 * The scene plays the controllers of Deployments and ReplicaSets, the scheduler, and the garbage collector, as other stories
 * play theirs: what they do is a step of the story, at the same place in every telling, and whatever else is written is
 * the doing of Berth. What the real ones do with it is in `test/footprint-pr134.cluster.test.ts`.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type Deployment,
  deployments,
  events,
  type KubeObject,
  type Node,
  nodes,
  type Pod,
  pods,
  replicaSets,
  serviceAccounts,
} from "@berth/kube";
import { labelRules, type WorkerPool, workerPools } from "@berth/placement";
import { aNode, NUDGE, type PerturbationStory, type Scene, type Stage, type Step } from "@berth/testcluster";
import { createStoryClock, startBerthWithFiles } from "./footprint-berth.ts";
import { ORPHAN } from "./footprint-oracle.ts";
import {
  factsOf,
  isDeleted,
  isKept,
  PLACES,
  type PoolsView,
  UID_LABEL,
  unsettledPools,
} from "./footprint-pools-oracle.ts";
import { forbiddenOfPools } from "./footprint-pools-verdict.ts";
import { orphanPool, sentinelRule } from "./footprint-scene.ts";
import { recordedOf } from "./gate-oracle.ts";
import { MARKS } from "./node-scene.ts";

/** What the steps of a story can do. All names are local. */
export interface PoolHands {
  readonly addNode: (node: string) => Promise<void>;
  readonly addPool: (pool: string, replicas: number) => Promise<void>;
  readonly scalePool: (pool: string, replicas: number) => Promise<void>;
  /** As `kubectl delete` does it by default. */
  readonly removePool: (pool: string) => Promise<void>;
  /** `kubectl delete --cascade=orphan`: the rest is up to the garbage collector. */
  readonly orphanPool: (pool: string) => Promise<void>;
  /** Somebody else edits the Deployment of the pool. */
  readonly editDeployment: (pool: string, spec: object) => Promise<void>;
  /** The controllers of its Deployment: a ReplicaSet, pods on nodes, and how many pods there are. */
  readonly rollOut: (pool: string, content: RollOut) => Promise<void>;
  readonly removePod: (pod: string) => Promise<void>;
  /** The garbage collector finds that the Deployment of the pool is gone. */
  readonly collectSet: (pool: string) => Promise<void>;
  /** The garbage collector has nothing of the pool owned by it any more, and says so. */
  readonly orphan: (pool: string) => Promise<void>;
}

export interface RollOut {
  /** Nodes by the name of the new pod on each. */
  readonly pods?: Readonly<Record<string, string>>;
  /** How many there are then. */
  readonly replicas: number;
}

export interface PoolPlot {
  /** What counts, by local name. */
  readonly nodes: readonly string[];
  readonly pools: readonly string[];
  readonly pods: readonly string[];
  /** Before Berth starts. */
  prepare(hands: PoolHands): Promise<void>;
  steps(hands: PoolHands): readonly Step[];
}

export function poolStory(
  name: string,
  plot: PoolPlot,
  options: Pick<PerturbationStory, "oldestView"> = {},
): PerturbationStory {
  const guides = [labelRules, pods];
  return {
    name,
    ...options,
    resources: [nodes, ...guides, workerPools, deployments, replicaSets],
    ownStatusOf: [labelRules],
    unperturbed: [events, serviceAccounts],
    guides,
    setUp: (stage) => setUpPoolScene(stage, plot),
  };
}

const SENTINEL = "sentinel";

async function setUpPoolScene(stage: Stage, plot: PoolPlot): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(tmpdir(), "berth-pools-"));
  owned.defer(() => rm(folder, { recursive: true }));
  const config = path.join(folder, "pools.yaml");
  await writeFile(config, await documents());
  const clock = createStoryClock();
  const uids = new Map<string, string>();
  const hands = createPoolHands(stage, uids);
  const sentinel = await createSentinel(stage);
  await plot.prepare(hands);
  const steps = plot.steps(hands);
  const isSettled = (): boolean => unsettledPools(viewNow(stage, plot)).length === 0;
  const kept = owned.move();
  return {
    start: (connection) => startBerthWithFiles(stage, connection, { clock, config: [config] }),
    fence: sentinel.fence,
    steps: steps.map((step) => ({
      ...step,
      run() {
        sentinel.begin();
        return step.run();
      },
      over: () => isSettled() && (step.over?.() ?? true),
    })),
    state: () => stateOf(stage, plot, uids),
    forbidden: (all) =>
      forbiddenOfPools(
        all.filter(({ name }) => name !== SENTINEL && name !== deploymentName(SENTINEL)),
        ["start", ...steps.map(({ name }) => name)],
      ),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const EXAMPLE = path.join(import.meta.dirname, "../../examples/footprint/agent-substrate-pr-134.yaml");
const PRESET = "  preset: agent-substrate/pr-134\n";
/** As the controller of a Deployment adds a label of its own to pods. */
const OF_STORY = { "pod-template-hash": "story" };

/**
 * Those of the example, word for word but for one: an older view can only be selected by labels that have some value, and
 * the preset asks for one whatever its value.
 */
async function documents(): Promise<string> {
  const text = await readFile(EXAMPLE, "utf8");
  if (!text.includes(PRESET)) throw new RangeError(`${EXAMPLE} has no ${PRESET.trim()}`);
  const workloads = JSON.stringify([{ podSelector: { matchLabels: OF_STORY } }]);
  return text.replace(PRESET, `${PRESET}  workloads: ${workloads}\n`);
}

function deploymentName(pool: string): string {
  return `${pool}-deployment`;
}

function setName(pool: string): string {
  return `${pool}-set`;
}

function viewNow(stage: Stage, plot: PoolPlot): PoolsView {
  return {
    nodes: plot.nodes.flatMap((name) => stage.latest(nodes, name) ?? []),
    pods: plot.pods.flatMap((name) => stage.latest(pods, name) ?? []),
    pools: plot.pools.flatMap((name) => stage.latest(workerPools, name) ?? []),
    deployments: plot.pools.flatMap((name) => stage.latest(deployments, deploymentName(name)) ?? []),
    sets: plot.pools.flatMap((name) => stage.latest(replicaSets, setName(name)) ?? []),
  };
}

/** All that counts, without times and what makes names of this run unlike others; uids as the names of their pools. */
function stateOf(stage: Stage, plot: PoolPlot, uids: ReadonlyMap<string, string>): unknown {
  const state = {
    sentinel: stage.latest(deployments, deploymentName(SENTINEL)) !== undefined,
    nodes: plot.nodes.map((name) => [name, stateOfNode(stage.latest(nodes, name))]),
    pools: plot.pools.map((name) => [name, stateOfPool(stage.latest(workerPools, name))]),
    deployments: plot.pools.map((name) => [
      name,
      stateOfDeployment(stage.latest(deployments, deploymentName(name))),
    ]),
  };
  let text = JSON.stringify(state).replaceAll(stage.nameOf(""), "");
  for (const [uid, pool] of uids) text = text.replaceAll(uid, `uid of ${pool}`);
  return JSON.parse(text);
}

function stateOfNode(node: Node | undefined): unknown {
  if (node === undefined) return "absent";
  const { labels, annotations: { [NUDGE]: _nudge, [MARKS]: _marks, ...annotations } = {} } =
    node.metadata ?? {};
  return { labels, annotations, record: recordedOf(node), spec: node.spec };
}

function stateOfPool(pool: WorkerPool | undefined): unknown {
  if (pool === undefined) return "absent";
  const { metadata, spec, status } = pool;
  const { finalizers = [] } = metadata ?? {};
  return {
    finalizers: finalizers.toSorted(),
    isDeleted: isDeleted(pool),
    spec,
    replicas: status?.replicas ?? 0,
  };
}

function stateOfDeployment(deployment: Deployment | undefined): unknown {
  if (deployment === undefined) return "absent";
  return { ...factsOf(deployment), isDeleted: isDeleted(deployment), pods: deployment.status?.replicas ?? 0 };
}

interface Sentinel {
  readonly fence: Scene["fence"];
  /** The first step begins. */
  begin(): void;
}

/** No Deployment of these stories has so many pods. */
const WRONG_COUNT = 99;

/**
 * One object for each watch. At each round the pod of the sentinel is selected or is not, and its node carries a claim or
 * does not; the finalizer of its pool is taken off, and a number of pods written that is wrong. A label rule answers for
 * nodes: it is written by the same hand as marks of footprints.
 *
 * The Deployment of its pool has another name, so that an older view shows it as old as the rest. It is made at the start and
 * never changes after; by a view from before that the pool cannot tell how many pods it has, and does not have to.
 */
async function createSentinel(stage: Stage): Promise<Sentinel> {
  let edits = 0;
  let round = 0;
  let hasBegun = false;
  const rule = (): object => ({ removalDelay: edits % 2 === 0 ? "0s" : "0ms" });
  await stage.create(nodes, aNode(SENTINEL).build());
  await stage.create(labelRules, sentinelRule());
  const pool = await stage.create(workerPools, poolObject(SENTINEL, 0));
  const uid = pool.metadata?.uid ?? "";
  await stage.create(pods, sentinelPod(stage, uid));
  const guides: NonNullable<Scene["fence"]["guides"]> = {
    async change() {
      edits += 1;
      const labels = { "pod-template-hash": edits % 2 === 0 ? null : "story" };
      await stage.patch(pods, SENTINEL, { type: "merge", body: { metadata: { labels } } });
      await stage.patch(labelRules, SENTINEL, { type: "merge", body: { spec: rule() } });
    },
    // The pod answers on its node, and no node is written while the watch of nodes stands still.
    answered() {
      const { metadata, status } = stage.latest(labelRules, SENTINEL) ?? {};
      return status?.observedGeneration === metadata?.generation;
    },
  };
  const fence: Scene["fence"] = {
    resource: nodes,
    companions: [labelRules, pods, workerPools],
    name: SENTINEL,
    async change() {
      round += 1;
      const labels = { "sentinel/input": round % 2 === 0 ? null : "true" };
      await Promise.all([
        guides.change(),
        stage.patch(nodes, SENTINEL, { type: "merge", body: { metadata: { labels } } }),
        tear(stage, round),
      ]);
    },
    answered() {
      const { labels = {}, annotations = {} } = stage.latest(nodes, SENTINEL)?.metadata ?? {};
      const isDerived = (labels["sentinel/output"] !== undefined) === (round % 2 === 1);
      const isClaimed = annotations[`${PLACES.prefix}${uid}`] !== undefined;
      const present = stage.latest(workerPools, SENTINEL) ?? {};
      const isCounted = !hasBegun || present.status?.replicas === 0;
      const isMade = stage.latest(deployments, deploymentName(SENTINEL)) !== undefined;
      const isMarked = isDerived && isClaimed === (edits % 2 === 1);
      return isMarked && isKept(present) && isMade && isCounted && guides.answered();
    },
    guides,
  };
  return {
    fence,
    begin() {
      hasBegun = true;
    },
  };
}

/** What Berth puts back each time. */
async function tear(stage: Stage, round: number): Promise<void> {
  const status = { replicas: WRONG_COUNT };
  const metadata = { finalizers: null, annotations: { "sentinel/round": `${round}` } };
  await stage.patch(workerPools, SENTINEL, { type: "merge", body: { status } }, { subresource: "status" });
  await stage.patch(workerPools, SENTINEL, { type: "merge", body: { metadata } });
}

function poolObject(name: string, replicas: number): WorkerPool {
  return {
    apiVersion: "ate.dev/v1alpha1",
    kind: "WorkerPool",
    metadata: { name, namespace: "default" },
    spec: { replicas, ateomImage: "registry.test/ateom:1" },
  };
}

/** Of the pool itself. It is selected from the first round on. */
function sentinelPod(stage: Stage, uid: string): Pod {
  const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name: stage.nameOf(SENTINEL), uid };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: SENTINEL,
      namespace: "default",
      labels: { [UID_LABEL]: uid },
      ownerReferences: [{ ...owner, controller: true }],
    },
    spec: {
      containers: [{ name: "main", image: "registry.test/ateom:1" }],
      nodeName: stage.nameOf(SENTINEL),
      terminationGracePeriodSeconds: 0,
    },
  };
}

function createPoolHands(stage: Stage, uids: Map<string, string>): PoolHands {
  const edit = async (pool: string, body: object): Promise<void> => {
    await stage.patch(workerPools, pool, { type: "merge", body });
  };
  return {
    async addNode(name) {
      const node = aNode(name).annotated({ "example.com/note": name });
      await stage.create(nodes, node.tainted("example.com/dedicated=ml:NoSchedule").build());
    },
    async addPool(name, replicas) {
      const { metadata } = await stage.create(workerPools, poolObject(name, replicas));
      uids.set(metadata?.uid ?? "", name);
    },
    scalePool: (pool, replicas) => edit(pool, { spec: { replicas } }),
    removePool: (pool) => stage.remove(workerPools, pool),
    orphanPool: (pool) => orphanPool(stage, pool),
    async editDeployment(pool, spec) {
      await stage.patch(deployments, deploymentName(pool), { type: "merge", body: { spec } });
    },
    rollOut: (pool, content) => rollOut(stage, pool, content),
    removePod: (pod) => stage.remove(pods, pod),
    collectSet: (pool) => stage.remove(replicaSets, setName(pool)),
    async orphan(pool) {
      const body = { metadata: { ownerReferences: null } };
      await stage.patch(deployments, deploymentName(pool), { type: "merge", body });
      const { finalizers = [] } = stage.latest(workerPools, pool)?.metadata ?? {};
      await edit(pool, { metadata: { finalizers: finalizers.filter((one) => one !== ORPHAN) } });
    },
  };
}

/** Pods are as the template says that Berth has made. */
async function rollOut(stage: Stage, pool: string, { pods: made = {}, replicas }: RollOut): Promise<void> {
  const deployment = stage.latest(deployments, deploymentName(pool));
  const { selector, template } = deployment?.spec ?? {};
  if (deployment === undefined || selector === undefined || template?.spec === undefined)
    throw new RangeError(`${pool} has no Deployment`);
  const labels = { ...template.metadata?.labels, ...OF_STORY };
  const set =
    stage.latest(replicaSets, setName(pool)) ??
    (await stage.create(replicaSets, {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name: setName(pool), namespace: "default", labels, ownerReferences: [ownerOf(deployment)] },
      spec: { selector, template: { metadata: { labels }, spec: template.spec } },
    }));
  for (const [name, node] of Object.entries(made)) {
    await stage.create(pods, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", labels, ownerReferences: [ownerOf(set)] },
      spec: { ...template.spec, nodeName: stage.nameOf(node), terminationGracePeriodSeconds: 0 },
    });
  }
  await stage.patch(
    deployments,
    deploymentName(pool),
    { type: "merge", body: { status: { replicas } } },
    { subresource: "status" },
  );
}

type OwnerReference = NonNullable<NonNullable<Pod["metadata"]>["ownerReferences"]>[number];

/** Of what the server has told: its kind comes with it. */
function ownerOf({ apiVersion = "apps/v1", kind = "", metadata }: KubeObject): OwnerReference {
  const { name = "", uid = "" } = metadata ?? {};
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}
