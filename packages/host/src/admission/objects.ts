/** Names, labels and selectors that rules use in their admission objects. Pure. */
import type {
  LabelSelectorRequirement,
  MatchCondition,
  NamedRuleWithOperations,
  ObjectMeta,
  WebhookClientConfig,
} from "@berth/kube";
import type { SelectorRequirement } from "../documents/selector.ts";
import { baseName, type Installed, ownerLabels } from "../product.ts";
import type { AdmissionEnv } from "./rules.ts";

/** `berth-<name>` or `berth-<installation>-<name>`, with the owner labels. `name` defaults to the component. */
export function ownedMetadata(
  of: Installed,
  component: string,
  name: string = component,
): ObjectMeta & { readonly name: string } {
  return { name: `${baseName(of)}-${name}`, labels: ownerLabels(of, component) };
}

/** The address of the webhook for the API server: a Service, or a URL without a path. */
export type WebhookAddress =
  | { readonly service: { readonly namespace: string; readonly name: string; readonly port?: number } }
  | { readonly url: string };

/** The address, and the PEM authorities with which the API server checks the certificate there. */
export interface WebhookClient {
  readonly client: WebhookAddress;
  readonly ca: string;
}

export function clientConfig({ client, ca }: WebhookClient, path: string): WebhookClientConfig {
  const caBundle = Buffer.from(ca).toString("base64");
  if ("url" in client) return { url: `${client.url.replace(/\/+$/, "")}${path}`, caBundle };
  return { service: { ...client.service, path }, caBundle };
}

/** The API server never asks about pods in these namespaces, whatever documents select: they keep the cluster alive. */
export const SYSTEM_NAMESPACES: readonly string[] = ["kube-node-lease", "kube-public", "kube-system"];

/** The label with the name of a namespace. The API server itself sets it (`NamespaceDefaultLabelName`). */
const NAMESPACE_NAME = "kubernetes.io/metadata.name";

/** Selects every namespace except these. */
export function notNamed(names: readonly string[]): LabelSelectorRequirement {
  return { key: NAMESPACE_NAME, operator: "NotIn", values: [...new Set(names)].sort() };
}

/** Namespaces whose pods must be able to start while no replica of Berth answers. */
export function sparedNamespaces({ namespace }: Pick<AdmissionEnv, "namespace">): readonly string[] {
  return [...SYSTEM_NAMESPACES, ...(namespace === undefined ? [] : [namespace])];
}

/** Converts a requirement of a document to the API type. */
export function toRequirement({ key, operator, values }: SelectorRequirement): LabelSelectorRequirement {
  return { key, operator, ...(values !== undefined && { values }) };
}

/** The creation of pods. */
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

/** A new DaemonSet, or one whose pod template changes: its pods are created again in any case. */
export const rollsOut: MatchCondition = {
  name: "rolls-out",
  expression: 'request.operation == "CREATE" || object.spec.template != oldObject.spec.template',
};
