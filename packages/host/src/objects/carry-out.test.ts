import { type ApiFailure, type DeleteOptions, namespaces } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { Intent } from "./intent.ts";
import { World } from "./testing/carry-out-world.ts";

const about = { reason: "Wanted", message: "it is wanted" };
const json: Intent = {
  ...about,
  do: "patch",
  patch: { type: "json", body: [{ op: "add", path: "/a", value: 1 }] },
};
const merge: Intent = {
  ...about,
  do: "patch",
  patch: { type: "merge", body: { metadata: { labels: { a: "b" } } } },
};
const applied: Intent = { ...about, do: "apply", manager: "m", body: { metadata: { name: "child" } } };
const evict: Intent = { ...about, do: "evict" };
const child: Intent = { ...applied, on: { resource: namespaces, seen: undefined } };
const created: Intent = {
  ...about,
  do: "create",
  body: { metadata: { name: "child" } },
  on: { resource: namespaces, seen: undefined },
};
const outdated: ApiFailure = { kind: "invalid", causes: [] };
const conflict: ApiFailure = { kind: "conflict", causes: [] };
const invalid: ApiFailure = { kind: "invalid", causes: [{ field: "spec" }] };
const denied: ApiFailure = { kind: "forbidden", ofObject: true };
const forbidden: ApiFailure = { kind: "forbidden" };

const isBoundToUidAlone = ({ preconditions, propagationPolicy }: DeleteOptions): boolean =>
  preconditions?.uid === "u" &&
  preconditions.resourceVersion === undefined &&
  propagationPolicy === undefined;

describe("a request", () => {
  const version = { uid: "u", resourceVersion: "1" };
  const of = { name: "n" };
  it.each<[string, Intent, object]>([
    [
      "binds a merge patch to the version that was looked at",
      merge,
      { of, patch: { type: "merge", body: { metadata: { ...version, labels: { a: "b" } } } } },
    ],
    ["leaves that to a JSON patch itself", json, { of, patch: { type: "json", body: [{ path: "/a" }] } }],
    [
      "names subresource and field manager",
      { ...json, subresource: "status", manager: "m" },
      { options: { subresource: "status", fieldManager: "m" } },
    ],
    ["applies what is not there yet", child, { body: { metadata: { name: "child" } } }],
    [
      "deletes only the version that was looked at",
      { ...about, do: "delete", propagation: "Background" },
      { of, options: { propagationPolicy: "Background", preconditions: version } },
    ],
    [
      "deletes whatever changed meanwhile where it is bound to the uid, as the server's default says",
      { ...about, do: "delete", bound: "uid" },
      { of, options: expect.toSatisfy(isBoundToUidAlone) },
    ],
    ["creates a whole object", created, { body: { metadata: { name: "child" } } }],
    [
      "evicts only this pod, by its uid, through the Eviction API",
      evict,
      {
        body: {
          apiVersion: "policy/v1",
          kind: "Eviction",
          metadata: of,
          deleteOptions: { preconditions: { uid: "u" } },
        },
        options: { subresource: "eviction" },
      },
    ],
    [
      "adds a finalizer behind others",
      { ...about, do: "addFinalizer", finalizer: "y" },
      { patch: { type: "merge", body: { metadata: { ...version, finalizers: ["x", "y"] } } } },
    ],
    [
      "removes a finalizer",
      { ...about, do: "removeFinalizer", finalizer: "x" },
      { patch: { body: { metadata: { finalizers: [] } } } },
    ],
  ])("%s", async (_, intent, request) => {
    const world = new World();
    await world.send("1", intent);
    expect(world.sent).toMatchObject([request]);
    expect(world.done).toEqual(["Wanted"]);
  });
});

