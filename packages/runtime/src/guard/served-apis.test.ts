import { ApiError, defineResource, type KubeClient, nameOfResource, type Resource } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { ASKED_MS, CRD_MS, FIRST_LOOK_MS, LAST_LOOK_MS, ServedApis } from "./served-apis.ts";

const kind = (plural: string, group = "a.test"): Resource =>
  defineResource({ group, version: "v1", plural, kind: plural, namespaced: false });
const [things, widgets, others] = [kind("things"), kind("widgets"), kind("others", "b.test")] as const;

interface Served {
  /** What discovery names: `v1` of each group. */
  resources: readonly Resource[];
  /** Names groups and versions only. */
  isOld?: boolean;
  failure?: "forbidden" | "notFound" | "serverError";
}

function documentOf({ resources, isOld, failure }: Served): string {
  if (failure !== undefined) {
    const error = failure === "serverError" ? ({ kind: failure, status: 500 } as const) : { kind: failure };
    throw new ApiError(error, { verb: "get", resource: "/apis" });
  }
  const groups = [...Map.groupBy(resources, ({ group }) => group)];
  if (isOld)
    return JSON.stringify({
      groups: groups.map(([group]) => ({ versions: [{ groupVersion: `${group}/v1` }] })),
    });
  const versions = (of: readonly Resource[]): unknown => [
    { version: "v0" },
    { version: "v1", resources: of.map(({ plural: resource }) => ({ resource })) },
  ];
  return JSON.stringify({
    items: groups.map(([name, of]) => ({ metadata: { name }, versions: versions(of) })),
  });
}

/** Discovery of a server that serves nothing at first, and a watch of its CRDs. */
function setUp({ watchesCrds = false, mayWatch = true } = {}) {
  const clock = createVirtualClock();
  const state: Served = { resources: [] };
  const looks: number[] = [];
  const crds = {
    opened: 0,
    isOpen: false,
    change: (_name: string): void => undefined,
    end: (): void => undefined,
  };
  const streamed = (signal: AbortSignal | undefined): AsyncIterable<unknown> => {
    const { readable, writable } = new TransformStream<unknown, unknown>();
    const writer = writable.getWriter();
    crds.isOpen = true;
    crds.change = (name) => void writer.write({ type: "MODIFIED", object: { metadata: { name } } });
    crds.end = () => {
      crds.isOpen = false;
      void writer.close();
    };
    signal?.addEventListener("abort", crds.end, { once: true });
    return readable;
  };
  const client = {
    read: async () => {
      looks.push(clock.monotonic());
      return documentOf(state);
    },
    list: async () => {
      crds.opened++;
      if (mayWatch) return { items: [], metadata: { resourceVersion: "7" } };
      throw new ApiError({ kind: "forbidden" }, { verb: "list", resource: "crds" });
    },
    watch: async (_resource: unknown, { signal }: { signal?: AbortSignal }) => streamed(signal),
  };
  const apis = new ServedApis({
    clock,
    random: () => 0,
    watchesCrds,
    client: client as unknown as KubeClient,
  });
  const found: string[] = [];
  const wait = (resource: Resource, signal: AbortSignal = new AbortController().signal): void =>
    void apis.whenServed(resource, signal).then(() => found.push(resource.plural));
  const looksIn = async (ms: number): Promise<number> => {
    const before = looks.length;
    await clock.advance(ms);
    return looks.length - before;
  };
  return { clock, state, looks, crds, apis, found, wait, looksIn };
}

/** After this time the wait is the longest one, and has just begun. */
const CALM_MS = 3_616_000;
/** The waits between looks, by doubling. */
const WAITS = [5, 10, 20, 40, 80, 160, 300, 300].map((seconds) => seconds * 1000);

