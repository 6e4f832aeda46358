/** The reconciler of one pool on a clock of its own, with what its cache shows and what the server says each given. */
import { ApiError, type ApiFailure, type Deployment } from "@berth/kube";
import { createVirtualClock, type EventInput, type ReconcileResult, type VirtualClock } from "@berth/runtime";
import { clientOf, lookingAt } from "../../node/testing/object-run.ts";
import type { WorkerPoolAllowance } from "../allowance.ts";
import { type DeploymentBody, type WorkerPoolConfig } from "../deployment.ts";
import type { WorkerPoolSpec, WorkerPoolStatus } from "../document.ts";
import { workerPoolRules } from "../reconciler.ts";
import type { WorkerPool } from "../resource.ts";
import { storedOf } from "./stored-deployment.ts";

export const ALLOW: WorkerPoolAllowance = {
  images: ["registry.test/"],
  namespaces: ["n"],
  priorityClasses: [],
};

const SPEC: WorkerPoolSpec = {
  replicas: 2,
  ateomImage: "registry.test/ateom:1",
  template: { nodeSelector: { a: "b" }, resources: { requests: { cpu: "1" } } },
};

/** Versions of the server count up from here. */
const FIRST_VERSION = 100;

export class PoolRun {
  readonly clock: VirtualClock = createVirtualClock();
  readonly applied: Deployment[] = [];
  readonly statuses: WorkerPoolStatus[] = [];
  readonly events: EventInput[] = [];
  config: WorkerPoolConfig | undefined = { allow: ALLOW, workerPoolUid: false };
  isSynced = true;
  /** What the cache shows. */
  pool: WorkerPool | undefined = {
    metadata: { name: "p", namespace: "n", uid: "u", generation: 1, resourceVersion: "1" },
    spec: SPEC,
  };
  deployment: Deployment | undefined;
  /** What the server says when asked for the pool; default what the cache shows. */
  truth: WorkerPool | "gone" | undefined;
  /** What the server says to an apply. */
  refusal: ApiFailure | undefined;
  #version = FIRST_VERSION;
  readonly #client = clientOf({
    get: () => this.#settle("get", this.truth === "gone" ? undefined : (this.truth ?? this.pool)),
    apply: async (body) => {
      this.applied.push(body);
      if (this.refusal !== undefined) throw failed("patch", this.refusal);
      return this.#settle("patch", this.stored(body));
    },
    patch: async (_, { body }) => {
      this.statuses.push((body as WorkerPool).status ?? {});
      return this.#settle("patch", { metadata: { resourceVersion: this.#next() } });
    },
  });
  readonly #look = lookingAt({
    rules: workerPoolRules({
      deployments: { get: () => this.deployment },
      isSynced: () => this.isSynced,
      config: () => this.config,
      clock: this.clock,
      client: this.#client,
    }),
    objects: { get: () => this.pool },
    client: this.#client,
    clock: this.clock,
    events: { record: (event) => void this.events.push(event) },
  });

  reconcile(): Promise<ReconcileResult | undefined> {
    return this.#look("n", "p");
  }

  /** As the server stores what was applied last, with this change of another writer. */
  stored(body: Deployment, change: Partial<NonNullable<Deployment["spec"]>> = {}): Deployment {
    const stored = storedOf(body as DeploymentBody);
    const metadata = { ...stored.metadata, resourceVersion: this.#next() };
    return { ...stored, metadata, ...(stored.spec && { spec: { ...stored.spec, ...change } }) };
  }

  /** The cache shows what was applied last, with this change of another writer. */
  show(change: Partial<NonNullable<Deployment["spec"]>> = {}): void {
    const last = this.applied.at(-1);
    if (last !== undefined) this.deployment = this.stored(last, change);
  }

  edit(change: Partial<WorkerPoolSpec>): void {
    const { metadata } = this.pool ?? {};
    this.pool = { metadata: { ...metadata, generation: 2 }, spec: { ...SPEC, ...change } };
  }

  #next(): string {
    this.#version += 1;
    return String(this.#version);
  }

  #settle<T>(verb: "get" | "patch", answer: T | undefined): Promise<T> {
    if (answer === undefined) return Promise.reject(failed(verb, { kind: "notFound" }));
    return Promise.resolve(answer);
  }
}

function failed(verb: "get" | "patch", failure: ApiFailure): ApiError {
  return new ApiError(failure, { verb, resource: "deployments.apps", namespace: "n", name: "p-deployment" });
}
