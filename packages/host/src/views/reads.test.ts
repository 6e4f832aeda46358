import { type ConfigMap, configMaps } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createViews, type Reads } from "./reads.ts";
import { setUp } from "./testing/informer-setup.ts";
import { objectOf } from "./testing/streams.ts";

interface Asked {
  readonly red: readonly string[];
  readonly blue?: boolean;
  readonly keeps?: readonly string[];
}
interface Objects {
  readonly red: ConfigMap;
  readonly blue: ConfigMap;
}

const project = (object: ConfigMap): ConfigMap => object;
const indexes = { all: () => ["all"] };
const reads: Reads<Objects, Asked> = {
  red: {
    name: "red",
    resource: configMaps,
    wanted: ({ red, keeps = [] }) =>
      red.map((labelSelector) => ({ scope: { labelSelector }, project, indexes, keeps })),
  },
  blue: {
    name: "blue",
    resource: configMaps,
    isMinor: true,
    wanted: ({ blue }) => (blue ? [{ scope: { labelSelector: "blue" }, project }] : []),
  },
};

function viewing() {
  const setup = setUp();
  const seen: string[] = [];
  const views = createViews(reads, {
    ...setup.at,
    concerns: { red: ({ object }, { red }) => [`${object.metadata?.name} of ${red.size}`] },
    onKeys: (keys, of) => void seen.push(...Array.from(keys, (key) => `${of}: ${key}`)),
    onAll: (of) => void seen.push(`${of} read`),
  });
  const stop = new AbortController();
  const ends = Promise.all(views.components.map(async (one) => (await one.start(stop.signal)).ended));
  return {
    ...setup,
    views,
    seen,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ends;
    },
  };
}

describe("the views of declared reads", () => {
  it("tell what was not read from what is not there, for each read", async () => {
    await using it = viewing();
    const { views, clock } = it;
    expect([views.isRead, views.red.synced, views.red.find("a", "ns")]).toEqual([false, false, undefined]);
    views.want({ red: ["a"] });
    expect([views.isRead, views.red.find("x", "ns")]).toEqual([false, undefined]);
    await clock.advance(100);
    expect([views.isRead, views.red.find("x", "ns"), views.red.find("a", "ns")?.metadata?.name]).toEqual([
      true,
      null,
      "a",
    ]);
    expect([views.blue.synced, views.blue.find("blue", "ns")]).toEqual([false, undefined]);
    views.want({ red: ["a"], blue: true });
    expect(views.isRead).toBe(false);
    await clock.advance(100);
    expect([views.isRead, views.blue.synced]).toEqual([true, true]);
    views.want({ red: [] });
    expect([views.isRead, views.red.find("a", "ns"), views.red.size]).toEqual([false, undefined, 0]);
  });

  it("join the scopes of a read, and give each by itself", async () => {
    await using it = viewing();
    const { views, clock } = it;
    views.want({ red: ["a", "b"] });
    await clock.advance(100);
    expect(Array.from(views.red.list(), ({ metadata }) => metadata?.name)).toEqual(["a", "b"]);
    expect(views.red.byIndex("all", "all")).toHaveLength(2);
    expect(views.red.at({ labelSelector: "b" })?.byIndex("all", "all")).toHaveLength(1);
    expect(views.red.at({ labelSelector: "c" })).toBeUndefined();
    views.want({ red: ["b"] });
    expect(views.red.byIndex("all", "all").map(({ metadata }) => metadata?.name)).toEqual(["b"]);
  });

  it("read a scope again for more of its objects, and not for less", async () => {
    await using it = viewing();
    const { views, clock, streams } = it;
    const readings: (number | undefined)[] = [];
    for (const keeps of [["x"], ["x", "y"], ["y"], ["x"], ["z"]]) {
      views.want({ red: ["a"], keeps });
      readings.push(streams.snapshots.get("a"));
      await clock.advance(100);
    }
    expect([...readings, streams.snapshots.get("a")]).toEqual([undefined, 1, 2, 2, 2, 3]);
  });

  it("pass on the keys that a change concerns, after the first reading", async () => {
    await using it = viewing();
    const { views, clock, streams, seen } = it;
    views.want({ red: ["a"], blue: true });
    await clock.advance(100);
    expect(seen.splice(0).toSorted()).toEqual(["blue read", "red read"]);
    for (const name of ["a", "blue"])
      streams.open
        .get(name)?.[0]
        ?.tell({ type: "MODIFIED", object: objectOf(name, "2", { changed: "yes" }) });
    await clock.advance(100);
    expect(seen).toEqual(["red: a of 1"]);
  });

  it("report a problem, and for a minor read a note", async () => {
    await using it = viewing();
    const { views, clock, streams } = it;
    streams.failures.set("watch", { kind: "forbidden" });
    views.want({ red: [], blue: true });
    await clock.advance(5_000);
    expect([views.problem(), views.blue.note()?.includes("forbidden")]).toEqual([undefined, true]);
    views.want({ red: ["a"], blue: true });
    await clock.advance(5_000);
    expect(views.problem()).toContain("configmaps with a: watch configmaps is forbidden");
  });
});
