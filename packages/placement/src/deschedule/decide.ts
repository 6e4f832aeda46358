/** Decides which lost pods are evicted now, and why the others wait. Pure: a running Berth and `berth plan` share it. */
import { counted } from "@berth/host";
import { type Pod, pathOf } from "@berth/kube";
import { DO_NOT_DISRUPT, undisruptedMs } from "../api/autoscaler.ts";
import { type Reason, reasons } from "../api/reasons.ts";
import { controllerOf } from "../node/owner-reference.ts";
import type { FitResult } from "./fit.ts";
import {
  BREAKER_WINDOW_MS,
  EVERY_NAMESPACE,
  type Freeze,
  isReady,
  type LedgerView,
  ownerOf,
} from "./ledger.ts";
import type { DeschedulePolicyInForce } from "./policy.ts";

/** A pod on a wrong node, under one policy. */
export interface LostPod {
  readonly pod: Pod;
  /** `namespace/name`. */
  readonly name: string;
  readonly policy: DeschedulePolicyInForce;
  /** Since when Berth has seen it there: monotonic ms. */
  readonly sinceMs: number;
  /** What is wrong. */
  readonly message: string;
}

/** A pod that Berth expects on this node. */
export interface Placed {
  readonly pod: Pod;
  readonly node: string;
}

export interface EvictionView {
  readonly lost: readonly LostPod[];
  /** How many pods a policy is about. */
  readonly inScope: (policy: DeschedulePolicyInForce) => number;
  readonly ledger: LedgerView;
  /** All pods of this owner, the pod itself and those being deleted included. */
  readonly podsOf: (owner: string) => readonly Pod[];
  /** As `replicasIn`, of all pods of this owner. */
  readonly replicasOf: (owner: string) => number;
  /** Evicted pods that have their place on another node already. */
  readonly placed: readonly Placed[];
  /** `undefined`: not in this pass, because each lookup reads many nodes. */
  readonly fit: (pod: Pod, how: "True" | "PendingOk", placed: readonly Placed[]) => FitResult | undefined;
  /** Wall clock and monotonic, ms. */
  readonly now: number;
  readonly nowMs: number;
}

/** How far the clocks of Berth and of the API server may be apart, ms. */
const CLOCK_ERROR_MS = 600_000;

/** What happens to a lost pod now. */
export interface Standing {
  readonly lost: LostPod;
  /** `PodDescheduled`: evict it now. All others: why it waits or stays. */
  readonly reason: Reason;
  readonly message: string;
  /** When to decide again, if nothing changes before. */
  readonly recheckAfterMs?: number;
  /** The node that takes it. */
  readonly target?: string;
}

export interface EvictionDecision {
  /** In the order in which pods go. A pod with several policies occurs once for each, until one evicts it. */
  readonly standings: readonly Standing[];
  /** Of what too many pods are lost at this moment. */
  readonly tooMany: readonly Freeze[];
  readonly recheckAfterMs: number | undefined;
}

const MINUTE_MS = 60_000;
/** Until the next look for room, when no node took the pod. */
export const FIT_AGAIN_MS = 10_000;
/** Until the next pass, when this one may make no more lookups. */
const SOON_MS = 50;
/** Waits that end with an event of a pod. This is only a backstop. */
const BACKSTOP_MS = 60_000;

export function decideEvictions(view: EvictionView): EvictionDecision {
  const tooMany = [...Map.groupBy(view.lost, ({ policy }) => policy)].flatMap(tooManyOf(view));
  const pass = new Pass(view, tooMany);
  const standings = view.lost.toSorted(byPrecedence).flatMap((one) => pass.decide(one) ?? []);
  const rechecks = standings.flatMap(({ recheckAfterMs }) => recheckAfterMs ?? []);
  return {
    standings,
    tooMany,
    recheckAfterMs: rechecks.length === 0 ? undefined : Math.max(1, Math.min(...rechecks)),
  };
}

