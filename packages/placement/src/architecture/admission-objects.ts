/**
 * The objects by which the API server asks Berth about new pods, and about DaemonSets whose pods are made anew. Pure: the
 * same policies and options, the same objects.
 */
import type {
  LabelSelector,
  MatchCondition,
  MutatingWebhook,
  MutatingWebhookConfiguration,
} from "@berth/kube";
import { celText, podTolerations } from "../node/cel.ts";
import {
  clientConfig,
  daemonSetRule,
  notNamed,
  type ObjectOwner,
  ownedMetadata,
  ownerLabels,
  rollsOut,
  SYSTEM_NAMESPACES,
  selectedByAny,
  toRequirement,
  unlessTooLong,
  type WebhookClient,
} from "../node/webhook-objects.ts";
import { taintKeys } from "./compile.ts";
import { ARCHITECTURE_LABEL } from "./document.ts";
import type { ArchitecturePolicies } from "./policy.ts";

export interface ArchitectureWebhookOptions extends WebhookClient {
  /** Part of names and labels. Default `berth`. */
  readonly installation?: string;
  /** Berth's own: its pods have to start while nobody answers. Absent when it runs outside of the cluster. */
  readonly namespace?: string;
  /**
   * Of a pod that cannot be asked about: `Ignore` lets it in as it is, so that it may land where it cannot run, while
   * taints still keep it off; `Fail` refuses it, and outside of the namespaces named here no pod can be made while Berth is
   * away. DaemonSets are never refused. Default `Ignore`.
   */
  readonly failurePolicy?: "Ignore" | "Fail";
}

/** Where it is asked. */
export const architecturePaths = {
  pods: "/mutate-pod",
  daemonSets: "/mutate-daemonset-architecture",
} as const;

/**
 * Seconds. Berth answers in milliseconds from what it knows, and never waits for a registry: this is how long a pod is
 * held up by a Berth that takes the connection and does not answer.
 */
const TIMEOUT_SECONDS = 5;

/** The most namespaces by which questions are spared; what is left out is decided by Berth itself. */
const MAX_NAMESPACES = 100;

/** Labels of all objects made here: what has them, and is not made any more, is to be deleted. */
export function architectureLabels(
  options: Pick<ArchitectureWebhookOptions, "installation"> = {},
): Readonly<Record<string, string>> {
  return ownerLabels(ownerOf(options));
}

function ownerOf({ installation }: Pick<ArchitectureWebhookOptions, "installation">): ObjectOwner {
  return { installation, component: "architecture" };
}

type PolicyList = Pick<ArchitecturePolicies, "policies">;

/**
 * `berth-architecture`. Pods are asked about when they are made; DaemonSets only while a policy counts on taints. Selectors
 * and conditions only spare questions: Berth decides the same by itself. Without policies it has no webhooks.
 */
export function architectureWebhook(
  list: PolicyList,
  options: ArchitectureWebhookOptions,
): MutatingWebhookConfiguration {
  const keys = taintKeys(list);
  const webhooks = [
    ...(list.policies.length > 0 ? [podWebhook(list, options)] : []),
    ...(keys.length > 0 ? [daemonSetWebhook(keys, options)] : []),
  ];
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: ownedMetadata("architecture", ownerOf(options)),
    webhooks,
  };
}

/** `NoneOnDryRun`: the images of a pod are looked up in registries, and what was found is kept. */
const common = {
  admissionReviewVersions: ["v1"],
  sideEffects: "NoneOnDryRun",
  timeoutSeconds: TIMEOUT_SECONDS,
  matchPolicy: "Equivalent",
  reinvocationPolicy: "IfNeeded",
} as const;

function podWebhook(list: PolicyList, options: ArchitectureWebhookOptions): MutatingWebhook {
  return {
    ...common,
    name: "pods.architecture.berth.dev",
    clientConfig: clientConfig(options, architecturePaths.pods),
    failurePolicy: options.failurePolicy ?? "Ignore",
    rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }],
    namespaceSelector: namespacesOfPods(list, options),
    matchConditions: unlessTooLong(podConditions(list)),
  };
}

/**
 * While a policy counts on taints, pods of every namespace have to tolerate them, opted out or not. Otherwise pods that no
 * policy can govern are not asked about, as far as one selector can say which.
 */
function namespacesOfPods(list: PolicyList, { namespace }: ArchitectureWebhookOptions): LabelSelector {
  const { policies } = list;
  const spared = [...SYSTEM_NAMESPACES, ...(namespace === undefined ? [] : [namespace])];
  if (taintKeys(list).length > 0) return { matchExpressions: [notNamed(spared)] };
  const [first, ...others] = policies;
  const excluded = others.reduce<ReadonlySet<string>>(
    (left, { spec }) => left.intersection(new Set(spec.excludedNamespaces)),
    new Set(first?.spec.excludedNamespaces),
  );
  const only = others.length === 0 ? first?.spec.namespaceSelector : undefined;
  return {
    ...(only?.matchLabels && { matchLabels: only.matchLabels }),
    matchExpressions: [
      notNamed([...spared, ...excluded].slice(0, MAX_NAMESPACES)),
      { key: ARCHITECTURE_LABEL, operator: "NotIn", values: ["ignore"] },
      ...(only?.matchExpressions ?? []).map(toRequirement),
    ],
  };
}

/**
 * A pod with a node, as every mirror of a static pod has it, or of a DaemonSet, which has chosen the node for it, is past
 * what could be decided here.
 */
function podConditions(list: PolicyList): readonly MatchCondition[] {
  const isTainting = taintKeys(list).length > 0;
  return [
    { name: "not-scheduled", expression: 'object.spec.?nodeName.orValue("") == ""' },
    {
      name: "not-of-daemonset",
      expression:
        "!object.metadata.?ownerReferences.orValue([])" +
        '.exists(it, it.?controller.orValue(false) && it.kind == "DaemonSet")',
    },
    ...(isTainting ? [] : selectedByAny(list.policies.map(({ spec }) => spec.podSelector))),
  ];
}

/** Of all namespaces but Berth's own: those that keep the cluster alive are who would be kept off tainted nodes first. */
function daemonSetWebhook(keys: readonly string[], options: ArchitectureWebhookOptions): MutatingWebhook {
  const { namespace } = options;
  return {
    ...common,
    name: "daemonsets.architecture.berth.dev",
    clientConfig: clientConfig(options, architecturePaths.daemonSets),
    failurePolicy: "Ignore",
    rules: [daemonSetRule],
    ...(namespace !== undefined && { namespaceSelector: { matchExpressions: [notNamed([namespace])] } }),
    matchConditions: unlessTooLong([
      rollsOut,
      { name: "not-tolerated", expression: `!(${keys.map(anyValueToleratedCel).join(" && ")})` },
    ]),
  };
}

/** Whether the pods of the DaemonSet tolerate the key at every value: then there is nothing to add. */
function anyValueToleratedCel(key: string): string {
  return (
    `${podTolerations}.exists(it, it.?operator.orValue("") == "Exists" && ` +
    `it.?effect.orValue("") in ["", "NoSchedule"] && it.?key.orValue("") in ["", ${celText(key)}])`
  );
}