describe("B12 a missing API", () => {
  it("is asked for with one request for all kinds and groups that are missing, until it names the kind", async () => {
    const { clock, looks, state, found, wait, looksIn } = setUp();
    for (const resource of [things, widgets, others]) wait(resource);
    expect(await looksIn(FIRST_LOOK_MS - 1)).toBe(0);
    expect(await looksIn(1)).toBe(1);
    state.resources = [things];
    expect(await looksIn(2 * FIRST_LOOK_MS)).toBe(1);
    expect(found).toEqual(["things"]);
    state.resources = [things, widgets, others];
    await clock.advance(LAST_LOOK_MS);
    expect(found.toSorted()).toEqual(["others", "things", "widgets"]);
    expect(looks).toHaveLength(3);
    expect(await looksIn(10 * LAST_LOOK_MS)).toBe(0);
  });

  it("is asked for less and less often, in the end every 5 minutes", async () => {
    const { wait, looksIn } = setUp();
    wait(things);
    for (const waitMs of WAITS) {
      expect(await looksIn(waitMs - 1)).toBe(0);
      expect(await looksIn(1)).toBe(1);
    }
  });

  it("is asked for soon when another one is missing too", async () => {
    const { wait, looksIn } = setUp();
    wait(things);
    await looksIn(CALM_MS);
    wait(widgets);
    expect(await looksIn(FIRST_LOOK_MS)).toBe(1);
    expect(await looksIn(2 * FIRST_LOOK_MS)).toBe(1);
  });

  it("is asked for within 20 s after a request that found nothing, however many there are", async () => {
    const { apis, wait, looksIn } = setUp();
    wait(things);
    await looksIn(CALM_MS);
    apis.asked(nameOfResource(widgets));
    expect(await looksIn(ASKED_MS)).toBe(0);
    let seen = 0;
    for (let second = 0; second < 60; second++) {
      apis.asked(nameOfResource(things));
      seen += await looksIn(1_000);
    }
    expect(seen).toBe(60_000 / ASKED_MS);
    expect(await looksIn(LAST_LOOK_MS)).toBe(1);
  });

  it("is served once a request about it has succeeded, without a look", async () => {
    const { apis, found, wait, looksIn } = setUp();
    for (const resource of [things, widgets]) wait(resource);
    apis.answered(nameOfResource(things));
    expect(await looksIn(0)).toBe(0);
    expect(found).toEqual(["things"]);
  });

  it.each([
    ["names it and does not serve it", { resources: [things] }],
    ["names versions only", { resources: [things], isOld: true }],
    ["does not allow discovery", { resources: [], failure: "forbidden" }],
  ] as const)("is tried every 5 minutes where the server %s", async (_what, served) => {
    const { apis, clock, state, found, wait, looksIn } = setUp();
    Object.assign(state, served);
    for (const waitMs of WAITS) {
      wait(things);
      await clock.advance(0);
      expect(await looksIn(waitMs - 1)).toBe(0);
      expect([await looksIn(1), found.splice(0)]).toEqual([1, ["things"]]);
    }
    // Once it was served, its end is news.
    apis.answered(nameOfResource(things));
    wait(things);
    expect(await looksIn(FIRST_LOOK_MS)).toBe(1);
  });

  it.each(["notFound", "serverError"] as const)(
    "stays missing while discovery fails: %s",
    async (failure) => {
      const { state, found, wait, looksIn } = setUp();
      Object.assign(state, { failure, resources: [things] });
      wait(things);
      await looksIn(3_600_000);
      expect(found).toEqual([]);
      delete state.failure;
      await looksIn(LAST_LOOK_MS);
      expect(found).toEqual(["things"]);
    },
  );

  it("is asked for by the others when one that waited has stopped, and by none when all have", async () => {
    const { found, wait, looksIn } = setUp({ watchesCrds: true });
    const [one, both] = [new AbortController(), new AbortController()];
    wait(things, one.signal);
    wait(widgets, both.signal);
    one.abort();
    expect(await looksIn(FIRST_LOOK_MS)).toBe(1);
    both.abort();
    expect(await looksIn(3_600_000)).toBe(0);
    expect(found).toEqual(["things", "widgets"]);
    wait(things, both.signal);
    expect(await looksIn(3_600_000)).toBe(0);
  });
});

describe("B12 the watch of CRDs", () => {
  it("shows a CRD that appears, within 1 s; no other CRD costs a look", async () => {
    const { crds, state, found, wait, looksIn } = setUp({ watchesCrds: true });
    wait(things);
    await looksIn(CALM_MS);
    crds.change("others.b.test");
    expect(await looksIn(CRD_MS)).toBe(0);
    crds.change("things.a.test");
    state.resources = [things];
    expect(await looksIn(CRD_MS)).toBe(1);
    expect([found, crds.opened, crds.isOpen]).toEqual([["things"], 1, false]);
  });

  it("is opened again with the look after its end, and is left out without permission", async () => {
    const { crds, wait, looksIn } = setUp({ watchesCrds: true });
    wait(things);
    await looksIn(3_600_000);
    crds.end();
    expect(await looksIn(LAST_LOOK_MS)).toBe(1);
    expect([crds.opened, crds.isOpen]).toEqual([2, true]);
    const without = setUp({ watchesCrds: true, mayWatch: false });
    without.wait(things);
    const looks = await without.looksIn(3_600_000);
    expect(without.crds.opened).toBe(looks);
    const none = setUp();
    none.wait(things);
    await none.looksIn(3_600_000);
    expect(none.crds.opened).toBe(0);
  });
});
