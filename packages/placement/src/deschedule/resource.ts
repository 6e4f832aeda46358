/** `DeschedulePolicy` as the API server serves it: resource, status and how kubectl shows it. */

import { conditions, observedGeneration, type ServedKind } from "@berth/host";
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";
import * as z from "zod";
import { API_GROUP, API_GROUP_VERSION } from "../api/group.ts";
import { type DeschedulePolicySpec, type DeschedulePolicyStatus, deschedulePolicySpec } from "./document.ts";

/** A DeschedulePolicy on the wire. */
export interface DeschedulePolicy extends KubeObject {
  /** As stored: parse it with `deschedulePolicySpec` before use. */
  readonly spec?: unknown;
  readonly status?: DeschedulePolicyStatus & { readonly conditions?: readonly Condition[] };
}

export const deschedulePolicies: Resource<DeschedulePolicy> = defineResource({
  group: API_GROUP,
  version: API_GROUP_VERSION,
  plural: "deschedulepolicies",
  kind: "DeschedulePolicy",
  namespaced: false,
});

/** How many pods a status names. */
export const MAX_FIRST_PODS = 10;

const count = (what: string): z.ZodType => z.int().min(0).optional().describe(what);

const status: z.ZodType = z
  .strictObject({
    observedGeneration,
    podsInScope: count("Pods that the policy is about."),
    lostPods: count("Pods on a node that they do not match any more."),
    evictionsInProgress: count("Evicted pods whose replacement is not Ready yet."),
    givenUpOwners: count("Owners whose pods came back to wrong nodes three times."),
    firstPods: z
      .array(z.string().max(317))
      .max(MAX_FIRST_PODS)
      .optional()
      .describe("The first of the lost pods, as namespace/name; never all of them."),
    conditions,
  })
  .describe("What Berth observed last. Only Berth writes it.");

export const deschedulePolicyKind: ServedKind<DeschedulePolicySpec> = {
  kind: "DeschedulePolicy",
  whenAway: "keep",
  resource: deschedulePolicies,
  singular: "deschedulepolicy",
  shortNames: ["dsp"],
  description:
    "A DeschedulePolicy moves pods whose node lost a label that they ask for. Berth evicts such a pod after a while, if " +
    "another node takes it, one pod of an owner at a time.",
  spec: deschedulePolicySpec,
  status,
  columns: [
    { name: "For", type: "string", jsonPath: ".spec.for", description: "How long a pod must be lost." },
    { name: "Pods", type: "integer", jsonPath: ".status.podsInScope", description: "Pods in scope." },
    { name: "Lost", type: "integer", jsonPath: ".status.lostPods", description: "Pods on a wrong node." },
    {
      name: "Evicting",
      type: "integer",
      jsonPath: ".status.evictionsInProgress",
      description: "Evicted pods whose replacement is not Ready yet.",
    },
    {
      name: "Ready",
      type: "string",
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: "Whether the policy is in force.",
    },
    {
      name: "Frozen",
      type: "string",
      jsonPath: '.status.conditions[?(@.type=="EvictionsFrozen")].status',
      description: "Whether too many pods would go at once.",
    },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
};
