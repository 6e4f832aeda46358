/** What a story did to rules and nodes, and when; and the judgement of Berth's changes by it. */
import { nodes } from "@berth/kube";
import { type LabelRule, labelRules } from "@berth/placement";
import { describeKeyChange, type HistoryEntry, type KeyChange, keyChanges } from "@berth/testcluster";
import type { Labels } from "../oracle.ts";
import { PACE } from "./berth.ts";
import { claimsOf, type Edits, foreignLabelsOf } from "./node-scene.ts";
import { isWithheld, type StoryRule, type StoryRules, type Verdict, wantedLabels } from "./rule-oracle.ts";

/** Rules and foreign labels from a moment on. */
interface World {
  readonly step: string;
  readonly rules: StoryRules;
  /** Of the rules, by name. */
  readonly generations: ReadonlyMap<string, number>;
  /** By node. */
  readonly foreign: ReadonlyMap<string, Labels>;
  /** Before the server had it. Milliseconds of `performance.now()`. */
  readonly since: number;
  /** After the server had it; infinite until then. */
  landedAt: number;
}

/** To be called once the server has taken what was noted before it was sent. */
type Landed = () => void;

const nothing = { rules: new Map(), generations: new Map(), foreign: new Map() } as const;

/** Every world that the story has made, in order. */
export class WorldTimeline {
  /** The step that has begun last. */
  step = "start";
  readonly #worlds: World[] = [{ step: "start", ...nothing, since: 0, landedAt: 0 }];

  /** To be called once it is there. */
  added(node: string, labels: Labels): void {
    this.#note({ foreign: new Map(this.#now().foreign).set(node, labels) })();
  }

  labelled(node: string, edits: Edits): Landed {
    const { foreign } = this.#now();
    const labels = Object.entries({ ...foreign.get(node), ...edits });
    const present = labels.filter((entry): entry is [string, string] => entry[1] !== null);
    return this.#note({ foreign: new Map(foreign).set(node, Object.fromEntries(present)) });
  }

  put(name: string, rule: StoryRule): Landed {
    const { rules, generations } = this.#now();
    const generation = (generations.get(name) ?? 0) + 1;
    return this.#note({
      rules: new Map(rules).set(name, rule),
      generations: new Map(generations).set(name, generation),
    });
  }

  /** The rule as it is may do what it waited for. */
  confirmed(name: string, rule: StoryRule): Landed {
    return this.#note({ rules: new Map(this.#now().rules).set(name, rule) });
  }

  drop(name: string): Landed {
    return this.#note({ rules: new Map([...this.#now().rules].filter(([other]) => other !== name)) });
  }

  /** At this step a decision may follow any of its worlds, or still the last one of the step before. */
  at(step: string): readonly World[] {
    const first = this.#worlds.findIndex((world) => world.step === step);
    const last = this.#worlds.findLastIndex((world) => world.step === step);
    return this.#worlds.slice(Math.max(0, first - 1), last + 1);
  }

  /** The worlds up to this time, newest first. */
  before(time: number): readonly World[] {
    return this.#worlds.filter(({ since }) => since <= time).toReversed();
  }

  /** What may be said of this generation of the rule: one thing, or another before it is confirmed. */
  verdictsOn(name: string, generation: number): readonly Verdict[] {
    return this.#worlds.flatMap(({ rules, generations }) => {
      const rule = generations.get(name) === generation ? rules.get(name) : undefined;
      return rule === undefined ? [] : [rule.verdict ?? "RuleInForce"];
    });
  }

  everKnew(key: string): boolean {
    return this.#worlds.some(({ rules }) => [...rules.values()].some(({ outputs }) => key in outputs));
  }

  #now(): World {
    const world = this.#worlds.at(-1);
    if (world === undefined) throw new Error("there is always a first world");
    return world;
  }

  #note(change: Partial<Pick<World, "rules" | "generations" | "foreign">>): Landed {
    const { step } = this;
    const landedAt = Number.POSITIVE_INFINITY;
    const world: World = { ...this.#now(), ...change, step, since: performance.now(), landedAt };
    this.#worlds.push(world);
    return () => {
      world.landedAt = performance.now();
    };
  }
}

