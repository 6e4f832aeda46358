import { ApiError, type ApiFailure, type Namespace } from "@berth/kube";
import { clusterName, createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { labels } from "../api/keys.ts";
import { type ResourceClaim, requestTypes } from "../api/quota.ts";
import type { Instance } from "../api/workload.ts";
import { type FleetSpec, fleetKind } from "../fleet/document.ts";
import { aClaim, anInstance, BORN, claimed } from "../instance/testing/views.ts";
import type { QuotaSeen } from "../instance/view.ts";
import type { Claims } from "./claims.ts";
import { Keeper } from "./keeper.ts";
import { ClaimPlane } from "./plane.ts";
import { Quota } from "./quota.ts";

const cluster = clusterName("local");
const from = { from: "Projects", kubeconfig: "quota" } as const;
const CELL = fleetKind.spec.parse({ mode: "cell", cell: "dfw-01", quota: from });
const ours: Namespace = {
  metadata: { labels: { [labels.upstreamCluster]: "cluster-web", [labels.upstreamNamespace]: "default" } },
};
const instance = anInstance();
const running = anInstance({ gates: [] });
const TIER_MS = 1000;

/** A quota service with this API, and what a cell knows of it. */
class Service {
  readonly clock = createVirtualClock(BORN);
  /** Answers by verb, the last one stays. */
  readonly answers = new Map<string, (ResourceClaim | ApiFailure)[]>();
  readonly sent: string[] = [];
  readonly told: string[] = [];
  /** What happens while a request is open. */
  onSent: (verb: string) => void = () => undefined;
  /** What the service was to try. */
  readonly tried: unknown[] = [];
  cached: ResourceClaim | "unknown" | undefined;
  isWatched = true;
  watchProblem: string | undefined;
  namespace: Namespace | undefined = ours;
  readonly #open = new Set<Promise<void>>();
  readonly #plane = new ClaimPlane(
    {
      get: () => this.#answer("read"),
      create: (_resource, claim, options) => {
        if (!options?.dryRun) return this.#answer("create");
        this.tried.push({ ...claim, in: options.namespace });
        return this.#answer("try");
      },
      delete: () => this.#answer("delete").then(() => undefined),
      read: () => this.#answer("probe").then(() => ""),
    },
    () => undefined,
  );
  readonly #keeper = new Keeper(() => this.#plane.outage === undefined);
  readonly quota: Quota;

  constructor(spec: FleetSpec = CELL) {
    this.quota = new Quota({
      fleet: { spec },
      claims: this.#claims(),
      cluster,
      namespaces: { find: () => this.namespace },
      clock: this.clock,
      onAnswer: ({ namespace, name }) => void this.told.push(`${namespace}/${name}`),
      onHold: (namespace) => void this.told.push(`hold ${namespace}`),
      onFailure: (reason) => void this.told.push(reason),
    });
  }

  /** All questions that may be asked have their answers. */
  async settle(): Promise<void> {
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
  }

  async see(of = instance): Promise<QuotaSeen> {
    this.quota.see(of);
    await this.settle();
    return this.quota.see(of);
  }

  async probe(): Promise<void> {
    await this.#plane.probe(new AbortController().signal);
    this.#keeper.next();
    this.quota.serviceChanged((project) => project === "web");
    await this.settle();
  }

  #answer(verb: string): Promise<never> {
    this.sent.push(verb);
    this.onSent(verb);
    const answers = this.answers.get(verb) ?? [aClaim()];
    const next = answers.length > 1 ? answers.shift() : answers[0];
    return next !== undefined && "kind" in next && !("metadata" in next)
      ? Promise.reject(new ApiError(next as ApiFailure, { verb: "get", resource: "resourceclaims" }))
      : Promise.resolve(next as never);
  }

  #claims(): Claims {
    const { signal } = new AbortController();
    const claims: Partial<Claims> = {
      watches: () => this.isWatched,
      seen: () => {
        if (this.cached === "unknown" || !this.isWatched)
          return { is: "read", project: "web", claim: { is: "unknown", because: "not read" } };
        return this.cached ? claimed(this.cached) : { is: "read", project: "web", claim: { is: "none" } };
      },
      isAsked: (_project, uid) => this.#keeper.has(uid),
      ask: (_project, uid, question) =>
        this.#keeper.ask(uid, () => {
          const asked: Promise<void> = question(this.#plane, signal)
            .catch((error: unknown) => void this.told.push(String(error)))
            .finally(() => this.#open.delete(asked));
          this.#open.add(asked);
          return asked;
        }),
      forget: (_project, uid) => this.#keeper.forget(uid),
      outage: () => this.#plane.outage,
      watchProblem: () => this.watchProblem,
    };
    return claims as Claims;
  }
}

