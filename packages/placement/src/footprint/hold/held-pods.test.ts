import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { OwnerIdentity } from "../footprint-observations.ts";
import { footprintOf } from "../testing/footprints.ts";
import { makeAteom, makePod, sightOf } from "../testing/pods.ts";
import { type DeletedOwner, MAX_UNREAD, type PodsAmong, podsOfOwner } from "./held-pods.ts";

const byLabel = footprintOf({ preset: "agent-substrate/pr-134" });
const byOwner = footprintOf({ preset: "agent-substrate/owner-uid" });
const believed = footprintOf({
  workloads: [
    { podSelector: { matchExpressions: [{ key: "ate.dev/worker-pool-uid", operator: "Exists" }] } },
  ],
  node: { label: { key: "x.test/agent" } },
  group: { by: "PodLabel", label: "ate.dev/worker-pool-uid" },
});

const A: DeletedOwner = {
  namespace: "default",
  uid: "a",
  refsOf: () => undefined,
  known: new Set(),
  isOrphaned: false,
  isForeground: false,
};
const REPLICA_SET: OwnerIdentity = {
  group: "apps",
  kind: "ReplicaSet",
  resource: "replicasets",
  name: "rs",
  uid: "rs",
};
const DEPLOYMENT: OwnerIdentity = {
  group: "apps",
  kind: "Deployment",
  resource: "deployments",
  name: "d",
  uid: "d",
};

function found(
  footprint: typeof byLabel,
  pods: readonly Pod[] | undefined,
  { owner = {}, chain }: { owner?: Partial<DeletedOwner>; chain?: readonly OwnerIdentity[] | undefined } = {},
): readonly string[] | undefined {
  const observations = { ...sightOf({ pods }), podsOf: () => pods, ...(chain && { owners: () => chain }) };
  return podsOfOwner(footprint, { ...A, known: new Set(), ...owner }, observations).pods?.map(
    ({ metadata }) => metadata?.name ?? "",
  );
}

