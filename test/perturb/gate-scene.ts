/** What all stories about startup gates have in common: actor, a sentinel, and the state that counts. */
import { daemonSets, type Node, nodes, pods, type Taint } from "@berth/kube";
import { startupGates } from "@berth/placement";
import { aNode, type PerturbationStory, type Scene, type Stage, type Step } from "@berth/testcluster";
import type { Labels } from "../oracle.ts";
import { startBerthWithState } from "./berth.ts";
import { aDaemonSet, boundPod, initPod, patchStatus, toSpec } from "./gate-objects.ts";
import { type GateView, type StoryGate, type StoryGates, unsettled } from "./gate-oracle.ts";
import { forbiddenOfGates } from "./gate-verdict.ts";
import type { Edits } from "./node-scene.ts";
import {
  document,
  editTaints,
  isObserved,
  localized,
  merge,
  namesOf,
  present,
  SENTINEL,
  stateOfNode,
  statesOf,
  statusOf,
  stepsUntil,
} from "./scene.ts";

/** What makes a node one of those that gates of stories select. */
const POOL = { "example.com/pool": "story" };
const INIT = "init";

/** What the steps of a story can do. */
export interface GateActor {
  /** @param taints as kubelet registers them: `key=value:Effect`. */
  readonly addNode: (node: string, taints?: readonly string[]) => Promise<void>;
  readonly removeNode: (node: string) => Promise<void>;
  readonly annotate: (node: string, edits: Edits) => Promise<void>;
  readonly condition: (node: string, type: string, status: "True" | "False") => Promise<void>;
  /** Edits the list of taints as it stands, whoever writes at the same time. */
  readonly taint: (node: string, edit: (taints: readonly Taint[]) => readonly Taint[]) => Promise<void>;
  /** A pod of the DaemonSet, which nobody has started yet. It does not go before `endPod`. */
  readonly addPod: (pod: string, node: string, labels: Labels) => Promise<void>;
  /** A pod of a user. */
  readonly addWorkload: (pod: string, node: string) => Promise<void>;
  readonly ready: (pod: string, ready: boolean) => Promise<void>;
  /** It is asked to end, and ends when `endPod` says so. */
  readonly stopPod: (pod: string) => Promise<void>;
  readonly endPod: (pod: string) => Promise<void>;
  readonly putGate: (gate: string) => Promise<void>;
  readonly dropGate: (gate: string) => Promise<void>;
  /** A person lets the node go. */
  readonly letGo: (node: string, gate: string) => Promise<void>;
  /** Whether this taint stands on the node. */
  readonly stands: (node: string, taint: string) => boolean;
}

export interface GatePlot {
  readonly gates: StoryGates;
  /** The nodes whose state counts. */
  readonly nodes: readonly string[];
  /** Before Berth starts. */
  prepare(actor: GateActor): Promise<void>;
  steps(actor: GateActor): readonly Step[];
}

export function gateStory(
  name: string,
  plot: GatePlot,
  options: Pick<PerturbationStory, "oldestView"> = {},
): PerturbationStory {
  const seesPods = queriesOf(plot).length > 0;
  const guides = seesPods ? [startupGates, daemonSets, pods] : [startupGates];
  return {
    name,
    ...options,
    resources: [nodes, ...guides],
    ownStatusOf: [startupGates],
    guides,
    setUp: (stage) => setUpGateScene(stage, plot),
  };
}