const granted = aClaim({ granted: "True/QuotaAvailable: m" });
const at = (version: string, claim: ResourceClaim): ResourceClaim => ({
  ...claim,
  metadata: { ...claim.metadata, resourceVersion: version },
});
const down: ApiFailure = { kind: "serverError", status: 503 };

describe("what is known of the claim of an Instance", () => {
  it("is what the watch shows, without a question, until its tier has passed", async () => {
    const service = new Service();
    service.cached = granted;
    expect(await service.see()).toMatchObject(claimed(granted));
    await service.clock.advance(TIER_MS - 200);
    await service.see();
    expect(service.sent).toEqual([]);
    await service.clock.advance(200);
    await service.see();
    expect(service.sent).toEqual(["read"]);
    expect(service.told).toEqual(["ns-u/w-us-dfw-0"]);
  });

  it("R8 is asked for at once where nothing is watched, and then once in a tier", async () => {
    const service = new Service();
    service.isWatched = false;
    service.answers.set("read", [granted]);
    expect(service.quota.see(instance)).toMatchObject({ claim: { is: "unknown" } });
    expect(await service.see()).toMatchObject(claimed(granted));
    await service.see();
    expect(service.sent).toEqual(["read"]);
  });

  it("is not asked for while nothing waits for it, if it is watched", async () => {
    const service = new Service();
    service.cached = granted;
    await service.see(running);
    await service.clock.advance(86_400_000);
    await service.see(running);
    expect(service.sent).toEqual([]);
  });

  it("is the answer until the watch shows a later version, and then what the watch shows", async () => {
    const service = new Service();
    service.answers.set("create", [at("5", aClaim())]);
    await service.see();
    service.quota.change(instance, { do: "create", claim: aClaim() });
    await service.settle();
    expect(service.quota.see(instance)).toMatchObject(claimed(at("5", aClaim())));
    service.cached = at("4", aClaim({ uid: "uid-0" }));
    expect(service.quota.see(instance)).toMatchObject(claimed(at("5", aClaim())));
    service.cached = at("6", granted);
    expect(service.quota.see(instance)).toMatchObject(claimed(at("6", granted)));
  });

  it("is what the watch shows where the versions cannot be compared", async () => {
    const service = new Service();
    service.answers.set("create", [at("b", aClaim())]);
    await service.see();
    service.quota.change(instance, { do: "create", claim: aClaim() });
    await service.settle();
    service.cached = at("a", granted);
    expect(service.quota.see(instance)).toMatchObject(claimed(at("a", granted)));
  });

  it("is asked about by the name of the Instance, whatever fields it lacks", async () => {
    const service = new Service();
    service.isWatched = false;
    service.answers.set("read", [{ kind: "forbidden" }]);
    service.quota.change({}, { do: "create", claim: aClaim() });
    expect(await service.see({ ...instance, metadata: {} })).toMatchObject({
      reason: "QuotaMisconfigured",
    });
    expect([service.sent, service.told]).toEqual([["read"], ["QuotaMisconfigured", "/"]]);
  });

  it("says how long this process has known this very claim", async () => {
    const service = new Service();
    service.cached = granted;
    await service.clock.advance(1);
    await service.see();
    await service.clock.advance(700);
    expect(service.quota.see(instance)).toMatchObject({ knownMs: 700 });
    service.cached = { ...granted, metadata: { ...granted.metadata, uid: "claim-2" } };
    expect(service.quota.see(instance)).toMatchObject({ knownMs: 0 });
  });

  it("is off without a quota service", () => {
    const { quota } = new Service({ ...CELL, quota: undefined });
    expect([
      quota.see(instance),
      quota.hold("ns-u"),
      quota.sweep({ namespace: "", name: "" }, "", fail),
    ]).toEqual([{ is: "off" }, undefined, false]);
  });
});

const fail = (): never => expect.fail("asked for nothing");

