import type { KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { clusterName } from "./key.ts";
import { fromStates, toOwner, toSelf } from "./mapper.ts";

const cluster = clusterName("c");

function pod(
  name: string,
  ...owners: readonly { kind: string; name: string; controller?: boolean }[]
): KubeObject {
  const ownerReferences = owners.map((owner) =>
    Object.assign({ apiVersion: "apps/v1", uid: owner.name }, owner),
  );
  return { metadata: { name, namespace: "ns", ownerReferences } };
}

describe("mappers", () => {
  it("maps an object to itself", () => {
    expect([...toSelf(cluster)({ type: "deleted", object: pod("p") })]).toEqual([
      { cluster, namespace: "ns", name: "p" },
    ]);
  });

  it("maps to the managing owner of the kind and group asked for, before and after an update", () => {
    const map = toOwner({ cluster, kind: "DaemonSet", group: "apps" });
    const old = pod("p", { kind: "DaemonSet", name: "before", controller: true });
    const object = pod(
      "p",
      { kind: "DaemonSet", name: "after", controller: true },
      { kind: "DaemonSet", name: "bystander" },
      { kind: "ReplicaSet", name: "other", controller: true },
    );
    const names = [...map({ type: "updated", old, object })].map((key) => `${key.namespace}/${key.name}`);
    expect(names).toEqual(["ns/before", "ns/after"]);
    expect([...toOwner({ cluster, kind: "DaemonSet", group: "" })({ type: "updated", old, object })]).toEqual(
      [],
    );
  });

  it("maps to cluster-scoped owners when told so", () => {
    const map = toOwner({ cluster, kind: "Pool", group: "apps", namespaced: false });
    const object = pod("p", { kind: "Pool", name: "o", controller: true });
    const keys = [...map({ type: "added", object, initial: true })];
    expect(keys).toEqual([{ cluster, namespace: "", name: "o" }]);
  });

  it("maps both states of an update by any function", () => {
    const map = fromStates((object: KubeObject) => [object.metadata?.name ?? ""]);
    expect([...map({ type: "updated", old: pod("a"), object: pod("b") })]).toEqual(["a", "b"]);
    expect([...map({ type: "updated", old: pod("a"), object: pod("a") })]).toEqual(["a"]);
    expect([...map({ type: "deleted", object: pod("a") })]).toEqual(["a"]);
  });
});
