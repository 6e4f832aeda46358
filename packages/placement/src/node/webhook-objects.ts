/** What the webhook configurations of all capabilities have in common. Pure. */

import type { Selector, SelectorRequirement } from "@berth/host";
import type {
  LabelSelectorRequirement,
  MatchCondition,
  NamedRuleWithOperations,
  ObjectMeta,
  WebhookClientConfig,
} from "@berth/kube";
import { baseName } from "../api/keys.ts";
import { selectorCel } from "./cel.ts";

/** How the API server reaches Berth. */
export interface WebhookClient {
  /** Where Berth is asked: by way of a Service, or at a URL without a path. */
  readonly client:
    | { readonly service: { readonly namespace: string; readonly name: string; readonly port?: number } }
    | { readonly url: string };
  /** PEM of the authorities that its certificate is checked against. */
  readonly ca: string;
}

/** Whatever documents select, the API server never asks about pods of these: they keep the cluster alive. */
export const SYSTEM_NAMESPACES: readonly string[] = ["kube-node-lease", "kube-public", "kube-system"];

/** Whose objects these are, and what for. */
export interface ObjectOwner {
  /** Part of names and labels. Default `berth`. */
  readonly installation?: string | undefined;
  /** `startup-gate`, `architecture`. */
  readonly component: string;
}

/** Labels of all admission objects of a component: what has them, and is not made any more, is to be deleted. */
export function ownerLabels({
  installation = "berth",
  component,
}: ObjectOwner): Readonly<Record<string, string>> {
  return {
    "app.kubernetes.io/name": "berth",
    "app.kubernetes.io/instance": installation,
    "app.kubernetes.io/component": component,
  };
}

/** `berth-<name>`, or `berth-<installation>-<name>`, with the labels of its owner. */
export function ownedMetadata(name: string, owner: ObjectOwner): ObjectMeta & { readonly name: string } {
  const { installation = "berth" } = owner;
  return { name: `${baseName(installation)}-${name}`, labels: ownerLabels(owner) };
}

export function clientConfig({ client, ca }: WebhookClient, path: string): WebhookClientConfig {
  const caBundle = Buffer.from(ca).toString("base64");
  if ("url" in client) return { url: `${client.url.replace(/\/+$/, "")}${path}`, caBundle };
  return { service: { ...client.service, path }, caBundle };
}

/**
 * The parser of the API server refuses expressions beyond 100,000 characters, and what takes too many steps counts as
 * undecided. Berth decides the same by itself: conditions only spare it questions.
 */
const MAX_EXPRESSION = 50_000;

export function unlessTooLong(conditions: readonly MatchCondition[]): readonly MatchCondition[] {
  return conditions.filter(({ expression }) => expression.length <= MAX_EXPRESSION);
}

export const daemonSetRule: NamedRuleWithOperations = {
  apiGroups: ["apps"],
  apiVersions: ["v1"],
  operations: ["CREATE", "UPDATE"],
  resources: ["daemonsets"],
};

/** A DaemonSet that is new, or whose pods are made anew anyway. */
export const rollsOut: MatchCondition = {
  name: "rolls-out",
  expression: 'request.operation == "CREATE" || object.spec.template != oldObject.spec.template',
};

/** The name of a namespace, as a label that the API server itself keeps right (`NamespaceDefaultLabelName`). */
const NAMESPACE_NAME = "kubernetes.io/metadata.name";

/** Any namespace but these. */
export function notNamed(names: readonly string[]): LabelSelectorRequirement {
  return { key: NAMESPACE_NAME, operator: "NotIn", values: [...new Set(names)].sort() };
}

/** Of a document, as the API takes it. */
export function toRequirement({ key, operator, values }: SelectorRequirement): LabelSelectorRequirement {
  return { key, operator, ...(values !== undefined && { values }) };
}

/** Whether one of them selects the object; nothing to be asked when one selects every object. */
export function selectedByAny(selectors: readonly Selector[]): readonly MatchCondition[] {
  const all = selectors.map(selectorCel);
  if (all.some((conditions) => conditions.length === 0)) return [];
  const expression = all.map((conditions) => `(${conditions.join(" && ")})`).join(" ||\n");
  return [{ name: "selected", expression }];
}
