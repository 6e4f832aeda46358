/** The pure halves of `examples/runtime`. Their stories on a real control plane are in `examples.cluster.test.ts`. */
import type { ConfigMap, Namespace } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decide as decideCopies,
  FROM,
  isSource,
  sourceOf,
  TO,
} from "../examples/runtime/configmap-copier/decide.ts";
import { decide as decideTime, finishedAt, parseTtl, TTL } from "../examples/runtime/ttl-janitor/decide.ts";
import { decide as decideSite, FINALIZER, OF, PAGES } from "../examples/runtime/website/decide.ts";
import type { Website } from "../examples/runtime/website/website.ts";

const SPACES = ["a", "b", "c"];
const space = (name: string, phase = "Active"): Namespace => ({ metadata: { name }, status: { phase } });

describe("the decision of configmap-copier", () => {
  const annotations = fc.oneof(
    fc.record({ [TO]: fc.constantFrom("*", "a", "b, c", "") }),
    fc.record({ [FROM]: fc.constantFrom("a/x", "b/x", "a/y", "odd") }),
  );
  /** ConfigMaps x and y, in any of three namespaces: sources, copies and strangers. */
  const aWorld = fc.uniqueArray(
    fc.record({
      metadata: fc.record(
        { namespace: fc.constantFrom(...SPACES), name: fc.constantFrom("x", "y"), annotations },
        { requiredKeys: ["namespace", "name"] },
      ),
      data: fc.dictionary(fc.constantFrom("k", "l"), fc.constantFrom("1", "2")),
    }),
    { selector: ({ metadata }) => idOf({ metadata }) },
  );
  const idOf = ({ metadata }: ConfigMap): string => `${metadata?.namespace}/${metadata?.name}`;
  const look = (fixture: ReadonlyMap<string, ConfigMap>, source: string) =>
    decideCopies({
      source,
      object: fixture.get(source),
      namespaces: SPACES.map((name) => space(name)),
      present: [...fixture.values()].filter(
        (one) => one.metadata?.name === source.split("/")[1] || sourceOf(one) === source,
      ),
    });

  it("settles at one go, and touches nothing but copies of this source", () => {
    fc.assert(
      fc.property(aWorld, fc.constantFrom("a/x", "b/x", "a/y"), (objects, source) => {
        const fixture = new Map<string, ConfigMap>(objects.map((object) => [idOf(object), object]));
        const before = new Map(fixture);
        const { create, replace, remove } = look(fixture, source);
        for (const one of create) expect(fixture.has(idOf(one))).toBe(false);
        for (const one of [...create, ...replace]) fixture.set(idOf(one), one);
        for (const one of remove) fixture.delete(idOf(one));
        expect(look(fixture, source)).toMatchObject({ create: [], replace: [], remove: [] });
        const strangers = [...before].filter(([, object]) => sourceOf(object) !== source);
        for (const [id, object] of strangers) expect(fixture.get(id)).toBe(object);
        const copies = [...fixture.values()].filter((one) => sourceOf(one) === source);
        for (const copy of copies) expect(copy.data).toEqual(before.get(source)?.data);
      }),
    );
  });

  it("takes no copy for a source, and copies into no namespace that is going", () => {
    const both: ConfigMap = {
      metadata: { namespace: "a", name: "x", annotations: { [TO]: "*", [FROM]: "b/x" } },
    };
    expect(isSource(both)).toBe(false);
    const object: ConfigMap = { metadata: { namespace: "a", name: "x", annotations: { [TO]: "*" } } };
    const namespaces = [space("a"), space("b", "Terminating"), space("c")];
    const { create } = decideCopies({ source: "a/x", object, namespaces, present: [object] });
    expect(create.map(({ metadata }) => metadata?.namespace)).toEqual(["c"]);
  });
});

