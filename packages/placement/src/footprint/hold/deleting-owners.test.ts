/** Which owners are looked at for which change: a look reads all pods of a namespace, and pods change all the time. */
import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { footprintOf } from "../testing/footprints.ts";
import { makeAteom, makePod, sightOf } from "../testing/pods.ts";
import { DeletingOwners, type DeletingSight } from "./deleting-owners.ts";

const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
const byLabel = footprintOf({ preset: "agent-substrate/pr-134" });
const byOwner = footprintOf({ preset: "agent-substrate/owner-uid" });
const believed = footprintOf({
  workloads: [{ podSelector: { matchExpressions: [{ key: "pool", operator: "Exists" }] } }],
  node: { label: { key: "x.test/agent" } },
  group: { by: "PodLabel", label: "pool" },
});

interface Key {
  readonly resource: string;
  readonly namespace: string;
  readonly uid: string;
}

/** Owners `a`, `b` in `default`, `c` elsewhere, and `everywhere`, which is in no namespace. */
function deleting(footprint = byOwner, more: Partial<DeletingSight> = {}): DeletingOwners<Key> {
  const owners = new DeletingOwners<Key>({
    owners: (pod) => sightOf({}).owners(pod),
    guards: () => [{ resource, finalizer: "x.test/hold", footprints: [footprint] }],
    refsOf: () => undefined,
    ...more,
  });
  const places = { a: "default", b: "default", c: "elsewhere", everywhere: "" };
  for (const [uid, namespace] of Object.entries(places))
    owners.put(uid, { resource: "workerpools.ate.dev", namespace, uid }, uid);
  return owners;
}

const uids = (keys: readonly Key[]): readonly string[] => keys.map(({ uid }) => uid);

describe("a pod that changes concerns", () => {
  it.each([
    ["by label", byLabel],
    ["by owner", byOwner],
  ])("the owner that it has, and no other of the namespace, %s", (_name, footprint) => {
    const owners = deleting(footprint);
    expect(uids(owners.ofPod(makeAteom("a", "p"), false))).toEqual(["a"]);
    expect(uids(owners.ofPod(makeAteom("other", "p"), false))).toEqual([]);
    expect(uids(owners.ofPod(makeAteom("a", "p", { namespace: "elsewhere" }), false))).toEqual([]);
    expect(uids(owners.ofPod(makeAteom("everywhere", "p", { namespace: "elsewhere" }), false))).toEqual([
      "everywhere",
    ]);
  });

  it("the owner that a label names, where labels are believed, in any namespace", () => {
    const pod = makePod("p", { labels: { pool: "a" }, namespace: "far" });
    expect(uids(deleting(believed).ofPod(pod, false))).toEqual(["a"]);
    expect(uids(deleting(believed).in("far"))).toEqual(["a", "b", "c", "everywhere"]);
    expect(uids(deleting(byOwner).in("default"))).toEqual(["a", "b", "everywhere"]);
  });

  it("each one of its namespace when what is above it is gone: it may have been of any", () => {
    const maker = { group: "apps", kind: "ReplicaSet", resource: "replicasets", name: "r", uid: "r" };
    const owners = (isAbandoned: boolean): DeletingOwners<Key> =>
      deleting(byOwner, { owners: () => [{ ...maker, isAbandoned }] });
    const pod = makeAteom("other", "p");
    expect(uids(owners(true).ofPod(pod, false))).toEqual(["a", "b", "everywhere"]);
    expect(uids(owners(false).ofPod(pod, false))).toEqual([]);
  });

  it("the owner that has taken over what is above it, as a watch tells", () => {
    const owners = deleting(byOwner, {
      refsOf: (_guard, _namespace, uid) => (uid === "d" ? ["b"] : undefined),
    });
    expect(uids(owners.ofPod(makeAteom("old", "p"), false))).toEqual(["b"]);
  });

  it("the owner whose it was, when what was between has gone, and all near it after a restart", () => {
    const labels = { "ate.dev/worker-pool": "pool" };
    const pod = makePod("p", { labels, owners: ["apps/ReplicaSet rs"] });
    const owners = deleting();
    expect(uids(owners.ofPod(pod, false))).toEqual([]);
    owners.looked("b", { unread: [], known: new Set(["uid-p"]) });
    expect(uids(owners.ofPod(pod, false))).toEqual(["b"]);
    expect(uids(deleting(byOwner, { owners: () => [] }).ofPod(pod, false))).toEqual(["a", "b", "everywhere"]);
    const bare = makePod("bare", { labels });
    expect(uids(owners.ofPod(bare, false))).toEqual([]);
  });

  it("nobody while its owners are not known, and all near it when it goes before they are", () => {
    const owners = deleting(byOwner, { owners: () => undefined });
    expect(uids(owners.ofPod(makeAteom("a", "p"), false))).toEqual([]);
    expect(uids(owners.ofPod(makeAteom("a", "p"), true))).toEqual(["a", "b", "everywhere"]);
  });
});

describe("owners that wait for what is read", () => {
  it("are looked at once all of it is known, each pod asked for once for all of them", () => {
    const known = new Set<Pod>();
    let asked = 0;
    const owners = deleting(byOwner, {
      owners: (pod) => {
        asked++;
        return known.has(pod) ? [] : undefined;
      },
    });
    const pods = [makeAteom("x", "p1"), makeAteom("x", "p2")] as const;
    for (const of of ["a", "b"]) owners.looked(of, { unread: pods, known: new Set() });
    expect(uids(owners.known())).toEqual([]);
    expect(asked).toBe(1);
    known.add(pods[1]);
    expect(uids(owners.known())).toEqual([]);
    known.add(pods[0]);
    expect(uids(owners.known())).toEqual(["a", "b"]);
    expect(uids(owners.known())).toEqual([]);
  });

  it("forget it with the owner, and with another one of its name", () => {
    const owners = deleting();
    const look = { unread: [makeAteom("x", "p")], known: new Set<string>() };
    for (const of of ["a", "b"]) owners.looked(of, look);
    expect(owners.delete("a")).toBe(true);
    expect(owners.delete("a")).toBe(false);
    owners.looked("a", look);
    expect(owners.put("b", { resource: "workerpools.ate.dev", namespace: "default", uid: "b2" }, "b2")).toBe(
      false,
    );
    expect(uids(owners.known())).toEqual([]);
    expect(uids(owners.withUid(new Set(["b2", "a"])))).toEqual(["b2"]);
    owners.deleteAll("workerpools.ate.dev");
    expect(owners.keys()).toEqual([]);
  });
});

describe("3,000 pods that go in a namespace where 1,000 owners are being deleted", () => {
  it("have each owner looked at only for its own", () => {
    const owners = new DeletingOwners<Key>({
      owners: (pod) => sightOf({}).owners(pod),
      guards: () => [{ resource, finalizer: "x.test/hold", footprints: [byOwner] }],
      refsOf: () => undefined,
    });
    for (let at = 0; at < 1_000; at++)
      owners.put(
        `w${at}`,
        { resource: "workerpools.ate.dev", namespace: "default", uid: `w${at}` },
        `w${at}`,
      );
    let looks = 0;
    for (let at = 0; at < 3_000; at++) looks += owners.ofPod(makeAteom(`w${at}`, `p${at}`), true).length;
    expect(looks).toBe(1_000);
  });
});
