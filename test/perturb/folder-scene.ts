/** What all stories about folder rules have in common: nodes, a folder, a sentinel, and what must never happen. */
import { type Node, nodes } from "@berth/kube";
import {
  aNode,
  describeKeyChange,
  flaps,
  foreignTouched,
  type HistoryEntry,
  type KeyChange,
  keyChanges,
  NUDGE,
  type Scene,
  type Stage,
  type Step,
} from "@berth/testcluster";
import { derivedKeys, foreignAnnotations, type Labels, type RuleFiles, recordedLabels } from "../oracle.ts";
import { createRuleFolder, type EditedFolder } from "../rule-folder.ts";
import { startBerthInStory } from "./berth.ts";

const MARKS = "berth.dev/marks";
const SENTINEL = { node: "sentinel", input: "sentinel/input", rule: "sentinel/output" };

/** What the steps of a story can do. */
export interface FolderHands {
  readonly rules: EditedFolder;
  readonly add: (node: string, labels?: Labels, annotations?: Labels) => Promise<void>;
  readonly remove: (node: string) => Promise<void>;
  readonly label: (node: string, edits: Edits) => Promise<void>;
  readonly annotate: (node: string, edits: Edits) => Promise<void>;
}

/** Values by key; `null` takes the key away. */
type Edits = Readonly<Record<string, string | null>>;

export interface FolderPlot {
  /** The nodes whose state counts. */
  readonly nodes: readonly string[];
  /** Before Berth starts. */
  prepare(hands: FolderHands): Promise<void>;
  steps(hands: FolderHands): readonly Step[];
}

export async function setUpFolderScene(stage: Stage, plot: FolderPlot): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const rules = owned.use(await createRuleFolder());
  const hands = createHands(stage, rules);
  await rules.write(SENTINEL.rule, SENTINEL.input);
  await hands.add(SENTINEL.node);
  await plot.prepare(hands);
  const timeline = new RuleTimeline(rules.files);
  let sings = false;
  const kept = owned.move();
  return {
    start: (connection) => startBerthInStory(stage, connection, { labelFolder: rules.path }),
    fence: {
      resource: nodes,
      name: SENTINEL.node,
      change() {
        sings = !sings;
        return hands.label(SENTINEL.node, { [SENTINEL.input]: sings ? "true" : null });
      },
      answered: () => {
        const labels = stage.latest(nodes, SENTINEL.node)?.metadata?.labels ?? {};
        return (labels[SENTINEL.rule] !== undefined) === sings;
      },
    },
    steps: plot.steps(hands).map((step) => notedStep(step, () => timeline.note(step.name, rules.files))),
    state: () => Object.fromEntries(plot.nodes.map((node) => [node, stateOf(stage.latest(nodes, node))])),
    forbidden: (history) => [
      ...flaps(history),
      ...foreignTouched(history, (field, key) =>
        field === "label" ? timeline.everKnew(key) : key === MARKS,
      ),
      ...unjustified(history, timeline),
      ...unrecorded(history),
    ],
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The step, with a note of what it left behind. */
function notedStep(step: Step, note: () => void): Step {
  const run = async (): Promise<void> => {
    await step.run();
    note();
  };
  return { ...step, run };
}

function createHands(stage: Stage, rules: EditedFolder): FolderHands {
  const patch = async (node: string, metadata: object): Promise<void> => {
    await stage.patch(nodes, node, { type: "merge", body: { metadata } });
  };
  return {
    rules,
    async add(node, labels = {}, annotations = {}) {
      await stage.create(nodes, aNode(node).labelled(labels).annotated(annotations).build());
    },
    remove: (node) => stage.remove(nodes, node),
    label: (node, labels) => patch(node, { labels }),
    annotate: (node, annotations) => patch(node, { annotations }),
  };
}

/** The node as users and Berth see it: labels, what Berth claims of them, and what is of no concern to it. */
function stateOf(node: Node | undefined): unknown {
  if (node === undefined) return "absent";
  const { [NUDGE]: _nudge, ...annotations } = foreignAnnotations(node);
  return { labels: node.metadata?.labels, record: claimsOf(node), annotations, spec: node.spec };
}

/** A record that cannot be read is a state too. */
function claimsOf(node: Node): Labels | string {
  try {
    return recordedLabels(node);
  } catch (error) {
    return String(error);
  }
}

/** The rules in force at each step. */
class RuleTimeline {
  readonly #sets: { readonly step: string; readonly files: RuleFiles }[];

  constructor(files: RuleFiles) {
    this.#sets = [{ step: "start", files: new Map(files) }];
  }

  note(step: string, files: RuleFiles): void {
    this.#sets.push({ step, files: new Map(files) });
  }

  /** At this step a decision may follow its rules, or still those of the step before. */
  at(step: string): readonly RuleFiles[] {
    const index = this.#sets.findIndex((set) => set.step === step);
    return this.#sets.slice(Math.max(0, index - 1), index + 1).map(({ files }) => files);
  }

  everKnew(key: string): boolean {
    return this.#sets.some(({ files }) => files.has(key));
  }
}

/**
 * Berth set or removed a label on a version of the node that, by the oracle, did not ask for it; or it removed one that
 * the record of that version does not claim.
 */
function unjustified(history: readonly HistoryEntry[], timeline: RuleTimeline): readonly string[] {
  const isJustified = ({ entry, key, after }: KeyChange): boolean => {
    const { labels = {} } = entry.before?.metadata ?? {};
    const claims = claimsOf(entry.before ?? {});
    const isForeign = ([label]: readonly [string, string]): boolean =>
      typeof claims === "string" || claims[label] === undefined;
    if (after === undefined && isForeign([key, ""])) return false;
    const foreign = Object.fromEntries(Object.entries(labels).filter(isForeign));
    return timeline
      .at(entry.step)
      .some((files) => derivedKeys(files, foreign).has(key) === (after === "true"));
  };
  return keyChanges(history)
    .filter(({ entry, field }) => entry.by === "controller" && field === "label")
    .filter((change) => !isJustified(change))
    .map((change) => `a label changed without a reason: ${describeKeyChange(change)}`);
}

/** A version that Berth made in which the record does not say exactly which labels are its own. */
function unrecorded(history: readonly HistoryEntry[]): readonly string[] {
  return history.flatMap((entry) => {
    if (entry.by !== "controller" || entry.type !== "MODIFIED") return [];
    const claims = claimsOf(entry.object);
    if (typeof claims === "string") return [`${entry.name}: ${claims} (${entry.step})`];
    const { labels = {} } = entry.object.metadata ?? {};
    const idle = Object.keys(claims).filter((key) => labels[key] !== "true");
    const set = keyChanges([entry]).filter(({ field, after }) => field === "label" && after !== undefined);
    const unclaimed = set.map(({ key }) => key).filter((key) => claims[key] === undefined);
    return [
      ...idle.map((key) => `${entry.name}: ${key} is recorded and does not stand (${entry.step})`),
      ...unclaimed.map((key) => `${entry.name}: ${key} was set and not recorded (${entry.step})`),
    ];
  });
}