describe("after an answer of the server", () => {
  it.each<[string, Intent, string | ApiFailure, number | undefined, string[]]>([
    ["a change that is taken is done with", json, "2", undefined, []],
    ["one that is announced is told", { ...json, announce: "Normal" }, "2", undefined, ["Normal Wanted"]],
    ["one that something undoes before it is stored rests", json, "1", 30_000, []],
    ["an object that exists already is looked at again soon", created, { kind: "alreadyExists" }, 1_000, []],
    [
      "one that cannot be created, since its namespace is missing, is told and rests",
      created,
      { kind: "notFound" },
      30_000,
      ["Warning WriteRefused"],
    ],
    [
      "one whose namespace is terminating, too",
      created,
      { kind: "forbidden", ofObject: true },
      30_000,
      ["Warning WriteRefused"],
    ],
    ["an object that is gone is done with", json, { kind: "notFound" }, undefined, []],
    ["one that was made anew is done with", json, { kind: "uidMismatch" }, undefined, []],
    ["a conflict waits for the newer version", merge, conflict, 1_000, []],
    ["a failed test of a JSON patch waits for the newer version", json, outdated, 1_000, []],
    ["what is invalid is told and rests", json, invalid, 30_000, ["Warning WriteRefused"]],
    [
      "what is invalid without a field is told, too, but of a JSON patch",
      merge,
      outdated,
      30_000,
      ["Warning WriteRefused"],
    ],
    ["what admission refuses is told and rests", json, denied, 30_000, ["Warning WriteRefused"]],
  ])("%s", async (_, intent, answer, recheckAfterMs, told) => {
    const world = new World();
    world.answer = answer;
    expect(await world.send("1", intent)).toBe(recheckAfterMs);
    expect(world.events.map(({ type, reason }) => `${type} ${reason}`)).toEqual(told);
  });

  it.each<ApiFailure>([
    { kind: "serverError", status: 503 },
    { kind: "tooManyRequests", causes: [] },
    { kind: "unreachable" },
  ])("%j is for the runtime to try again, and keeps nothing else back", async (failure) => {
    const world = new World();
    world.answer = failure;
    await expect(world.send("1", json, merge)).rejects.toMatchObject({ failure });
    expect([world.sent.length, world.events]).toEqual([2, []]);
  });

  it("nothing more is sent once this process is to stop", async () => {
    const world = new World();
    world.answer = { kind: "aborted" };
    await expect(world.send("1", json, merge)).rejects.toMatchObject({ failure: { kind: "aborted" } });
    expect(world.sent).toHaveLength(1);
  });

  it.each<ApiFailure>([
    forbidden,
    { kind: "serverError", status: 500 },
    { kind: "timeout", afterMs: 30_000 },
    { kind: "tooManyRequests", causes: [] },
  ])("I-15 %j is for the runtime to try again, and told once when it lasts", async (failure) => {
    const world = new World();
    world.answer = failure;
    for (const [waitMs, told] of [
      [0, 0],
      [9_999, 0],
      [1, 1],
      [1, 1],
    ] as const) {
      await world.clock.advance(waitMs);
      await expect(world.send("1", json)).rejects.toMatchObject({ failure });
      expect(world.events).toHaveLength(told);
    }
    expect(world.told).toEqual([expect.stringContaining("Warning WriteRefused: it stays as it is: ")]);
    // A missing permission is nothing that passes within a second.
    expect(world.withheld).toHaveLength(failure.kind === "forbidden" ? 4 : 2);
    world.answer = "2";
    expect(await world.send("1", json)).toBeUndefined();
  });
});

describe("what was written", () => {
  it("is not written again before the cache shows it, or for 30 s", async () => {
    const world = new World();
    world.answer = "9";
    await world.send("7", json);
    expect(await world.send("7", json, merge)).toBe(30_000);
    expect(await world.send("8", json)).toBe(30_000);
    expect(world.sent).toHaveLength(1);
    await world.send("9", json);
    await world.send("9", json);
    await world.clock.advance(30_000);
    await world.send("9", json);
    expect(world.sent).toHaveLength(3);
  });

  it.each([
    ["applied", child],
    ["created", created],
  ])("for the first time, %s, is waited for two seconds, since it may be gone again", async (_, intent) => {
    const world = new World();
    await world.send("1", intent);
    expect(await world.send("1", intent)).toBe(2_000);
    await world.clock.advance(2_000);
    await world.send("1", intent);
    expect(world.sent).toHaveLength(2);
  });

  it("to a subresource is waited for before the object itself is written", async () => {
    const world = new World();
    const status: Intent = { ...json, subresource: "status" };
    expect(await world.send("1", status, merge)).toBe(30_000);
    expect(world.sent).toMatchObject([{ options: { subresource: "status" } }]);
    await world.send("2", merge);
    expect(world.sent).toHaveLength(2);
  });

  it("in one cluster is remembered for this cluster alone", async () => {
    const world = new World();
    const inCluster = (server: string): Intent => {
      const seen = { metadata: { name: "n", uid: server, resourceVersion: "1" } };
      return { ...merge, on: { resource: namespaces, seen, via: world.clientOf(server) } };
    };
    const [here, there] = [inCluster("https://here"), inCluster("https://there")];
    expect(await world.send("1", merge, here, there)).toBeUndefined();
    expect(await world.send("1", here)).toBe(30_000);
    const sent = [{ server: "https://own" }, { server: "https://here" }, { server: "https://there" }];
    expect(world.sent).toMatchObject(sent);
  });

  it("counts from the making of an object: what is deleted again and again is made again", async () => {
    const world = new World();
    for (let made = 1; made <= 5; made += 1) {
      await world.send("1", child);
      await world.clock.advance(2_000);
    }
    expect([world.sent.length, world.events]).toEqual([5, []]);
  });

  it("and undone three times is left alone for five minutes, and told once", async () => {
    const world = new World();
    for (let at = 1; at <= 3; at += 1) {
      world.answer = String(at * 2);
      expect(await world.send(String(at * 2 - 1), json)).toBeUndefined();
    }
    expect(await world.send("7", json)).toBe(300_000);
    await world.clock.advance(60_000);
    expect(await world.send("8", json)).toBe(240_000);
    expect(world.told).toEqual([
      "Warning Contested: another writer keeps changing it, so it is left alone for a while",
    ]);
    world.answer = "10";
    await world.send("9", merge);
    expect(world.sent).toHaveLength(4);
  });

  it.each<[string, Intent]>([
    ["a status", { ...json, subresource: "status" }],
    ["a finalizer", { ...about, do: "addFinalizer", finalizer: "y" }],
  ])("and undone is put back each time where it is %s", async (_, intent) => {
    const world = new World();
    for (let at = 1; at <= 6; at += 1) {
      world.answer = String(at * 2);
      expect(await world.send(String(at * 2 - 1), intent)).toBeUndefined();
    }
    expect([world.sent.length, world.events]).toEqual([6, []]);
  });

  it("is forgotten with the object: one of the same name begins anew", async () => {
    const world = new World();
    await world.send("1", json);
    world.makeAnew();
    await world.send("1", json);
    expect(world.sent).toHaveLength(2);
  });
});

