/** Connects the components for descheduling in a running Berth. */
import { createKeySource, createObjectController, type ObjectDecision } from "@berth/host";
import { type Node, type Pod, pods } from "@berth/kube";
import { createController, isSameData, keyOf, type ObjectKey, referenceTo } from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import type { Policy } from "../node/capability.ts";
import { firstOf } from "../node/first-names.ts";
import type { NodeObserver } from "../node/observer.ts";
import { onceCapability } from "../node/once-capability.ts";
import { nodeOf } from "../node/pod-nodes.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { descheduleRules } from "./compile.ts";
import { decideEvictions, nameOf, type Placed, type Standing } from "./decide.ts";
import { declaredKeys, isUnsettled } from "./derived-keys.ts";
import { findFit, type Ground } from "./fit.ts";
import { type Eviction, EvictionLedger, ownerOf } from "./ledger.ts";
import { LostPods } from "./lost-pods.ts";
import { createDescheduleMetrics } from "./metrics.ts";
import { descheduleOnce } from "./once.ts";
import { deschedulePermissions } from "./permissions.ts";
import { podFitFields } from "./pod-fields.ts";
import { DESCHEDULE, type DeschedulePolicyInForce } from "./policy.ts";
import { type DeschedulePolicy, deschedulePolicyKind, MAX_FIRST_PODS } from "./resource.ts";
import { ScopeCount } from "./scope-count.ts";
import { type DescheduleCounts, descheduleConditions, describePolicy } from "./status.ts";
import { DescheduleWatches } from "./watches.ts";

export const deschedule: NodeCapability = {
  name: DESCHEDULE,
  kinds: [deschedulePolicyKind],
  fields: podFitFields,
  permissions: deschedulePermissions,
  once: () => onceCapability(descheduleRules, descheduleOnce),
  wire,
};

const ACTION = "EvictPod";
/** Changes of pods within this time are one pass over the lost pods, ms. */
const COALESCE_MS = 20;
/** The backstop: all pods are judged again, ms. */
const SWEEP_MS = 3_600_000;
/** Until Berth looks again at a pod that it cannot judge yet, ms. */
const UNKNOWN_MS = 5_000;
/** Lookups of another node in one pass. Each reads up to all nodes. */
const MAX_FITS = 20;
/** A missing permission: as long as the runtime waits at most between two tries, ms. */
const FORBIDDEN_MS = 30_000;
/** Reasons for which a pod stays that deserve an Event on it. The others end by themselves. */
const TOLD: ReadonlySet<Reason> = new Set([reasons.NoOtherNode, reasons.FitUnknown, reasons.OwnerGivenUp]);

