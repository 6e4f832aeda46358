/** `DeschedulePolicy` as the API server serves it: resource, status and how kubectl shows it. */

import { conditionOf, counted, type Remark, type ServedKind, toRemark } from "@berth/host";
import type { Resource } from "@berth/kube";
import * as z from "zod";
import {
  age,
  column,
  condition,
  count,
  names,
  type Served,
  servedResource,
  statusWith,
} from "../api/served.ts";
import { type DeschedulePolicySpec, deschedulePolicySpec } from "./document.ts";

export type DeschedulePolicy = Served<DeschedulePolicyStatus>;

export const deschedulePolicies: Resource<DeschedulePolicy> = servedResource(
  "deschedulepolicies",
  "DeschedulePolicy",
);

/** How many pods a status names. */
export const MAX_FIRST_PODS = 10;

const status = statusWith({
  podsInScope: count("Pods that the policy is about."),
  lostPods: count("Pods on a node that they do not match any more."),
  evictionsInProgress: count("Evicted pods whose replacement is not Ready yet."),
  givenUpOwners: count("Owners whose pods came back to wrong nodes three times."),
  firstPods: names("The first of the lost pods, as namespace/name; never all of them.", {
    most: MAX_FIRST_PODS,
    length: 317,
  }),
});
export type DeschedulePolicyStatus = z.infer<typeof status>;

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
  shown: { remarks },
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

function remarks(policy: DeschedulePolicy): readonly Remark[] {
  const { lostPods: lost = 0, evictionsInProgress: going = 0, givenUpOwners: up = 0 } = policy.status ?? {};
  const frozen = conditionOf(policy, "EvictionsFrozen");
  const next = frozen === undefined ? `, ${going} being replaced` : "";
  return [
    ...(frozen === undefined ? [] : [toRemark(frozen)]),
    ...(up > 0 ? [{ text: `${counted(up, "owner")} given up: its pods came back`, needsPerson: true }] : []),
    ...(lost + going > 0 ? [{ text: `${counted(lost, "pod")} on a wrong node${next}` }] : []),
  ];
}
