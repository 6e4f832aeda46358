import type { KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { type IndexFunction, ObjectStore, type Snapshot } from "./object-store.ts";

function object(name: string, uid: string, resourceVersion: string, zone?: string): KubeObject {
  const labels = zone === undefined ? {} : { zone };
  return { metadata: { name, uid, resourceVersion, labels } };
}

const byZone: IndexFunction<KubeObject> = ({ metadata }) => Object.values(metadata?.labels ?? {});

function snapshot(store: ObjectStore<KubeObject>, ...objects: readonly KubeObject[]): Snapshot<KubeObject> {
  const begun = store.beginSnapshot();
  for (const one of objects) begun.put(one);
  return begun;
}

it("keeps a cluster-scoped object apart from a namespaced one of the same name", () => {
  const store = new ObjectStore();
  store.upsert({ metadata: { name: "a", uid: "1" } });
  store.upsert({ metadata: { name: "a", namespace: "n", uid: "2" } });
  expect(store.size).toBe(2);
  expect(store.get("n/a")?.metadata?.uid).toBe("2");
});

it("a deletion tells the last state, which is that of the deletion when it was seen", () => {
  const store = new ObjectStore();
  const last = object("a", "1", "30");
  store.upsert(object("a", "1", "10"));
  expect(store.remove(last)).toEqual([{ type: "deleted", object: last }]);
  expect(store.remove(last)).toEqual([]);
});

it("a deletion tells the last state known when a snapshot shows it", () => {
  const store = new ObjectStore();
  const known = object("a", "1", "10");
  store.upsert(known);
  expect([...store.replace(snapshot(store))]).toEqual([{ type: "deleted", object: known }]);
  expect(store.size).toBe(0);
});

describe("an index", () => {
  it("is that of the last version that a snapshot came to hold, and nothing until it is taken over", () => {
    const store = new ObjectStore({ zone: byZone });
    store.upsert(object("z", "9", "9", "west"));
    const begun = snapshot(store, object("a", "1", "10", "west"), object("b", "2", "11", "west"));
    begun.put(object("a", "1", "12", "east"));
    begun.remove(object("b", "2", "13"));
    expect(store.byIndex("zone", "west").map(({ metadata }) => metadata?.name)).toEqual(["z"]);
    store.replace(begun);
    expect(store.byIndex("zone", "west")).toEqual([]);
    expect(store.byIndex("zone", "east").map(({ metadata }) => metadata?.name)).toEqual(["a"]);
  });

  it("holds any number of objects with one value, each once, and forgets each one", () => {
    const store = new ObjectStore({
      zone: ({ metadata }) => [...byZone({ metadata: metadata ?? {} }), "west"],
    });
    const names = Array.from({ length: 40 }, (_, index) => `node-${index}`);
    const west = (): readonly string[] =>
      store.byIndex("zone", "west").map(({ metadata }) => metadata?.name ?? "");
    for (const [index, name] of names.entries()) {
      store.upsert(object(name, name, "1", "west"));
      expect(west()).toEqual(names.slice(0, index + 1));
    }
    for (const [index, name] of names.entries()) {
      store.remove(object(name, name, "2"));
      expect(west()).toEqual(names.slice(index + 1));
    }
  });

  it("leaves out, and reports, an object whose index function throws", () => {
    const failures: string[] = [];
    const store = new ObjectStore<KubeObject>(
      {
        odd(one) {
          if (one.metadata?.name === "bad") throw new Error("cannot read this one");
          return ["found"];
        },
      },
      (index, one, error) => failures.push(`${index} ${one.metadata?.name} ${String(error)}`),
    );
    expect(store.upsert(object("bad", "1", "10"))).toHaveLength(1);
    expect(store.upsert(object("good", "2", "11"))).toHaveLength(1);
    expect(store.byIndex("odd", "found")).toHaveLength(1);
    expect([...store.replace(snapshot(store, object("bad", "1", "12")))]).toHaveLength(2);
    expect(store.byIndex("odd", "found")).toEqual([]);
    expect(store.size).toBe(1);
    expect(failures).toContain("odd bad Error: cannot read this one");
  });
});