function wire(host: NodeHost): Wired {
  const { client, cluster, clock, log, metrics, events, nodes, installation } = host;
  const common = { client, cluster, clock, log, metrics };
  const counted = createDescheduleMetrics(metrics);
  const ledger = new EvictionLedger();
  let standings: ReadonlyMap<string, readonly Standing[]> = new Map();
  const policies = (): readonly DeschedulePolicyInForce[] => documents.inForce?.policies ?? [];

  // The keys that rules for labels write. The node writer tells of each change of these rules.
  let derived: ReadonlySet<string> | undefined;
  const declaring = new Map<string, Policy>();
  const observer: NodeObserver = {
    decided(_, { contributions }) {
      const names = new Set(host.facts().map(({ capability: { name } }) => name));
      const facts = contributions.filter(({ capability }) => names.has(capability));
      if (facts.every(({ capability, policy }) => declaring.get(capability) === policy)) return;
      for (const { capability, policy } of facts) declaring.set(capability, policy);
      derived = declaredKeys(facts);
      judgeAll();
    },
    gone() {},
  };

  const nodeNamed = (name: string): Node | undefined => nodes.get(keyOf(cluster, { metadata: { name } }));
  const lost = new LostPods({
    policies,
    nodeOf: ({ spec }) => nodeNamed(spec?.nodeName ?? ""),
    monotonic: () => clock.monotonic(),
    namespaceLabels: (name) => watches.namespaceLabels(name),
    derivedKeys: () => (host.facts().every(({ known }) => known()) ? derived : undefined),
    isUnsettled: (node, key) => isUnsettled(node, key, host.facts(), { installation, now: clock.now() }),
  });
  const scope = new ScopeCount({
    pods: () => watches.list(),
    isIn: (pod, policy) => lost.isAbout(pod, policy),
    monotonic: () => clock.monotonic(),
  });
  const ground: Ground = {
    get nodes() {
      return nodes.list();
    },
    podsOn: (node) => watches.podsOn(node),
    namespaceLabels: (name) => watches.namespaceLabels(name) ?? undefined,
  };

  // Each pod is judged, and evicted once the pass below has let it go.
  const everyPod = createKeySource(() => Array.from(watches.list(), (pod) => keyOf(cluster, pod)));
  const judgePods = (of: Iterable<Pod>): void =>
    everyPod.ask(
      Array.from(of, (pod) => keyOf(cluster, pod)),
      "high",
    );
  const judgeAll = (): void => everyPod.ask(Array.from(watches.list(), (pod) => keyOf(cluster, pod)));
  const passKey: ObjectKey = keyOf(cluster, { metadata: { name: "pass" } });
  const passes = createKeySource(() => [passKey]);
  const pass = (): void => passes.ask([passKey], "high");
  const podController = createObjectController<Pod, unknown, ObjectDecision>({
    ...common,
    name: "lost-pods",
    resource: pods,
    objects: { get: (key) => watches.get(key) },
    sources: [everyPod],
    events,
    action: ACTION,
    refusedAs: reasons.EvictionRefused,
    decide(pod) {
      const wasLost = lost.has(pod);
      const isKnown = lost.look(pod);
      if (wasLost || lost.has(pod) || ledger.inProgress.has(ownerOf(pod))) pass();
      const uid = pod.metadata?.uid ?? "";
      const eviction = ledger.inProgress.get(ownerOf(pod));
      const isNow = eviction?.pod.metadata?.uid === uid && !eviction.isAccepted;
      // The node may be right again since the pass.
      if (isNow && !lost.has(pod)) ledger.withdraw(uid);
      else if (isNow) {
        const { message } = eviction;
        const told = {
          reason: reasons.PodDescheduled,
          message,
          announce: "Normal",
          what: "the pod",
        } as const;
        return { intents: [{ do: "evict", ...told }] };
      }
      const findings = (standings.get(nameOf(pod)) ?? []).filter(({ reason }) => TOLD.has(reason));
      return { findings, ...(!isKnown && { recheckAfterMs: UNKNOWN_MS }) };
    },
    done(pod) {
      const uid = pod.metadata?.uid ?? "";
      counted.evicted(ledger.inProgress.get(ownerOf(pod))?.rule ?? "");
      ledger.accept(uid);
      pass();
    },
    withheld(pod, { reason, message }, restMs = FORBIDDEN_MS) {
      const why = reason === reasons.DisruptionBudget ? reason : reasons.EvictionRefused;
      counted.refused(why);
      ledger.refuse(pod.metadata?.uid ?? "", { reason: why, message }, restMs, clock.monotonic());
      pass();
    },
    gone({ namespace, name }) {
      lost.forget(`${namespace}/${name}`);
      pass();
    },
  });
  const passController = createController({
    ...common,
    name: "evictions",
    sources: [passes],
    queue: { coalesceMs: COALESCE_MS },
    reconcile: () => Promise.resolve(decideAll()),
  });
  let sweptMs = clock.monotonic();
  const decideAll = (): { readonly recheckAfterMs: number } => {
    const nowMs = clock.monotonic();
    if (nowMs - sweptMs >= SWEEP_MS) {
      sweptMs = nowMs;
      ledger.retain(new Set(Array.from(watches.list(), ({ metadata }) => metadata?.uid ?? "")));
      judgeAll();
    }
    const sweepMs = sweptMs + SWEEP_MS - nowMs;
    if (!watches.synced) return { recheckAfterMs: sweepMs };
    for (const { pod } of ledger.observe(
      (owner) => watches.podsOf(owner),
      (it) => lost.has(it),
      nowMs,
    ))
      events.record({
        regarding: referenceTo(pods, pod),
        type: "Warning",
        reason: reasons.ReplacementMissing,
        note: "Berth has evicted the pod, and its owner has not made another one for 10 minutes",
        action: ACTION,
      });
    const decision = decideEvictions({
      lost: lost.all(),
      inScope: (policy) => scope.of(policy),
      ledger,
      podsOf: (owner) => watches.podsOf(owner),
      placed: [...ledger.inProgress.values()].flatMap(toPlaced),
      fit: (pod, how, placed) => findFit(pod, how, ground, placed),
      maxFits: MAX_FITS,
      now: clock.now(),
      nowMs,
    });
    ledger.freeze(decision.tooMany, nowMs);
    const before = standings;
    standings = Map.groupBy(decision.standings, ({ lost: { pod } }) => nameOf(pod));
    for (const standing of decision.standings) {
      const { lost: one, reason, target, message } = standing;
      const { pod, policy } = one;
      if (reason === reasons.PodDescheduled) {
        const owner = ownerOf(pod);
        const known = new Set(watches.podsOf(owner).map(({ metadata }) => metadata?.uid ?? ""));
        const [node = ""] = nodeOf(pod);
        const namespace = pod.metadata?.namespace ?? "";
        const of = { pod, rule: policy.rule, owner, node, namespace, known, message, atMs: nowMs };
        ledger.begin({ ...of, isAccepted: false, ...(target !== undefined && { target }) });
        judgePods([pod]);
      } else if (TOLD.has(reason) && !before.get(nameOf(pod))?.some((it) => it.reason === reason))
        judgePods([pod]);
    }
    askStatuses();
    return { recheckAfterMs: Math.min(sweepMs, decision.recheckAfterMs ?? sweepMs) };
  };
  /** Until the replacement has a node of its own, Berth counts it on the node that takes it. */
  const toPlaced = ({ pod, target, owner, known }: Eviction): readonly Placed[] => {
    const isBound = watches
      .podsOf(owner)
      .some((it) => !known.has(it.metadata?.uid ?? "") && nodeOf(it).length > 0);
    return target === undefined || isBound ? [] : [{ pod, node: target }];
  };

  const countsOf = (rule: string): DescheduleCounts | undefined => {
    const policy = policies().find((it) => it.rule === rule);
    if (policy === undefined) return undefined;
    const problem = watches.problem();
    if (!watches.synced && problem === undefined) return undefined;
    const names = lost.all().flatMap((it) => (it.policy.rule === rule ? [nameOf(it.pod)] : []));
    return {
      inScope: scope.of(policy),
      lost: names.length,
      inProgress: ledger.inProgress
        .values()
        .filter((it) => it.rule === rule)
        .toArray().length,
      givenUp: ledger.givenUp.length,
      first: firstOf(new Set(names), MAX_FIRST_PODS),
      isFrozen: ledger.frozenAt(rule) !== undefined,
      problem,
    };
  };
  const asked = new Map<string, string>();
  const askStatuses = (): void => {
    for (const { rule } of policies()) {
      const text = JSON.stringify(countsOf(rule));
      if (asked.get(rule) !== text) documents.askRule(rule);
      asked.set(rule, text);
    }
  };
  counted.counts({
    lost: () => lost.size,
    inProgress: () => ledger.inProgress.size,
    frozen: () => policies().filter(({ rule }) => ledger.frozenAt(rule) !== undefined).length,
  });

  const watches = new DescheduleWatches({
    ...common,
    onPod(change) {
      scope.changed();
      judgePods([change.object]);
      // Another pod of its owner, or one for its room, may have waited for this one.
      if (lost.size > 0) pass();
    },
    onNamespace(namespace) {
      scope.changed();
      judgePods(watches.podsIn(namespace));
    },
    onSynced: judgeAll,
  });
  nodes.subscribe({
    onChange(change) {
      const isSame = change.type === "updated" && hasSameGround(change.old, change.object);
      if (isSame || !watches.synced) return;
      judgePods(watches.podsOn(change.object.metadata?.name ?? ""));
      // It may take a pod that waits for another node.
      if (lost.size > 0) pass();
    },
  });
  const documents = host.documents({
    rules: descheduleRules,
    capability: DESCHEDULE,
    onChange({ policies: inForce }) {
      watches.want(inForce.length > 0);
      ledger.forgetPolicies();
      scope.changed();
      if (inForce.length === 0) lost.clear();
      judgeAll();
      pass();
    },
    onLook: askStatuses,
    action: "KeepDeschedulePolicy",
    logsFiles: true,
    isGood: ({ type, status }) => type === descheduleConditions.ready && status === "True",
    decide: (object: DeschedulePolicy, result, rule) => describePolicy(object, result, countsOf(rule)),
  });
  host.add(watches.components, "caches");
  host.add([podController, passController], "elected");
  return { observer };
}

/** Does the change matter to no pod on the node? */
function hasSameGround(a: Node, b: Node): boolean {
  return (
    isSameData(a.metadata?.labels, b.metadata?.labels) &&
    isSameData(a.spec?.taints, b.spec?.taints) &&
    a.metadata?.deletionTimestamp === b.metadata?.deletionTimestamp
  );
}
