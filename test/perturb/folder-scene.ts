/** What all stories about folder rules have in common: nodes, a folder, a sentinel, and what must never happen. */
import { isDeepStrictEqual } from "node:util";
import { type Node, nodes } from "@berth/kube";
import {
  describeKeyChange,
  flaps,
  foreignTouched,
  type HistoryEntry,
  type KeyChange,
  keyChanges,
  type Scene,
  type Stage,
  type Step,
} from "@berth/testcluster";
import { derivedKeys, type RuleFiles } from "../oracle.ts";
import { createRuleFolder, type EditedFolder } from "../rule-folder.ts";
import { startBerthWithState } from "./berth.ts";
import {
  claimsOf,
  createNodeActor,
  foreignLabelsOf,
  MARKS,
  type NodeActor,
  stateOfNode,
  unrecorded,
} from "./node-scene.ts";

const SENTINEL = { node: "sentinel", input: "sentinel/input", rule: "sentinel/output" };

/** What the steps of a story can do. */
export interface FolderActor extends NodeActor {
  readonly rules: EditedFolder;
}

export interface FolderPlot {
  /** The nodes whose state counts. */
  readonly nodes: readonly string[];
  /** Before Berth starts. */
  prepare(actor: FolderActor): Promise<void>;
  steps(actor: FolderActor): readonly Step[];
}

export async function setUpFolderScene(stage: Stage, plot: FolderPlot): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const rules = owned.use(await createRuleFolder());
  const actor: FolderActor = { ...createNodeActor(stage), rules };
  const labelFolder = { path: rules.path, shown: rules.path, options: { allowReserved: [] } };
  await rules.write(SENTINEL.rule, SENTINEL.input);
  await actor.add(SENTINEL.node);
  await plot.prepare(actor);
  const timeline = new RuleTimeline(rules.files);
  let isSet = false;
  const kept = owned.move();
  return {
    start: (connection) => startBerthWithState(stage, connection, { labelFolder }),
    fence: {
      resource: nodes,
      name: SENTINEL.node,
      change() {
        isSet = !isSet;
        return actor.label(SENTINEL.node, { [SENTINEL.input]: isSet ? "true" : null });
      },
      answered: () => {
        const labels = stage.latest(nodes, SENTINEL.node)?.metadata?.labels ?? {};
        return (labels[SENTINEL.rule] !== undefined) === isSet;
      },
    },
    steps: plot.steps(actor).map((step) => ({
      needsSettled: step.needsSettled ?? false,
      name: step.name,
      async run() {
        await step.run();
        timeline.note(step.name, rules.files);
      },
      over: () => plot.nodes.every((node) => isRight(stage.latest(nodes, node), rules.files)),
    })),
    state: () => Object.fromEntries(plot.nodes.map((node) => [node, stateOfNode(stage.latest(nodes, node))])),
    forbidden: (history) => [
      ...flaps(history),
      ...foreignTouched(history, (field, key) =>
        field === "label" ? timeline.everKnew(key) : key === MARKS,
      ),
      ...unjustified(history, timeline),
      ...unrecorded(history, "true"),
    ],
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** By the oracle, exactly the labels stand and are recorded that the rules ask for. */
function isRight(node: Node | undefined, files: RuleFiles): boolean {
  if (node === undefined) return true;
  const derived = Object.fromEntries(
    [...derivedKeys(files, foreignLabelsOf(node))].map((key) => [key, "true"]),
  );
  const claims = claimsOf(node);
  const { labels = {} } = node.metadata ?? {};
  const own = Object.keys(claims).map((key) => [key, labels[key]]);
  return typeof claims !== "string" && isDeepStrictEqual(Object.fromEntries(own), derived);
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
    const claims = claimsOf(entry.before ?? {});
    if (after === undefined && (typeof claims === "string" || claims[key] === undefined)) return false;
    const foreign = foreignLabelsOf(entry.before ?? {});
    return timeline
      .at(entry.step)
      .some((files) => derivedKeys(files, foreign).has(key) === (after === "true"));
  };
  return keyChanges(history)
    .filter(({ entry, field }) => entry.by === "controller" && field === "label")
    .filter((change) => !isJustified(change))
    .map((change) => `a label changed without a reason: ${describeKeyChange(change)}`);
}