async function setUpGateScene(stage: Stage, plot: GatePlot): Promise<Scene> {
  const queries = queriesOf(plot);
  const podNames = new Set<string>();
  const actor = createGateActor(stage, plot, podNames);
  if (queries.length > 0) await stage.create(daemonSets, aDaemonSet(INIT));
  const sentinel = await createSentinel(stage, queries);
  await plot.prepare(actor);
  const steps = plot.steps(actor);
  const nameOf = (local: string): string => stage.nameOf(local);
  const stillWrong = (): readonly string[] => {
    const view = viewNow(stage, plot, podNames);
    return present(stage, nodes, plot.nodes).flatMap((node) =>
      unsettled(node, view, { gates: plot.gates, nameOf }),
    );
  };
  return {
    start: (connection) => startBerthWithState(stage, connection),
    fence: sentinel,
    steps: stepsUntil(steps, () => stillWrong().length === 0),
    state: () => stateOf(stage, plot),
    forbidden(all) {
      const history = all.filter(({ name, by }) => name !== SENTINEL || by === "controller");
      const ofNodes = history.filter(({ name }) => name !== SENTINEL);
      const trial = { gates: plot.gates, nameOf, steps: namesOf(steps) };
      const ofSentinel = history.filter(({ resource, name }) => name === SENTINEL && isPodOrSet(resource));
      return [
        ...forbiddenOfGates(ofNodes, trial),
        ...ofSentinel.map(({ type, resource }) => `the controller wrote ${type} ${resource.plural}`),
      ];
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function isPodOrSet(resource: unknown): boolean {
  return resource === pods || resource === daemonSets;
}

/** The labels of the pods that signals look for, each query once. */
function queriesOf({ gates }: Pick<GatePlot, "gates">): readonly Labels[] {
  const all = Object.values(gates).flatMap(({ pods: queries = [] }) => queries);
  return [...new Map(all.map((labels) => [JSON.stringify(labels), labels])).values()];
}

function viewNow(stage: Stage, { gates }: GatePlot, podNames: Iterable<string>): GateView {
  return {
    pods: present(stage, pods, [...podNames]),
    daemonSets: present(stage, daemonSets, [INIT]),
    gates: new Set(Object.keys(gates).filter((gate) => stage.latest(startupGates, gate) !== undefined)),
  };
}

/** Nodes and gates without uids, times, and what makes names of this run unlike others. */
function stateOf(stage: Stage, plot: GatePlot): unknown {
  const state = {
    nodes: statesOf(stage, nodes, plot.nodes, stateOfGatedNode),
    gates: statesOf(stage, startupGates, Object.keys(plot.gates), statusOf),
  };
  // What a gate says in an annotation is JSON in JSON.
  const text = JSON.stringify(state).replaceAll(/(\\"at\\":\\")[^"\\]*/g, "$1…");
  return localized(stage, JSON.parse(text));
}

function stateOfGatedNode(node: Node): unknown {
  const { annotations, ...rest } = stateOfNode(node);
  const dated = Object.entries(annotations as Labels).map(([key, value]) => [
    key,
    /^\d{10}$/.test(value) ? "…" : value,
  ]);
  const conditions = (node.status?.conditions ?? []).map(({ type, status }) => `${type}=${status}`);
  return { ...rest, annotations: Object.fromEntries(dated), conditions };
}

const SIGNAL = "sentinel/ready";

/**
 * A gate and its node, which is let go and held again at each round by a signal of its own: a pod that all queries of
 * the story find, so that their watches have come so far, or an annotation where the story has no pods. The node changes
 * before that, so that who writes to it has seen as much of the nodes; and the gate at each round, whose status tells.
 */
async function createSentinel(stage: Stage, queries: readonly Labels[]): Promise<Scene["fence"]> {
  const seesPods = queries.length > 0;
  const gate: StoryGate = {
    taint: SENTINEL,
    again: 1,
    ...(seesPods ? { pods: queries } : { annotations: [SIGNAL] }),
  };
  let round = 0;
  const spec = (): object => ({
    ...toSpec(gate, stage),
    nodeSelector: { matchLabels: { sentinel: "true" } },
    minimumHold: round % 2 === 0 ? "0s" : "0ms",
  });
  await stage.create(
    nodes,
    aNode(SENTINEL).labelled({ sentinel: "true" }).tainted(`${SENTINEL}=wait:NoSchedule`).build(),
  );
  if (seesPods) {
    await stage.create(daemonSets, aDaemonSet(SENTINEL));
    await stage.create(
      pods,
      initPod(stage, {
        name: SENTINEL,
        node: SENTINEL,
        set: SENTINEL,
        labels: Object.assign({}, ...queries),
      }),
    );
  }
  await stage.create(startupGates, document(startupGates, SENTINEL, spec()));
  const meddle = async (annotations: Edits): Promise<void> => {
    await stage.patch(nodes, SENTINEL, merge({ metadata: { annotations } }));
  };
  return {
    resource: nodes,
    companions: seesPods ? [startupGates, daemonSets, pods] : [startupGates],
    name: SENTINEL,
    async change() {
      round += 1;
      await meddle({ "sentinel/round": String(round) });
      const isReady = round % 2 === 1;
      await Promise.all([
        stage.patch(startupGates, SENTINEL, merge({ spec: spec() })),
        seesPods ? patchStatus(stage, SENTINEL, isReady) : meddle({ [SIGNAL]: isReady ? "true" : null }),
      ]);
    },
    answered() {
      return hasTaint(stage, SENTINEL, SENTINEL) === (round % 2 === 0) && isObserved(stage, startupGates);
    },
  };
}

function hasTaint(stage: Stage, node: string, taint: string): boolean {
  return stage.latest(nodes, node)?.spec?.taints?.some(({ key }) => key === taint) === true;
}

function createGateActor(stage: Stage, { gates }: GatePlot, podNames: Set<string>): GateActor {
  const edit = async (node: string, metadata: object): Promise<void> => {
    await stage.patch(nodes, node, merge({ metadata }));
  };
  return {
    async addNode(node, taints = []) {
      const annotations = { "example.com/note": node };
      await stage.create(
        nodes,
        aNode(node)
          .labelled(POOL)
          .annotated(annotations)
          .tainted(...taints)
          .build(),
      );
    },
    removeNode: (node) => stage.remove(nodes, node),
    annotate: (node, annotations) => edit(node, { annotations }),
    async condition(node, type, status) {
      const body = { status: { conditions: [{ type, status }] } };
      await stage.patch(nodes, node, { type: "strategic", body }, { subresource: "status" });
    },
    taint: (node, edit) => editTaints(stage, node, edit),
    async addPod(name, node, labels) {
      podNames.add(name);
      await stage.create(
        pods,
        initPod(stage, { name, node, set: INIT, labels, finalizers: ["example.com/ends"] }),
      );
    },
    async addWorkload(name, node) {
      podNames.add(name);
      await stage.create(pods, boundPod(stage, name, node));
    },
    ready: (pod, ready) => patchStatus(stage, pod, ready),
    stopPod: (pod) => stage.remove(pods, pod),
    async endPod(pod) {
      await stage.patch(pods, pod, merge({ metadata: { finalizers: null } }));
    },
    async putGate(name) {
      const gate = gates[name];
      if (gate === undefined) throw new RangeError(`the story has no gate ${name}`);
      const spec = { ...toSpec(gate, stage), nodeSelector: { matchLabels: POOL } };
      await stage.create(startupGates, document(startupGates, name, spec));
    },
    dropGate: (gate) => stage.remove(startupGates, gate),
    letGo(node, gate) {
      const at = new Date().toISOString().replace(/\.\d+/, "");
      const said = JSON.stringify({
        v: 1,
        state: "released",
        at,
        why: "ReleasedByHand",
        note: "by a person",
      });
      return edit(node, { annotations: { [`gate.berth.dev/${stage.nameOf(gate)}`]: said } });
    },
    stands: (node, taint) => hasTaint(stage, node, taint),
  };
}
