/** Carries out evictions: a pass over all lost pods chooses, and a controller of pods judges and evicts each. */
import { createKeySource, createObjectController, type ObjectDecision } from "@berth/host";
import { type Node, type Pod, pods } from "@berth/kube";
import {
  type Change,
  type Component,
  createController,
  keyOf,
  type ObjectKey,
  referenceTo,
} from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import { firstOf } from "../node/first-names.ts";
import { nodeOf } from "../node/pod-nodes.ts";
import type { NodeHost } from "../node/wired.ts";
import { decideEvictions, type EvictionDecision, type Placed, replicasIn, type Standing } from "./decide.ts";
import { changedKeys } from "./derived-keys.ts";
import { EVERY } from "./document.ts";
import { FitLookups } from "./fit-lookups.ts";
import { asksForAny } from "./judge.ts";
import { type Eviction, EvictionLedger, ownerOf } from "./ledger.ts";
import type { LostPods } from "./lost-pods.ts";
import { createDescheduleMetrics, type DescheduleMetrics } from "./metrics.ts";
import type { DeschedulePolicies, DeschedulePolicyInForce } from "./policy.ts";
import { type DescheduleViews, groundOf } from "./reads.ts";
import { MAX_FIRST_PODS } from "./resource.ts";
import { FRESH_MS, ScopeCount } from "./scope-count.ts";
import type { DescheduleCounts } from "./status.ts";

const ACTION = "EvictPod";
/** Changes of pods within this time are one pass, ms. */
const COALESCE_MS = 20;
/** The backstop: all pods are judged again, ms. */
const SWEEP_MS = 3_600_000;
/** Until Berth looks again at what it cannot judge yet, ms. */
const UNKNOWN_MS = 5_000;
/** A pass over very many lost pods is followed by a pause of so many times its duration. */
const PAUSES = 4;
/** A missing permission: as long as the runtime waits at most between two tries, ms. */
const FORBIDDEN_MS = 30_000;
/** Reasons for which a pod stays that deserve an Event on it. The others end by themselves. */
const TOLD: ReadonlySet<Reason> = new Set([reasons.NoOtherNode, reasons.FitUnknown, reasons.OwnerGivenUp]);

export interface EvictionsOptions
  extends Pick<NodeHost, "client" | "cluster" | "clock" | "log" | "metrics" | "events" | "nodes"> {
  readonly views: DescheduleViews;
  readonly lost: LostPods;
  /** Called after each pass. */
  readonly onPass: () => void;
}

export class Evictions {
  readonly ledger: EvictionLedger = new EvictionLedger();
  /** For the leader. */
  readonly controllers: readonly Component[];
  readonly #options: EvictionsOptions;
  readonly #pods = createKeySource(() => this.#keys(this.#options.views.pods.list()));
  readonly #passes = createKeySource(() => [this.#passKey]);
  readonly #passKey: ObjectKey;
  readonly #lookups: FitLookups;
  readonly #scope: ScopeCount;
  readonly #counted: DescheduleMetrics;
  /** Of the policies in force, to see which of them change. */
  #specs: ReadonlyMap<string, string> = new Map();
  #standings: ReadonlyMap<string, readonly Standing[]> = new Map();
  #sweptMs: number;
  #pausedUntilMs = 0;

