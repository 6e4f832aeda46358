import { ApiError, type ApiFailure } from "@berth/kube";
import { clusterName, createVirtualClock, JOIN_MS } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { createSilentLogger } from "../../../runtime/src/json-log.ts";
import { VersionLog } from "../../../runtime/src/testing/version-log.ts";
import { labels } from "../api/keys.ts";
import { aClaim } from "../instance/testing/views.ts";
import { Claims, type ClaimsOptions } from "./claims.ts";
import type { ClaimPlane } from "./plane.ts";

const cluster = clusterName("local");
const ref = { project: "web", namespace: "default", name: "instance-w-us-dfw-0" };
const PROBE_MS = 2000;

/** The claims of all projects on one server, and what Berth is told. */
class World implements AsyncDisposable {
  readonly clock = createVirtualClock();
  readonly server = new VersionLog({ clock: this.clock });
  /** Clients that were asked for, selectors, and requests about single claims. */
  readonly clients: string[] = [];
  readonly selectors = new Set<unknown>();
  readonly asked: string[] = [];
  readonly told: string[] = [];
  /** How requests about single claims and probes fail. */
  failure: ApiFailure | undefined;
  /** What happens while a probe is open. */
  onProbe: () => void = () => undefined;
  readonly stopping = new AbortController();
  readonly claims: Claims;
  ended: Promise<void> = Promise.resolve();

  constructor({
    isShared = false,
    ...options
  }: Partial<ClaimsOptions> & { readonly isShared?: boolean } = {}) {
    this.claims = new Claims({
      service: this.service(isShared),
      cluster,
      source: "dfw-01",
      clock: this.clock,
      log: createSilentLogger(),
      onChange: (key) => void this.told.push(`${key.cluster}/${key.namespace}/${key.name}`),
      onService: (isOf) => void this.told.push(["web", "shop"].filter(isOf).join()),
      ...options,
    });
  }

