import type { KubeObject } from "@berth/kube";
import { backoffDelay } from "../backoff.ts";
import { sleep } from "../clock.ts";
import type { Component, Running } from "../component.ts";
import { whenAborted } from "../component.ts";
import type { Controller } from "../controller.ts";
import type { ClusterName } from "../key.ts";
import { createSharedInformers } from "../shared/shared-informers.ts";
import { Attention } from "./attention.ts";
import { boundedReader, type ReadLimit } from "./bounded-reader.ts";
import { ClusterController, type ClusterControllerOptions } from "./cluster-controller.ts";
import {
  type ClusterAccess,
  type ClusterCommon,
  Connection,
  type EngagedCluster,
} from "./engaged-cluster.ts";
import { ClusterView, type FleetView, type ViewMembership, type ViewRequest } from "./fleet-view.ts";
import { scopeMetrics } from "./metrics-scope.ts";
import { provenReader } from "./proven-reader.ts";
import { SnapshotSlots } from "./snapshot-slots.ts";

/** Options of a set. */
export interface ClusterSetOptions extends ClusterCommon {
  /** Lower case, digits and dashes: the name of the component. */
  readonly name: string;
  /** Of each cluster, and of each kind of object. Default: none. */
  readonly limit?: ReadLimit;
}

/**
 * Clusters of one role that join and leave while the program runs.
 *
 * - Each has its own connections, credential, caches, workers and limits. A cluster that hangs or fails delays no other,
 *   and never ends the program.
 * - When a cluster has left, nothing of it is left: no request, informer, key or metric.
 * - Names are unique within a set, and a name is never empty (`ClusterName`).
 */
export interface ClusterSet extends Component {
  /**
   * A cluster joins, also before the start. One that has joined already changes its credential and authority without a
   * list, if all else is equal. Otherwise it leaves and joins anew.
   */
  join(name: ClusterName, access: ClusterAccess): void;
  /** Resolves once nothing of the cluster runs. */
  leave(name: ClusterName): Promise<void>;
  has(name: ClusterName): boolean;
  /** `undefined` also for a cluster that has just joined, until its first probe has ended. */
  get(name: ClusterName): EngagedCluster | undefined;
  /** Those that `get` returns. */
  list(): readonly EngagedCluster[];
  /** Calls `handler` when a cluster has joined, was probed first, was lost or reached again, was restored, or has left. */
  subscribe(handler: (of: ClusterName) => void): Disposable;
  /** Follows a kind of object in all clusters. @throws Error after the start. */
  view<T extends KubeObject>(request: ViewRequest<T>): FleetView<T>;
  /** A controller with a queue for each cluster. The caller has it run, for example on the leader alone. */
  controller(options: ClusterControllerOptions): Controller;
}

/** Creates a set without clusters. Nothing is sent before `start`. */
export function createClusterSet(options: ClusterSetOptions): ClusterSet {
  return new SupervisedClusters(options);
}

/** From the join of a cluster until it leaves. */
interface Membership {
  access: ClusterAccess;
  readonly stop: AbortController;
  /** Of the present attempt. */
  connection: Connection | undefined;
  ended: Promise<void>;
}

/** The waits before a cluster is engaged again whose parts have failed. Milliseconds. */
const AGAIN = { baseMs: 1_000, capMs: 60_000 };

class SupervisedClusters implements ClusterSet {
  readonly name: string;
  readonly #options: ClusterSetOptions;
  readonly #members = new Map<ClusterName, Membership>();
  /** The last membership of a name, which ends before the next one begins. */
  readonly #leaving = new Map<ClusterName, Promise<void>>();
  readonly #views: ViewMembership[] = [];
  readonly #slots: SnapshotSlots;
  readonly #attention: Attention;
  readonly #handlers = new Set<{ readonly tell: (of: ClusterName) => void }>();
  #running: AbortSignal | undefined;

  constructor(options: ClusterSetOptions) {
    this.name = options.name;
    this.#options = options;
    this.#slots = new SnapshotSlots(options.clock);
    this.#attention = new Attention(options.clock);
  }

