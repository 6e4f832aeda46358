import {
  ApiError,
  type ApiFailure,
  defineResource,
  type KubeClient,
  nodes,
  pods,
  type Resource,
} from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "./clock.ts";
import { guardClient } from "./guarded-client.ts";
import type { Logger } from "./log.ts";

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A server that fails as it is told, and counts what reaches it. Lines above level debug. */
function setUp() {
  const clock = createVirtualClock();
  const lines: Line[] = [];
  const at =
    (level: string) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}): void =>
      void lines.push({ level, message, fields });
  const log: Logger = {
    debug: () => undefined,
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    with: () => log,
  };
  const sent: string[] = [];
  const state = { mayWrite: true, fails: (_resource: string): ApiFailure | undefined => undefined };
  const answer =
    (verb: "get" | "list" | "create" | "patch") =>
    ({ plural: resource }: { readonly plural: string }): Promise<never> => {
      sent.push(`${verb} ${resource}`);
      const failure = state.fails(resource);
      if (failure !== undefined) return Promise.reject(new ApiError(failure, { verb, resource }));
      return Promise.resolve({ items: [], metadata: {} } as never);
    };
  const verbs = Object.fromEntries(
    (["get", "list", "create", "patch"] as const).map((it) => [it, answer(it)]),
  );
  const read = (path: string): Promise<string> => {
    sent.push(`read ${path}`);
    return Promise.resolve("{}");
  };
  const raw: object = { ...verbs, read, under: () => raw, cluster: "dfw-01" };
  const client = guardClient(raw as unknown as KubeClient, {
    clock,
    log,
    random: () => 0.5,
    mayWrite: () => state.mayWrite,
  });
  return Object.assign(state, { clock, client, lines, sent });
}

const ofNode = (name: string): { readonly name: string } => ({ name });
const empty = { type: "merge", body: {} } as const;

describe("I-16 the log of an outage", () => {
  it("tells of what is taken again though another permission stays missing", async () => {
    const setup = setUp();
    const { clock, client, lines } = setup;
    const refused = new Set(["nodes", "pods"]);
    setup.fails = (resource) => (refused.has(resource) ? { kind: "forbidden" } : undefined);
    for (let at = 0; at < 80; at++) {
      if (at === 20) refused.delete("pods");
      for (const resource of [nodes, pods] as Resource[]) void client.list(resource).catch(() => undefined);
      await clock.advance(1_000);
    }
    expect(lines).toMatchObject([
      {
        level: "warn",
        message: "the API server refuses requests; one of each kind is tried again, others wait for it",
        fields: { kinds: 2, first: ["list nodes", "list pods"] },
      },
      {
        message: "the API server takes requests again",
        fields: { first: ["list pods"], stillRefused: 1, requests: expect.any(Number) as number },
      },
    ]);
    expect(lines[1]?.fields["seconds"]).toBeGreaterThanOrEqual(20);
    expect(client.whyRefused(["nodes"])?.message).toContain("list nodes");
    expect(client.whyRefused(["nodes"], ["patch"])).toBeUndefined();
    expect(client.whyRefused(["pods"])).toBeUndefined();
    // Nothing asks for it any more: whether it would be refused is not known.
    await clock.advance(120_000);
    expect(client.whyRefused(["nodes"])).toBeUndefined();
  });

  it("is nothing for what is over within a second", async () => {
    const setup = setUp();
    for (const kind of ["forbidden", "unreachable"] as const) {
      setup.fails = () => (kind === "unreachable" ? { kind, noConnection: true } : { kind });
      await setup.client.list(nodes).catch(() => undefined);
      setup.fails = () => undefined;
      await setup.clock.advance(500);
      await setup.client.list(nodes);
      await setup.clock.advance(60_000);
    }
    expect(setup.lines).toEqual([]);
  });

  it("is the same for a server that cannot be reached, to which all requests go on", async () => {
    const setup = setUp();
    setup.fails = () => ({ kind: "unreachable", noConnection: true });
    for (let at = 0; at < 10; at++) {
      await expect(setup.client.list(nodes)).rejects.toMatchObject({ failure: { kind: "unreachable" } });
      await setup.clock.advance(500);
    }
    expect(setup.sent).toHaveLength(10);
    setup.fails = () => ({ kind: "conflict", causes: [] });
    await setup.client.patch(nodes, ofNode("n1"), empty).catch(() => undefined);
    expect(setup.lines).toMatchObject([
      { level: "warn", message: "the API server cannot be reached; trying again" },
      { level: "info", message: "the API server can be reached again", fields: { requests: 10, seconds: 5 } },
    ]);
  });
});

describe("I-17 a process that may not write", () => {
  it("sends no write and reads on, and is asked anew for each write", async () => {
    const setup = setUp();
    setup.mayWrite = false;
    for (const write of [
      () => setup.client.patch(nodes, ofNode("n1"), empty),
      () => setup.client.create(nodes, {}),
    ])
      await expect(write()).rejects.toMatchObject({ failure: { kind: "aborted" } });
    await setup.client.get(nodes, ofNode("n1"));
    expect(setup.sent).toEqual(["get nodes"]);
    setup.mayWrite = true;
    await setup.client.patch(nodes, ofNode("n1"), empty);
    expect(setup.sent).toEqual(["get nodes", "patch nodes"]);
  });

  it("sends none under a path of the server either", async () => {
    const setup = setUp();
    setup.mayWrite = false;
    const write = setup.client.under("/a").under("/b").patch(nodes, ofNode("n1"), empty);
    await expect(write).rejects.toThrow('patch nodes "n1" under /a/b of cluster dfw-01: stopped');
    expect(setup.sent).toEqual([]);
  });
});

it("what one API of a server refuses is not held back from another", async () => {
  const setup = setUp();
  const under = setup.client.under("/a");
  setup.fails = () => ({ kind: "forbidden" });
  await expect(under.list(nodes)).rejects.toMatchObject({ failure: { kind: "forbidden" } });
  setup.fails = () => undefined;
  await setup.client.list(nodes);
  await expect(under.list(nodes)).rejects.toMatchObject({ isShared: true });
  expect(setup.sent).toEqual(["list nodes", "list nodes"]);
});

it("B12 a missing resource: another request that finds nothing has discovery asked, one that succeeds is enough", async () => {
  const late = defineResource({
    group: "a.test",
    version: "v1",
    plural: "lates",
    kind: "Late",
    namespaced: false,
  });
  const setup = setUp();
  const { clock, client, sent } = setup;
  const looks = (): number => sent.filter((it) => it === "read /apis").length;
  const served: string[] = [];
  const { signal } = new AbortController();
  void client.whenServed(late, signal).then(() => served.push("lates"));
  await clock.advance(3_600_000);
  setup.fails = () => ({ kind: "notFound" });
  const before = looks();
  await client.list(late).catch(() => undefined);
  await clock.advance(20_000);
  expect(looks()).toBe(before);
  await client.get(late, { name: "a" }).catch(() => undefined);
  await clock.advance(20_000);
  expect(looks()).toBe(before + 1);
  setup.fails = () => undefined;
  await client.list(late);
  expect(served).toEqual(["lates"]);
});