  service(isShared: boolean): ClaimsOptions["service"] {
    return { clientOf: (project) => this.#client(project), isShared };
  }

  async start(): Promise<void> {
    this.ended = (await this.claims.start(this.stopping.signal)).ended;
    await this.clock.advance(JOIN_MS + 1);
  }

  /** The question reads the claim of `ref`. */
  ask(uid: string, project = "web", question?: (plane: ClaimPlane, signal: AbortSignal) => Promise<void>) {
    const read = async (plane: ClaimPlane, signal: AbortSignal): Promise<void> =>
      void (await plane.read({ ...ref, project }, signal).then(() => this.asked.push(`answer ${uid}`)));
    this.claims.ask(project, uid, question ?? read);
    return this.clock.advance(0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stopping.abort();
    await this.clock.advance(0);
    await this.ended;
  }

  #client(project: string) {
    this.clients.push(project);
    const answer = (verb: string) => (): Promise<never> => {
      this.asked.push(verb);
      if (verb === "probe") this.onProbe();
      const { failure } = this;
      return failure === undefined
        ? Promise.resolve(aClaim() as never)
        : Promise.reject(new ApiError(failure, { verb: "get", resource: "resourceclaims" }));
    };
    return {
      get: answer("get"),
      create: answer("create"),
      delete: answer("delete"),
      read: answer("probe"),
      list: ((resource, options) => this.server.list(resource, options)) satisfies VersionLog["list"],
      watch: ((resource, options) => {
        this.selectors.add(options?.labelSelector);
        return this.server.watch(resource, options);
      }) satisfies VersionLog["watch"],
    };
  }
}

const unknown = {
  is: "read",
  project: "web",
  claim: { is: "unknown", because: "Berth has not read the claims" },
};
const { spec, status } = aClaim({ granted: "True/QuotaAvailable: m" });
const ours = {
  [labels.sourceCluster]: "dfw-01",
  [labels.instanceNamespace]: "ns-u",
};
/** A claim as the server has it. */
const stored = (more: object = {}) => ({
  metadata: { ...ref, uid: "c-1", resourceVersion: "1", labels: ours, managedFields: [{}], ...more },
  spec: { ...spec, other: true },
  status: { ...status, other: true },
});

describe("the watch of claims", () => {
  it("shows what is needed of claims once it has read them, and tells of each change", async () => {
    await using world = new World();
    const { claims, server, clock, told } = world;
    expect(claims.seen(ref)).toEqual(unknown);
    expect([claims.watches("web"), claims.watchProblem("web")]).toEqual([true, ""]);
    await clock.advance(60_000);
    expect(server.requests).toEqual([]);
    server.write(ref.name, stored());
    await world.start();
    const metadata = { name: ref.name, namespace: "default", uid: "c-1", resourceVersion: "1", labels: ours };
    expect(claims.seen(ref)).toEqual({
      is: "read",
      project: "web",
      claim: {
        is: "there",
        value: {
          apiVersion: "example.com/v1",
          kind: "Thing",
          metadata,
          spec: { consumerRef: spec?.consumerRef, requests: spec?.requests },
          status: {
            conditions: [{ type: "Granted", status: "True", reason: "QuotaAvailable", message: "m" }],
          },
        },
      },
    });
    expect(claims.seen({ ...ref, name: "other" })).toEqual({
      is: "read",
      project: "web",
      claim: { is: "none" },
    });
    expect([claims.watches("web"), claims.watchProblem("web")]).toEqual([true, undefined]);
    server.write("instance-b", stored({ name: "instance-b", labels: { ...ours, x: "1" } }));
    server.write("instance-c", stored({ name: "instance-c", labels: {} }));
    await clock.advance(1);
    expect(told).toEqual(["local/ns-u/w-us-dfw-0", "local/ns-u/b"]);
  });

  it.each([
    ["dfw-01", `${labels.sourceCluster} in (dfw-01,single)`],
    ["single", `${labels.sourceCluster}=single`],
  ])("of cell %s has the selector %s", async (source, selector) => {
    await using world = new World({ source });
    world.claims.watches("web");
    await world.start();
    expect([...world.selectors]).toEqual([selector]);
  });

  it("has one connection for each project, and one in all where they share a server", async () => {
    for (const isShared of [false, true]) {
      await using world = new World({ isShared });
      await world.start();
      const before = world.server.openStreams;
      for (const project of ["web", "shop", "web"]) world.claims.watches(project);
      await world.clock.advance(JOIN_MS + 1);
      expect([before, world.server.openStreams]).toEqual(isShared ? [1, 1] : [0, 2]);
      expect(world.clients).toEqual(isShared ? [""] : ["web", "shop"]);
      world.claims.keep((project) => project === "shop");
      await world.clock.advance(JOIN_MS + 1);
      expect(world.server.openStreams).toBe(1);
      world.claims.watches("web");
      expect(world.clients).toHaveLength(isShared ? 1 : 3);
    }
  });

  it("is one of the other service, once that has the claims", async () => {
    await using world = new World();
    await world.start();
    world.server.write(ref.name, stored());
    world.claims.watches("web");
    await world.clock.advance(JOIN_MS + 1);
    expect(world.claims.seen(ref)).toMatchObject({ claim: { is: "there" } });
    world.claims.use(world.service(true));
    expect(world.claims.seen(ref)).toEqual(unknown);
    await world.clock.advance(JOIN_MS + 1);
    expect(world.claims.seen(ref)).toMatchObject({ claim: { is: "there" } });
    expect([world.server.openStreams, world.clients]).toEqual([1, ["web", ""]]);
  });

  it("is not begun for more than 500 projects", async () => {
    await using world = new World();
    const { claims } = world;
    await world.start();
    const watched = Array.from({ length: 501 }, (_, at) => claims.watches(`p${at}`));
    expect(watched.indexOf(false)).toBe(500);
    expect([claims.watchProblem("p500"), claims.seen({ ...ref, project: "p500" })]).toEqual([
      undefined,
      { ...unknown, project: "p500" },
    ]);
  });

  it.each<[string, ApiFailure, number, string]>([
    ["where the project has none", { kind: "notFound" }, 0, "project web serves no ResourceClaims"],
    ["that is forbidden", { kind: "forbidden" }, 0, "watch things"],
    ["that fails for five seconds", { kind: "unreachable" }, 5000, "not connected for"],
  ])("%s says so, and shows nothing", async (_, failure, ms, problem) => {
    await using world = new World();
    const { claims, server, clock } = world;
    server.fail(failure);
    claims.watches("web");
    await world.start();
    await clock.advance(ms);
    expect(claims.watchProblem("web")).toContain(problem);
    expect(claims.seen(ref)).toEqual(unknown);
    expect(claims.watches("web")).toBe(failure.kind === "unreachable");
  });

  it("that ended shows nothing where the kind is gone", async () => {
    await using world = new World();
    const { claims, server, clock } = world;
    claims.watches("web");
    server.write(ref.name, stored());
    await world.start();
    server.fail({ kind: "notFound" });
    server.cut();
    await clock.advance(1000);
    expect([claims.seen(ref), claims.watches("web")]).toEqual([unknown, false]);
  });
});

describe("a question about a claim", () => {
  it("is asked of its project, waits for its turn, and can be forgotten", async () => {
    await using world = new World();
    const { claims, asked } = world;
    expect(claims.isAsked("web", "a")).toBe(false);
    const open = Promise.withResolvers<void>();
    const uids = ["a", "b", "c", "d", "e"];
    for (const uid of uids) void world.ask(uid, "web", () => open.promise);
    await world.ask("f", "web");
    await world.ask("e", "shop");
    expect(uids.map((uid) => claims.isAsked("web", uid))).toEqual([true, true, true, true, true]);
    expect(asked).toEqual(["get", "answer e"]);
    claims.forget("web", "f");
    claims.forget("none", "f");
    expect([claims.isAsked("web", "f"), claims.isAsked("shop", "e")]).toEqual([false, false]);
    open.resolve();
    await world.clock.advance(0);
    expect([claims.isAsked("web", "a"), asked]).toEqual([false, ["get", "answer e"]]);
  });

  it("ends the process where it fails by a fault of Berth, and not where it was stopped", async () => {
    const world = new World();
    await world.start();
    let fault: unknown;
    void world.ended.catch((error: unknown) => (fault = error));
    await world.ask("a", "web", (_, signal) => {
      const stopped = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => stopped.reject(new Error("stopped")));
      return stopped.promise;
    });
    world.claims.keep((project) => project !== "web");
    expect(world.claims.isAsked("web", "a")).toBe(false);
    await world.clock.advance(0);
    await world.ask("b", "shop", () => Promise.reject(new Error("a fault")));
    expect(fault).toEqual(new Error("a fault"));
  });

  it("that is open is waited for at the end, and stopped", async () => {
    const world = new World();
    await world.start();
    let isStopped = false;
    const last = Promise.withResolvers<void>();
    await world.ask("a", "web", (_, signal) => {
      signal.addEventListener("abort", () => (isStopped = true));
      return last.promise;
    });
    let hasEnded = false;
    void world.ended.then(() => (hasEnded = true));
    world.stopping.abort();
    await world.clock.advance(0);
    expect([isStopped, hasEnded, world.server.openStreams]).toEqual([true, false, 0]);
    last.resolve();
    await world.ended;
  });
});