describe("a change of a claim", () => {
  it("is sent once, however often it is decided, and its answer brings the next look", async () => {
    const service = new Service();
    await service.see();
    for (const claim of [aClaim(), aClaim()]) service.quota.change(instance, { do: "create", claim });
    expect(service.sent).toEqual(["create"]);
    await service.settle();
    expect(service.told).toEqual(["ns-u/w-us-dfw-0"]);
    service.quota.change(instance, { do: "create", claim: aClaim() });
    expect(service.sent).toEqual(["create", "create"]);
  });

  it("that waited for a look, and is decided again while it is open, is sent once", async () => {
    const service = new Service();
    service.isWatched = false;
    service.onSent = () => {
      if (service.sent.join() === "read,create")
        service.quota.change(instance, { do: "create", claim: aClaim() });
    };
    service.quota.see(instance);
    service.quota.change(instance, { do: "create", claim: aClaim() });
    await service.settle();
    expect(service.sent).toEqual(["read", "create"]);
  });

  it("to delete it is read back where no watch shows the end", async () => {
    const service = new Service();
    service.isWatched = false;
    service.answers.set("read", [{ kind: "notFound" }]);
    await service.see();
    service.quota.change(instance, { do: "delete", claim: granted });
    await service.settle();
    expect(service.sent).toEqual(["read", "delete", "read"]);
    expect(service.quota.see(instance)).toMatchObject({ claim: { is: "none" } });
  });

  it("that was refused is tried again after its time, also for an Instance that runs", async () => {
    const service = new Service();
    service.answers.set("create", [{ kind: "forbidden" }]);
    await service.see(running);
    service.quota.change(running, { do: "create", claim: aClaim() });
    await service.settle();
    const message = expect.stringContaining("resourceclaims");
    expect(service.quota.see(running)).toEqual({ is: "failed", reason: "QuotaMisconfigured", message });
    expect(service.told).toEqual(["QuotaMisconfigured", "ns-u/w-us-dfw-0"]);
    await service.clock.advance(30 * 60_000);
    expect(service.quota.see(running)).toMatchObject({ claim: { is: "none" } });
  });

  it.each<[string, Instance, boolean, number]>([
    ["is not watched", running, false, 30 * 60_000],
    ["waits", instance, true, TIER_MS],
  ])(
    "that was refused stays so until the next answer, for an Instance that %s",
    async (_, of, isWatched, ms) => {
      const service = new Service();
      service.isWatched = isWatched;
      for (const verb of ["create", "read"]) service.answers.set(verb, [{ kind: "forbidden" }]);
      await service.see(of);
      service.quota.change(of, { do: "create", claim: aClaim() });
      await service.settle();
      await service.clock.advance(ms);
      expect(service.quota.see(of)).toMatchObject({ is: "failed", reason: "QuotaMisconfigured" });
    },
  );

  it("that was refused is over once the watch shows another claim, and one that was made never is", async () => {
    const service = new Service();
    service.answers.set("create", [{ kind: "forbidden" }, at("5", granted)]);
    await service.see(running);
    const create = async (): Promise<void> => {
      service.quota.change(running, { do: "create", claim: aClaim() });
      await service.settle();
    };
    await create();
    service.cached = at("4", aClaim());
    expect(service.quota.see(running)).toMatchObject(claimed(at("4", aClaim())));
    service.cached = undefined;
    await create();
    await service.clock.advance(30 * 60_000);
    expect(service.quota.see(running)).toMatchObject({ claim: { is: "there" } });
  });

  it("of an Instance that is gone is not asked, and its answer is not kept", async () => {
    const service = new Service();
    await service.see();
    service.quota.change(instance, { do: "create", claim: aClaim() });
    service.quota.forget("uid-1");
    await service.settle();
    expect(service.told).toEqual([]);
    service.quota.change(instance, { do: "create", claim: aClaim() });
    expect(service.sent).toEqual(["create"]);
  });

  it("is not sent while it is not known any more who pays", async () => {
    const service = new Service();
    await service.see();
    service.namespace = {};
    expect(service.quota.see(instance)).toMatchObject({ is: "unresolvable" });
    service.quota.change(instance, { do: "create", claim: aClaim() });
    expect(service.sent).toEqual([]);
  });

  it("that waits is dropped with its Instance", async () => {
    const service = new Service();
    service.answers.set("create", [down]);
    service.answers.set("probe", [aClaim()]);
    const other = { ...instance, metadata: { ...instance.metadata, uid: "uid-2" } };
    for (const one of [instance, other]) {
      await service.see(one);
      service.quota.change(one, { do: "create", claim: aClaim() });
      await service.settle();
    }
    service.quota.forget("uid-2");
    await service.probe();
    expect(service.sent).toEqual(["create", "probe"]);
  });
});

