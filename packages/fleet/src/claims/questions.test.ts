/** The claims of projects, with the questions and the keepers that run, on a virtual clock. */
import { ApiError, type ApiFailure, type KubeClient, type Namespace } from "@berth/kube";
import { clusterName, createSilentLogger, createVirtualClock } from "@berth/runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { labels } from "../api/keys.ts";
import { fleetKind } from "../fleet/document.ts";
import { aClaim, anInstance, BORN } from "../instance/testing/views.ts";
import { Claims } from "./claims.ts";
import { Quota } from "./quota.ts";

const cluster = clusterName("local");
const spec = fleetKind.spec.parse({
  mode: "cell",
  cell: "dfw-01",
  quota: { from: "Projects", kubeconfig: "quota" },
});
const instance = anInstance();
const down: ApiFailure = { kind: "serverError", status: 500 };
/** What one request takes, ms. */
const ANSWER_MS = 10;
const TIER_MS = 1000;

/** The planes of all projects, which are not watched, and a cell that looks again at each answer. */
class Planes {
  readonly clock = createVirtualClock(BORN);
  /** `get web`, in order. */
  readonly sent: string[] = [];
  /** By request. Default: an undecided claim. */
  readonly failures = new Map<string, ApiFailure>();
  project: string | undefined = "web";
  readonly #stop = new AbortController();
  readonly claims = new Claims({
    service: { clientOf: (project) => this.#client(project), isShared: false },
    cluster,
    source: "dfw-01",
    clock: this.clock,
    log: createSilentLogger(),
    onChange: () => undefined,
    onService: (isOf) => this.quota.serviceChanged(isOf),
  });
  readonly quota: Quota = new Quota({
    fleet: { spec },
    claims: this.claims,
    cluster,
    namespaces: { find: () => this.#namespace() },
    clock: this.clock,
    onAnswer: () => void this.quota.see(instance),
    onHold: () => undefined,
    onFailure: () => undefined,
  });

  /** A look that is due, and the time in which it is answered. */
  async look(): Promise<void> {
    this.quota.see(instance);
    await this.clock.advance(TIER_MS);
    this.quota.see(instance);
    await this.clock.advance(10 * ANSWER_MS);
  }

  async stop(): Promise<void> {
    await this.claims.start(this.#stop.signal);
    this.#stop.abort();
  }

  #namespace(): Namespace {
    const { project } = this;
    const upstream = { [labels.upstreamNamespace]: "default" };
    return {
      metadata: { labels: project ? { ...upstream, [labels.upstreamCluster]: `cluster-${project}` } : {} },
    };
  }

  #client(project: string): KubeClient {
    const answer = (verb: string): Promise<never> => {
      const asked = `${verb} ${project}`;
      this.sent.push(asked);
      const failure = this.failures.get(asked);
      const { promise, resolve, reject } = Promise.withResolvers<never>();
      this.clock.schedule(ANSWER_MS, () => {
        if (failure === undefined) resolve(aClaim() as never);
        else reject(new ApiError(failure, { verb: "get", resource: "resourceclaims" }));
      });
      return promise;
    };
    return {
      get: () => answer("get"),
      create: () => answer("create"),
      delete: () => answer("delete"),
      read: () => answer("probe"),
    } as unknown as KubeClient;
  }
}

let planes: Planes;
beforeEach(() => (planes = new Planes()));
afterEach(() => planes.stop());

it("S-17 a service that answers its discovery alone gets one question between two probes", async () => {
  planes.failures.set("get web", down);
  await planes.look();
  planes.sent.length = 0;
  await planes.clock.advance(10_000);
  expect(planes.sent.length).toBeGreaterThan(4);
  expect(planes.sent.length).toBeLessThanOrEqual(12);
});

describe("a question that waits while the service of its project is down", () => {
  beforeEach(async () => {
    planes.failures.set("get web", down).set("probe web", down);
    await planes.look();
    await planes.look();
    planes.sent.length = 0;
  });

  it("is asked anew once its project was dropped and is named again", async () => {
    planes.claims.keep((project) => project !== "web");
    planes.failures.clear();
    await planes.look();
    expect(planes.sent).toEqual(["get web"]);
  });

  it("is no question about another project, and neither is its answer", async () => {
    planes.failures.clear();
    await planes.clock.advance(10_000);
    expect(planes.quota.see(instance)).toMatchObject({ project: "web", claim: { is: "there" } });
    planes.project = "shop";
    expect(planes.quota.see(instance)).toMatchObject({ project: "shop", claim: { is: "unknown" } });
  });

  it("and is open when the namespace names another project has an answer that counts no more", async () => {
    planes.failures.clear();
    await planes.clock.advance(2000);
    planes.quota.see(instance);
    await planes.clock.advance(TIER_MS);
    planes.quota.see(instance);
    await planes.clock.advance(ANSWER_MS / 2);
    planes.project = "shop";
    planes.quota.see(instance);
    await planes.clock.advance(ANSWER_MS - 1);
    expect(planes.sent.at(-1)).toBe("get web");
    expect(planes.quota.see(instance)).toMatchObject({ project: "shop", claim: { is: "unknown" } });
  });

  it("goes to the project that the namespace names now", async () => {
    planes.project = "shop";
    await planes.look();
    expect(planes.sent.filter((it) => it.startsWith("get"))).toEqual(["get shop"]);
  });
});