describe("8.4 a service that does not work", () => {
  it.each([false, true])(
    "is asked once in two seconds by one probe, and then by all that wait (shared: %s)",
    async (isShared) => {
      await using world = new World({ isShared });
      const { claims, clock, asked, told } = world;
      await world.start();
      world.failure = { kind: "unreachable" };
      const whose = isShared ? "web,shop" : "web";
      expect(claims.outages).toBe(0);
      await Promise.all([world.ask("a"), world.ask("z")]);
      await world.ask("b");
      expect(asked.splice(0, 2)).toEqual(["get", "get"]);
      expect(asked.toSorted()).toEqual(["answer a", "answer z", "probe"]);
      expect([claims.outages, claims.outage("web")?.isConfirmed, told]).toEqual([1, true, [whose]]);
      await clock.advance(PROBE_MS - 1);
      expect(asked).toHaveLength(3);
      await clock.advance(1 + PROBE_MS);
      expect(asked.slice(3)).toEqual(["probe", "probe"]);
      expect(told).toEqual([whose]);
      world.failure = undefined;
      await world.ask("c", "shop");
      expect(asked.slice(5)).toEqual(isShared ? [] : ["get", "answer c"]);
      asked.length = 0;
      await clock.advance(PROBE_MS);
      expect(asked).toEqual(
        isShared ? ["probe", "get", "get", "answer b", "answer c"] : ["probe", "get", "answer b"],
      );
      expect([claims.outage("web"), told]).toEqual([undefined, [whose, whose]]);
      await clock.advance(10 * PROBE_MS);
      expect(asked.filter((it) => it === "probe")).toHaveLength(1);
      world.failure = { kind: "unreachable" };
      await world.ask("d");
      expect(told).toEqual([whose, whose, whose]);
    },
  );

  it("that answered only once badly is told when it works", async () => {
    await using world = new World();
    await world.start();
    await world.ask("a", "web", async (plane, signal) => {
      world.failure = { kind: "serverError", status: 503 };
      const answer = plane.read(ref, signal);
      await answer;
      world.failure = undefined;
    });
    await world.clock.advance(PROBE_MS);
    expect([world.claims.outage("web"), world.told.at(-1)]).toEqual([undefined, "web"]);
  });

  it.each<readonly [string, (world: World) => void]>([
    ["drop", ({ claims }) => claims.keep((project) => project !== "web")],
    ["another service", (world) => world.claims.use(world.service(true))],
    ["stop", ({ stopping }) => stopping.abort()],
  ])("is not asked after %s, and a probe that is open then says nothing", async (_, end) => {
    await using world = new World();
    await world.start();
    world.failure = { kind: "unreachable" };
    await world.ask("a");
    world.onProbe = () => end(world);
    world.failure = undefined;
    await world.clock.advance(PROBE_MS);
    const { length } = world.asked;
    await world.clock.advance(3 * PROBE_MS);
    expect([world.asked.at(-1), world.asked.length, world.told]).toEqual(["probe", length, ["web"]]);
  });
});
