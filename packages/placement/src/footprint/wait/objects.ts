/** The object by which the API server asks Berth about new pods that are to wait for an agent. Pure. */
import type { LabelSelector, MutatingWebhookConfiguration } from "@berth/kube";
import {
  clientConfig,
  notNamed,
  type ObjectOwner,
  ownedMetadata,
  ownerLabels,
  SYSTEM_NAMESPACES,
  selectedByAny,
  toRequirement,
  unlessTooLong,
  type WebhookClient,
} from "../../node/webhook-objects.ts";
import type { Footprint, NeedingPods } from "../footprint.ts";

export interface WaitWebhookOptions extends WebhookClient {
  /** Part of names and labels. Default `berth`. */
  readonly installation?: string;
  /** Berth's own: its pods have to start while nobody answers. Absent when it runs outside of the cluster. */
  readonly namespace?: string;
}

/** Where it is asked. */
export const waitPath = "/mutate-pod-footprint";

/** Seconds. Berth answers in milliseconds from what it knows: this is how long a pod is held up when it does not. */
const TIMEOUT_SECONDS = 5;

/** Labels of all objects made here: what has them, and is not made any more, is to be deleted. */
export function waitLabels(
  options: Pick<WaitWebhookOptions, "installation"> = {},
): Readonly<Record<string, string>> {
  return ownerLabels(ownerOf(options));
}

function ownerOf({ installation }: Pick<WaitWebhookOptions, "installation">): ObjectOwner {
  return { installation, component: "footprint" };
}

/**
 * `berth-footprint`. Asked about new pods that a footprint with a wait selects, never about those of Berth and of
 * the system, and never waited for: a pod that could not be asked about starts without waiting. Selectors and conditions
 * only spare questions: Berth decides the same by itself. Without such footprints it has no webhooks.
 */
export function waitWebhook(
  footprints: readonly Footprint[],
  options: WaitWebhookOptions,
): MutatingWebhookConfiguration {
  const workloads = footprints.flatMap(({ wait, workloads: needing }) => (wait === undefined ? [] : needing));
  const webhook = {
    name: "pods.footprint.berth.dev",
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    timeoutSeconds: TIMEOUT_SECONDS,
    matchPolicy: "Equivalent",
    reinvocationPolicy: "IfNeeded",
    clientConfig: clientConfig(options, waitPath),
    failurePolicy: "Ignore",
    rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }],
    namespaceSelector: namespacesOf(workloads, options),
    matchConditions: unlessTooLong(selectedByAny(workloads.map(({ podSelector }) => podSelector))),
  };
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: ownedMetadata("footprint", ownerOf(options)),
    webhooks: workloads.length === 0 ? [] : [webhook],
  };
}

/** One selector cannot say "this or that": of several workloads only what is excluded for all of them. */
function namespacesOf(workloads: readonly NeedingPods[], { namespace }: WaitWebhookOptions): LabelSelector {
  const spared = [...SYSTEM_NAMESPACES, ...(namespace === undefined ? [] : [namespace])];
  const [only, ...others] = workloads;
  const { matchLabels, matchExpressions = [] } = (others.length === 0 && only?.namespaceSelector) || {};
  return {
    ...(matchLabels && { matchLabels }),
    matchExpressions: [notNamed(spared), ...matchExpressions.map(toRequirement)],
  };
}
