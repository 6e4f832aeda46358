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
  const waits = "Bootstrapping ArchitectureBootstrapping: waits";
  const covered = "everything tolerates it or has a verdict";
  const ended = `Tainting ArchitectureTainted: ${covered}, so nodes are tainted with their architecture`;
  const isOver = "Tainting ArchitectureTainted: nodes are tainted with their architecture";
  const listed = some.first.join(", ");
  const unconfirmed = { bootstrap: "Confirm" } as const;
  const confirmed = { ...unconfirmed, confirmed: true };
  const one = { ...none, pods: 1, first: ["Pod d/a"] };
  const byOthers = "another writer taints the nodes, and Berth makes pods tolerate that";
  const untainted = "the node affinity of new pods is narrowed, and nodes are not tainted";
  const once = "nodes are tainted once the annotation berth.dev/bootstrap-confirmed is true";

  it.each<[string, PolicyInit, Partial<Omit<BootstrapInput, "policy">>, string]>([
    [
      "A-B7 waits until everything has been looked at",
      {},
      { uncovered: undefined },
      `${waits} until Berth has checked all unscheduled pods and all DaemonSets`,
    ],
    [
      "A-B7 waits for those that would not tolerate it, and names them",
      {},
      { uncovered: some },
      `${waits} for 2 pods and 1 DaemonSet that would not tolerate it: ${listed}`,
    ],
    [
      "A-B7 names the first of many",
      {},
      { uncovered: many },
      `${waits} for 9 pods that would not tolerate it: ${many.first.join(", ")}, …`,
    ],
    [
      "waits until it is known whether a node is tainted already",
      {},
      { standing: undefined },
      `${waits} until Berth has checked all nodes`,
    ],
    ["A-B7 ends when everything is covered", {}, {}, ended],
    [
      "A-B7 waits for a person, with Confirm, once everything is covered",
      unconfirmed,
      {},
      `Bootstrapping ConfirmationRequired: ${covered}; ${once}`,
    ],
    [
      "is not cut short by a person who has confirmed it",
      confirmed,
      { uncovered: one },
      `${waits} for 1 pod that would not tolerate it: Pod d/a`,
    ],
    ["ends when a person has confirmed it", confirmed, {}, ended],
    [
      "A-P14 is over where a node carries the taint",
      unconfirmed,
      { standing: true, uncovered: some },
      isOver,
    ],
    ["is over before pods have been looked at", {}, { standing: true, uncovered: undefined }, isOver],
    [
      "there is none where somebody else taints nodes",
      { taint: { nodes: "Leave" } },
      { uncovered: some },
      `Tainting ArchitectureTainted: ${byOthers}`,
    ],
    [
      "there is none without taints",
      { mode: "Affinity" },
      { uncovered: undefined, standing: undefined },
      `Narrowing ArchitecturePolicyInForce: ${untainted}`,
    ],
  ])("%s", (_, init, input, expected) => expect(tell(init, input)).toBe(expected));
});
