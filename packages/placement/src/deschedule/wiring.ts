/** Connects the components for descheduling in a running Berth. */
import { createViews, labelsIn } from "@berth/host";
import { keyOf } from "@berth/runtime";
import { createDocumentGauges } from "../node/document-gauges.ts";
import { onceCapability } from "../node/once-capability.ts";
import type { NodeCapability, NodeHost, Wired } from "../node/wired.ts";
import { descheduleRules } from "./compile.ts";
import { DerivedKeys, isUnsettled } from "./derived-keys.ts";
import { Evictions } from "./evictions.ts";
import { thresholdOf } from "./judge.ts";
import { LostPods } from "./lost-pods.ts";
import { descheduleGauges, measureEvictions } from "./metrics.ts";
import { nodeNotifierKind } from "./notify/document.ts";
import { wireNotifiers } from "./notify/notifiers.ts";
import { notifierPermissions } from "./notify/permissions.ts";
import { descheduleOnce } from "./once.ts";
import { deschedulePermissions } from "./permissions.ts";
import { podFitFields } from "./pod-fields.ts";
import { DESCHEDULE, type DeschedulePolicyInForce } from "./policy.ts";
import { descheduleConcerns, descheduleReads, priorityIn } from "./reads.ts";
import { type DeschedulePolicy, deschedulePolicyKind } from "./resource.ts";
import { type DescheduleCounts, descheduleConditions, describePolicy } from "./status.ts";

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
  const { cluster, clock, nodes, installation, metrics } = host;
  const policies = (): readonly DeschedulePolicyInForce[] => documents.inForce?.policies ?? [];
  const keysOf = ({ spec }: DeschedulePolicyInForce): ReadonlySet<string> | undefined =>
    spec.keys === undefined ? derived.keys : new Set(spec.keys);
  const derived = new DerivedKeys(host.facts, () => evictions.judgeAll());
  const views = createViews(descheduleReads, {
    ...host,
    concerns: descheduleConcerns,
    onKeys: (found, of) => evictions.changed(found, of === "pods"),
    onAll: () => evictions.judgeAll(),
  });
  const priorityOf = priorityIn(views);
  const lost = new LostPods({
    policies,
    nodeOf: ({ spec }) => nodes.get(keyOf(cluster, { metadata: { name: spec?.nodeName ?? "" } })),
    monotonic: () => clock.monotonic(),
    namespaceLabels: labelsIn(views.namespaces),
    priorityOf,
    derivedKeys: () => derived.keys,
    isUnsettled: (node, key) => isUnsettled(node, key, host.facts(), { installation, now: clock.now() }),
  });
  const evictions = new Evictions({ ...host, views, lost, onPass: () => askStatuses() });
  const aboutNothing = (policy: DeschedulePolicyInForce): string | undefined => {
    if (keysOf(policy)?.size === 0) return "no rule of Berth writes a label, and spec.keys names none";
    const isMissing = thresholdOf(policy, { priorityOf }) === null;
    return isMissing ? `there is no PriorityClass ${policy.spec.priorityThreshold?.name}` : undefined;
  };
  const countsOf = (policy: DeschedulePolicyInForce): DescheduleCounts | undefined =>
    evictions.counts(policy, aboutNothing(policy));
  const askStatuses = (): void =>
    documents.askChanged(new Map(policies().map((it) => [it.rule, JSON.stringify(countsOf(it)) ?? ""])));
  measureEvictions(metrics, { lost, ledger: evictions.ledger }, policies);
  const taken = createDocumentGauges(metrics, descheduleGauges);
  const documents = host.documents({
    rules: descheduleRules,
    capability: DESCHEDULE,
    onChange(inForce) {
      taken(inForce.policies.length, inForce.faults);
      views.want(inForce);
      evictions.take(inForce);
    },
    onLook: askStatuses,
    action: "KeepDeschedulePolicy",
    logsFiles: true,
    isGood: ({ type, status }) => type === descheduleConditions.ready && status === "True",
    decide(object: DeschedulePolicy, result, rule) {
      const policy = policies().find((it) => it.rule === rule);
      return describePolicy(object, result, policy && countsOf(policy));
    },
  });
  nodes.subscribe({ onChange: (change) => evictions.nodeChanged(change, () => policies().map(keysOf)) });
  host.add(views.components, "caches");
  host.add(evictions.controllers, "elected");
  return { observer: derived };
}
