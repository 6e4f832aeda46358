/** Builds the status of a document in the same way for each kind. */
import type { Condition, KubeObject } from "@berth/kube";
import { type DesiredCondition, isSameData, mergeConditions, withoutConditions } from "@berth/runtime";
import type { DocumentResult } from "../documents/sources.ts";

/** The part of a status that all kinds have. */
export interface BaseStatus {
  readonly observedGeneration?: number | undefined;
  readonly conditions?: readonly Condition[] | undefined;
}

/** The status of one document as its kind decides it. `S` is the type of the status. */
export interface StatusParts<S extends BaseStatus> {
  readonly conditions: readonly DesiredCondition[];
  /** Types of conditions that no longer apply. */
  readonly ended?: readonly string[];
  /** The status without its conditions. A field that is left out is removed. */
  readonly rest: Omit<S, keyof BaseStatus>;
  /** Does this change of a condition deserve an Event? @param present the previous condition. */
  readonly isNews: (condition: DesiredCondition, present: Condition | undefined) => boolean;
}

export interface StatusDecision<S> {
  /** The whole status; `undefined` when the document has it already. */
  readonly status: S | undefined;
  /** The merge patch to that status. `null` removes a field. */
  readonly patch: object;
  /** Changed conditions that deserve an Event. */
  readonly news: readonly DesiredCondition[];
}

/** @param now wall clock, ms. */
export function decideStatus<S extends BaseStatus>(
  { metadata, status: current }: KubeObject & { readonly status?: S },
  { conditions, ended = [], rest, isNews }: StatusParts<S>,
  now: number,
): StatusDecision<S> {
  const { generation } = metadata ?? {};
  const version = generation === undefined ? {} : { observedGeneration: generation };
  const desired = conditions.map((it) => Object.assign(it, version));
  const merged = mergeConditions(withoutConditions(current?.conditions, ended), desired, now);
  const next = { ...rest, ...version, conditions: merged };
  const news = desired.filter((it) => {
    const present = current?.conditions?.find(({ type }) => type === it.type);
    return (present?.status !== it.status || present.reason !== it.reason) && isNews(it, present);
  });
  const isSame = isSameData(current, next);
  return { status: isSame ? undefined : (next as S), patch: toPatch(current ?? {}, next), news };
}

export function toCondition(type: string, { ready, reason, message }: DocumentResult): DesiredCondition {
  return { type, status: ready ? "True" : "False", reason, message };
}

/** A merge patch keeps the fields that it does not name, so removed fields become `null`. */
function toPatch(current: object, next: object): object {
  const before = new Map<string, unknown>(Object.entries(current));
  const ended = [...before.keys()].filter((key) => !(key in next)).map((key) => [key, null] as const);
  const kept = Object.entries(next).map(([key, value]: [string, unknown]) => {
    const old = before.get(key);
    return [key, isMap(value) && isMap(old) ? toPatch(old, value) : value] as const;
  });
  return Object.fromEntries([...ended, ...kept]);
}

function isMap(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
