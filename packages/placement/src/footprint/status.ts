/** What a `NodeFootprint` says about itself: decided as plain data. */
import type { StatusDecision } from "@berth/host";
import type { Condition } from "@berth/kube";
import { isSameData, mergeConditions, withoutConditions } from "@berth/runtime";
import type { Instant } from "../node/capability.ts";
import { isAgentChecked } from "./agent/check.ts";
import {
  conditionsOf,
  type FootprintJudgement,
  type FootprintProgress,
  footprintConditions,
  hasUnknown,
  isNews,
  toCondition,
  unknownNodes,
} from "./conditions.ts";
import type { NodeFootprintStatus } from "./document.ts";
import { MAX_HOLDS, type NodeFootprint } from "./resource.ts";

export type FullFootprintStatus = NodeFootprintStatus & { readonly conditions?: readonly Condition[] };

/** As a merge patch writes it: `null` takes away what was said before. */
export type FootprintStatusPatch = Patched<Omit<FullFootprintStatus, "nodes">> & {
  readonly nodes?: Patched<NonNullable<NodeFootprintStatus["nodes"]>> | null;
};
type Patched<T> = { readonly [K in keyof T]: T[K] | null };

export interface FootprintStatusInput {
  readonly object: NodeFootprint;
  /** `undefined` while this version has not been looked at. */
  readonly judgement: FootprintJudgement | undefined;
  /** `undefined` while it is not in force. */
  readonly progress: FootprintProgress | undefined;
  readonly now: Instant;
}

export function decideFootprintStatus(input: FootprintStatusInput): StatusDecision<FootprintStatusPatch> {
  const { object, judgement, progress, now } = input;
  if (judgement === undefined) return { status: undefined, news: [] };
  const { status: current = {}, metadata: { generation } = {} } = object;
  const version = generation === undefined ? {} : { observedGeneration: generation };
  const { desired: told, stale } = conditionsOf(progress);
  const { ready, reason } = judgement;
  const message = readyMessage(judgement, progress);
  const desired = [toCondition(footprintConditions.ready, ready, { reason, message }), ...told].map((it) =>
    Object.assign(it, version),
  );
  const { nodes: _nodes, claims: _claims, holds: _holds, ...rest } = current;
  const next: FullFootprintStatus = {
    ...rest,
    ...version,
    // Of one that is not in force nothing is counted.
    ...(progress !== undefined && countsOf(progress, current)),
    conditions: mergeConditions(withoutConditions(current.conditions, stale), desired, now),
  };
  const news = desired.filter((condition) => isNews(condition, current.conditions));
  return { status: isSameData(current, next) ? undefined : toPatch(current, next), news };
}

/** One with a fault may be in force as it was. Where no agent is checked, what is not known of nodes is told here. */
function readyMessage(
  { ready, message }: FootprintJudgement,
  progress: FootprintProgress | undefined,
): string {
  if (progress === undefined) return message;
  if (!ready) return `${message}; it goes on as it was before`;
  const unknown = isAgentChecked(progress.footprint) ? undefined : unknownNodes(progress);
  return unknown === undefined ? message : `${message}; ${unknown}`;
}

/**
 * While a node is not known, `pending` is not said: 0 would be read as "every node that needs the agent has the label", upon
 * which the agent is taken from all others.
 */
function countsOf(
  { footprint, counts, agent, agentReady, held }: FootprintProgress,
  { nodes: before = {}, claims }: NodeFootprintStatus,
): NodeFootprintStatus {
  const { pending, agentReady: ready, agentUnschedulable: unschedulable, ...others } = before;
  return {
    nodes: given({
      ...others,
      ...(counts && { labelled: counts.labelled, unknown: counts.unknown }),
      pending: hasUnknown(counts) ? undefined : (counts?.pending ?? pending),
      ...(isAgentChecked(footprint) && {
        agentReady: agentReady ?? ready,
        agentUnschedulable: agent?.unserved.length ?? unschedulable,
      }),
    }),
    ...given({ claims: counts?.claims ?? claims }),
    holds: held.slice(0, MAX_HOLDS).map(({ name, uid, since, nodes, pods }) => {
      return { name, uid, since, nodes, pods };
    }),
  };
}

/** Without what is `undefined`. */
function given<T extends object>(values: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    readonly [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/** A merge patch keeps what it does not name. */
function toPatch(current: FullFootprintStatus, next: FullFootprintStatus): FootprintStatusPatch {
  const nodes = next.nodes && { ...nulls(current.nodes ?? {}), ...next.nodes };
  return { ...nulls(current), ...next, ...(nodes && { nodes }) };
}

function nulls(before: object): Readonly<Record<string, null>> {
  return Object.fromEntries(Object.keys(before).map((key) => [key, null]));
}
