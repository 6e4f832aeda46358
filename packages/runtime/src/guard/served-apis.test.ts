import { ApiError, defineResource, type Resource } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { DISCOVERY_MS, ServedApis } from "./served-apis.ts";

const kind = (plural: string, group = "a.test"): Resource =>
  defineResource({ group, version: "v1", plural, kind: plural, namespaced: false });

/** Discovery of a server that serves nothing at first. */
function setUp() {
  const clock = createVirtualClock();
  const read: string[] = [];
  const state = { served: [] as readonly string[] };
  const apis = new ServedApis({
    clock,
    client: {
      read: async (path) => {
        read.push(path);
        if (state.served.length > 0)
          return JSON.stringify({ resources: state.served.map((name) => ({ name })) });
        throw new ApiError({ kind: "notFound" }, { verb: "get", resource: path });
      },
    },
  });
  const stop = new AbortController();
  const found: string[] = [];
  const wait = (resource: Resource, { signal } = stop): void =>
    void apis.whenServed(resource, signal).then(() => found.push(resource.plural));
  return { clock, read, state, stop, found, wait };
}

describe("a missing API", () => {
  it("is asked for once by all who wait for kinds of its group, until it names the kind", async () => {
    const { clock, read, state, found, wait } = setUp();
    for (const plural of ["things", "widgets"]) wait(kind(plural));
    wait(kind("pods", ""));
    await clock.advance(DISCOVERY_MS - 1);
    expect(read).toEqual([]);
    await clock.advance(1);
    expect(read).toEqual(["/apis/a.test/v1", "/api/v1"]);
    state.served = ["things"];
    await clock.advance(DISCOVERY_MS);
    expect(found).toEqual(["things"]);
    state.served = ["things", "widgets", "pods"];
    await clock.advance(DISCOVERY_MS);
    expect([found.toSorted(), read.length]).toEqual([["pods", "things", "widgets"], 6]);
    await clock.advance(10 * DISCOVERY_MS);
    expect(read).toHaveLength(6);
  });

  it("is asked for by the others when the one that was about to ask has stopped", async () => {
    const { clock, read, state, stop, found, wait } = setUp();
    wait(kind("things"));
    const others = new AbortController();
    wait(kind("widgets"), others);
    stop.abort();
    state.served = ["things", "widgets"];
    await clock.advance(0);
    expect(found).toEqual(["things"]);
    await clock.advance(DISCOVERY_MS);
    expect([found, read.length]).toEqual([["things", "widgets"], 1]);
  });
});