describe("the pods that a deletion waits for", () => {
  it.each([
    ["by label", byLabel],
    ["by owner", byOwner],
  ])("are those of the owner, with a node or without, %s", (_name, footprint) => {
    const pods = [makeAteom("a", "p1"), makeAteom("b", "p2"), makeAteom("a", "p3", { node: "" })];
    expect(found(footprint, pods)).toEqual(["p1", "p3"]);
  });

  it("are not known before pods and owners are", () => {
    expect(found(byOwner, undefined)).toBeUndefined();
    const pods = [makeAteom("a", "p1")];
    const observations = { ...sightOf({ pods, ownersUnknown: new Set(["p1"]) }), podsOf: () => pods };
    expect(podsOfOwner(byOwner, A, observations)).toEqual({ pods: undefined, isUnread: true });
    expect(podsOfOwner(byLabel, { ...A, uid: "b" }, observations)).toEqual({ pods: [], isUnread: false });
  });

  it("are not known while it is not known of one of its own whether it counts, and are though it is not of another's", () => {
    const namespaceSelector = { matchLabels: { team: "x" } };
    const workloads = [
      {
        podSelector: { matchExpressions: [{ key: "ate.dev/worker-pool", operator: "Exists" }] },
        namespaceSelector,
      },
    ] as const;
    const footprint = footprintOf({ preset: "agent-substrate/owner-uid", workloads });
    const pods = [makeAteom("a", "p1", { namespace: "gone" }), makeAteom("a", "p2")];
    const observations = { ...sightOf({ namespaces: { default: { team: "x" } } }), podsOf: () => pods };
    const podsOf = (uid: string): unknown =>
      podsOfOwner(footprint, { ...A, known: new Set(), namespace: "", uid }, observations);
    expect(podsOf("a")).toEqual({ pods: undefined, isUnread: false });
    expect(podsOf("b")).toEqual({ pods: [], isUnread: false });
  });

  it("have all their owners asked for at once, up to a bound", () => {
    const pods = Array.from({ length: MAX_UNREAD + 5 }, (_, at) => makeAteom("a", `p${at}`));
    const asked = new Set<Pod>();
    const observations = {
      ...sightOf({ pods }),
      podsOf: () => pods,
      owners: (pod: Pod): undefined => void asked.add(pod),
    };
    expect(podsOfOwner(byOwner, A, observations).isUnread).toBe(true);
    expect(asked.size).toBe(MAX_UNREAD);
  });

  it("are looked for in the namespace of the owner, where they can be in no other, and by the label that groups", () => {
    const asked: PodsAmong[] = [];
    const observations = {
      ...sightOf({}),
      podsOf: (_: unknown, among: PodsAmong) => (asked.push(among), []),
    };
    for (const footprint of [byLabel, byOwner, believed]) podsOfOwner(footprint, A, observations);
    podsOfOwner(byOwner, { ...A, namespace: "" }, observations);
    expect(asked).toEqual([
      { namespace: "default", labelledUid: "a" },
      { namespace: "default" },
      { labelledUid: "a" },
      {},
    ]);
  });

  it("F-E4 F-E3 are none that are finished", () => {
    const pods = [
      makeAteom("a", "failed", { phase: "Failed" }),
      makeAteom("a", "done", { phase: "Succeeded", isEnding: true }),
      makeAteom("a", "ending", { isEnding: true }),
    ];
    expect(found(byLabel, pods)).toEqual(["ending"]);
  });

  it("F-E9 are none whose label names an owner that is not theirs", () => {
    const labels = { "ate.dev/worker-pool-uid": "a" };
    const forged = [
      makePod("bare", { labels }),
      makePod("other", { labels, owners: ["apps/ReplicaSet rs", "apps/Deployment d"] }),
      makePod("stranger", { labels, owners: ["ate.dev/WorkerPool b"] }),
    ];
    expect(found(byLabel, forged)).toEqual([]);
    expect(found(believed, forged)).toEqual(["bare", "other", "stranger"]);
  });

  it("F-B1 are none that were orphaned, though it was read before who was above them", () => {
    const pods = [makeAteom("a", "p1")];
    const refsOf = (uid: string): readonly string[] | undefined => (uid === "d" ? [] : undefined);
    const known = new Set(["uid-p1"]);
    for (const footprint of [byLabel, byOwner, believed])
      expect(found(footprint, pods, { owner: { refsOf, known } })).toEqual([]);
    expect(found(byOwner, pods, { owner: { refsOf: (uid) => (uid === "d" ? ["a"] : undefined) } })).toEqual([
      "p1",
    ]);
  });

  it("F-B1 are none that were orphaned of what is not among the owned resources", () => {
    const hold = {
      resource: { group: "ate.dev", version: "v1alpha1", resource: "workerpools" },
      finalizer: "x.test/hold",
      onDelete: "Wait",
      ownedResources: [],
    } as const;
    const wait = footprintOf({ preset: "agent-substrate/pr-134", hold });
    const owner = { known: new Set(["uid-p1"]), isOrphaned: true };
    expect(found(wait, [makeAteom("a", "p1")], { owner })).toEqual([]);
  });

  it("F-E11 are those of what it has taken over, though it was read before whose that was, and none that another has", () => {
    const pods = [makeAteom("old", "p1", { labels: { "ate.dev/worker-pool": "pool" } })];
    const refsOf = (uid: string): readonly string[] | undefined => (uid === "d" ? ["new"] : undefined);
    expect(found(byOwner, pods, { owner: { uid: "new", refsOf } })).toEqual(["p1"]);
    expect(found(byOwner, pods, { owner: { uid: "old", refsOf } })).toEqual([]);
    // What owns another object of the owned resources is no other owner.
    const both = (uid: string): readonly string[] | undefined => ({ rs: ["d"], d: ["old"] })[uid];
    expect(found(byOwner, pods, { owner: { uid: "old", refsOf: both } })).toEqual(["p1"]);
  });

  it("are none of what it owns together with another: that lives on", () => {
    const refsOf = (uid: string): readonly string[] | undefined => (uid === "d" ? ["a", "other"] : undefined);
    for (const footprint of [byLabel, byOwner])
      expect(found(footprint, [makeAteom("a", "p1")], { owner: { refsOf } })).toEqual([]);
  });

  it("are none that it controls itself and nobody deletes before it is gone", () => {
    const labels = { "ate.dev/worker-pool": "pool", "ate.dev/worker-pool-uid": "a" };
    const forged = makePod("forged", { labels, owners: ["ate.dev/WorkerPool a"] });
    const ending = makePod("ending", { labels, owners: ["ate.dev/WorkerPool a"], isEnding: true });
    for (const footprint of [byLabel, byOwner]) {
      expect(found(footprint, [forged, ending])).toEqual(["ending"]);
      expect(found(footprint, [forged], { owner: { isForeground: true } })).toEqual(["forged"]);
    }
    const pods = { group: "", version: "v1", resource: "pods" };
    const { resource, finalizer } = byOwner.hold ?? { resource: pods, finalizer: "" };
    for (const hold of [{ ownedResources: [pods] }, { onDelete: "Wait" }] as const) {
      const spec = { preset: "agent-substrate/owner-uid", hold: { resource, finalizer, ...hold } } as const;
      expect(found(footprintOf(spec), [forged])).toEqual(["forged"]);
    }
  });

  it.each(["StatefulSet", "ReplicaSet"])("are none of a %s that it controls and nobody deletes", (kind) => {
    const labels = { "ate.dev/worker-pool": "pool", "ate.dev/worker-pool-uid": "a" };
    const owners = [`apps/${kind} s`, "ate.dev/WorkerPool a"];
    const pod = makePod("p", { labels, owners });
    const ending = makePod("ending", { labels, owners, isEnding: true });
    for (const footprint of [byLabel, byOwner]) {
      expect(found(footprint, [pod, ending])).toEqual(["ending"]);
      expect(found(footprint, [pod], { owner: { isForeground: true } })).toEqual(["p"]);
    }
    const of = { group: "apps", version: "v1", resource: `${kind.toLowerCase()}s` };
    const { resource, finalizer } = byOwner.hold ?? { resource: of, finalizer: "" };
    for (const hold of [{ ownedResources: [of] }, { onDelete: "Wait" }] as const) {
      const spec = { preset: "agent-substrate/owner-uid", hold: { resource, finalizer, ...hold } } as const;
      expect(found(footprintOf(spec), [pod])).toEqual(["p"]);
    }
  });

  it("are those of what it has taken over directly, though something that nobody deletes was read between", () => {
    const owners = ["apps/ReplicaSet rs", "apps/Deployment d", "x.test/Middle m", "ate.dev/WorkerPool a"];
    const pods = [makeAteom("a", "p", { owners })];
    for (const footprint of [byLabel, byOwner]) {
      const refs = (refsOfD: readonly string[]) => (uid: string) => (uid === "d" ? refsOfD : undefined);
      expect(found(footprint, pods, { owner: { refsOf: refs(["m"]) } })).toEqual([]);
      expect(found(footprint, pods, { owner: { refsOf: refs(["a"]) } })).toEqual(["p"]);
    }
  });

  it("are none whose makers are of a kind that nobody knows: these may be forged, and are never told to be gone", () => {
    const labels = { "ate.dev/worker-pool": "pool", "ate.dev/worker-pool-uid": "a" };
    const forged = makePod("forged", { labels, owners: ["no.such/Maker m"] });
    for (const footprint of [byLabel, byOwner]) expect(found(footprint, [forged], { chain: [] })).toEqual([]);
  });

  it("are still those that were its own when what is between has gone", () => {
    const pods = [makeAteom("a", "p1")];
    const known = new Set<string>();
    expect(found(byOwner, pods, { owner: { known } })).toEqual(["p1"]);
    expect(found(byOwner, pods, { owner: { known }, chain: [REPLICA_SET] })).toEqual(["p1"]);
    expect(found(byOwner, pods, { chain: [REPLICA_SET, DEPLOYMENT] })).toEqual([]);
  });

  it("are after a restart those near it whose makers are gone: they end soon", () => {
    const pods = [makeAteom("a", "near"), makeAteom("a", "far", { namespace: "elsewhere" })];
    expect(found(byOwner, pods, { chain: [] })).toEqual(["near"]);
    expect(found(byOwner, pods, { chain: [], owner: { namespace: "" } })).toEqual(["near", "far"]);
  });

  it("are after a restart those whose maker is still there, and what had made that is gone", () => {
    const pods = [makeAteom("a", "p1"), makeAteom("b", "p2")];
    const chain = [{ ...REPLICA_SET, isAbandoned: true }];
    expect(found(byLabel, pods, { chain })).toEqual(["p1"]);
    expect(found(byLabel, pods, { chain: [REPLICA_SET] })).toEqual([]);
  });

  it("are none of a label that is believed once the owner has orphaned what it owned", () => {
    const pods = [makePod("bare", { labels: { "ate.dev/worker-pool-uid": "a" } })];
    expect(found(believed, pods)).toEqual(["bare"]);
    expect(found(believed, pods, { owner: { isOrphaned: true } })).toEqual([]);
  });
});