describe("a service that does not work", () => {
  it("A15 fails the Instance that asked, then all that wait, and is asked by all of them once it works", async () => {
    const service = new Service();
    service.isWatched = false;
    service.answers.set("read", [down, granted]);
    service.answers.set("probe", [down, aClaim()]);
    expect(await service.see()).toMatchObject({ is: "failed", reason: "QuotaBackendUnavailable" });
    const other = { ...instance, metadata: { ...instance.metadata, uid: "uid-2", name: "w-us-dfw-1" } };
    expect(await service.see(other)).toMatchObject({ claim: { is: "unknown" } });
    service.told.length = 0;
    await service.probe();
    expect(service.told).toEqual(["ns-u/w-us-dfw-0", "ns-u/w-us-dfw-1"]);
    expect(service.quota.see(other)).toMatchObject({ is: "failed", reason: "QuotaBackendUnavailable" });
    expect(service.sent).toEqual(["read", "probe"]);
    await service.probe();
    expect(service.quota.see(other)).toMatchObject(claimed(granted));
    expect(await service.see()).toMatchObject(claimed(granted));
    expect(service.sent).toEqual(["read", "probe", "probe", "read", "read"]);
  });

  it.each<[string, ResourceClaim, object]>([
    ["takes back no grant", at("4", granted), claimed(at("4", granted), TIER_MS)],
    [
      "is said of a claim without one",
      at("4", aClaim()),
      { is: "failed", reason: "QuotaBackendUnavailable" },
    ],
  ])("%s that the watch shows", async (_, cached, expected) => {
    const service = new Service();
    service.cached = cached;
    service.answers.set("read", [down]);
    await service.see();
    await service.clock.advance(TIER_MS);
    expect(await service.see()).toMatchObject(expected);
  });

  it("keeps what an Instance is to have made, and no look replaces it", async () => {
    const service = new Service();
    service.answers.set("read", [down, granted]);
    service.answers.set("probe", [down, aClaim()]);
    await service.see();
    await service.clock.advance(TIER_MS);
    await service.see();
    service.quota.change(instance, { do: "create", claim: aClaim() });
    await service.clock.advance(TIER_MS);
    service.quota.see(instance);
    await service.probe();
    await service.probe();
    expect(service.sent).toEqual(["read", "probe", "probe", "create"]);
  });

  it("concerns no Instance that asks nothing, or is granted by what the watch shows", async () => {
    const service = new Service();
    service.answers.set("read", [down]);
    service.answers.set("probe", [down]);
    service.cached = granted;
    await service.see();
    await service.clock.advance(TIER_MS);
    await service.see();
    await service.clock.advance(TIER_MS);
    service.quota.see(instance);
    const other = { ...running, metadata: { ...running.metadata, uid: "uid-2", name: "w-us-dfw-1" } };
    service.quota.see(other);
    service.told.length = 0;
    await service.probe();
    expect(service.quota.see(instance)).toMatchObject(claimed(granted, 2 * TIER_MS));
    service.cached = undefined;
    expect(service.quota.see(other)).toMatchObject({ claim: { is: "none" } });
    expect(service.told).toEqual(["ns-u/w-us-dfw-0"]);
  });

  it.each<[string, ApiFailure, string]>([
    ["of other projects concerns no Instance of this one", down, "shop"],
    ["concerns no Instance whose claim was refused", { kind: "forbidden" }, "web"],
  ])("%s", async (_, failure, changed) => {
    const service = new Service();
    service.answers.set("create", [failure]);
    await service.see();
    service.quota.change(instance, { do: "create", claim: aClaim() });
    await service.settle();
    service.told.length = 0;
    service.quota.serviceChanged((project) => project === changed);
    expect(service.told).toEqual([]);
  });
});

