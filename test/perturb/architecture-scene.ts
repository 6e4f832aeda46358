/** What all stories about architecture policies have in common: actor, a sentinel, and the state that counts. */
import {
  type DaemonSet,
  daemonSets,
  events,
  namespaces,
  nodes,
  type Pod,
  pods,
  serviceAccounts,
  type Taint,
} from "@berth/kube";
import { type ArchitecturePolicy, architecturePolicies, labelRules } from "@berth/placement";
import { aNode, type PerturbationStory, type Scene, type Stage, type Step } from "@berth/testcluster";
import {
  daemonSetObject,
  POOL,
  podObject,
  type StoryPod,
  type StoryPolicy,
  specOf,
} from "./architecture-objects.ts";
import { type ArchitectureView, conditionOf, isGated, taintsAt, unsettled } from "./architecture-oracle.ts";
import { forbiddenOfArchitectures } from "./architecture-verdict.ts";
import { startBerthWithState } from "./berth.ts";
import {
  createLabelSentinel,
  document,
  editTaints,
  type Guides,
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
  without,
} from "./scene.ts";

/** What the steps of a story can do. */
export interface ArchitectureActor {
  /** @param taints as kubelet registers them: `key=value:Effect`. */
  readonly addNode: (node: string, architecture: string, taints?: readonly string[]) => Promise<void>;
  /** Edits the list of taints as it stands, whoever writes at the same time. */
  readonly taint: (node: string, edit: (taints: readonly Taint[]) => readonly Taint[]) => Promise<void>;
  readonly addPod: (pod: string, content: StoryPod) => Promise<void>;
  readonly removePod: (pod: string) => Promise<void>;
  readonly addDaemonSet: (name: string, image: string) => Promise<void>;
  /** As from a manifest in which they never stood. */
  readonly stripDaemonSet: (name: string) => Promise<void>;
  /** Makes the policy, or edits it to be this one. */
  readonly putPolicy: (policy: string, content: StoryPolicy) => Promise<void>;
  readonly dropPolicy: (policy: string) => Promise<void>;
  /** Whether the taint with this key stands on the node. */
  readonly stands: (node: string, key: string) => boolean;
  /** Whether our gate holds the pod. */
  readonly isHeld: (pod: string) => boolean;
}

export interface ArchitecturePlot {
  /** What counts, by local name. */
  readonly nodes: readonly string[];
  readonly pods: readonly string[];
  readonly daemonSets?: readonly string[];
  readonly policies: readonly string[];
  /** Taint keys of these. */
  readonly keys: readonly string[];
  /** Before Berth starts. */
  prepare(actor: ArchitectureActor): Promise<void>;
  steps(actor: ArchitectureActor): readonly Step[];
}

export function architectureStory(
  name: string,
  plot: ArchitecturePlot,
  options: Pick<PerturbationStory, "oldestView"> = {},
): PerturbationStory {
  const guides = [architecturePolicies, labelRules, daemonSets, pods];
  return {
    name,
    ...options,
    resources: [nodes, ...guides],
    ownStatusOf: [architecturePolicies, labelRules],
    // Each round of the sentinel tells Events; and images that are not known are asked for again by the clock.
    unperturbed: [events, namespaces, serviceAccounts],
    guides,
    setUp: (stage) => setUpArchitectureScene(stage, plot),
  };
}

