/** What must never happen while pods are descheduled, asked of a whole history. */
import { type Node, nodes, type Pod, pods } from "@berth/kube";
import type { HistoryEntry } from "@berth/testcluster";
import type { StoryWrite } from "./deschedule-writes.ts";
import { Worlds } from "./worlds.ts";

export interface DescheduleTrial {
  /** In order, the start included. */
  readonly steps: readonly string[];
  /** The key in scope. */
  readonly label: string;
  /** What Berth asked for, without the sentinel. */
  readonly writes: readonly StoryWrite[];
  /** The pods of this owner stay until this step has begun. Default: none has a budget. */
  readonly budgeted?: { readonly owner: string; readonly until: string };
}

/** One sentence for each thing that must not be. */
export function forbiddenOfDescheduling(
  history: readonly HistoryEntry[],
  trial: DescheduleTrial,
): readonly string[] {
  return [
    ...unsafeWrites(trial),
    ...evictionsForNothing(history, trial),
    ...evictionsAtOnce(history),
    ...evictionsPastBudget(history, trial),
    ...leftOvers(history, trial),
  ];
}

/** The uid of the controller of a pod. */
export function ownerOf({ metadata }: Pod): string {
  return metadata?.ownerReferences?.find(({ controller }) => controller)?.uid ?? "";
}

export function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;
}

/** Counts in a status may be some seconds old, and the sentinel makes Berth count again. */
const CATCHING_UP: ReadonlySet<string> = new Set(["deschedulepolicies", "events"]);

function unsafeWrites({ writes, steps }: DescheduleTrial): readonly string[] {
  const accepted = new Set<string>();
  return writes.flatMap(({ verb, resource, name, uid, step, life, answer }): readonly string[] => {
    const told = (what: string): readonly string[] => [`${name} ${what} (${step})`];
    const atRest = step === steps.at(-1) && life === 1 && !CATCHING_UP.has(resource);
    if (atRest) return told(`was written though nothing had happened: ${verb} ${resource}`);
    if (resource !== "pods") return [];
    if (verb !== "evict") return told(`was changed in another way than by an eviction: ${verb}`);
    if (uid === undefined) return told("was to be evicted whatever its uid");
    if (answer !== "accepted") return [];
    if (accepted.has(uid)) return told("was evicted twice");
    accepted.add(uid);
    return [];
  });
}

/** The version with which the deletion of a pod begins: the story deletes none. */
function isEviction({ type, resource, object, before }: HistoryEntry): boolean {
  if (resource !== pods || before?.metadata?.deletionTimestamp !== undefined) return false;
  return type === "DELETED" || object.metadata?.deletionTimestamp !== undefined;
}

/** Pods that, as far as Berth could know, were where they should be. An eviction is bound to no version of its pod. */
function evictionsForNothing(
  history: readonly HistoryEntry[],
  { steps, label }: DescheduleTrial,
): readonly string[] {
  const unbound = history.map((entry) => ({ ...entry, before: undefined }));
  const worlds = new Worlds(unbound, steps, (standing) =>
    standing.filter(({ resource }) => resource === nodes),
  );
  return unbound.flatMap((entry, at) => {
    const { name, object, step } = entry;
    if (!history.slice(at, at + 1).some(isEviction)) return [];
    const isLost = worlds.behind(entry).some((standing) => !fits(object, standing, label));
    return isLost ? [] : [`${name} was evicted from a node that it fits (${step})`];
  });
}

/** A node that is not there is no reason to evict: its pods go with it. */
function fits({ spec }: Pod, standing: readonly HistoryEntry[], label: string): boolean {
  const node: Node | undefined = standing.find(
    ({ object }) => object.metadata?.name === spec?.nodeName,
  )?.object;
  return node === undefined || node.metadata?.labels?.[label] === spec?.nodeSelector?.[label];
}

/** Two of one owner, without a Ready pod in between that was made after the first. */
function evictionsAtOnce(history: readonly HistoryEntry[]): readonly string[] {
  const inProgress = new Map<string, { readonly name: string; readonly known: ReadonlySet<string> }>();
  const seen = new Set<string>();
  return history.flatMap((entry) => {
    if (entry.resource !== pods) return [];
    const { object, name, step } = entry;
    const [owner, uid] = [ownerOf(object), object.metadata?.uid ?? ""];
    seen.add(uid);
    const first = inProgress.get(owner);
    if (isEviction(entry)) {
      inProgress.set(owner, { name, known: new Set(seen) });
      if (first === undefined) return [];
      return [`${name} was evicted though nothing Ready had replaced ${first.name} (${step})`];
    }
    if (first?.known.has(uid) === false && isReady(object)) inProgress.delete(owner);
    return [];
  });
}

function evictionsPastBudget(
  history: readonly HistoryEntry[],
  { steps, budgeted }: DescheduleTrial,
): readonly string[] {
  if (budgeted === undefined) return [];
  const { owner, until } = budgeted;
  const isEarly = ({ step }: HistoryEntry): boolean => steps.indexOf(step) < steps.indexOf(until);
  return history
    .filter((entry) => isEviction(entry) && isEarly(entry) && ownerOf(entry.object) === owner)
    .map(({ name, step }) => `${name} was evicted before its budget allowed it (${step})`);
}

/** Pods that are not where they should be in the end, when the story has come to it. */
function leftOvers(history: readonly HistoryEntry[], { steps, label }: DescheduleTrial): readonly string[] {
  if (history.at(-1)?.step !== steps.at(-1)) return [];
  const standing = [...Map.groupBy(history, ({ resource, name }) => `${resource.plural}/${name}`).values()]
    .flatMap((versions) => versions.at(-1) ?? [])
    .filter(({ type }) => type !== "DELETED");
  return standing
    .filter(({ resource, object }) => resource === pods && !fits(object, standing, label))
    .map(({ name }) => `${name} is on a wrong node in the end`);
}
