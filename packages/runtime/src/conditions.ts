import type { Condition } from "@berth/kube";
import { toTime } from "./micro-time.ts";

/** A condition as a controller decides it. The transition time is not a decision: it follows from the status. */
export interface DesiredCondition {
  /** PascalCase or a qualified name, unique within the object. */
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  /** One of the reason constants. */
  readonly reason: string;
  readonly message: string;
  /** The `metadata.generation` this was decided for. */
  readonly observedGeneration?: number;
}

/** `maxLength` of `message` in the schema of `metav1.Condition`, in characters. */
const MAX_MESSAGE = 32_768;

/**
 * Replaces the conditions with the same type as a desired one and keeps all others, in order of type.
 *
 * Guarantees: `lastTransitionTime` moves only when `status` changes (the rule of api-conventions.md, "Typical status
 * properties"). When nothing changes, the result is `current` itself, so `===` shows whether a write is needed. A
 * desired condition of an older generation than the present one changes nothing.
 */
export function mergeConditions(
  current: readonly Condition[] | undefined,
  desired: readonly DesiredCondition[],
  nowMs: number,
): readonly Condition[] {
  const byType = new Map((current ?? []).map((condition) => [condition.type, condition]));
  let changed = false;
  for (const wanted of desired) {
    const present = byType.get(wanted.type);
    const next = nextCondition(present, wanted, nowMs);
    if (next === present) continue;
    byType.set(wanted.type, next);
    changed = true;
  }
  if (!changed) return current ?? [];
  return [...byType.values()].sort((a, b) => (a.type < b.type ? -1 : a.type > b.type ? 1 : 0));
}

/** Leaves out the conditions of these types. The result is `current` itself when there are none. */
export function withoutConditions(
  current: readonly Condition[] | undefined,
  types: readonly string[],
): readonly Condition[] {
  if (!current?.some(({ type }) => types.includes(type))) return current ?? [];
  return current.filter(({ type }) => !types.includes(type));
}

/** The condition of this type; there is at most one. */
export function findCondition(
  current: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return current?.find((condition) => condition.type === type);
}

/** True only for status `True` of this generation or a later one: an older status proves nothing. */
export function isConditionTrue(
  current: readonly Condition[] | undefined,
  type: string,
  generation?: number,
): boolean {
  const condition = findCondition(current, type);
  if (condition?.status !== "True") return false;
  return generation === undefined || (condition.observedGeneration ?? generation) >= generation;
}

function nextCondition(present: Condition | undefined, desired: DesiredCondition, nowMs: number): Condition {
  const { type, status, reason, observedGeneration } = desired;
  const message = desired.message.slice(0, MAX_MESSAGE).toWellFormed();
  if (present !== undefined) {
    if ((observedGeneration ?? Infinity) < (present.observedGeneration ?? 0)) return present;
    const same =
      present.status === status &&
      present.reason === reason &&
      present.message === message &&
      present.observedGeneration === observedGeneration;
    if (same) return present;
  }
  const lastTransitionTime = present?.status === status ? present.lastTransitionTime : toTime(nowMs);
  return {
    // Fields that later releases of Kubernetes add survive.
    ...present,
    type,
    status,
    reason,
    message,
    lastTransitionTime,
    ...(observedGeneration !== undefined && { observedGeneration }),
  };
}