describe("H24 a roll of Ready Instances is held", () => {
  it.each<[string, Namespace | undefined, string]>([
    ["has no labels", {}, "namespace ns-u does not say which project pays"],
    [
      "names no project",
      { metadata: { labels: { [labels.upstreamCluster]: "web" } } },
      "namespace ns-u does not",
    ],
    ["was not read", undefined, ""],
  ])("while its namespace %s, because no claim can be made there", (_, namespace, why) => {
    const service = new Service();
    service.namespace = namespace;
    expect(service.quota.hold("ns-u")?.slice(0, why.length || 1)).toBe(why);
  });

  it("while the watch of claims fails, and in silence while it has only not begun", () => {
    const service = new Service();
    service.watchProblem = "not connected for 6 s";
    expect(service.quota.hold("ns-u")).toBe("not connected for 6 s");
    service.watchProblem = "";
    expect(service.quota.hold("ns-u")).toBe("");
    expect(service.sent).toEqual([]);
  });

  it.each<[ApiFailure]>([[{ kind: "forbidden" }], [{ kind: "notFound" }]])(
    "while the service would refuse a claim: %o",
    async (failure) => {
      const service = new Service();
      service.answers.set("try", [failure, aClaim()]);
      expect(service.quota.hold("ns-u")).toBe("");
      expect(service.quota.hold("ns-u")).toBe("");
      await service.settle();
      expect(service.told).toEqual(["hold ns-u"]);
      expect(service.quota.hold("ns-u")).toMatch(/resourceclaims/);
      await service.clock.advance(59_000);
      service.quota.hold("ns-u");
      expect(service.tried).toEqual([
        {
          in: "default",
          metadata: { name: "instance-trial-of-berth" },
          spec: { ...aClaim().spec, requests: [{ resourceType: requestTypes.instances, amount: 1 }] },
        },
      ]);
      await service.clock.advance(1_000);
      expect(service.quota.hold("ns-u")).toMatch(/resourceclaims/);
      await service.settle();
      expect(service.quota.hold("ns-u")).toBeUndefined();
      expect(service.sent.filter((it) => it === "try")).toHaveLength(2);
      // What is known of one namespace of the project says nothing of another one.
      service.namespace = {
        metadata: { labels: { ...ours.metadata?.labels, [labels.upstreamNamespace]: "x" } },
      };
      expect(service.quota.hold("ns-u")).toBe("");
    },
  );

  it("while the service does not answer", async () => {
    const service = new Service();
    service.answers.set("try", [down]);
    service.quota.hold("ns-u");
    await service.settle();
    expect(service.quota.hold("ns-u")).toMatch(/^the quota service does not answer: /);
  });
});

describe("the claim of an Instance that is gone", () => {
  const key = { namespace: "ns-u", name: "w-us-dfw-0" };
  const uid = async (): Promise<string> => Promise.resolve("uid-2");

  it("is deleted, once the API server says so as well", async () => {
    const service = new Service();
    service.cached = granted;
    expect([service.quota.sweep(key, undefined, uid), service.quota.sweep(key, undefined, uid)]).toEqual([
      true,
      true,
    ]);
    await service.settle();
    expect(service.sent).toEqual(["delete"]);
  });

  it.each<[string, FleetSpec["cell"], FleetSpec["quota"], boolean]>([
    ["of one name shares a service with others", "single", from, false],
    ["of one name has a service of its own", "single", { from: "Cluster" }, true],
    ["has a name of its own", "dfw-01", from, true],
  ])("is deleted only where it is known whose it is: a cell that %s", (_, cell, quota, isLeft) => {
    const service = new Service({ ...CELL, cell, quota });
    service.cached = aClaim({ source: cell });
    expect(service.quota.sweep(key, undefined, uid)).toBe(isLeft);
  });

  it("stays while it is not known who pays", () => {
    const service = new Service();
    service.cached = granted;
    service.namespace = {};
    expect(service.quota.sweep(key, undefined, fail)).toBe(false);
  });

  it("is deleted later where its Instance cannot be asked for, and a fault of Berth is none of that", async () => {
    const service = new Service();
    service.cached = granted;
    service.quota.sweep(key, undefined, () => Promise.reject(new TypeError("a fault")));
    await service.settle();
    expect([service.sent, service.told]).toEqual([[], ["TypeError: a fault"]]);
  });

  it.each<[string, ResourceClaim | undefined, string | undefined, () => Promise<string>]>([
    ["is there in truth", granted, undefined, () => Promise.resolve("uid-1")],
    ["is cached", granted, "uid-1", fail],
    ["has no claim", undefined, undefined, fail],
    ["has a claim that ends", aClaim({ terminating: true }), undefined, fail],
    ["is of another cluster", aClaim({ source: "ord-01" }), undefined, fail],
    ["was the original's", aClaim({ uid: undefined }), undefined, fail],
    [
      "cannot be asked for",
      granted,
      "uid-1x",
      () => Promise.reject(new ApiError({ kind: "unreachable" }, { verb: "list", resource: "instances" })),
    ],
  ])("stays while its Instance %s", async (_, claim, cachedUid, now) => {
    const service = new Service();
    service.cached = claim;
    expect(service.quota.sweep(key, cachedUid, now)).toBe(now !== fail);
    await service.settle();
    expect([service.sent, service.told]).toEqual([[], []]);
  });
});
