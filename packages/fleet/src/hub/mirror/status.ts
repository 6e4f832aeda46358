/** The status of a deployment, from that of its copy one plane further: from a cell to the hub, from the hub to a project. */
import { isDeepStrictEqual } from "node:util";
import type { Condition } from "@berth/kube";
import { toTime } from "@berth/runtime";
import { annotations as keys } from "../../api/keys.ts";
import type { HubReason } from "../../api/reasons.ts";
import type { DeploymentStatus, WorkloadDeployment } from "../../api/workload.ts";
import { conditionsWith, type Verdict } from "../../deployment/conditions.ts";
import { MAX_REPLICAS } from "../../deployment/control.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import { specIn } from "../cells/seen.ts";

export interface MirrorView {
  /** Whose status it is. */
  readonly to: WorkloadDeployment;
  /** The generation of the source that `to` has: the number that `from` echoes. */
  readonly generation: number | undefined;
  /** The deployment one plane further, with the same source. `undefined`: it is not there, or not known. */
  readonly from: WorkloadDeployment | undefined;
  /** Why `from` is no news. Absent: it is what is there now. */
  readonly stale?: Staleness | undefined;
  /** Conditions of this plane. They replace those of `from` with the same type. */
  readonly own?: Readonly<Record<string, Verdict | undefined>> | undefined;
  readonly nowMs: number;
}

export interface Staleness {
  readonly reason: HubReason;
  readonly message: string;
  /** Wall clock, ms: when it was heard last. */
  readonly sinceMs: number;
}

/**
 * The whole status to store. `undefined`: it is stored already. Counters that are not confirmed stay as they are, and are
 * marked. A status that was never written replaces nothing.
 */
export function mirrorStatus(view: MirrorView): DeploymentStatus | undefined {
  const { to, from, stale, generation: source } = view;
  const isEchoed = from !== undefined && source !== undefined && isEchoOf(from, to, source);
  const present = to.status;
  const news = stale === undefined && from?.status?.replicas !== undefined ? from.status : undefined;
  const next =
    news === undefined
      ? unconfirmed(view, present)
      : { ...present, ...confirmed(view, news, isEchoed), conditions: conditionsOf(view, news, isEchoed) };
  if (next === undefined || isDeepStrictEqual(defined(next), present)) return undefined;
  return defined(next);
}

/** Fields to remove are `undefined` in it: see `defined`. */
type Draft = { readonly [K in keyof DeploymentStatus]: DeploymentStatus[K] | undefined };

function unconfirmed(
  { to, stale, own = {}, nowMs }: MirrorView,
  present: DeploymentStatus | undefined,
): Draft | undefined {
  // Whatever was stale before is so still, until there is news.
  const verdicts =
    stale === undefined
      ? own
      : { ...own, Stale: { status: "True", reason: stale.reason, message: stale.message } as const };
  const conditions = conditionsWith(present?.conditions, {
    of: verdicts,
    generation: to.metadata?.generation,
    nowMs,
  });
  if (present === undefined)
    // A zero that no cell has said would be taken for news one plane further.
    return conditions.length === 0 || stale !== undefined ? undefined : { ...NOTHING, conditions };
  if (stale === undefined || present.since !== undefined) return { ...present, conditions };
  const unheard = present.readyReplicas;
  return { ...present, unheard, since: toTime(stale.sinceMs), conditions };
}

const NOTHING: DeploymentStatus = {
  replicas: 0,
  currentReplicas: 0,
  updatedReplicas: 0,
  desiredReplicas: 0,
  readyReplicas: 0,
};

function confirmed({ to, generation }: MirrorView, news: DeploymentStatus, isEchoed: boolean): Draft {
  return {
    replicas: countOf(news.replicas),
    currentReplicas: countOf(news.currentReplicas),
    updatedReplicas: countOf(news.updatedReplicas),
    desiredReplicas: countOf(news.desiredReplicas),
    readyReplicas: countOf(news.readyReplicas),
    unheard: news.unheard === undefined ? undefined : countOf(news.unheard),
    since: news.since,
    ...(news.location && { location: news.location }),
    ...(isEchoed && {
      observedGeneration: to.metadata?.generation,
      observedSourceGeneration: generation,
    }),
    // Numbers from before what was echoed, as a new leader may see them: they must be no echo one plane further.
    ...(!isEchoed &&
      to.status?.observedSourceGeneration === generation && { observedSourceGeneration: undefined }),
  };
}

/** Is the status of `from` about the spec that `to` has now? A generation alone may have been used twice. */
export function isEchoOf(from: WorkloadDeployment, to: WorkloadDeployment, generation: number): boolean {
  const { metadata, status, spec } = from;
  return (
    status?.observedGeneration === metadata?.generation &&
    status?.observedSourceGeneration === generation &&
    metadata?.annotations?.[keys.sourceGeneration] === String(generation) &&
    canonicalJson(spec ?? {}) === canonicalJson(specIn(from, to) ?? {})
  );
}

/** Built anew: a merge would keep conditions of a generation that another cluster counts differently. */
function conditionsOf(
  { to, own = {}, nowMs }: MirrorView,
  news: DeploymentStatus,
  isEchoed: boolean,
): readonly Condition[] {
  const generation = to.metadata?.generation;
  const observed = isEchoed ? generation : to.status?.observedGeneration;
  const theirs = (news.conditions ?? [])
    .filter(({ type }) => !Object.hasOwn(own, type))
    .map((it) => observedHere(it, observed));
  const kept = (to.status?.conditions ?? []).filter(({ type }) => Object.hasOwn(own, type));
  return conditionsWith([...theirs, ...kept].sort(byType), { of: own, generation, nowMs });
}

function observedHere(
  { observedGeneration: _theirs, ...condition }: Condition,
  observed: number | undefined,
): Condition {
  return { ...condition, ...(observed !== undefined && { observedGeneration: observed }) };
}

function byType(a: Condition, b: Condition): number {
  return a.type < b.type ? -1 : 1;
}

function countOf(value: number | undefined): number {
  return Number.isInteger(value) ? Math.min(Math.max(value ?? 0, 0), MAX_REPLICAS) : 0;
}

function defined(draft: Draft): DeploymentStatus {
  return Object.fromEntries(Object.entries(draft).filter(([, value]) => value !== undefined)) as never;
}

/** A cell may have the deployment, as far as this status says. */
export function ranBefore({ status }: WorkloadDeployment): boolean {
  return status?.observedGeneration !== undefined || (status?.replicas ?? 0) > 0;
}

/** Its status was shown, or its placement recorded: a cell may have it. */
export function hasRun(wished: WorkloadDeployment): boolean {
  return ranBefore(wished) || wished.metadata?.annotations?.[keys.placement] !== undefined;
}