  join(name: ClusterName, access: ClusterAccess): void {
    const known = this.#members.get(name);
    if (known?.connection?.renew(known.access, access)) {
      known.access = access;
      return;
    }
    if (known !== undefined) void this.leave(name);
    const member: Membership = {
      access,
      stop: new AbortController(),
      connection: undefined,
      ended: Promise.resolve(),
    };
    this.#members.set(name, member);
    if (this.#running !== undefined) this.#begin(name, member);
    this.#tell(name);
  }

  async leave(name: ClusterName): Promise<void> {
    const member = this.#members.get(name);
    if (member !== undefined) {
      this.#members.delete(name);
      member.stop.abort();
      for (const view of this.#views) view.leave(name);
      this.#leaving.set(name, member.ended);
      this.#tell(name);
    }
    const ended = this.#leaving.get(name);
    await ended;
    if (this.#leaving.get(name) === ended) this.#leaving.delete(name);
  }

  has(name: ClusterName): boolean {
    return this.#members.has(name);
  }

  get(name: ClusterName): EngagedCluster | undefined {
    const connection = this.#members.get(name)?.connection;
    return connection?.isEngaged ? connection : undefined;
  }

  list(): readonly EngagedCluster[] {
    return [...this.#members.keys()].flatMap((name) => this.get(name) ?? []);
  }

  subscribe(handler: (of: ClusterName) => void): Disposable {
    const own = { tell: handler };
    this.#handlers.add(own);
    return { [Symbol.dispose]: () => void this.#handlers.delete(own) };
  }

  view<T extends KubeObject>(request: ViewRequest<T>): FleetView<T> {
    if (this.#running !== undefined) throw new Error(`a view of ${this.name} comes too late`);
    const view = new ClusterView(request, this.#options.log, (of) => this.has(of));
    this.#views.push(view);
    return view;
  }

  controller(options: ClusterControllerOptions): Controller {
    return new ClusterController(options, this.#options, this);
  }

  /** Does not wait for any cluster: one that hangs must not hold up the others. */
  start(signal: AbortSignal): Promise<Running> {
    this.#running = signal;
    for (const [name, member] of this.#members) this.#begin(name, member);
    const attending = this.#attention.run(signal);
    const stop = async (): Promise<void> => {
      await attending;
      await Promise.all([...this.#members.keys()].map((name) => this.leave(name)));
      await Promise.all(this.#leaving.values());
    };
    return Promise.resolve({ ended: whenAborted(signal).then(stop) });
  }

  note(): string | undefined {
    const lost = this.list().filter(({ reach }) => reach.is === "no");
    if (lost.length === 0) return undefined;
    return `${lost.length} of ${this.#members.size} clusters are not reached: ${lost.map(({ name }) => name).join(", ")}`;
  }

  #begin(name: ClusterName, member: Membership): void {
    const before = this.#leaving.get(name);
    member.ended = (async () => {
      await before;
      await this.#supervise(name, member);
    })();
  }

  /** Engages the cluster until it leaves, and again after a failure of one of its parts. */
  async #supervise(name: ClusterName, member: Membership): Promise<void> {
    const { clock, log, random = Math.random } = this.#options;
    const { signal } = member.stop;
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        await this.#engage(name, member);
      } catch (error) {
        log.error("a part of a cluster failed; it is engaged again", {
          cluster: name,
          error: error instanceof Error ? (error.stack ?? error.message) : String(error),
        });
        await sleep(clock, backoffDelay(failures, { ...AGAIN, random }), signal);
      }
    }
  }

  /** Runs all parts until the cluster leaves, or one of them fails. Then all have ended. */
  async #engage(name: ClusterName, member: Membership): Promise<void> {
    const { clock, random, limit } = this.#options;
    using metrics = scopeMetrics(this.#options.metrics, { cluster: name });
    const common = { ...this.#options, attention: this.#attention };
    const connection = new Connection(name, member.access, common, () => this.#update(name));
    const informers = createSharedInformers({
      client: () => {
        const reader = provenReader(connection, this.#slots);
        if (limit === undefined) return reader;
        const onExcess = (kind: string, excess: string | undefined): void => connection.exceed(kind, excess);
        return boundedReader(reader, { clock, limit, onExcess });
      },
      cluster: name,
      clock,
      ...(random && { random }),
    });
    member.connection = connection;
    metrics.gauge({
      name: `${metrics.prefix}cluster_reached`,
      help: "1 while the cluster answers, with the right identity.",
      labels: ["cluster"],
      collect: (gauge) => gauge.set(connection.isReached ? 1 : 0, { cluster: name }),
    });
    const parts = this.#views.map((view) => view.join(connection, informers, metrics));
    const failing = new AbortController();
    const signal = AbortSignal.any([member.stop.signal, failing.signal]);
    const mustLast = async (run: Promise<void>): Promise<void> => {
      try {
        await run;
        if (!signal.aborted) throw new Error("it ended unexpectedly");
      } finally {
        failing.abort();
      }
    };
    const ends = await Promise.allSettled([
      mustLast(connection.run(signal)),
      ...[connection.events, ...parts].map((part) => mustLast(part.start(signal).then((it) => it.ended))),
    ]);
    member.connection = undefined;
    for (const view of this.#views) view.leave(name);
    const failed = ends.find((end) => end.status === "rejected");
    if (failed) throw failed.reason;
  }

  /** The reach of a cluster has changed. */
  #update(name: ClusterName): void {
    for (const view of this.#views) view.update(name);
    this.#tell(name);
  }

  #tell(of: ClusterName): void {
    for (const { tell } of this.#handlers) {
      try {
        tell(of);
      } catch (error) {
        this.#options.log.error("a handler of the clusters failed", { cluster: of, error: String(error) });
      }
    }
  }
}
