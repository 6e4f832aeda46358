import {
  ApiError,
  type ApiFailure,
  type KubeClient,
  type KubeObject,
  type Lease,
  type ListOptions,
  type Resource,
  type WatchOptions,
  type WatchStream,
} from "@berth/kube";
import { type Clock, sleep } from "../clock.ts";
import { whenAborted } from "../component.ts";
import { VersionLog } from "./version-log.ts";

/** How a server treats requests. `silent`: it answers them once it is `up` again, as after SIGSTOP. */
export type Mood = "up" | "refused" | "silent" | "unauthorized" | "forbidden" | "busy";

const LATENCY_MS = 5;
const FAILURES: Readonly<Partial<Record<Mood, ApiFailure>>> = {
  refused: { kind: "unreachable", noConnection: true },
  unauthorized: { kind: "unauthorized" },
  forbidden: { kind: "forbidden" },
  busy: { kind: "tooManyRequests", causes: [] },
};

/**
 * The part of an API server that a `ClusterSet` stands on: things that are listed and watched, a version, an identity, and
 * moods. It can be restored from a backup, and replaced by another cluster behind the same address.
 */
export class ClusterWorld {
  log: VersionLog;
  mood: Mood = "up";
  /** Probes alone come here, and all else goes there: as behind a load balancer that is wrong. */
  elsewhere: ClusterWorld | undefined;
  uid: string;
  /** Those that probes read. */
  leases: readonly Lease[] = [];
  /** Requests that have arrived, and those among them that are not answered yet. */
  requests = 0;
  inFlight = 0;
  /** Names of `get`s that were answered. */
  readonly gotten: string[] = [];
  readonly #clock: Clock;
  readonly #history: ((log: VersionLog) => void)[] = [];
  readonly #right: string;
  readonly #refusesStreams: boolean;
  #awake = Promise.withResolvers<void>();

  /** @param refusesStreams it knows no snapshots by stream, so all come in pages. */
  constructor(clock: Clock, uid: string, refusesStreams = false) {
    this.#clock = clock;
    this.uid = uid;
    this.#right = uid;
    this.#refusesStreams = refusesStreams;
    this.log = new VersionLog({ clock, refusesStreams });
  }

  get isRight(): boolean {
    return this.uid === this.#right;
  }

  get version(): string {
    return `${this.log.states.length - 1}`;
  }

  /** @param atMs when its holder says that it renewed its Lease: by another clock than that of the test, maybe. */
  renew(atMs: number): void {
    const resourceVersion = String(atMs);
    this.leases = [{ metadata: { resourceVersion }, spec: { renewTime: new Date(atMs).toISOString() } }];
  }

  write(name: string): void {
    this.#change((log) => log.write(this.isRight ? name : `other-${name}`));
  }

  remove(name: string): void {
    this.#change((log) => log.remove(this.isRight ? name : `other-${name}`));
  }

  become(mood: Mood): void {
    this.mood = mood;
    if (mood === "refused" || mood === "forbidden") this.log.cut();
    if (mood === "silent") return;
    this.#awake.resolve();
    this.#awake = Promise.withResolvers();
  }

  /** All but the first half of its history is lost. */
  restore(): void {
    this.#begin(this.#history.slice(0, Math.floor(this.#history.length / 2)));
  }

  /** Another cluster answers at its address, or the right one again, empty. */
  replace(uid: string = this.#right): void {
    this.uid = uid;
    this.#begin([]);
  }

  connect(): KubeClient {
    return new WorldClient(this, this.#clock) as unknown as KubeClient;
  }

  async admit(
    verb: "list" | "get" | "watch",
    signal: AbortSignal,
    timeoutMs: number | undefined,
  ): Promise<void> {
    const fail = (failure: ApiFailure): never => {
      throw new ApiError(failure, { verb, resource: "things" });
    };
    this.requests++;
    this.inFlight++;
    try {
      await sleep(this.#clock, LATENCY_MS, signal);
      using over = new DisposableStack();
      const deadline = Promise.withResolvers<void>();
      over.use(this.#clock.schedule(timeoutMs ?? 30_000, deadline.resolve));
      const stopped = whenAborted(signal);
      while (this.mood === "silent" && !signal.aborted) {
        const isAwake = await Promise.race([
          this.#awake.promise.then(() => true),
          deadline.promise.then(() => false),
          stopped.then(() => true),
        ]);
        if (!isAwake) fail({ kind: "timeout", afterMs: timeoutMs ?? 0 });
      }
      if (signal.aborted) fail({ kind: "aborted" });
      const failure = FAILURES[this.mood];
      if (failure !== undefined) fail(failure);
    } finally {
      this.inFlight--;
    }
  }

  /** Holds an event back while the server is silent. */
  async untilAwake(signal: AbortSignal): Promise<void> {
    const stopped = whenAborted(signal);
    while (this.mood === "silent" && !signal.aborted) await Promise.race([this.#awake.promise, stopped]);
  }

  #change(change: (log: VersionLog) => void): void {
    change(this.log);
    this.#history.push(change);
  }

  #begin(history: readonly ((log: VersionLog) => void)[]): void {
    const before = this.log;
    this.log = new VersionLog({ clock: this.#clock, refusesStreams: this.#refusesStreams });
    this.#history.length = 0;
    for (const change of history) this.#change(change);
    before.cut();
  }
}

class WorldClient {
  readonly server = "https://world";
  readonly cluster: string | undefined;
  readonly #home: ClusterWorld;
  #isProbe = false;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  constructor(world: ClusterWorld, clock: Clock, cluster?: string) {
    this.#home = world;
    this.#clock = clock;
    this.cluster = cluster;
  }

  get #world(): ClusterWorld {
    return this.#isProbe ? this.#home : (this.#home.elsewhere ?? this.#home);
  }

  under(_path: string, { cluster }: { readonly cluster: string }): KubeClient {
    return new WorldClient(this.#home, this.#clock, cluster) as unknown as KubeClient;
  }

  close(): Promise<void> {
    this.#closing.abort();
    return Promise.resolve();
  }

  async get(
    { kind }: Resource,
    { name }: { readonly name: string },
    options: { readonly signal?: AbortSignal; readonly timeoutMs?: number } = {},
  ) {
    const world = this.#world;
    await world.admit("get", this.#signal(options.signal), options.timeoutMs);
    if (kind === "Namespace") return { metadata: { name, uid: world.uid } };
    world.gotten.push(name);
    return { metadata: { name } };
  }

  async list<T extends KubeObject>(resource: Resource<T>, options: ListOptions<T> = {}) {
    this.#isProbe = resource.kind === "Lease";
    const world = this.#world;
    const signal = this.#signal(options.signal);
    await world.admit("list", signal, options.timeoutMs);
    if (resource.kind === "Lease")
      return { items: world.leases, metadata: { resourceVersion: world.version } };
    return await world.log.list(resource, { ...options, signal });
  }

  async watch<T extends KubeObject>(
    resource: Resource<T>,
    options: WatchOptions<T> = {},
  ): Promise<WatchStream<T>> {
    const world = this.#world;
    const signal = this.#signal(options.signal);
    await world.admit("watch", signal, 30_000);
    const stream = await world.log.watch(resource, { ...options, signal });
    return {
      lastByteAt: 0,
      async *[Symbol.asyncIterator]() {
        for await (const event of stream) {
          await world.untilAwake(signal);
          if (!signal.aborted) yield event;
        }
      },
      [Symbol.asyncDispose]: () => stream[Symbol.asyncDispose](),
    };
  }

  #signal(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]);
  }
}