  constructor(options: EvictionsOptions) {
    const { cluster, clock, views, nodes, lost, metrics } = options;
    this.#options = options;
    this.#counted = createDescheduleMetrics(metrics);
    this.#scope = new ScopeCount({
      pods: () => views.pods.list(),
      isIn: (pod, policy) => lost.isAbout(pod, policy),
      monotonic: () => clock.monotonic(),
    });
    this.#passKey = keyOf(cluster, { metadata: { name: "pass" } });
    this.#sweptMs = clock.monotonic();
    this.#lookups = new FitLookups(groundOf(views, { [Symbol.iterator]: () => nodes.list() }));
    const passController = createController({
      ...options,
      name: "evictions",
      sources: [this.#passes],
      queue: { coalesceMs: COALESCE_MS },
      reconcile: () => Promise.resolve(this.#pass()),
    });
    this.controllers = [this.#podController(), passController];
  }

  /** Policies have come into force, or ceased to be. */
  take({ policies }: DeschedulePolicies): void {
    const before = this.#specs;
    this.#specs = new Map(policies.map(({ rule, spec }) => [rule, JSON.stringify(spec)]));
    const unchanged = [...this.#specs].filter(([rule, spec]) => before.get(rule) === spec);
    this.ledger.forgetPolicies(new Set(unchanged.map(([rule]) => rule)));
    if (policies.length === 0) this.#options.lost.clear();
    this.judgeAll();
    this.#decide();
  }

  /** These pods have changed, or their namespace. `ofPod`: another pod of its owner, or that needs its room, may wait. */
  changed(found: Iterable<Pod>, ofPod: boolean): void {
    this.#scope.changed();
    this.#judge(found);
    if (ofPod && this.#options.lost.size > 0) this.#decide();
  }

  judgeAll(): void {
    this.#scope.clear();
    this.#judge(this.#options.views.pods.list(), "low");
  }

  /** For the status. `undefined`: not known yet. */
  counts(policy: DeschedulePolicyInForce, aboutNothing: string | undefined): DescheduleCounts | undefined {
    const { views, lost } = this.#options;
    const { rule } = policy;
    const problem = views.problem();
    if (!views.pods.synced && problem === undefined) return undefined;
    const names = lost.all().flatMap((it) => (it.policy.rule === rule ? [it.name] : []));
    return {
      inScope: this.#scope.of(policy),
      lost: names.length,
      inProgress: [...this.ledger.inProgress.values()].filter((it) => it.rule === rule).length,
      givenUp: this.ledger.givenUp.length,
      waiting: this.#waiting(rule),
      first: firstOf(new Set(names), MAX_FIRST_PODS),
      frozen: this.ledger.frozen(rule),
      problem,
      aboutNothing,
    };
  }

  /** Judges these pods again. Ignored on a replica that does not lead. */
  #judge(of: Iterable<Pod>, priority: "high" | "low" = "high"): void {
    this.#pods.ask(this.#keys(of), priority);
  }

  /** Decides again about all lost pods. */
  #decide(): void {
    this.#passes.ask([this.#passKey], "high");
  }

  /** How many lost pods of the policy stay for each reason: `2 NoOtherNode`. Sorted. */
  #waiting(rule: string): readonly string[] {
    const staying = [...this.#standings.values()]
      .flat()
      .filter(({ lost, reason }) => lost.policy.rule === rule && reason !== reasons.PodDescheduled);
    const byReason = Map.groupBy(staying, ({ reason }) => reason);
    return Array.from(byReason, ([reason, { length }]) => `${length} ${reason}`).sort();
  }

  /** Its pods may be wrong now, or it may take one. @param keys those that each policy is about; `undefined`: any. */
  nodeChanged(change: Change<Node>, keys: () => readonly (ReadonlySet<string> | undefined)[]): void {
    const { views, lost } = this.#options;
    const changed = change.type === "updated" ? changedKeys(change.old, change.object) : undefined;
    if (changed?.size === 0 || !views.pods.synced) return;
    // Checked first, because reading 110 pods takes longer.
    const isScoped = (its: ReadonlySet<string> | undefined): boolean =>
      changed === undefined || its === undefined || its.has(EVERY) || !its.isDisjointFrom(changed);
    if (changed === undefined || keys().some(isScoped)) {
      const here = views.pods.byIndex("node", change.object.metadata?.name ?? "");
      this.#judge(changed === undefined ? here : here.filter((pod) => asksForAny(pod, changed)));
    }
    this.#lookups.nodeChanged();
    if (lost.size > 0) this.#decide();
  }

  #keys(of: Iterable<Pod>): readonly ObjectKey[] {
    return Array.from(of, (pod) => keyOf(this.#options.cluster, pod));
  }

  #podController(): Component {
    const { views, lost, clock } = this.#options;
    const { ledger } = this;
    const counted = this.#counted;
    return createObjectController<Pod, unknown, ObjectDecision>({
      ...this.#options,
      name: "lost-pods",
      resource: pods,
      objects: views.pods,
      sources: [this.#pods],
      action: ACTION,
      refusedAs: reasons.EvictionRefused,
      decide: (pod) => this.#decidePod(pod),
      done: (pod) => {
        counted.evicted(ledger.inProgress.get(ownerOf(pod))?.rule ?? "");
        ledger.accept(pod.metadata?.uid ?? "");
        this.#decide();
      },
      withheld: (pod, { reason, message }, restMs = FORBIDDEN_MS) => {
        const why = reason === reasons.DisruptionBudget ? reason : reasons.EvictionRefused;
        counted.refused(why);
        ledger.refuse(pod.metadata?.uid ?? "", { reason: why, message }, restMs, clock.monotonic());
        this.#decide();
      },
      gone: ({ namespace, name }) => {
        lost.forget(`${namespace}/${name}`);
        this.#decide();
      },
    });
  }

  #decidePod(pod: Pod): ObjectDecision {
    const { clock, lost } = this.#options;
    this.ledger.start(clock.monotonic());
    const wasLost = lost.has(pod);
    const isKnown = lost.look(pod);
    const eviction = this.ledger.inProgress.get(ownerOf(pod));
    if (wasLost || lost.has(pod) || eviction !== undefined) this.#decide();
    const uid = pod.metadata?.uid ?? "";
    const isChosen = eviction?.pod.metadata?.uid === uid && !eviction.isAccepted;
    if (isChosen && lost.has(pod, eviction.rule)) {
      this.ledger.send(uid);
      const about = { reason: reasons.PodDescheduled, message: eviction.message, what: "the pod" };
      return { intents: [{ do: "evict", announce: "Normal", ...about }] };
    }
    // Its node is right again since the pass, or the policy is not about it any more.
    if (isChosen) this.ledger.withdraw(uid);
    const findings = (this.#standings.get(uid) ?? []).filter(({ reason }) => TOLD.has(reason));
    return { findings, ...(!isKnown && { recheckAfterMs: UNKNOWN_MS }) };
  }

  #pass(): { readonly recheckAfterMs: number } {
    const { clock, views, onPass } = this.#options;
    const nowMs = clock.monotonic();
    if (nowMs < this.#pausedUntilMs) return { recheckAfterMs: this.#pausedUntilMs - nowMs };
    const sweepMs = this.#sweep(nowMs);
    if (!views.pods.synced) return { recheckAfterMs: sweepMs };
    // The caches may be old.
    if (views.problem() !== undefined) {
      onPass();
      return { recheckAfterMs: UNKNOWN_MS };
    }
    this.#observe(nowMs);
    const decision = this.#decideAll(nowMs);
    this.ledger.freeze(decision.tooMany, nowMs);
    this.#begin(decision.standings, nowMs);
    const endMs = clock.monotonic();
    this.#pausedUntilMs = endMs + (endMs - nowMs) * PAUSES;
    onPass();
    const decideMs = Math.min(decision.recheckAfterMs ?? sweepMs, this.ledger.endsInMs(nowMs));
    return { recheckAfterMs: Math.min(sweepMs, decideMs) };
  }

  /** @returns when the next sweep is, ms. */
  #sweep(nowMs: number): number {
    const leftMs = this.#sweptMs + SWEEP_MS - nowMs;
    if (leftMs > 0) return leftMs;
    this.#sweptMs = nowMs;
    this.judgeAll();
    return SWEEP_MS;
  }

  #observe(nowMs: number): void {
    const { views, lost, events } = this.#options;
    const missing = this.ledger.observe(
      (owner) => views.pods.byIndex("owner", owner),
      (pod) => lost.has(pod),
      nowMs,
    );
    for (const { pod } of missing)
      events.record({
        regarding: referenceTo(pods, pod),
        type: "Warning",
        reason: reasons.ReplacementMissing,
        note: "Berth has evicted the pod, and its owner has not made another one for 10 minutes",
        action: ACTION,
      });
  }

  #decideAll(nowMs: number): EvictionDecision {
    const { clock, views, lost } = this.#options;
    this.#lookups.begin(nowMs);
    return decideEvictions({
      lost: lost.all(),
      inScope: (policy) => this.#scope.of(policy, FRESH_MS),
      ledger: this.ledger,
      podsOf: (owner) => views.pods.byIndex("owner", owner),
      replicasOf: (owner) => replicasIn(views.pods.byIndex("owner", owner)),
      placed: [...this.ledger.inProgress.values()].flatMap((it) => this.#placeOf(it)),
      fit: (pod, how, placed) => this.#lookups.find(pod, how, placed),
      now: clock.now(),
      nowMs,
    });
  }

  /** Until the replacement has a node of its own, Berth counts it on the node that takes it. */
  #placeOf({ pod, target, owner, known }: Eviction): readonly Placed[] {
    const come = this.#options.views.pods
      .byIndex("owner", owner)
      .filter((it) => !known.has(it.metadata?.uid ?? ""));
    const isBound = come.some((it) => nodeOf(it).length > 0);
    return target === undefined || isBound ? [] : [{ pod, node: target }];
  }

  #begin(standings: readonly Standing[], nowMs: number): void {
    const before = this.#standings;
    this.#standings = Map.groupBy(standings, ({ lost: { pod } }) => pod.metadata?.uid ?? "");
    for (const { lost, reason, target, message } of standings) {
      const { pod, policy } = lost;
      const isNew = !before.get(pod.metadata?.uid ?? "")?.some((it) => it.reason === reason);
      if (reason === reasons.PodDescheduled) {
        const owner = ownerOf(pod);
        const known = new Set(
          this.#options.views.pods.byIndex("owner", owner).map(({ metadata }) => metadata?.uid ?? ""),
        );
        const [node = ""] = nodeOf(pod);
        const namespace = pod.metadata?.namespace ?? "";
        const begun = { pod, rule: policy.rule, owner, node, namespace, known, message, atMs: nowMs };
        this.ledger.begin({ ...begun, isAccepted: false, ...(target !== undefined && { target }) });
        this.#judge([pod]);
      } else if (TOLD.has(reason) && isNew) this.#judge([pod]);
    }
  }
}
