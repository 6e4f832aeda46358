import { ApiError, type ApiFailure, type KubeClient, nodes, pods, type Resource } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createVirtualClock, type VirtualClock } from "./clock.ts";
import { createController } from "./controller.ts";
import { type GuardedClient, guardClient } from "./guarded-client.ts";
import { createInformer } from "./informer.ts";
import type { Logger } from "./log.ts";

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A server that fails as it is told, and counts what reaches it. */
interface Setup {
  readonly clock: VirtualClock;
  readonly client: GuardedClient;
  readonly log: Logger;
  /** Above level debug. */
  readonly lines: Line[];
  fails: ApiFailure | undefined;
  mayWrite: boolean;
  readonly sent: string[];
}

function setUp(): Setup {
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
  const answer =
    (verb: "get" | "list" | "watch" | "create" | "patch") =>
    (resource: { readonly plural: string }): Promise<never> => {
      setup.sent.push(`${verb} ${resource.plural}`);
      if (setup.fails !== undefined)
        return Promise.reject(new ApiError(setup.fails, { verb, resource: resource.plural }));
      return Promise.resolve({ items: [], metadata: {} } as never);
    };
  const raw = {
    get: answer("get"),
    list: answer("list"),
    watch: answer("watch"),
    create: answer("create"),
    patch: answer("patch"),
  } as unknown as KubeClient;
  const client = guardClient(raw, { clock, log, random: () => 0.5, mayWrite: () => setup.mayWrite });
  const setup: Setup = { clock, client, log, lines, fails: undefined, mayWrite: true, sent: [] };
  return setup;
}

const ofNode = (name: string): { readonly name: string } => ({ name });
const empty = { type: "merge", body: {} } as const;

describe("I-16 the log of an outage", () => {
  it("is one line when requests are refused and one when they are taken, whoever sends them", async () => {
    const { clock, log, lines } = setUp();
    const stop = new AbortController();
    const world = { denied: true };
    const guarded = guardClient(
      failing(() => (world.denied ? { kind: "forbidden" } : undefined)),
      { clock, log, random: () => 0.5 },
    );
    const cluster = "local" as never;
    for (const resource of [nodes, pods] as Resource[]) {
      const informer = createInformer({ client: guarded, cluster, resource, clock, log, random: () => 0.5 });
      void informer.start(stop.signal);
    }
    const controller = createController<string>({
      name: "writer",
      reconcile: async (name) => {
        await guarded.patch(nodes, ofNode(name), empty);
        return undefined;
      },
      clock,
      log,
      random: () => 0.5,
    });
    await controller.start(stop.signal);
    for (let at = 0; at < 50; at++) controller.enqueue(`n${at}`);
    await clock.advance(20_000);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({
      level: "warn",
      message: "the API server refuses requests; one of each kind is tried again, others wait for it",
    });
    expect(lines[0]?.fields["kinds"]).toBeGreaterThanOrEqual(3);
    expect(lines[0]?.fields["first"]).toContain("patch nodes");
    world.denied = false;
    await clock.advance(30_000);
    const rest = lines.slice(1).filter(({ message }) => message !== "synced");
    expect(rest.map(({ message }) => message)).toEqual(["the API server takes requests again"]);
    expect(rest[0]?.fields["requests"]).toBeGreaterThan(50);
    expect(rest[0]?.fields["seconds"]).toBeGreaterThan(20);
    stop.abort();
  });

  it("tells of what is taken again though another permission stays missing", async () => {
    const { clock, log, lines } = setUp();
    const refused = new Set(["nodes", "pods"]);
    const client = guardClient(
      failing((resource) => (refused.has(resource) ? { kind: "forbidden" } : undefined)),
      { clock, log, random: () => 0.5 },
    );
    const poll = (): void => {
      for (const resource of [nodes, pods] as Resource[]) void client.list(resource).catch(() => undefined);
    };
    for (let at = 0; at < 20; at++) {
      poll();
      await clock.advance(1_000);
    }
    refused.delete("pods");
    for (let at = 0; at < 60; at++) {
      poll();
      await clock.advance(1_000);
    }
    expect(lines.map(({ message, fields }) => [message, fields["first"], fields["stillRefused"]])).toEqual([
      [
        "the API server refuses requests; one of each kind is tried again, others wait for it",
        ["list nodes", "list pods"],
        undefined,
      ],
      ["the API server takes requests again", ["list pods"], 1],
    ]);
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
      setup.fails = kind === "unreachable" ? { kind, noConnection: true } : { kind };
      await setup.client.list(nodes).catch(() => undefined);
      setup.fails = undefined;
      await setup.clock.advance(500);
      await setup.client.list(nodes);
      await setup.clock.advance(60_000);
    }
    expect(setup.lines).toEqual([]);
  });

  it("is the same for a server that cannot be reached, to which all requests go on", async () => {
    const setup = setUp();
    setup.fails = { kind: "unreachable", noConnection: true };
    for (let at = 0; at < 10; at++) {
      await expect(setup.client.list(nodes)).rejects.toMatchObject({ failure: { kind: "unreachable" } });
      await setup.clock.advance(500);
    }
    expect(setup.sent).toHaveLength(10);
    setup.fails = { kind: "conflict", causes: [] };
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
});

/** Answers with an empty list and a watch that never tells anything, or fails. */
function failing(why: (resource: string) => ApiFailure | undefined): KubeClient {
  const answer = (verb: "list" | "watch" | "patch", resource: string, value: unknown): Promise<never> => {
    const failure = why(resource);
    return failure === undefined
      ? Promise.resolve(value as never)
      : Promise.reject(new ApiError(failure, { verb, resource }));
  };
  const silence = {
    lastByteAt: 0,
    [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  return {
    list: ({ plural }: { readonly plural: string }) =>
      answer("list", plural, { items: [], metadata: { resourceVersion: "1" } }),
    watch: ({ plural }: { readonly plural: string }) => answer("watch", plural, silence),
    patch: ({ plural }: { readonly plural: string }) => answer("patch", plural, {}),
  } as unknown as KubeClient;
}
