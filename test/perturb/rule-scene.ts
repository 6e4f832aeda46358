/** What all stories about `LabelRule` objects have in common: actor, a sentinel, and what must never happen. */
import { nodes } from "@berth/kube";
import { CONFIRMED_ANNOTATION, confirmation, labelRuleSpec, labelRules } from "@berth/placement";
import {
  flaps,
  foreignTouched,
  type HistoryEntry,
  type PerturbationStory,
  type Scene,
  type Stage,
  type Step,
} from "@berth/testcluster";
import type { Labels } from "../oracle.ts";
import { startBerthWithState } from "./berth.ts";
import { createNodeActor, type Edits, MARKS, stateOfNode, unrecorded } from "./node-scene.ts";
import { type StoryRule, toSpec } from "./rule-oracle.ts";
import { falseStatus, tooSoon, unjustified, WorldTimeline } from "./rule-timeline.ts";
import {
  createLabelSentinel,
  document,
  type Guides,
  isObserved,
  localized,
  merge,
  SENTINEL,
  sentinelRule,
  statesOf,
  statusOf,
} from "./scene.ts";

/** What the steps of a story can do. */
export interface RuleActor {
  readonly add: (node: string, labels?: Labels) => Promise<void>;
  readonly label: (node: string, edits: Edits) => Promise<void>;
  /** Makes the rule, or edits it to be this one. */
  readonly put: (rule: string, content: StoryRule) => Promise<void>;
  /** The rule as it stands may do what it waits for. */
  readonly confirm: (rule: string, content: StoryRule) => Promise<void>;
  readonly drop: (rule: string) => Promise<void>;
  /** What stands there now. */
  readonly labelOf: (node: string, key: string) => string | undefined;
  /** Whether the status of the rule has this condition with this reason. */
  readonly says: (rule: string, type: string, reason: string) => boolean;
}

export interface RulePlot {
  /** The nodes and rules whose state counts. */
  readonly nodes: readonly string[];
  readonly rules: readonly string[];
  /** Before Berth starts. */
  prepare(actor: RuleActor): Promise<void>;
  steps(actor: RuleActor): readonly Step[];
  /** What this story forbids besides. Default nothing. */
  forbidden?(history: readonly HistoryEntry[]): readonly string[];
}

export function ruleStory(
  name: string,
  plot: RulePlot,
  options: Pick<PerturbationStory, "oldestView"> = {},
): PerturbationStory {
  return {
    name,
    ...options,
    resources: [nodes, labelRules],
    ownStatusOf: [labelRules],
    guides: [labelRules],
    setUp: (stage) => setUpRuleScene(stage, plot),
  };
}

async function setUpRuleScene(stage: Stage, plot: RulePlot): Promise<Scene> {
  const timeline = new WorldTimeline();
  const actor = createRuleActor(stage, timeline);
  const sentinel = await createSentinel(stage);
  await plot.prepare(actor);
  return {
    start: (connection) => startBerthWithState(stage, connection),
    fence: sentinel,
    steps: plot.steps(actor).map((step) => ({
      name: step.name,
      needsSettled: step.needsSettled ?? false,
      run() {
        timeline.step = step.name;
        return step.run();
      },
      over: () => step.over?.() ?? true,
    })),
    state: () =>
      localized(stage, {
        nodes: plot.nodes.map((node) => [node, stateOfNode(stage.latest(nodes, node))]),
        rules: statesOf(stage, labelRules, plot.rules, statusOf),
      }),
    forbidden(all) {
      const history = all.filter(({ name }) => name !== SENTINEL);
      return [...forbiddenIn(history, timeline), ...(plot.forbidden?.(history) ?? [])];
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function forbiddenIn(history: readonly HistoryEntry[], timeline: WorldTimeline): readonly string[] {
  return [
    ...flaps(history),
    ...foreignTouched(history, (field, key) => (field === "label" ? timeline.everKnew(key) : key === MARKS)),
    ...unjustified(history, timeline),
    ...tooSoon(history, timeline),
    ...falseStatus(history, timeline),
    ...unrecorded(history),
  ];
}

/**
 * A rule and a node, both changed at each round: the label says that the watch of nodes has come so far, and the status
 * that of rules, and that what was put off before has been written. The rule means the same at every round: a label
 * whose value is changed again and again is left alone for a while.
 */
async function createSentinel(stage: Stage): Promise<Scene["fence"]> {
  let edits = 0;
  const labels = await createLabelSentinel(stage);
  const guides: Guides = {
    async change() {
      edits += 1;
      const { spec } = sentinelRule(edits % 2 === 0 ? "0s" : "0ms");
      await stage.patch(labelRules, SENTINEL, merge({ spec }));
    },
    answered: () => isObserved(stage, labelRules),
  };
  return {
    resource: nodes,
    companions: [labelRules],
    name: SENTINEL,
    change: async () => void (await Promise.all([guides.change(), labels.change()])),
    answered: () => labels.answered() && guides.answered(),
    guides,
  };
}

function createRuleActor(stage: Stage, timeline: WorldTimeline): RuleActor {
  const { add, label } = createNodeActor(stage);
  const confirmed = (content: StoryRule): Edits => ({
    [CONFIRMED_ANNOTATION]: confirmation(labelRuleSpec.parse(stripped(toSpec(content))), Date.now()),
  });
  return {
    async add(node, labels = {}) {
      await add(node, labels);
      timeline.added(node, stage.latest(nodes, node)?.metadata?.labels ?? {});
    },
    async label(node, edits) {
      const landed = timeline.labelled(node, edits);
      await label(node, edits);
      landed();
    },
    async put(name, content) {
      const isNew = stage.latest(labelRules, name) === undefined;
      const landed = timeline.put(name, content);
      const spec = toSpec(content);
      if (isNew) await stage.create(labelRules, document(labelRules, name, stripped(spec)));
      else await stage.patch(labelRules, name, merge({ spec }));
      landed();
    },
    async confirm(name, content) {
      const landed = timeline.confirmed(name, content);
      await stage.patch(labelRules, name, merge({ metadata: { annotations: confirmed(content) } }));
      landed();
    },
    async drop(name) {
      const landed = timeline.drop(name);
      await stage.remove(labelRules, name);
      landed();
    },
    labelOf: (node, key) => stage.latest(nodes, node)?.metadata?.labels?.[key],
    says(name, type, reason) {
      const { conditions = [] } = stage.latest(labelRules, name)?.status ?? {};
      return conditions.some((one) => one.type === type && one.reason === reason);
    },
  };
}

/** Without the nulls of a merge patch. */
function stripped(spec: object): object {
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== null));
}
