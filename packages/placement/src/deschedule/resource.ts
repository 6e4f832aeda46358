/** `DeschedulePolicy` as the API server serves it: resource, status and how kubectl shows it. */

import { conditions, observedGeneration, type ServedKind } from "@berth/host";
import type { Resource } from "@berth/kube";
import * as z from "zod";
import { age, column, condition, count, type Served, servedResource } from "../api/served.ts";
import { type DeschedulePolicySpec, type DeschedulePolicyStatus, deschedulePolicySpec } from "./document.ts";

export type DeschedulePolicy = Served<DeschedulePolicyStatus>;

export const deschedulePolicies: Resource<DeschedulePolicy> = servedResource(
  "deschedulepolicies",
  "DeschedulePolicy",
);

/** How many pods a status names. */
export const MAX_FIRST_PODS = 10;

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
    column("For", "string", ".spec.for", "How long a pod must be lost."),
    column("Pods", "integer", ".status.podsInScope", "Pods in scope."),
    column("Lost", "integer", ".status.lostPods", "Pods on a wrong node."),
    column(
      "Evicting",
      "integer",
      ".status.evictionsInProgress",
      "Evicted pods whose replacement is not Ready yet.",
    ),
    column("Ready", "string", condition("Ready"), "Whether the policy is in force."),
    column("Frozen", "string", condition("EvictionsFrozen"), "Whether too many pods would go at once."),
    age,
  ],
};