describe("the decision of ttl-janitor", () => {
  const startsAt = "2026-01-01T00:00:00Z";
  const startMs = Date.parse(startsAt);
  const withTtl = (ttl: string) => ({ metadata: { annotations: { [TTL]: ttl } } });

  it.each([
    ["no annotation", {}, startsAt, { act: "keep" }],
    ["its time has not begun", withTtl("1h"), undefined, { act: "keep" }],
    ["a minute left", withTtl("31m"), startsAt, { act: "wait", forMs: 60_000 }],
    ["over this instant", withTtl("30m"), startsAt, { act: "delete" }],
    ["no time to live", withTtl("0s"), startsAt, { act: "delete" }],
    [
      "being deleted already",
      { metadata: { ...withTtl("0s").metadata, deletionTimestamp: startsAt } },
      startsAt,
      { act: "keep" },
    ],
  ])("%s", (_case, object, starts, expected) => {
    expect(decideTime(object, starts, startMs + 30 * 60_000)).toEqual(expected);
  });

  it.each(["", "1", "h", "-1h", "1.5h", "1h30m", " 1h", "1w", "9999d", "99999999999s"])(
    "reports %j, and never deletes for it",
    (text) => {
      expect(parseTtl(text)).toBeUndefined();
      expect(decideTime(withTtl(text), startsAt, Number.MAX_SAFE_INTEGER)).toMatchObject({ act: "report" });
    },
  );

  it("begins when a Job has finished, well or not", () => {
    const lastTransitionTime = startsAt;
    const job = (type: string, status: string) => ({
      status: { conditions: [{ type, status, lastTransitionTime }] },
    });
    expect(["Complete", "Failed"].map((type) => finishedAt(job(type, "True")))).toEqual([startsAt, startsAt]);
    expect([
      finishedAt({}),
      finishedAt(job("Suspended", "True")),
      finishedAt(job("Failed", "False")),
    ]).toEqual([undefined, undefined, undefined]);
  });
});

describe("the decision of website", () => {
  const NOW = Date.parse("2026-01-01T00:00:00Z");
  const site = (metadata: Website["metadata"] = { finalizers: [FINALIZER] }): Website => ({
    metadata: { namespace: "n", name: "s", generation: 2, ...metadata },
    spec: { host: "a.example", html: "hello" },
  });
  const page = (of: string, name = "a.example"): ConfigMap => ({
    metadata: { namespace: PAGES, name, annotations: { [OF]: of } },
    data: { "index.html": "hello" },
  });

  it("does nothing before its finalizer is there", () => {
    const decision = decideSite({ site: site({}), pages: [], atHost: undefined }, NOW);
    expect(decision).toEqual({ finalizer: "add", withdraw: [] });
  });

  it("publishes, tells, and then has nothing left to do", () => {
    const first = decideSite({ site: site(), pages: [], atHost: undefined }, NOW);
    expect(first.publish).toEqual(page("n/s"));
    expect(first.status?.conditions).toMatchObject([{ status: "True", observedGeneration: 2 }]);
    const after: Website = { ...site(), ...(first.status && { status: first.status }) };
    const settled = { site: after, pages: [page("n/s")], atHost: page("n/s") };
    expect(decideSite(settled, NOW + 1)).toEqual({ withdraw: [] });
  });

  it("leaves the page of somebody else alone, and withdraws the one it had elsewhere", () => {
    const old = page("n/s", "old.example");
    const decision = decideSite({ site: site(), pages: [old], atHost: page("n/other") }, NOW);
    expect(decision).toMatchObject({ withdraw: [old], status: { conditions: [{ reason: "HostTaken" }] } });
    expect(decision.publish).toBeUndefined();
    expect(decision.status?.url).toBeUndefined();
  });

  it("withdraws all before it lets go, and also when it is gone already", () => {
    const pages = [page("n/s"), page("n/s", "old.example")];
    const going = site({ finalizers: [FINALIZER], deletionTimestamp: "2026-01-01T00:00:00Z" });
    expect(decideSite({ site: going, pages, atHost: pages[0] }, NOW)).toEqual({
      withdraw: pages,
      finalizer: "remove",
    });
    expect(decideSite({ site: undefined, pages, atHost: undefined }, NOW)).toEqual({ withdraw: pages });
  });
});