describe("what is refused", () => {
  it("is not sent again for 30 s, but another content is, and is told again only after one was taken", async () => {
    const world = new World();
    world.answer = denied;
    await world.send("1", json);
    await world.clock.advance(20_000);
    expect(await world.send("2", json)).toBe(10_000);
    expect(await world.send("2", merge)).toBe(30_000);
    expect([world.sent.length, world.withheld.length, world.events.length]).toEqual([2, 3, 1]);
    await world.clock.advance(30_000);
    world.answer = "3";
    await world.send("2", json);
    world.answer = denied;
    await world.send("3", merge);
    expect([world.done, world.events.length]).toEqual([["Wanted"], 2]);
  });

  it("as outdated for the fourth time on one version rests until there is a newer one", async () => {
    const world = new World();
    world.answer = outdated;
    for (const [version, after] of [
      ["1", 1_000],
      ["2", 1_000],
      ["2", 1_000],
      ["2", 1_000],
      ["2", 30_000],
      ["2", 30_000],
      ["3", 1_000],
    ] as const)
      expect(await world.send(version, json)).toBe(after);
    expect(world.events).toHaveLength(1);
  });

  it("since the name stays taken is told after three tries, and rests", async () => {
    const world = new World();
    world.answer = { kind: "alreadyExists" };
    for (const after of [1_000, 1_000, 1_000, 30_000, 30_000])
      expect(await world.send("1", created)).toBe(after);
    expect(world.sent).toHaveLength(4);
    expect(world.told).toEqual([expect.stringMatching(/^Warning WriteRefused: it is not created: .*exists/)]);
  });

  it("is followed by what was to be tried else, on each look until it is taken", async () => {
    const world = new World();
    world.answer = denied;
    expect(await world.send("1", { ...json, orElse: merge })).toBe(30_000);
    expect(world.sent).toHaveLength(2);
    await world.clock.advance(30_000);
    world.answer = conflict;
    // Both meet a newer version.
    expect(await world.send("1", { ...json, orElse: merge })).toBe(1_000);
    world.answer = denied;
    await world.send("2", { ...json, orElse: merge });
    expect([world.sent.length, world.events.length]).toEqual([5, 1]);
  });

  it.each([
    ["at least 10 s", undefined, 10_000],
    ["as long as the server says", 60_000, 60_000],
  ])("by a PodDisruptionBudget waits %s, and is told once", async (_, retryAfterMs, waitMs) => {
    const world = new World();
    world.answer = { kind: "tooManyRequests", causes: [{ reason: "DisruptionBudget" }] };
    world.retryAfterMs = retryAfterMs;
    expect(await world.send("1", evict)).toBe(waitMs);
    await world.clock.advance(waitMs);
    await world.send("1", evict);
    expect([world.sent.length, world.withheld]).toEqual([2, ["DisruptionBudget", "DisruptionBudget"]]);
    expect(world.told).toEqual([expect.stringContaining("Warning DisruptionBudget: it stays as it is: ")]);
  });
  it("before it is sent, waits for what it says", async () => {
    const world = new World();
    expect(await world.send("1", { ...json, unless: () => Promise.resolve("no right") })).toBe(30_000);
    expect(world.sent).toEqual([]);
  });
});