function byPrecedence(a: LostPod, b: LostPod): number {
  return (
    (a.pod.spec?.priority ?? 0) - (b.pod.spec?.priority ?? 0) ||
    a.sinceMs - b.sinceMs ||
    (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
  );
}

/**
 * What a PodDisruptionBudget holds does not go. A namespace with as many pods as the limit is frozen by itself. Of all
 * namespaces each counts with half of the limit at most, so no tenant alone stops the evictions of the others.
 */
function tooManyOf({ inScope, ledger, replicasOf, nowMs }: EvictionView) {
  return ([policy, lost]: [DeschedulePolicyInForce, readonly LostPod[]]): readonly Freeze[] => {
    const { rule, forMs, spec } = policy;
    const { percent, pods } = spec.breaker;
    const soon = lost.filter(
      ({ pod, sinceMs }) =>
        sinceMs + forMs - nowMs <= BREAKER_WINDOW_MS &&
        !ledger.isGivenUp(ownerOf(pod)) &&
        tooSmall(pod, policy, replicasOf) === undefined,
    );
    // A pod that is being evicted may still be on its node.
    const going = new Map([
      ...soon.map(({ pod: { metadata } }) => [metadata?.uid ?? "", metadata?.namespace ?? ""] as const),
      ...ledger.begunSince(nowMs - BREAKER_WINDOW_MS, rule).map((it) => [it.uid, it.namespace] as const),
    ]);
    for (const uid of going.keys())
      if (ledger.restOf(uid)?.reason === reasons.DisruptionBudget) going.delete(uid);
    // Pods that were evicted before count as well, so more than 100 percent may go.
    if (percent >= 100 || going.size < pods) return [];
    const limit = Math.max(pods, Math.floor((inScope(policy) * percent) / 100) + 1);
    const counts = Map.groupBy(going.values(), (namespace) => namespace);
    const shares = counts.values().reduce((sum, { length }) => sum + Math.min(length, limit / 2), 0);
    const full = [...counts].flatMap(([namespace, { length }]) => (length < limit ? [] : [namespace]));
    return [...(shares < limit ? [] : [EVERY_NAMESPACE]), ...full].map((namespace) => ({ rule, namespace }));
  };
}

/** How many of these pods are not being deleted. */
export function replicasIn(pods: readonly Pod[]): number {
  return pods.filter(({ metadata }) => metadata?.deletionTimestamp === undefined).length;
}

/** Why the policy leaves the pod, if its owner has fewer pods than `minReplicas`. */
export function tooSmall(
  pod: Pod,
  { spec: { minReplicas } }: DeschedulePolicyInForce,
  replicasOf: EvictionView["replicasOf"],
): string | undefined {
  if (minReplicas <= 1 || controllerOf(pod.metadata ?? {}) === undefined) return undefined;
  const replicas = replicasOf(ownerOf(pod));
  if (replicas >= minReplicas) return undefined;
  return `its owner has ${counted(replicas, "pod")}, and the policy asks for ${minReplicas}`;
}

interface Begun {
  readonly uid: string;
  readonly node: string;
  readonly namespace: string;
}

/** One pass over all lost pods, in order. What it lets go counts against the limits of those after it. */
class Pass {
  readonly #view: EvictionView;
  readonly #tooMany: readonly Freeze[];
  readonly #lost: ReadonlySet<string>;
  readonly #begun: Begun[];
  readonly #owners: Set<string>;
  readonly #placed: Placed[];
  readonly #fits = new Map<string, FitResult>();
  #perMinute: number;

  constructor(view: EvictionView, tooMany: readonly Freeze[]) {
    const { ledger, lost, nowMs } = view;
    this.#view = view;
    this.#tooMany = tooMany;
    this.#lost = new Set(lost.map(({ pod }) => pod.metadata?.uid ?? ""));
    this.#begun = Array.from(ledger.inProgress.values(), ({ pod, node, namespace }) => ({
      uid: pod.metadata?.uid ?? "",
      node,
      namespace,
    }));
    this.#owners = new Set(ledger.inProgress.keys());
    this.#placed = [...view.placed];
    this.#perMinute = ledger.begunSince(nowMs - MINUTE_MS).length;
  }

  /** `undefined`: the pod goes already. */
  decide(lost: LostPod): Standing | undefined {
    const { pod } = lost;
    const uid = pod.metadata?.uid ?? "";
    if (this.#begun.some((one) => one.uid === uid)) return undefined;
    const wait = this.#waits(lost);
    if (wait !== undefined) return { lost, ...wait };
    const fit = this.#fit(lost);
    if (fit !== undefined && "reason" in fit) return { lost, ...fit };
    this.#begun.push({ uid, node: pod.spec?.nodeName ?? "", namespace: pod.metadata?.namespace ?? "" });
    this.#owners.add(ownerOf(pod));
    this.#perMinute += 1;
    const { node } = fit ?? {};
    if (node !== undefined) this.#placed.push({ pod, node });
    const where = node === undefined ? "" : `; node ${node} takes it`;
    return {
      lost,
      reason: reasons.PodDescheduled,
      message: `${lost.message}${where}`,
      ...(node !== undefined && { target: node }),
    };
  }

  #waits(lost: LostPod): Omit<Standing, "lost"> | undefined {
    const { ledger, now, nowMs } = this.#view;
    const { pod, policy, sinceMs } = lost;
    const { spec, rule, forMs } = policy;
    const undisturbedMs = undisruptedMs(pod.metadata ?? {});
    const minAgeMs = Math.max(policy.minAgeMs, undisturbedMs);
    const owner = ownerOf(pod);
    if (spec.dryRun) return { reason: reasons.DryRun, message: "the policy is in dry run" };
    const frozen = this.#frozen(rule, pod.metadata?.namespace ?? "");
    if (frozen !== undefined) return frozen;
    const leftMs = sinceMs + forMs - nowMs;
    if (leftMs > 0)
      return {
        reason: reasons.EvictionDelayed,
        message: `the policy waits for ${spec.for}`,
        recheckAfterMs: leftMs,
      };
    const bornMs = Date.parse(pod.metadata?.creationTimestamp ?? "");
    // The age by another clock counts with its error. What Berth has seen for so long is old enough in any case.
    const seenMs = Number.isFinite(sinceMs) ? sinceMs + minAgeMs - nowMs : Number.POSITIVE_INFINITY;
    const youngMs = Math.min(bornMs + minAgeMs + CLOCK_ERROR_MS - now, seenMs);
    if (minAgeMs > 0 && youngMs > 0)
      return {
        reason: reasons.PodTooYoung,
        message:
          undisturbedMs > policy.minAgeMs
            ? `it is younger than its annotation ${DO_NOT_DISRUPT} says`
            : `it is younger than ${spec.minAge}`,
        recheckAfterMs: youngMs,
      };
    if (ledger.isGivenUp(owner))
      return {
        reason: reasons.OwnerGivenUp,
        message: "pods of its owner came back to wrong nodes three times",
      };
    const quietMs = ledger.quietUntilMs - nowMs;
    if (quietMs > 0)
      return {
        reason: reasons.ReplacementAwaited,
        message: "Berth has just started, and other pods of its owner may have been evicted before",
        recheckAfterMs: quietMs,
      };
    const unready = this.#unready(owner, pod);
    if (unready !== undefined)
      return { reason: reasons.ReplacementAwaited, message: unready, recheckAfterMs: BACKSTOP_MS };
    const small = tooSmall(pod, policy, this.#view.replicasOf);
    if (small !== undefined)
      return { reason: reasons.OwnerTooSmall, message: small, recheckAfterMs: BACKSTOP_MS };
    const rest = ledger.restOf(pod.metadata?.uid ?? "");
    if (rest !== undefined && rest.untilMs > nowMs)
      return { reason: rest.reason, message: rest.message, recheckAfterMs: rest.untilMs - nowMs };
    return this.#limited(pod, policy);
  }

  #frozen(rule: string, own: string): Omit<Standing, "lost"> | undefined {
    const { ledger, nowMs } = this.#view;
    for (const namespace of [EVERY_NAMESPACE, own]) {
      const isNow = this.#tooMany.some((it) => it.rule === rule && it.namespace === namespace);
      const atMs = isNow ? nowMs : ledger.frozenAt({ rule, namespace });
      if (atMs === undefined || nowMs - atMs >= BREAKER_WINDOW_MS) continue;
      const whose = namespace === EVERY_NAMESPACE ? "the policy" : `namespace ${namespace}`;
      return {
        reason: reasons.EvictionsFrozen,
        message: `too many pods of ${whose} would go at once`,
        recheckAfterMs: atMs + BREAKER_WINDOW_MS - nowMs,
      };
    }
    return undefined;
  }

  /** What of the owner has to be whole before another pod of it goes. */
  #unready(owner: string, pod: Pod): string | undefined {
    if (this.#owners.has(owner))
      return "another pod of its owner was evicted, and its replacement is not Ready";
    const other = this.#view.podsOf(owner).find((it) => {
      const { uid, deletionTimestamp } = it.metadata ?? {};
      if (uid === pod.metadata?.uid) return false;
      return deletionTimestamp !== undefined || (!isReady(it) && !this.#lost.has(uid ?? ""));
    });
    if (other === undefined) return undefined;
    const is = other.metadata?.deletionTimestamp === undefined ? "not Ready" : "being deleted";
    return `pod ${pathOf(other.metadata)} of its owner is ${is}`;
  }

  #limited(pod: Pod, { spec: { limits } }: DeschedulePolicyInForce): Omit<Standing, "lost"> | undefined {
    const { ledger, nowMs } = this.#view;
    const node = pod.spec?.nodeName ?? "";
    const namespace = pod.metadata?.namespace ?? "";
    const limited = (what: string, recheckAfterMs = BACKSTOP_MS) => ({
      reason: reasons.EvictionLimit,
      message: `${what} are in progress, which is the limit`,
      recheckAfterMs,
    });
    const of = (is: (begun: Begun) => boolean): number => this.#begun.filter(is).length;
    if (this.#begun.length >= limits.cluster) return limited(`${limits.cluster} evictions of the cluster`);
    if (of((it) => it.node === node) >= limits.node)
      return limited(`${limits.node} evictions from node ${node}`);
    if (of((it) => it.namespace === namespace) >= limits.namespace)
      return limited(`${limits.namespace} evictions in namespace ${namespace}`);
    if (this.#perMinute < limits.perMinute) return undefined;
    const [{ atMs: oldest } = { atMs: nowMs }] = ledger.begunSince(nowMs - MINUTE_MS);
    return {
      reason: reasons.EvictionLimit,
      message: `${limits.perMinute} evictions began within the last minute, which is the limit`,
      recheckAfterMs: oldest + MINUTE_MS - nowMs,
    };
  }

  /** `undefined`: the policy does not ask. */
  #fit({ pod, policy }: LostPod): { readonly node: string } | Omit<Standing, "lost"> | undefined {
    const { requireFit } = policy.spec;
    if (requireFit === "False") return undefined;
    // Replicas of one owner are alike, so one answer serves all that stay.
    const key = `${requireFit} ${ownerOf(pod)}`;
    const found = this.#fits.get(key) ?? this.#view.fit(pod, requireFit, this.#placed);
    if (found === undefined) {
      const message = "Berth is still looking for another node, for it or for other pods first";
      return { reason: reasons.EvictionLimit, message, recheckAfterMs: SOON_MS };
    }
    if ("node" in found) return found;
    this.#fits.set(key, found);
    return { ...found, recheckAfterMs: FIT_AGAIN_MS };
  }
}
