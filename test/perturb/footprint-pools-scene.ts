/**
 * The scene of WorkerPools: the documents, and the state that counts.
 *
 * The scene plays the controllers of Deployments and ReplicaSets, the scheduler, and the garbage collector, as other stories
 * play theirs: what they do is a step of the story, at the same place in every telling, and whatever else is written is
 * the doing of Berth. What the real ones do with it is in `test/footprint-pr134.cluster.test.ts`.
 */
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type Deployment,
  deployments,
  events,
  namespaces,
  nodes,
  pods,
  replicaSets,
  serviceAccounts,
} from "@berth/kube";
import { labelRules, type WorkerPool, workerPools } from "@berth/placement";
import type { PerturbationStory, Scene, Stage, Step } from "@berth/testcluster";
import { createStoryClock, startBerthInStory } from "./berth.ts";
import {
  createPoolActor,
  deploymentName,
  OF_STORY,
  type PoolActor,
  setName,
} from "./footprint-pools-actor.ts";
import { factsOf, isDeleted, type PoolsView, unsettledPools } from "./footprint-pools-oracle.ts";
import { createPoolSentinel } from "./footprint-pools-sentinel.ts";
import { forbiddenOfPools } from "./footprint-pools-verdict.ts";
import { localized, namesOf, present, SENTINEL, stateOfNode, statesOf, stepsUntil } from "./scene.ts";

export interface PoolPlot {
  /** What counts, by local name. */
  readonly nodes: readonly string[];
  readonly pools: readonly string[];
  readonly pods: readonly string[];
  /** Before Berth starts. */
  prepare(actor: PoolActor): Promise<void>;
  steps(actor: PoolActor): readonly Step[];
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
    unperturbed: [events, namespaces, serviceAccounts],
    guides,
    setUp: (stage) => setUpPoolScene(stage, plot),
  };
}

async function setUpPoolScene(stage: Stage, plot: PoolPlot): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-pools-")));
  const config = { path: path.join(folder.path, "pools.yaml"), shown: "pools.yaml" };
  await writeFile(config.path, await documents());
  const clock = createStoryClock();
  const uids = new Map<string, string>();
  const actor = createPoolActor(stage, uids);
  const sentinel = await createPoolSentinel(stage);
  await plot.prepare(actor);
  const steps = plot.steps(actor);
  const begun = steps.map((step) => ({
    ...step,
    run() {
      sentinel.begin();
      return step.run();
    },
  }));
  const isSettled = (): boolean => unsettledPools(viewNow(stage, plot)).length === 0;
  const kept = owned.move();
  return {
    start: (connection) => startBerthInStory(stage, connection, { clock, config: [config] }),
    fence: sentinel.fence,
    steps: stepsUntil(begun, isSettled),
    state: () => stateOf(stage, plot, uids),
    forbidden: (all) =>
      forbiddenOfPools(
        all.filter(({ name }) => name !== SENTINEL && name !== deploymentName(SENTINEL)),
        namesOf(steps),
      ),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const EXAMPLE = path.join(import.meta.dirname, "../../examples/footprint/agent-substrate-pr-134.yaml");
const PRESET = "  preset: agent-substrate/pr-134\n";
/**
 * Those of the example, word for word but for one: an older view can only be selected by labels that have some value, and
 * the preset asks for one whatever its value.
 */
async function documents(): Promise<string> {
  const text = await readFile(EXAMPLE, "utf8");
  if (!text.includes(PRESET)) throw new RangeError(`${EXAMPLE} has no ${PRESET.trim()}`);
  const workloads = JSON.stringify([{ podSelector: { matchLabels: OF_STORY } }]);
  return text
    .replace(PRESET, `${PRESET}  workloads: ${workloads}\n`)
    .replace("registry.example/", "registry.test/")
    .replace("[agents]", "[default]");
}

function viewNow(stage: Stage, plot: PoolPlot): PoolsView {
  return {
    nodes: present(stage, nodes, plot.nodes),
    pods: present(stage, pods, plot.pods),
    pools: present(stage, workerPools, plot.pools),
    deployments: present(stage, deployments, plot.pools.map(deploymentName)),
    sets: present(stage, replicaSets, plot.pools.map(setName)),
  };
}

/** All that counts, without times and what makes names of this run unlike others; uids as the names of their pools. */
function stateOf(stage: Stage, plot: PoolPlot, uids: ReadonlyMap<string, string>): unknown {
  const state = localized(stage, {
    sentinel: stage.latest(deployments, deploymentName(SENTINEL)) !== undefined,
    nodes: statesOf(stage, nodes, plot.nodes, stateOfNode),
    pools: statesOf(stage, workerPools, plot.pools, stateOfPool),
    deployments: statesOf(stage, deployments, plot.pools.map(deploymentName), stateOfDeployment),
  });
  let text = JSON.stringify(state);
  for (const [uid, pool] of uids) text = text.replaceAll(uid, `uid of ${pool}`);
  return JSON.parse(text);
}

function stateOfPool(pool: WorkerPool): unknown {
  const { metadata, spec, status } = pool;
  const finalizers = (metadata?.finalizers ?? []).toSorted();
  return { finalizers, isDeleted: isDeleted(pool), spec, replicas: status?.replicas ?? 0 };
}

function stateOfDeployment(deployment: Deployment): unknown {
  return { ...factsOf(deployment), isDeleted: isDeleted(deployment), pods: deployment.status?.replicas ?? 0 };
}
