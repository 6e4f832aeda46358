/** Connects the components for descheduling in a running Berth. */
import type { Node } from "@berth/kube";
import { isSameData, keyOf } from "@berth/runtime";
import type { Policy } from "../node/capability.ts";
import { firstOf } from "../node/first-names.ts";
import type { NodeObserver } from "../node/observer.ts";
import { onceCapability } from "../node/once-capability.ts";
import type { NodeCapability, NodeHost, Wired, WiredFacts } from "../node/wired.ts";
import { descheduleRules } from "./compile.ts";
import { declaredKeys, isUnsettled } from "./derived-keys.ts";
import { EVERY } from "./document.ts";
import { Evictions } from "./evictions.ts";
import { asksForAny } from "./judge.ts";
import { LostPods } from "./lost-pods.ts";
import { createDescheduleMetrics } from "./metrics.ts";
import { nodeNotifierKind } from "./notify/document.ts";
import { wireNotifiers } from "./notify/notifiers.ts";
import { notifierPermissions } from "./notify/permissions.ts";
import { descheduleOnce } from "./once.ts";
import { deschedulePermissions } from "./permissions.ts";
import { podFitFields } from "./pod-fields.ts";
import { DESCHEDULE, type DeschedulePolicyInForce } from "./policy.ts";
import { type DeschedulePolicy, deschedulePolicyKind, MAX_FIRST_PODS } from "./resource.ts";
import { FRESH_MS, ScopeCount } from "./scope-count.ts";
import { type DescheduleCounts, descheduleConditions, describePolicy } from "./status.ts";
import { DescheduleWatches } from "./watches.ts";

export const deschedule: NodeCapability = {
  name: DESCHEDULE,
  kinds: [deschedulePolicyKind, nodeNotifierKind],
  fields: podFitFields,
  permissions: (asked) => [...deschedulePermissions(asked), ...notifierPermissions(asked)],
  once: () => onceCapability(descheduleRules, descheduleOnce),
  wire,
};

