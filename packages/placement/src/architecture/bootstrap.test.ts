import { describe, expect, it } from "vitest";
import { type BootstrapInput, phaseOf } from "./bootstrap.ts";
import { type PolicyInit, policyInForce } from "./testing/policies.ts";

const none = { pods: 0, daemonSets: 0, first: [] };
const some = {
  pods: 2,
  daemonSets: 1,
  first: ["DaemonSet kube-system/cni", "Pod default/a", "Pod default/b"],
};
const many = { pods: 9, daemonSets: 0, first: ["Pod d/a", "Pod d/b", "Pod d/c", "Pod d/d", "Pod d/e"] };

const tell = (init: PolicyInit, input: Partial<Omit<BootstrapInput, "policy">> = {}): string => {
  const seen = { uncovered: none, standing: false, ...input };
  const { phase, reason, message } = phaseOf({ policy: policyInForce(init), ...seen });
  return `${phase} ${reason}: ${message}`;
};

describe("the bootstrap of a policy", () => {
  it.each<[string, PolicyInit, Partial<Omit<BootstrapInput, "policy">>, string]>([
    [
      "A-B7 waits until everything has been looked at",
      {},
      { uncovered: undefined },
      "Bootstrapping ArchitectureBootstrapping: waits until all unscheduled pods and all DaemonSets have been looked at",
    ],
    [
      "A-B7 waits for those that would not tolerate it, and names them",
      {},
      { uncovered: some },
      "Bootstrapping ArchitectureBootstrapping: waits for 2 pods and 1 DaemonSet that would not tolerate it: " +
        "DaemonSet kube-system/cni, Pod default/a, Pod default/b",
    ],
    [
      "A-B7 names the first of many",
      {},
      { uncovered: many },
      "Bootstrapping ArchitectureBootstrapping: waits for 9 pods that would not tolerate it: " +
        "Pod d/a, Pod d/b, Pod d/c, Pod d/d, Pod d/e, …",
    ],
    [
      "waits until it is known whether a node is tainted already",
      {},
      { standing: undefined },
      "Bootstrapping ArchitectureBootstrapping: waits until all nodes have been looked at",
    ],
    [
      "A-B7 ends when everything is covered",
      {},
      {},
      "Tainting ArchitectureTainted: everything tolerates it or has a verdict, so nodes are tainted with their architecture",
    ],
    [
      "A-B7 waits for a person, with Confirm, once everything is covered",
      { bootstrap: "Confirm" },
      {},
      "Bootstrapping ConfirmationRequired: everything tolerates it or has a verdict; " +
        "nodes are tainted once the annotation berth.dev/bootstrap-confirmed is true",
    ],
    [
      "is not cut short by a person who has confirmed it",
      { bootstrap: "Confirm", confirmed: true },
      { uncovered: { ...none, pods: 1, first: ["Pod d/a"] } },
      "Bootstrapping ArchitectureBootstrapping: waits for 1 pod that would not tolerate it: Pod d/a",
    ],
    [
      "ends when a person has confirmed it",
      { bootstrap: "Confirm", confirmed: true },
      {},
      "Tainting ArchitectureTainted: everything tolerates it or has a verdict, so nodes are tainted with their architecture",
    ],
    [
      "A-P14 is over where a node carries the taint, whatever is uncovered and unconfirmed",
      { bootstrap: "Confirm" },
      { standing: true, uncovered: some },
      "Tainting ArchitectureTainted: nodes are tainted with their architecture",
    ],
    [
      "is over at once after a restart, before pods have been looked at",
      {},
      { standing: true, uncovered: undefined },
      "Tainting ArchitectureTainted: nodes are tainted with their architecture",
    ],
    [
      "there is none where somebody else taints nodes",
      { taint: { nodes: "Leave" } },
      { uncovered: some },
      "Tainting ArchitectureTainted: nodes are tainted by somebody else, and pods are made to tolerate that",
    ],
    [
      "there is none without taints",
      { mode: "Affinity" },
      { uncovered: undefined, standing: undefined },
      "Narrowing ArchitecturePolicyInForce: the node affinity of new pods is narrowed, and nodes are not tainted",
    ],
  ])("%s", (_, init, input, expected) => expect(tell(init, input)).toBe(expected));
});
