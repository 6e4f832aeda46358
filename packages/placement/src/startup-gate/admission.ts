/** How the API server puts the taints of startup gates on new nodes: itself, by policies, or by asking Berth. */
import {
  type AdmissionEnv,
  type AdmissionRules,
  type AskedWhen,
  celText,
  daemonSetRule,
  ownedMetadata,
  type PolicyPair,
  rollsOut,
} from "@berth/host";
import type { MatchCondition, MutatingAdmissionPolicySpec, NamedRuleWithOperations, Node } from "@berth/kube";
import { podTolerations } from "../node/cel.ts";
import { tolerationsAnnotation } from "../node/given-tolerations.ts";
import { standingValue } from "../node/mark.ts";
import { admitDaemonSetRequest, admitNodeRequest } from "./admit.ts";
import { type CelTaint, gatedCel, nodeTaints, samePlaceCel, standsCel, toleratedCel } from "./cel.ts";
import { GATES, type Gate } from "./gate.ts";
import { isGatedAtCreation } from "./selection.ts";
import { type GateList, tolerationOf } from "./tolerate.ts";

/** The record of `recordTolerations`, as a list. */
const RECORD = tolerationsAnnotation(GATES);
const RECORDED = `object.metadata.?annotations[?${celText(RECORD)}].orValue("").split(",").filter(it, it != "")`;

/** Label of a namespace whose DaemonSets get the tolerations of all gates, at the value `true`. */
export const TOLERATE_LABEL = "berth.dev/tolerate-startup-gates";

const COMPONENT = "startup-gate";
const optedIn = { namespaceSelector: { matchLabels: { [TOLERATE_LABEL]: "true" } } };

/** One policy for each gate, and one for DaemonSets. None without gates. */
export function admissionPolicies(list: GateList, env: AdmissionEnv): readonly PolicyPair[] {
  if (list.gates.length === 0) return [];
  return [...list.gates.map((gate) => gatePolicy(gate, env)), tolerationPolicy(list, env)];
}

/** Puts the taint of one gate on new nodes. If the taint is there with another value, replaces the value. */
function gatePolicy(gate: Gate, env: AdmissionEnv): PolicyPair {
  const { taint } = gate.spec;
  return pair(`gate-${gate.name}`, env, {
    failurePolicy: env.spec.failurePolicy,
    matchConstraints: { resourceRules: [nodeRule], matchPolicy: "Equivalent" },
    matchConditions: [
      { name: "selected", expression: gatedCel(gate) },
      { name: "not-tainted", expression: `!${standsCel(taint)}` },
    ],
    variables: [
      { name: "taints", expression: nodeTaints },
      { name: "at", expression: `variables.taints.map(it, ${samePlaceCel("it", taint)}).indexOf(true)` },
    ],
    mutations: [{ patchType: "JSONPatch", jsonPatch: { expression: taintingCel(taint) } }],
  });
}

function taintingCel({ key, value, effect }: CelTaint): string {
  const taint = `{"key": ${celText(key)}, "value": ${celText(value)}, "effect": ${celText(effect)}}`;
  return [
    `variables.at >= 0`,
    `  ? [JSONPatch{op: "replace", path: "/spec/taints/" + string(variables.at), value: ${taint}}]`,
    `  : size(variables.taints) > 0`,
    `    ? [JSONPatch{op: "add", path: "/spec/taints/-", value: ${taint}}]`,
    `    : [JSONPatch{op: "add", path: "/spec/taints", value: [${taint}]}]`,
  ].join("\n");
}

/**
 * Lets the pods of DaemonSets in opted-in namespaces tolerate all gates. Like `admitDaemonSetRequest`, it changes only
 * new DaemonSets and those whose pod template changes anyway.
 */
function tolerationPolicy(list: GateList, env: AdmissionEnv): PolicyPair {
  return pair("daemonset-tolerations", env, {
    failurePolicy: "Ignore",
    matchConstraints: { resourceRules: [daemonSetRule], matchPolicy: "Equivalent", ...optedIn },
    matchConditions: daemonSetConditions(list),
    variables: [
      { name: "missing", expression: missingCel(list) },
      { name: "recorded", expression: RECORDED },
    ],
    mutations: [{ patchType: "JSONPatch", jsonPatch: { expression: TOLERATING } }],
  });
}

