// Long because the cases of the contract stand here together, as far as they are decided by one node and its pods.
import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { RemovalBreakers } from "../node/breaker.ts";
import { assessRemovals, nothingLeaving } from "../node/removals.ts";
import { NEW_YEAR, planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode } from "../node/testing/world.ts";
import { bindFootprints } from "./capability.ts";
import { compileFootprints } from "./compile.ts";
import type { NodeFootprintSpec } from "./document.ts";
import { documentsOf, footprintsOf, type Specs } from "./testing/footprints.ts";
import { ATELET, after, bound, findings, marked, owned, phases } from "./testing/node-world.ts";
import { makeAteom, makePod, sightOf } from "./testing/pods.ts";

const OWNER_UID: Specs = { atelet: { preset: "agent-substrate/owner-uid" } };
const n1 = makeNode({ labels: { theirs: "1" }, annotations: { theirs: "2" } });
const forgedPod = makePod("forged", { labels: { "ate.dev/worker-pool-uid": "x".repeat(63) } });

describe("the cases of the contract", () => {
  it("F-1 a node is marked once a pod is bound to it", () => {
    expect(marked(after(n1, [makeAteom("A", "a", { node: "" })]))).toBe("");
    expect(marked(after(n1, [makeAteom("A", "a")]))).toBe("A");
  });

  it("F-2 pods of two pools make two claims and one label", () => {
    expect(marked(after(n1, [makeAteom("A", "a"), makeAteom("B", "b")]))).toBe("A B");
  });

  it("F-3 a second pod of a pool is no write, and neither is the end of one of them", () => {
    const [one, two] = [makeAteom("A", "a1"), makeAteom("A", "a2")];
    const node = after(n1, [one]);
    expect(after(node, [one, two])).toBe(node);
    expect(after(node, [two])).toBe(node);
  });

  it("F-4 the last pod of a pool takes its claim along, and nothing else", () => {
    const node = after(n1, [makeAteom("A", "a"), makeAteom("B", "b")]);
    expect(marked(after(node, [makeAteom("B", "b")]))).toBe("B");
  });

  it("F-5 the last pod takes label and claims along, and what others have set is as it was", () => {
    const { metadata } = after(after(n1, [makeAteom("A", "a")]), []);
    expect(metadata?.labels).toEqual(n1.metadata?.labels);
    expect(metadata?.annotations).toEqual(n1.metadata?.annotations);
  });

  it("F-6 F-E3 a pod that ends keeps the node marked until it is gone", () => {
    const ending = makeAteom("A", "a", { isEnding: true });
    expect(marked(after(after(n1, [makeAteom("A", "a")]), [ending]))).toBe("A");
  });

  it("F-7 pods without the label, with an empty one, and of the agent never mark", () => {
    const pods = [makePod("plain"), makeAteom("", "empty"), makePod("atelet", { labels: { app: "atelet" } })];
    expect(after(n1, pods)).toBe(n1);
  });

  it("F-12 of three nodes only those whose pods have gone are written", () => {
    const nodes = ["n1", "n2", "n3"].map((name) => makeNode({ name }));
    const pods = nodes.map(({ metadata }, at) => makeAteom("A", `a${at}`, { node: metadata?.name ?? "" }));
    const before = nodes.map((node) => after(node, pods));
    const left = before.map((node) => after(node, pods.slice(2)));
    expect(left.map(marked)).toEqual(["", "", "A"]);
    expect(left[2]).toBe(before[2]);
  });

  it("F-B3 F-E8 marks taken off by hand are put back; marks put on by hand are taken off", () => {
    const pods = [makeAteom("A", "a")];
    const node = after(n1, pods);
    const without = editNode(node, {
      labels: { "ate.dev/atelet": null },
      annotations: { "ate.dev/claim.A": null },
    });
    expect(marked(after(without, pods))).toBe("A");
    const byHand = editNode(n1, { labels: { "ate.dev/atelet": "true" } });
    expect(marked(after(byHand, []))).toBe("");
    const changed = editNode(node, {
      labels: { "ate.dev/atelet": "no" },
      annotations: { "ate.dev/claim.A": "1" },
    });
    expect(marked(after(changed, pods))).toBe("A");
  });

  it("F-B4 F-E10 forged claims are pruned, and forged labels of pods are told of once and mark nothing", () => {
    const node = editNode(n1, { annotations: { "ate.dev/claim.B": "", "ate.dev/claim.C": "x" } });
    expect(marked(after(node, []))).toBe("");
    const pods = [
      makeAteom("A", "a"),
      forgedPod,
      { ...forgedPod, metadata: { ...forgedPod.metadata, name: "two" } },
    ];
    expect(marked(after(node, pods))).toBe("A");
    expect(findings(n1, ATELET, { pods })).toEqual([
      expect.stringMatching(/^warning FootprintGroupRefused: default\/forged, default\/two: /) as string,
    ]);
  });

  it("F-E9 the uid of a pool that the pod is not of marks nothing", () => {
    const forged = makeAteom("A", "f", { owners: ["ate.dev/WorkerPool B"] });
    const bare = makeAteom("A", "bare", { owners: [] });
    expect(after(n1, [forged, bare])).toBe(n1);
    expect(findings(n1, ATELET, { pods: [bare] })).toHaveLength(1);
  });

  it("F-B5 F-E4 pods that have failed or succeeded mark nothing", () => {
    const node = after(n1, [makeAteom("A", "a")]);
    const ended = [makeAteom("A", "a", { phase: "Failed" }), makeAteom("A", "b", { phase: "Succeeded" })];
    expect(marked(after(node, ended))).toBe("");
  });

  it("F-B6 F-E7 a node that is made anew is marked again, and one that is being deleted is left alone", () => {
    const pods = [makeAteom("A", "a")];
    after(n1, pods);
    expect(marked(after(makeNode(), pods))).toBe("A");
    const deleted = { ...n1, metadata: { ...n1.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
    expect(after(deleted, pods)).toBe(deleted);
  });

  it("F-B10 F-E14 pods without the uid label count by their owners, without a restart", () => {
    const old = makeAteom("A", "a", { labels: { "ate.dev/worker-pool": "pool" } });
    expect(after(n1, [old])).toBe(n1);
    expect(marked(after(n1, [old], OWNER_UID))).toBe("A");
  });

  it("F-B2 F-E2 marks whose pods went while nobody watched are taken off at the first look", () => {
    const node = after(n1, [makeAteom("A", "a"), makeAteom("B", "b")]);
    expect(marked(after(node, [makeAteom("B", "b")]))).toBe("B");
    expect(marked(after(node, []))).toBe("");
  });

  it("F-E5 F-E6 F-E11 old and new pool of a node are claimed together, and apart again", () => {
    const [old, fresh] = [makeAteom("old", "a"), makeAteom("new", "b")];
    let node = after(n1, [old]);
    node = after(node, [old, fresh]);
    expect(marked(node)).toBe("new old");
    expect(marked(after(node, [fresh]))).toBe("new");
    const relabelled = makeAteom("new", "a");
    expect(marked(after(after(n1, [old]), [relabelled]))).toBe("new");
  });

  it("F-E18 what the other controller has set is adopted where it is needed, and pruned where it is not", () => {
    const theirs = editNode(n1, {
      labels: { "ate.dev/atelet": "true" },
      annotations: { "ate.dev/claim.A": "", "ate.dev/claim.gone": "" },
    });
    const node = after(theirs, [makeAteom("A", "a")]);
    expect(marked(node)).toBe("A");
    expect([...owned(node).keys()].sort()).toEqual(["annotation/ate.dev/claim.A", "label/ate.dev/atelet"]);
    expect(marked(after(node, []))).toBe("");
  });

  it("F-E19 a cordoned node is as any other", () => {
    const cordoned = makeNode({ unschedulable: true });
    expect(
      marked(after(after(cordoned, [makeAteom("A", "a")]), [makeAteom("A", "a", { isEnding: true })])),
    ).toBe("A");
  });
});

it("labels a node that more groups need than can claim it", () => {
  const key = "ate.dev/worker-pool-uid";
  const claims = { annotationPrefix: "ate.dev/claim." };
  const specs: Specs = {
    all: {
      workloads: [{ podSelector: { matchExpressions: [{ key, operator: "Exists" }] } }],
      group: { by: "PodLabel", label: key },
      node: { label: { key: "ate.dev/atelet" }, claims },
    },
  };
  const pods = Array.from({ length: 300 }, (_, at) => makeAteom(`g${at + 100}`, `p${at}`));
  const node = after(n1, pods, specs);
  expect(marked(node).split(" ")).toEqual(Array.from({ length: 256 }, (_, at) => `g${at + 100}`));
  expect(node.metadata?.labels?.["ate.dev/atelet"]).toBe("true");
  expect(findings(n1, specs, { pods })).toEqual([
    "warning FootprintClaimsCapped: pods of 300 groups need the agent; the first 256 by name claim the node",
  ]);
});

describe("F-E1 F-E12 pods that have lost their owner", () => {
  const bare = (pool: string, owners: readonly string[] = []): Pod => makeAteom(pool, "a", { owners });

  it("keep the claim that stands for them, and bring none", () => {
    const node = after(n1, [makeAteom("A", "a")]);
    expect(after(node, [bare("A")])).toBe(node);
    expect(after(node, [bare("A", ["apps/ReplicaSet rs"])])).toBe(node);
    expect(marked(after(node, [bare("B")]))).toBe("");
  });

  it("F-E11 keep the claim that stands for them when another pool has taken over what they were made by", () => {
    const taken = bare("A", ["ate.dev/WorkerPool B"]);
    const node = after(n1, [makeAteom("A", "a")]);
    expect(after(node, [taken])).toBe(node);
    expect(marked(after(node, [taken, makeAteom("B", "b")]))).toBe("A B");
    expect(marked(after(node, [makeAteom("B", "b")]))).toBe("B");
    expect(after(n1, [taken])).toBe(n1);
  });

  it("keep the label where there are no claims", () => {
    const spec: NodeFootprintSpec = {
      workloads: [
        { podSelector: { matchExpressions: [{ key: "ate.dev/worker-pool-uid", operator: "Exists" }] } },
      ],
      group: {
        by: "PodLabel",
        label: "ate.dev/worker-pool-uid",
        owner: { group: "ate.dev", kind: "WorkerPool" },
      },
      node: { label: { key: "ate.dev/atelet" } },
    };
    const node = after(n1, [makeAteom("A", "a")], { f: spec });
    expect(node.metadata?.labels).toMatchObject({ "ate.dev/atelet": "true" });
    expect(after(node, [bare("A")], { f: spec })).toBe(node);
    expect(after(n1, [bare("A")], { f: spec })).toBe(n1);
  });

  it("keep all that stands where owners alone group them, and bring nothing", () => {
    const node = after(n1, [makeAteom("A", "a")], OWNER_UID);
    expect(after(node, [bare("A")], OWNER_UID)).toBe(node);
    expect(marked(after(node, [], OWNER_UID))).toBe("");
    expect(after(n1, [bare("A")], OWNER_UID)).toBe(n1);
    expect(findings(node, OWNER_UID, { pods: [bare("A")] })).toEqual([
      "info FootprintOwnerless: default/a: lost its owner, and counts for that owner until the pod ends",
    ]);
    expect(findings(n1, OWNER_UID, { pods: [bare("A")] })).toEqual([
      "info FootprintGroupRefused: default/a: no group that counts, and no agent for it; it has no owner of the kind that forms groups",
    ]);
  });
});

describe("what is not known yet", () => {
  it("keeps every mark that stands, whoever has set it", () => {
    const node = editNode(after(n1, [makeAteom("A", "a")]), { annotations: { "ate.dev/claim.B": "" } });
    expect(after(node, undefined)).toBe(node);
    expect(phases(node, ATELET, {})).toEqual([["Unknown", true]]);
  });

  it("lets new marks be set that are certain", () => {
    const observations = { ownersUnknown: new Set(["b"]) };
    const node = after(n1, [makeAteom("C", "c")]);
    const next = after(node, [makeAteom("A", "a"), makeAteom("B", "b")], ATELET, observations);
    expect(marked(next)).toBe("A C");
    expect(marked(after(next, [makeAteom("A", "a"), makeAteom("B", "b")]))).toBe("A B");
  });

  it("is not told of pods of which it is not known whether they matter", () => {
    const specs: Specs = {
      f: {
        preset: "agent-substrate/pr-134",
        workloads: [{ namespaceSelector: { matchLabels: { a: "b" } } }],
      },
    };
    const bare = makeAteom("A", "a", { owners: [] });
    expect(findings(n1, specs, { pods: [bare] })).toEqual([]);
    expect(phases(n1, specs, { pods: [makeAteom("A", "a")] })).toEqual([["Unknown", false]]);
    expect(findings(n1, specs, { pods: [bare], namespaces: { default: { a: "b" } } })).toHaveLength(1);
  });

  it("is nothing while no document has been read", () => {
    const capability = bindFootprints({ footprints: () => undefined, observations: sightOf({ pods: [] }) });
    const node = after(n1, [makeAteom("A", "a")]);
    expect(settle(node, [capability])).toBe(node);
    expect(
      capability.inputs(
        { node, owned: new Map() },
        {
          id: "label/ate.dev/atelet",
          value: "true",
          rule: "cluster/atelet",
          reason: "FootprintNeeded",
          foreign: "overwrite",
        },
      ),
    ).toEqual([]);
  });
});

describe("documents that come and go", () => {
  it("leave no mark behind", () => {
    const node = after(n1, [makeAteom("A", "a")]);
    expect(marked(after(node, [makeAteom("A", "a")], {}))).toBe("");
  });

  it("with a fault leave their marks as they are", () => {
    const node = after(n1, [makeAteom("A", "a")]);
    const faulty: Specs = { atelet: { ...ATELET["atelet"], node: { label: { key: "kubernetes.io/os" } } } };
    expect(after(node, [], faulty)).toBe(node);
  });

  it("in another source take the marks over, and those that nobody needs are taken off", () => {
    const node = after(n1, [makeAteom("A", "a"), makeAteom("B", "b")]);
    const footprints = compileFootprints({ sources: [documentsOf(ATELET, "config"), documentsOf(ATELET)] });
    const capability = bindFootprints({
      footprints: () => footprints,
      observations: sightOf({ pods: [makeAteom("B", "b")] }),
    });
    const next = settle(node, [capability]);
    expect(marked(next)).toBe("B");
    expect(new Set([...owned(next).values()].map(({ rule }) => rule))).toEqual(new Set(["config/atelet"]));
  });

  it("in another source with another label leave none of the old one, though the old document is still there", () => {
    const node = after(n1, [makeAteom("A", "a")]);
    const other: Specs = {
      atelet: {
        workloads: [{ podSelector: { matchLabels: { a: "b" } } }],
        node: { label: { key: "new.test/a" } },
      },
    };
    const { footprints: before } = footprintsOf(ATELET);
    const sources = [documentsOf(other, "config"), documentsOf(ATELET)];
    const footprints = compileFootprints({ sources, before });
    const capability = bindFootprints({ footprints: () => footprints, observations: sightOf({ pods: [] }) });
    expect(marked(settle(node, [capability]))).toBe("");
  });
});

describe("F-E15 F-B9 a release that is delayed", () => {
  const specs: Specs = { atelet: { preset: "agent-substrate/pr-134", release: { delay: "30s" } } };

  it("waits, and is forgotten when a pod comes back in time", () => {
    const pods = [makeAteom("A", "a")];
    const node = after(n1, pods, specs);
    const policies = new Map([["footprint", footprintsOf(specs).policy]]);
    const withheld = (left: readonly Pod[], nowMs: number, before = nothingLeaving) => {
      const { changes } = planWith(node, [bound(specs, { pods: left })]);
      const now = { now: NEW_YEAR + nowMs, nowMs };
      return assessRemovals(before, {
        node: "n1",
        owned: owned(node),
        changes,
        policies,
        breakers: new RemovalBreakers(),
        ...now,
      });
    };
    const first = withheld([], 0);
    expect(first.withheld.size).toBe(2);
    expect(first.recheckAfterMs).toBe(30_000);
    expect(withheld([], 29_999, first.leaving).withheld.size).toBe(2);
    expect(withheld([], 30_000, first.leaving).withheld.size).toBe(0);
    expect(withheld(pods, 10_000, first.leaving).leaving.since.size).toBe(0);
  });
});

describe("marks of others", () => {
  const set = (foreign: "Preserve" | "Report" | "Reclaim"): Specs => ({
    atelet: { preset: "agent-substrate/pr-134", node: { foreign } },
  });
  const byHand = editNode(n1, { labels: { "ate.dev/atelet": "no" }, annotations: { "ate.dev/claim.X": "" } });

  it("are left where they are preserved", () => {
    expect(after(byHand, [], set("Preserve"))).toBe(byHand);
    expect(findings(byHand, set("Preserve"), { pods: [] })).toEqual([]);
    expect(marked(after(byHand, [makeAteom("A", "a")], set("Preserve")))).toBe("no, A X");
  });

  it("F-B3 are left and told of where they are reported, while they are not needed", () => {
    expect(after(byHand, [], set("Report"))).toBe(byHand);
    expect(findings(byHand, set("Report"), { pods: [] })).toEqual([
      "warning ForeignFootprintMark: no pod on the node needs annotation/ate.dev/claim.X, label/ate.dev/atelet, and Berth did not set it",
    ]);
    expect(phases(byHand, set("Report"), { pods: [] })).toEqual([
      ["Foreign", false],
      ["Idle", true],
    ]);
    const node = after(n1, [makeAteom("A", "a")], set("Report"));
    expect(findings(node, set("Report"), { pods: [makeAteom("A", "a")] })).toEqual([]);
    expect(findings(byHand, set("Report"), { pods: undefined })).toEqual([
      "info FootprintUnknown: Berth does not know yet which pods need the agent, so it changes nothing",
    ]);
  });

  it("are replaced where they are reclaimed", () => {
    expect(marked(after(byHand, [makeAteom("A", "a")], set("Reclaim")))).toBe("A");
  });
});

describe("nodes that are excluded", () => {
  const specs: Specs = {
    atelet: {
      preset: "agent-substrate/pr-134",
      node: { excludeSelector: { matchLabels: { type: "virtual" } } },
    },
  };

  it("are never touched", () => {
    const virtual = makeNode({ labels: { type: "virtual", "ate.dev/atelet": "true" } });
    expect(after(virtual, [makeAteom("A", "a")], specs)).toBe(virtual);
    expect(phases(virtual, specs, { pods: [] })).toEqual([["Excluded", true]]);
    const before = after(n1, [makeAteom("A", "a")], specs);
    const became = editNode(before, { labels: { type: "virtual" } });
    expect(after(became, [], specs)).toBe(became);
    expect(marked(after(became, [], {}))).toBe("");
  });
});