async function setUpArchitectureScene(stage: Stage, plot: ArchitecturePlot): Promise<Scene> {
  const actor = createArchitectureActor(stage);
  const sentinel = await createSentinel(stage, plot.keys);
  await plot.prepare(actor);
  const steps = plot.steps(actor);
  const isSettled = (): boolean => unsettled(viewNow(stage, plot)).length === 0;
  return {
    start: (connection) => startBerthWithState(stage, connection),
    fence: sentinel,
    steps: stepsUntil(steps, isSettled),
    state: () => stateOf(stage, plot),
    forbidden(all) {
      const history = all.filter(({ name }) => name !== SENTINEL);
      const trial = {
        steps: namesOf(steps),
        keys: plot.keys,
        sentinelKey: SENTINEL_KEY,
      };
      return forbiddenOfArchitectures(history, trial);
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function viewNow(stage: Stage, plot: ArchitecturePlot): ArchitectureView {
  return {
    nodes: present(stage, nodes, plot.nodes),
    pods: present(stage, pods, plot.pods),
    daemonSets: present(stage, daemonSets, plot.daemonSets),
    policies: present(stage, architecturePolicies, plot.policies),
  };
}

/** All that counts, without uids, times, and what makes names of this run unlike others. */
function stateOf(stage: Stage, plot: ArchitecturePlot): unknown {
  const ofTemplate = ({ spec }: DaemonSet): unknown => stateOfSpec(spec?.template.spec);
  return localized(stage, {
    nodes: statesOf(stage, nodes, plot.nodes, stateOfNode),
    pods: statesOf(stage, pods, plot.pods, (pod) => ({
      spec: stateOfSpec(pod.spec),
      condition: conditionOf(pod),
    })),
    daemonSets: statesOf(stage, daemonSets, plot.daemonSets ?? [], ofTemplate),
    policies: statesOf(stage, architecturePolicies, plot.policies, stateOfPolicy),
  });
}

/** The key of the sentinel is in force whether or not the controller knows a policy of the story yet. */
function stateOfSpec(spec: Pod["spec"]): unknown {
  if (spec === undefined) return "absent";
  const tolerations = (spec.tolerations ?? []).filter(({ key }) => key !== SENTINEL_KEY);
  return {
    tolerations: tolerations.map((one) => JSON.stringify(one)).toSorted(),
    gates: spec.schedulingGates?.map(({ name }) => name),
    affinity: spec.affinity,
    node: spec.nodeName,
  };
}

/** Without messages: which pod waits for what is said anew with each round of the sentinel, which changes a policy. */
function stateOfPolicy(policy: ArchitecturePolicy): unknown {
  const { conditions, ...counts } = statusOf(policy);
  return { ...counts, conditions: without(conditions, "message") };
}

const SENTINEL_KEY = "sentinel.example.com/arch";
const SELECTED = { "example.com/sentinel": "true" };
const IMAGE = "registry.test/sentinel:1";

/**
 * One object for each watch. A policy for a key that nobody taints nodes with keeps the watches of pods and DaemonSets
 * open; its status says that it was seen. A pod and the template of a DaemonSet say at each round that they run on an
 * architecture that there never was, and get a toleration for it. A label rule answers for nodes: it is written by the
 * same hand as taints.
 */
async function createSentinel(stage: Stage, keys: readonly string[]): Promise<Scene["fence"]> {
  let edits = 0;
  const spec = (): object =>
    specOf({
      mode: "Taint",
      leavesNodes: true,
      key: SENTINEL_KEY,
      podLabels: SELECTED,
      priority: 1000,
      facts: {},
      maxHold: edits % 2 === 0 ? "1h" : "60m",
    });
  const annotations = (): object => ({ "berth.dev/architectures": `round-${edits}` });
  // It keeps no bootstrap of the story back.
  const tolerations = keys.map((key) => ({ key, operator: "Exists", effect: "NoSchedule" }));
  await stage.create(architecturePolicies, document(architecturePolicies, SENTINEL, spec()));
  const label = await createLabelSentinel(stage);
  await stage.create(pods, podObject(SENTINEL, { images: [IMAGE], labels: SELECTED, tolerations }));
  await stage.create(daemonSets, daemonSetObject(SENTINEL, IMAGE, tolerations));
  const guides: Guides = {
    async change() {
      edits += 1;
      const metadata = { annotations: annotations() };
      const template = { metadata: { ...metadata, labels: SELECTED }, spec: { tolerations } };
      await Promise.all([
        stage.patch(architecturePolicies, SENTINEL, merge({ spec: spec() })),
        stage.patch(pods, SENTINEL, merge({ metadata })),
        stage.patch(daemonSets, SENTINEL, merge({ spec: { template } })),
      ]);
    },
    answered() {
      const { spec: template } = stage.latest(daemonSets, SENTINEL)?.spec?.template ?? {};
      const isGiven = (of: Pod["spec"]): boolean =>
        of?.tolerations?.some(({ key, value }) => key === SENTINEL_KEY && value === `round-${edits}`) ===
        true;
      return (
        isObserved(stage, architecturePolicies) &&
        isGiven(stage.latest(pods, SENTINEL)?.spec) &&
        isGiven(template)
      );
    },
  };
  return {
    resource: nodes,
    companions: [architecturePolicies, labelRules, daemonSets, pods],
    name: SENTINEL,
    change: async () => void (await Promise.all([guides.change(), label.change()])),
    answered: () => label.answered() && guides.answered(),
    guides,
  };
}

function createArchitectureActor(stage: Stage): ArchitectureActor {
  return {
    async addNode(name, architecture, taints = []) {
      const node = aNode(name)
        .architecture(architecture)
        .labelled(POOL)
        .annotated({ "example.com/note": name })
        .tainted(...taints);
      await stage.create(nodes, node.build());
    },
    taint: (node, edit) => editTaints(stage, node, edit),
    async addPod(name, { node, ...content }) {
      const on = node === undefined ? {} : { node: stage.nameOf(node) };
      await stage.create(pods, podObject(name, { ...content, ...on }));
    },
    removePod: (pod) => stage.remove(pods, pod),
    async addDaemonSet(name, image) {
      await stage.create(daemonSets, daemonSetObject(name, image));
    },
    async stripDaemonSet(name) {
      const body = { spec: { template: { spec: { tolerations: null } } } };
      await stage.patch(daemonSets, name, merge(body));
    },
    async putPolicy(name, content) {
      const isNew = stage.latest(architecturePolicies, name) === undefined;
      const spec = specOf(content);
      if (isNew) await stage.create(architecturePolicies, document(architecturePolicies, name, spec));
      else await stage.patch(architecturePolicies, name, merge({ spec }));
    },
    dropPolicy: (policy) => stage.remove(architecturePolicies, policy),
    stands: (node, key) => taintsAt(stage.latest(nodes, node), key).length > 0,
    isHeld: (pod) => isGated(stage.latest(pods, pod) ?? {}),
  };
}
