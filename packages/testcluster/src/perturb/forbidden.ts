/** What stories forbid most often, asked of a history. Each answers with one sentence per offence. */
import { isDeepStrictEqual } from "node:util";
import { nameOfResource } from "@berth/kube";
import type { HistoryEntry } from "./history.ts";
import { NUDGE } from "./stage.ts";

type Values = Readonly<Record<string, string>>;

/** One label or annotation that one version changed. */
export interface KeyChange {
  readonly entry: HistoryEntry;
  readonly field: "label" | "annotation";
  readonly key: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** Every change of a label or annotation of a living object. What an object is made with, and its end, are none. */
export function keyChanges(history: readonly HistoryEntry[]): readonly KeyChange[] {
  return history.flatMap((entry) => {
    if (entry.before === undefined || entry.type === "DELETED") return [];
    const { before, object } = entry;
    return [
      ...changesOf(entry, "label", before.metadata?.labels, object.metadata?.labels),
      ...changesOf(entry, "annotation", before.metadata?.annotations, object.metadata?.annotations),
    ];
  });
}

function changesOf(
  entry: HistoryEntry,
  field: KeyChange["field"],
  from: Values = {},
  to: Values = {},
): readonly KeyChange[] {
  const keys = new Set([...Object.keys(from), ...Object.keys(to)]);
  return [...keys]
    .filter((key) => from[key] !== to[key] && key !== NUDGE)
    .map((key) => ({ entry, field, key, before: from[key], after: to[key] }));
}

/**
 * The controller changed something that is not its own: a label or annotation whose key it may not touch, anything
 * else of the object but its status, or it made or removed the object.
 */
export function foreignTouched(
  history: readonly HistoryEntry[],
  isOurs: (field: KeyChange["field"], key: string) => boolean,
): readonly string[] {
  const ours = history.filter(({ by }) => by === "controller");
  const keys = keyChanges(ours)
    .filter(({ field, key }) => !isOurs(field, key))
    .map((change) => `the controller touched a foreign key: ${describeKeyChange(change)}`);
  const rest = ours
    .filter(
      ({ type, before, object }) => type !== "MODIFIED" || !isDeepStrictEqual(restOf(before), restOf(object)),
    )
    .map(
      ({ type, name, step }) =>
        `the controller touched more than labels and annotations: ${type} ${name} (${step})`,
    );
  return [...keys, ...rest];
}

/** Of an object, what only users change. */
function restOf(object: HistoryEntry["before"]): unknown {
  const {
    metadata = {},
    status: _status,
    ...rest
  } = { ...object } as Readonly<Record<string, unknown>> & {
    readonly metadata?: Readonly<Record<string, unknown>>;
  };
  const {
    labels: _l,
    annotations: _a,
    managedFields: _m,
    resourceVersion: _v,
    generation: _g,
    ...meta
  } = metadata;
  return { ...rest, metadata: meta };
}

/**
 * The controller took back a change of a label that it had made itself, though neither a user nor a file changed
 * anything between the two.
 */
export function flaps(history: readonly HistoryEntry[]): readonly string[] {
  const made = new Map<string, KeyChange>();
  const found: string[] = [];
  let step: string | undefined;
  for (const entry of history) {
    // A step may change a file, so it is a reason by itself, as is any change of an object by the story.
    if (entry.step !== step || entry.by === "story") made.clear();
    step = entry.step;
    if (entry.by !== "controller") continue;
    for (const change of keyChanges([entry])) {
      if (change.field !== "label") continue;
      const key = `${nameOfResource(entry.resource)}/${entry.name}/${change.key}`;
      const earlier = made.get(key);
      if (earlier !== undefined && earlier.before === change.after) {
        found.push(`a label flapped: ${describeKeyChange(earlier)}, then ${describeKeyChange(change)}`);
      }
      made.set(key, change);
    }
  }
  return found;
}

/** `n1: label a: "x" → none (step device-goes)`. */
export function describeKeyChange({ entry, field, key, before, after }: KeyChange): string {
  return `${entry.name}: ${field} ${key}: ${shown(before)} → ${shown(after)} (${entry.step})`;
}

/** Of a longer value, its beginning says enough. */
const LONGEST_SHOWN = 60;

function shown(value: string | undefined): string {
  if (value === undefined) return "none";
  return value.length > LONGEST_SHOWN
    ? `${JSON.stringify(value.slice(0, LONGEST_SHOWN))}…`
    : JSON.stringify(value);
}

/** The history for people: a line for each version, with who made it and what it changed. */
export function describeHistory(history: readonly HistoryEntry[]): readonly string[] {
  return history.map((entry) => {
    const { step, type, resource, name, by, object } = entry;
    const made =
      type === "ADDED" ? changesOf(entry, "label", {}, object.metadata?.labels) : keyChanges([entry]);
    const changes = made.map(({ field, key, before, after }) =>
      before === undefined && type === "ADDED"
        ? `${key}=${after ?? ""}`
        : `${field} ${key}: ${shown(before)} → ${shown(after)}`,
    );
    const version = object.metadata?.resourceVersion ?? "";
    return `${step}: ${type} ${resource.plural} ${name} @${version} by ${by}: ${changes.join(", ")}`;
  });
}