function wire(host: NodeHost): Wired {
  wireNotifiers(host);
  const { cluster, clock, nodes, installation } = host;
  const policies = (): readonly DeschedulePolicyInForce[] => documents.inForce?.policies ?? [];
  const keysOf = ({ spec }: DeschedulePolicyInForce): ReadonlySet<string> | undefined =>
    spec.keys === undefined ? derived.keys() : new Set(spec.keys);
  const derived = followDerivedKeys({ facts: host.facts, onChange: () => judgeAll() });
  const watches = new DescheduleWatches({
    ...host,
    onPod({ object }) {
      scope.changed();
      evictions.judge([object]);
      // Another pod of its owner, or one that needs its room, may wait for this one.
      if (lost.size > 0) evictions.decide();
    },
    onNamespace(namespace) {
      scope.changed();
      evictions.judge(watches.podsIn(namespace));
    },
    onSynced: () => judgeAll(),
  });
  const lost = new LostPods({
    policies,
    nodeOf: ({ spec }) => nodes.get(keyOf(cluster, { metadata: { name: spec?.nodeName ?? "" } })),
    monotonic: () => clock.monotonic(),
    namespaceLabels: (name) => watches.namespaceLabels(name),
    derivedKeys: derived.keys,
    isUnsettled: (node, key) => isUnsettled(node, key, host.facts(), { installation, now: clock.now() }),
  });
  const scope = new ScopeCount({
    pods: () => watches.list(),
    isIn: (pod, policy) => lost.isAbout(pod, policy),
    monotonic: () => clock.monotonic(),
  });
  const counted = createDescheduleMetrics(host.metrics);
  const evictions = new Evictions({
    ...host,
    watches,
    lost,
    counted,
    inScope: (policy) => scope.of(policy, FRESH_MS),
    onPass: () => askStatuses(),
  });
  const { ledger } = evictions;
  const judgeAll = (): void => {
    scope.clear();
    evictions.judgeAll();
  };
  const countsOf = (rule: string): DescheduleCounts | undefined => {
    const policy = policies().find((it) => it.rule === rule);
    if (policy === undefined) return undefined;
    const problem = watches.problem();
    if (!watches.synced && problem === undefined) return undefined;
    const names = lost.all().flatMap((it) => (it.policy.rule === rule ? [it.name] : []));
    return {
      inScope: scope.of(policy),
      lost: names.length,
      inProgress: [...ledger.inProgress.values()].filter((it) => it.rule === rule).length,
      givenUp: ledger.givenUp.length,
      waiting: evictions.waiting(rule),
      first: firstOf(new Set(names), MAX_FIRST_PODS),
      frozen: ledger.frozen(rule),
      problem,
      isAboutNothing: keysOf(policy)?.size === 0,
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
    frozen: () => policies().filter(({ rule }) => ledger.frozen(rule).length > 0).length,
  });
  const documents = host.documents({
    rules: descheduleRules,
    capability: DESCHEDULE,
    onChange({ policies: inForce }) {
      watches.want(inForce.length > 0);
      ledger.forgetPolicies(new Set(inForce.map(({ rule }) => rule)));
      if (inForce.length === 0) lost.clear();
      judgeAll();
      evictions.decide();
    },
    onLook: askStatuses,
    action: "KeepDeschedulePolicy",
    logsFiles: true,
    isGood: ({ type, status }) => type === descheduleConditions.ready && status === "True",
    decide: (object: DeschedulePolicy, result, rule) => describePolicy(object, result, countsOf(rule)),
  });
  /** Checked first, because reading 110 pods takes longer. */
  const isScoped = (changed: ReadonlySet<string>): boolean =>
    policies().some((policy) => {
      const keys = keysOf(policy);
      return keys === undefined || keys.has(EVERY) || !keys.isDisjointFrom(changed);
    });
  nodes.subscribe({
    onChange(change) {
      const keys = change.type === "updated" ? changedKeys(change.old, change.object) : undefined;
      if (keys?.size === 0 || !watches.synced) return;
      if (keys === undefined || isScoped(keys)) {
        const here = watches.podsOn(change.object.metadata?.name ?? "");
        evictions.judge(keys === undefined ? here : here.filter((pod) => asksForAny(pod, keys)));
      }
      evictions.nodeChanged();
    },
  });
  host.add(watches.components, "caches");
  host.add(evictions.controllers, "elected");
  return { observer: derived.observer };
}

/** The keys that rules for labels write. The node writer tells of each change of these rules. */
function followDerivedKeys({
  facts,
  onChange,
}: {
  readonly facts: () => readonly WiredFacts[];
  readonly onChange: () => void;
}): { readonly keys: () => ReadonlySet<string> | undefined; readonly observer: NodeObserver } {
  let keys: ReadonlySet<string> | undefined;
  const declaring = new Map<string, Policy>();
  return {
    keys: () => (facts().every(({ known }) => known()) ? keys : undefined),
    observer: {
      decided(_, { contributions }) {
        const names = new Set(facts().map(({ capability: { name } }) => name));
        const declared = contributions.filter(({ capability }) => names.has(capability));
        if (declared.every(({ capability, policy }) => declaring.get(capability) === policy)) return;
        for (const { capability, policy } of declared) declaring.set(capability, policy);
        keys = declaredKeys(declared);
        onChange();
      },
      gone() {},
    },
  };
}

/** The keys of the labels that differ. `undefined` when taints differ, or the node is being deleted. */
function changedKeys(a: Node, b: Node): ReadonlySet<string> | undefined {
  const isMore =
    !isSameData(a.spec?.taints, b.spec?.taints) ||
    a.metadata?.deletionTimestamp !== b.metadata?.deletionTimestamp;
  if (isMore) return undefined;
  const [before, after] = [a.metadata?.labels ?? {}, b.metadata?.labels ?? {}];
  return new Set(Object.keys({ ...before, ...after }).filter((key) => before[key] !== after[key]));
}
