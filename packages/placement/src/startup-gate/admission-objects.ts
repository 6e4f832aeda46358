/**
 * The objects by which the API server puts the taints of startup gates on new nodes: itself, by policies, or by asking
 * Berth, by a webhook. Pure: the same gates and options, the same objects.
 */
import type {
  MatchCondition,
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  MutatingAdmissionPolicySpec,
  MutatingWebhook,
  MutatingWebhookConfiguration,
  NamedRuleWithOperations,
} from "@berth/kube";
import { celText, podTolerations } from "../node/cel.ts";
import { tolerationsAnnotation } from "../node/given-tolerations.ts";
import {
  clientConfig,
  daemonSetRule,
  type ObjectOwner,
  ownedMetadata,
  ownerLabels,
  rollsOut,
  unlessTooLong,
  type WebhookClient,
} from "../node/webhook-objects.ts";
import { type CelTaint, gatedCel, nodeTaints, samePlaceCel, standsCel, toleratedCel } from "./cel.ts";
import { GATES, type Gate } from "./gate.ts";
import { type GateList, tolerationOf } from "./tolerate.ts";

/** What `recordTolerations` keeps; as a list. */
const RECORD = tolerationsAnnotation(GATES);
const RECORDED = `object.metadata.?annotations[?${celText(RECORD)}].orValue("").split(",").filter(it, it != "")`;

/** Label of a namespace whose DaemonSets get the tolerations of all gates, at the value `true`. */
export const TOLERATE_LABEL = "berth.dev/tolerate-startup-gates";

/** Whose objects these are, and what they do when they cannot decide. */
export interface AdmissionOptions {
  /** Part of names and labels. Default `berth`. */
  readonly installation?: string;
  /**
   * Of a node that cannot be decided about: `Ignore` lets it in without the taint, for the node writer to gate it when
   * idle; `Fail` refuses it, and with a webhook no node can join while Berth is away. DaemonSets are never refused.
   * Default `Ignore`.
   */
  readonly failurePolicy?: "Ignore" | "Fail";
}

/**
 * A policy and its binding, both with the same name. Without its binding a policy does nothing, so deleting the bindings
 * turns all policies off. The policies have no parameter object: the API server accepts a policy with a `paramKind` only
 * from a user who may read every object of that kind.
 */
export interface PolicyPair {
  readonly policy: MutatingAdmissionPolicy;
  readonly binding: MutatingAdmissionPolicyBinding;
}

/** Labels of all objects made here: what has them, and is not made any more, is to be deleted. */
export function admissionLabels(options: AdmissionOptions = {}): Readonly<Record<string, string>> {
  return ownerLabels(ownerOf(options));
}

function ownerOf({ installation }: AdmissionOptions): ObjectOwner {
  return { installation, component: "startup-gate" };
}

/** All policies: one for each gate, and one for DaemonSets. None without gates. */
export function admissionPolicies(list: GateList, options: AdmissionOptions): readonly PolicyPair[] {
  if (list.gates.length === 0) return [];
  return [...list.gates.map((gate) => gatePolicy(gate, options)), tolerationPolicy(list, options)];
}

/** Puts the taint of one gate on new nodes, and gives one that stands with another value the value of the gate. */
export function gatePolicy(gate: Gate, options: AdmissionOptions): PolicyPair {
  const { taint } = gate.spec;
  return pair(`gate-${gate.name}`, options, {
    failurePolicy: options.failurePolicy ?? "Ignore",
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
 * Lets the pods of DaemonSets in opted-in namespaces tolerate all gates: of new ones, and of such whose pod template
 * changes anyway, as `admitDaemonSetRequest` does.
 */
export function tolerationPolicy(list: GateList, options: AdmissionOptions): PolicyPair {
  return pair("daemonset-tolerations", options, {
    failurePolicy: "Ignore",
    matchConstraints: {
      resourceRules: [daemonSetRule],
      matchPolicy: "Equivalent",
      namespaceSelector: { matchLabels: { [TOLERATE_LABEL]: "true" } },
    },
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
  // A DaemonSet has annotations: the API server itself keeps one there.
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

/** `IfNeeded`: what comes later may replace the whole list; run again, a policy changes nothing of what it has done. */
function pair(name: string, options: AdmissionOptions, spec: MutatingAdmissionPolicySpec): PolicyPair {
  const metadata = ownedMetadata(name, ownerOf(options));
  const apiVersion = "admissionregistration.k8s.io/v1";
  return {
    policy: {
      apiVersion,
      kind: "MutatingAdmissionPolicy",
      metadata,
      spec: { ...spec, reinvocationPolicy: "IfNeeded" },
    },
    binding: {
      apiVersion,
      kind: "MutatingAdmissionPolicyBinding",
      metadata,
      spec: { policyName: metadata.name },
    },
  };
}

export interface WebhookOptions extends AdmissionOptions, WebhookClient {
  /** Of the configuration. Default `berth-startup-gate`, with the installation. */
  readonly name?: string;
  /** Of the webhook for nodes. Default `nodes.startup-gate.berth.dev`. */
  readonly nodes?: string;
  /** Of the webhook for DaemonSets. Default `daemonsets.startup-gate.berth.dev`. */
  readonly daemonSets?: string;
}

/** Names of the original, for clusters that have its configuration already. */
export const originalWebhook = {
  name: "node-startup-taint",
  nodes: "nodestartup.taint.add.nodetaintshandler.io",
} as const;

/**
 * Asks Berth about new nodes that a gate selects and that have not got its taint yet, and about DaemonSets of opted-in
 * namespaces. Without gates it has no webhooks.
 */
export function webhookConfiguration(list: GateList, options: WebhookOptions): MutatingWebhookConfiguration {
  const named = ownedMetadata("startup-gate", ownerOf(options));
  const webhooks =
    list.gates.length === 0 ? [] : [nodeWebhook(list, options), daemonSetWebhook(list, options)];
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { ...named, name: options.name ?? named.name },
    webhooks,
  };
}

/**
 * Seconds. Nodes register in a burst after an outage, and DaemonSets come with a deployment: neither should wait long for
 * a Berth that does not answer. From a cache in memory it answers in milliseconds.
 */
const TIMEOUT_SECONDS = 2;

const common = {
  admissionReviewVersions: ["v1"],
  sideEffects: "None",
  timeoutSeconds: TIMEOUT_SECONDS,
  matchPolicy: "Equivalent",
  reinvocationPolicy: "IfNeeded",
} as const;

function nodeWebhook(list: GateList, options: WebhookOptions): MutatingWebhook {
  return {
    ...common,
    name: options.nodes ?? "nodes.startup-gate.berth.dev",
    clientConfig: clientConfig(options, "/mutate-node"),
    failurePolicy: options.failurePolicy ?? "Ignore",
    rules: [nodeRule],
    matchConditions: unlessTooLong([{ name: "gated", expression: anyGateCel(list) }]),
  };
}

function daemonSetWebhook(list: GateList, options: WebhookOptions): MutatingWebhook {
  return {
    ...common,
    name: options.daemonSets ?? "daemonsets.startup-gate.berth.dev",
    clientConfig: clientConfig(options, "/mutate-daemonset"),
    failurePolicy: "Ignore",
    rules: [daemonSetRule],
    namespaceSelector: { matchLabels: { [TOLERATE_LABEL]: "true" } },
    matchConditions: unlessTooLong(daemonSetConditions(list)),
  };
}

function anyGateCel({ gates }: GateList): string {
  return gates.map((gate) => `(${gatedCel(gate)} && !${standsCel(gate.spec.taint)})`).join(" ||\n");
}
