/** Parts of which rules make the objects that stand in the API server. Pure. */
import type {
  LabelSelectorRequirement,
  MatchCondition,
  NamedRuleWithOperations,
  ObjectMeta,
  WebhookClientConfig,
} from "@berth/kube";
import type { SelectorRequirement } from "../documents/selector.ts";
import type { AdmissionEnv } from "./rules.ts";

/** What an installation calls things after: `berth`, and any other than that `berth-<name>`. */
export function baseName(installation: string): string {
  return installation === "berth" ? "berth" : `berth-${installation}`;
}

/** Labels of all admission objects of a component: what has them, and is not made any more, is to be deleted. */
export function ownerLabels(installation: string, component: string): Readonly<Record<string, string>> {
  return {
    "app.kubernetes.io/name": "berth",
    "app.kubernetes.io/instance": installation,
    "app.kubernetes.io/component": component,
  };
}

/** `berth-<name>`, or `berth-<installation>-<name>`, with the labels of its owner; `name` is by default that of the component. */
export function ownedMetadata(
  installation: string,
  component: string,
  name: string = component,
): ObjectMeta & { readonly name: string } {
  return { name: `${baseName(installation)}-${name}`, labels: ownerLabels(installation, component) };
}

/** How the API server reaches the webhook: by way of a Service, or at a URL without a path. */
export type WebhookAddress =
  | { readonly service: { readonly namespace: string; readonly name: string; readonly port?: number } }
  | { readonly url: string };

/** The address, and PEM of the authorities that the certificate there is checked against. */
export interface WebhookClient {
  readonly client: WebhookAddress;
  readonly ca: string;
}

export function clientConfig({ client, ca }: WebhookClient, path: string): WebhookClientConfig {
  const caBundle = Buffer.from(ca).toString("base64");
  if ("url" in client) return { url: `${client.url.replace(/\/+$/, "")}${path}`, caBundle };
  return { service: { ...client.service, path }, caBundle };
}

/** Whatever documents select, the API server never asks about pods of these: they keep the cluster alive. */
export const SYSTEM_NAMESPACES: readonly string[] = ["kube-node-lease", "kube-public", "kube-system"];

/** The name of a namespace, as a label that the API server itself keeps right (`NamespaceDefaultLabelName`). */
const NAMESPACE_NAME = "kubernetes.io/metadata.name";

/** Any namespace but these. */
export function notNamed(names: readonly string[]): LabelSelectorRequirement {
  return { key: NAMESPACE_NAME, operator: "NotIn", values: [...new Set(names)].sort() };
}

/** Namespaces whose pods have to start while no replica answers. */
export function sparedNamespaces({ namespace }: Pick<AdmissionEnv, "namespace">): readonly string[] {
  return [...SYSTEM_NAMESPACES, ...(namespace === undefined ? [] : [namespace])];
}

/** Of a document, as the API takes it. */
export function toRequirement({ key, operator, values }: SelectorRequirement): LabelSelectorRequirement {
  return { key, operator, ...(values !== undefined && { values }) };
}

/** Pods as they are made. */
export const newPods: NamedRuleWithOperations = {
  apiGroups: [""],
  apiVersions: ["v1"],
  operations: ["CREATE"],
  resources: ["pods"],
};

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