const TOLERATING = [
  `(size(${podTolerations}) > 0`,
  `  ? variables.missing.map(it, JSONPatch{op: "add", path: "/spec/template/spec/tolerations/-", value: it})`,
  `  : [JSONPatch{op: "add", path: "/spec/template/spec/tolerations", value: variables.missing}])`,
  // A DaemonSet always has annotations, because the API server itself keeps one there.
  `  + [JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey(${celText(RECORD)}),`,
  `    value: (variables.recorded + variables.missing.map(it, it.key + ":" + it.effect)`,
  `      .filter(it, !(it in variables.recorded))).join(",")}]`,
].join("\n");

function missingCel({ gates }: GateList): string {
  const lists = gates.map((gate) => {
    const { key = "", operator = "", effect = "" } = tolerationOf(gate);
    const toleration = `{"key": ${celText(key)}, "operator": ${celText(operator)}, "effect": ${celText(effect)}}`;
    return `(${toleratedCel(gate.spec.taint)} ? [] : [${toleration}])`;
  });
  return lists.join(" +\n");
}

function daemonSetConditions({ gates }: GateList): readonly MatchCondition[] {
  const all = gates.map((gate) => toleratedCel(gate.spec.taint)).join(" && ");
  return [rollsOut, { name: "not-tolerated", expression: `!(${all})` }];
}

const nodeRule: NamedRuleWithOperations = {
  apiGroups: [""],
  apiVersions: ["v1"],
  operations: ["CREATE"],
  resources: ["nodes"],
};

/** `IfNeeded`: a later admission step may replace the whole list. A second run of a policy changes nothing. */
function pair(name: string, env: AdmissionEnv, spec: MutatingAdmissionPolicySpec): PolicyPair {
  const metadata = ownedMetadata(env, COMPONENT, name);
  const common = { apiVersion: "admissionregistration.k8s.io/v1", metadata };
  const whole = { ...spec, reinvocationPolicy: "IfNeeded" };
  const bound = { policyName: metadata.name };
  return {
    policy: { ...common, kind: "MutatingAdmissionPolicy", spec: whole },
    binding: { ...common, kind: "MutatingAdmissionPolicyBinding", spec: bound },
  };
}

/**
 * `berth-startup-gate` asks about new nodes that a gate selects but that lack its taint, and about DaemonSets of
 * opted-in namespaces. The paths are those of nodetaintshandler, so that its configuration may point to Berth.
 */
export const gateAdmission: AdmissionRules<GateList> = {
  name: COMPONENT,
  effect: "mutate",
  reviews: [
    {
      name: "nodes",
      path: "/mutate-node",
      rule: nodeRule,
      failurePolicy: ({ spec }) => spec.failurePolicy,
      when: (list) => askedIf(list, { matchConditions: [{ name: "gated", expression: anyGateCel(list) }] }),
      answer: (gates, request) => ({ allowed: true, patch: admitNodeRequest(gates, request) }),
    },
    {
      name: "daemonsets",
      path: "/mutate-daemonset",
      rule: daemonSetRule,
      alone: true,
      when: (list) => askedIf(list, { ...optedIn, matchConditions: daemonSetConditions(list) }),
      answer: (gates, request) => ({ allowed: true, patch: admitDaemonSetRequest(gates, request) }),
    },
  ],
  policies: admissionPolicies,
  texts: {
    asked: "the API server asks Berth about new nodes",
    byPolicy: "the API server puts the taint on new nodes",
    off: "new nodes are gated after their creation, when they are idle",
  },
  passed(node: Node, { gates }) {
    const concerned = gates.filter((gate) => isGatedAtCreation(gate, node));
    const missing = concerned.find(({ taintId }) => standingValue(node, taintId) === undefined);
    if (missing === undefined) return concerned.length > 0 || undefined;
    return (
      `${node.metadata?.name ?? "a node"} joined without the taint of ${missing.name}: is the admission plugin or feature ` +
      "of the API server switched off, or did another user change the policy or webhook?"
    );
  },
};

/** 2 s: nodes register in a burst after an outage, and must not wait long for a Berth that does not answer. */
function askedIf({ gates }: GateList, when: Omit<AskedWhen, "timeoutSeconds">): AskedWhen | undefined {
  return gates.length === 0 ? undefined : { timeoutSeconds: 2, ...when };
}

function anyGateCel({ gates }: GateList): string {
  return gates.map((gate) => `(${gatedCel(gate)} && !${standsCel(gate.spec.taint)})`).join(" ||\n");
}