function labelChanges(history: readonly HistoryEntry[]): readonly KeyChange[] {
  return keyChanges(history).filter(
    ({ entry, field }) => entry.by === "controller" && field === "label" && entry.resource === nodes,
  );
}

/**
 * Berth set or removed a label on a version of the node that, by the oracle, did not ask for it; or it removed one that
 * the record of that version does not claim.
 */
export function unjustified(history: readonly HistoryEntry[], timeline: WorldTimeline): readonly string[] {
  const isJustified = ({ entry, key, after }: KeyChange): boolean => {
    const claims = claimsOf(entry.before ?? {});
    if (after === undefined && (typeof claims === "string" || claims[key] === undefined)) return false;
    const foreign = foreignLabelsOf(entry.before ?? {});
    const standing = entry.before?.metadata?.labels ?? {};
    return timeline.at(entry.step).some(({ rules }) => {
      if ([...rules.values()].some((rule) => isWithheld(rule) && key in rule.outputs)) return false;
      const wanted = wantedLabels(rules, foreign);
      if (wanted[key] === after) return true;
      // What no rule wants any more and waits to be removed stands all the same, and others may follow from it.
      const waiting = Object.keys(claims).filter((label) => label !== key && wanted[label] === undefined);
      const present = Object.fromEntries(waiting.map((label) => [label, standing[label] ?? ""]));
      return wantedLabels(rules, { ...foreign, ...present })[key] === after;
    });
  };
  return labelChanges(history)
    .filter((change) => !isJustified(change))
    .map((change) => `a label changed without a reason: ${describeKeyChange(change)}`);
}

/**
 * A label went before its removal delay was over, counted from before the server had the change that took its reason
 * away to after the server had the removal: what is too soon by that is too soon by any clock. A restart may make the
 * delay begin anew, so there is no upper bound.
 */
export function tooSoon(history: readonly HistoryEntry[], timeline: WorldTimeline): readonly string[] {
  return labelChanges(history).flatMap((change) => {
    const { entry, key, after } = change;
    if (after !== undefined) return [];
    const isWanting = ({ rules, foreign }: World): boolean =>
      wantedLabels(rules, foreign.get(entry.name) ?? {})[key] !== undefined;
    // A reason that was on its way back may have come after the removal.
    const worlds = timeline.before(entry.at).filter((one) => one.landedAt <= entry.at || !isWanting(one));
    const wanting = worlds.findIndex(isWanting);
    const unwanting = worlds.slice(0, Math.max(0, wanting));
    const delays = unwanting.map(({ rules }) => delayOf(rules, key));
    const waitedMs = (entry.at - (unwanting.at(-1)?.since ?? entry.at)) * PACE;
    if (waitedMs >= Math.min(...delays) * 1000) return [];
    return [`a label went after ${Math.round(waitedMs)} ms: ${describeKeyChange(change)}`];
  });
}

/** Seconds. A label of no rule goes at once. */
function delayOf(rules: StoryRules, key: string): number {
  const delays = [...rules.values()].filter(({ outputs }) => key in outputs);
  return delays.length === 0 ? 0 : Math.min(...delays.map(({ removalDelaySeconds }) => removalDelaySeconds));
}

/** The status of a rule says of a generation what is not true of it: that it is in force, or that it is not. */
export function falseStatus(history: readonly HistoryEntry[], timeline: WorldTimeline): readonly string[] {
  return history.flatMap(({ resource, by, name, object, step }) => {
    if (resource !== labelRules || by !== "controller") return [];
    const { observedGeneration = 0, conditions = [] } = (object as LabelRule).status ?? {};
    const ready = conditions.find(({ type }) => type === "Ready");
    const meant = timeline.verdictsOn(name, observedGeneration);
    // In force, and hindered: then the reason is that of the condition which says by what.
    const isHindered =
      ready?.status === "True" &&
      conditions.some(({ type, reason }) => type === "RemovalsFrozen" && reason === ready.reason);
    const says = isHindered ? "RuleInForce" : ready?.reason;
    const isMeant = meant.some((verdict) => verdict === says);
    if (isMeant && ready?.observedGeneration === observedGeneration) return [];
    const expected = [...new Set(meant)].join(" or ");
    return [
      `${name}: generation ${observedGeneration} is ${expected}, its status says ${ready?.reason} (${step})`,
    ];
  });
}
