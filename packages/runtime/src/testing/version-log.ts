import {
  ApiError,
  type ApiFailure,
  type KubeClient,
  type KubeObject,
  type List,
  type ListOptions,
  type Resource,
  type WatchEvent,
  type WatchOptions,
  type WatchStream,
} from "@berth/kube";
import { type Clock, sleep } from "../clock.ts";

type Event = WatchEvent<KubeObject>;
type State = ReadonlyMap<string, KubeObject>;

/** Who asks, and when it may ask again. */
interface Caller {
  notBeforeMs: number;
}

/** How a `VersionLog` behaves from the beginning on. */
export interface LogOptions {
  readonly clock: Clock;
  /** Before each answer, page and event. Milliseconds, default 0. */
  readonly latencyMs?: number;
  /** Refuses snapshots by stream, as a server that does not know them. */
  readonly refusesStreams?: boolean;
  /** Streams never mark the end of the snapshot (kubernetes#140890). */
  readonly losesEndMark?: boolean;
}

/**
 * A list of versions that can be listed and watched, and told to fail: the part of the API's contract that an
 * informer stands on, and nothing else of Kubernetes. Version n is the state after the n-th write.
 */
export class VersionLog implements Pick<KubeClient, "list" | "watch"> {
  /** One per request, in order: `list`, `list+` (a later page), `snapshot`, `watch 7`. */
  readonly requests: string[] = [];
  /** A request that came although the server had asked to wait longer. */
  readonly hasty: string[] = [];
  readonly #options: LogOptions;
  readonly #states: State[] = [new Map()];
  readonly #events: Event[] = [];
  readonly #streams = new Set<LogStream>();
  readonly #failures: ApiError[] = [];
  #outage: ApiFailure | undefined;
  /** Versions before this one are forgotten. */
  #oldest = 0;
  #lag = 0;
  readonly #caller: Caller = { notBeforeMs: 0 };

  constructor(options: LogOptions) {
    this.#options = options;
  }

  /** All versions, by number. */
  get states(): readonly State[] {
    return this.#states;
  }

  get openStreams(): number {
    return this.#streams.size;
  }

  /** Events of open watches that no client has asked for yet. */
  get undelivered(): number {
    return [...this.#streams].reduce((sum, stream) => sum + stream.undelivered, 0);
  }

  /** Creates or changes an object. */
  write(name: string, spec: object = {}): void {
    const present = this.#latest.get(name);
    const uid = present?.metadata?.uid ?? `uid-${this.#states.length}`;
    const metadata = { name, uid, resourceVersion: `${this.#states.length}` };
    const object = { apiVersion: "example.com/v1", kind: "Thing", metadata, ...spec };
    this.#append(present === undefined ? "ADDED" : "MODIFIED", object);
  }

  remove(name: string): void {
    const present = this.#latest.get(name);
    if (present === undefined) return;
    const resourceVersion = `${this.#states.length}`;
    this.#append("DELETED", { ...present, metadata: { ...present.metadata, resourceVersion } });
  }

  /** Sends the last event again. */
  repeat(): void {
    const last = this.#events.at(-1);
    if (last !== undefined) for (const stream of this.#streams) stream.push(structuredClone(last));
  }

  bookmark(): void {
    for (const stream of this.#streams) stream.push(this.#bookmark(false));
  }

  /** Forgets all versions but the present one; watches that are open go on. */
  expire(): void {
    this.#oldest = this.#states.length - 1;
  }

  /** Forgets them and says so to every open watch: a client that watches has to take a snapshot. */
  forget(): void {
    this.expire();
    this.cut({ kind: "expired" });
  }

  /**
   * Reads that name a version may be answered so many versions late, by a replica that has not caught up; those that
   * name none get the latest, as the API promises.
   */
  lag(versions: number): void {
    this.#lag = versions;
  }

  /** Breaks every open watch; events not delivered yet are lost on the way. */
  cut(failure: ApiFailure = { kind: "unreachable" }): void {
    for (const stream of this.#streams) stream.fail(errorOf(failure));
  }

  /** Ends every open watch as the server does in its time: with or without what is not delivered yet. */
  end(how: "delivered" | "at once" = "delivered"): void {
    for (const stream of this.#streams) stream.end(how === "at once");
  }

  /** The next request fails with this. */
  failNext(failure: ApiFailure, retryAfterMs?: number): void {
    this.#failures.push(errorOf(failure, retryAfterMs));
  }

  /** Every request fails with this until `heal`. */
  fail(failure: ApiFailure): void {
    this.#outage = failure;
  }

  /** No failure is left over. */
  heal(): void {
    this.#failures.length = 0;
    this.#outage = undefined;
  }

  list<T extends KubeObject>(resource: Resource<T>, options: ListOptions<T> = {}): Promise<List<T>> {
    return this.#list(this.#caller, resource, options);
  }

  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions<T> = {}): Promise<WatchStream<T>> {
    return this.#watch(this.#caller, resource, options);
  }

  /** A client of its own: what the server tells another one to wait is not its business. */
  connect(): Pick<KubeClient, "list" | "watch"> {
    const caller: Caller = { notBeforeMs: 0 };
    return {
      list: (resource, options = {}) => this.#list(caller, resource, options),
      watch: (resource, options = {}) => this.#watch(caller, resource, options),
    };
  }

  async #list<T extends KubeObject>(
    caller: Caller,
    _resource: Resource<T>,
    options: ListOptions<T>,
  ): Promise<List<T>> {
    await this.#admit(caller, options.continue === undefined ? "list" : "list+", options.signal);
    const [at, from] = options.continue?.split("/").map(Number) ?? [this.#readable(options), 0];
    const late = options.continue !== undefined && (at ?? 0) < this.#oldest;
    if (at === undefined || from === undefined || late) throw errorOf({ kind: "expired" });
    const all = [...(this.#states[at]?.values() ?? [])];
    const to = from + (options.limit ?? 500);
    const items = all
      .slice(from, to)
      .map(({ apiVersion: _version, kind: _kind, ...item }) => copyOf(item, options.project));
    const rest = to < all.length ? { continue: `${at}/${to}` } : {};
    return { metadata: { resourceVersion: `${at}`, ...rest }, items };
  }

  async #watch<T extends KubeObject>(
    caller: Caller,
    _resource: Resource<T>,
    options: WatchOptions<T>,
  ): Promise<WatchStream<T>> {
    const { resourceVersion, sendInitialEvents = false } = options;
    await this.#admit(caller, sendInitialEvents ? "snapshot" : `watch ${resourceVersion}`, options.signal);
    if (sendInitialEvents && this.#options.refusesStreams) throw errorOf({ kind: "invalid", causes: [] });
    const from = sendInitialEvents
      ? this.#readable(options)
      : Number(resourceVersion ?? this.#states.length - 1);
    if (!sendInitialEvents && from < this.#oldest) throw errorOf({ kind: "expired" });
    const stream = new LogStream(this.#options, (ended) => this.#streams.delete(ended));
    this.#streams.add(stream);
    options.signal?.addEventListener("abort", () => stream.fail(errorOf({ kind: "aborted" })), {
      once: true,
    });
    if (sendInitialEvents) this.#sendSnapshot(stream, from);
    for (const event of this.#events.slice(from)) stream.push(structuredClone(event));
    return stream.projected(options.project);
  }

  /** The version that a read is answered with. */
  #readable({ resourceVersion }: { readonly resourceVersion?: string }): number {
    const latest = this.#states.length - 1;
    if (resourceVersion === undefined) return latest;
    return Math.max(Number(resourceVersion), latest - this.#lag);
  }

  get #latest(): State {
    return this.#states.at(-1) ?? new Map();
  }

  #append(type: "ADDED" | "MODIFIED" | "DELETED", object: KubeObject): void {
    const name = object.metadata?.name ?? "";
    const next = new Map(this.#latest);
    if (type === "DELETED") next.delete(name);
    else next.set(name, object);
    this.#states.push(next);
    this.#events.push({ type, object });
    for (const stream of this.#streams) stream.push(structuredClone({ type, object }));
  }

  /** The mark of the end comes a while after the objects, so that live events can come between. */
  #sendSnapshot(stream: LogStream, version: number): void {
    for (const object of (this.#states[version] ?? this.#latest).values())
      stream.push({ type: "ADDED", object: structuredClone(object) });
    if (this.#options.losesEndMark) return;
    // A replica that lags has nothing to wait for.
    if (version < this.#states.length - 1) {
      stream.push({ type: "BOOKMARK", resourceVersion: `${version}`, initialEventsEnd: true });
      return;
    }
    const { clock, latencyMs = 0 } = this.#options;
    clock.schedule(latencyMs * 2, () => stream.push(this.#bookmark(true)));
  }

  #bookmark(initialEventsEnd: boolean): Event {
    return { type: "BOOKMARK", resourceVersion: `${this.#states.length - 1}`, initialEventsEnd };
  }

  async #admit(caller: Caller, request: string, signal: AbortSignal | undefined): Promise<void> {
    const { clock, latencyMs = 0 } = this.#options;
    this.requests.push(request);
    if (clock.monotonic() < caller.notBeforeMs) this.hasty.push(request);
    await sleep(clock, latencyMs, signal);
    if (signal?.aborted) throw errorOf({ kind: "aborted" });
    const failure = this.#failures.shift() ?? (this.#outage && errorOf(this.#outage));
    if (failure === undefined) return;
    caller.notBeforeMs = clock.monotonic() + (failure.retryAfterMs ?? 0);
    throw failure;
  }
}

class LogStream {
  readonly #options: LogOptions;
  readonly #onEnd: (stream: LogStream) => void;
  #queue: (Event | ApiError | "end")[] = [];
  #wake: () => void = () => undefined;
  #ended = false;
  readonly #broken = new AbortController();

  constructor(options: LogOptions, onEnd: (stream: LogStream) => void) {
    this.#options = options;
    this.#onEnd = onEnd;
  }

  get undelivered(): number {
    return this.#queue.length;
  }

  push(event: Event): void {
    if (!this.#ended) this.#queue.push(event);
    this.#wake();
  }

  fail(error: ApiError): void {
    if (!this.#ended) this.#queue = [error];
    this.#broken.abort();
    this.#finish();
  }

  end(atOnce: boolean): void {
    if (!this.#ended) this.#queue = [...(atOnce ? [] : this.#queue), "end"];
    this.#finish();
  }

  projected<T extends KubeObject>(project: ((object: T) => T) | undefined): WatchStream<T> {
    const read = this.#read.bind(this);
    return {
      lastByteAt: 0,
      async *[Symbol.asyncIterator]() {
        for await (const event of read()) {
          if (event.type === "BOOKMARK") yield event;
          else yield { type: event.type, object: copyOf(event.object, project) };
        }
      },
      [Symbol.asyncDispose]: () => {
        this.fail(errorOf({ kind: "aborted" }));
        return Promise.resolve();
      },
    };
  }

  async *#read(): AsyncGenerator<Event, void, void> {
    const { clock, latencyMs = 0 } = this.#options;
    for (;;) {
      while (this.#queue.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
      if (latencyMs > 0) await sleep(clock, latencyMs, this.#broken.signal);
      const next = this.#queue.shift();
      if (next === "end") return;
      if (next instanceof ApiError) throw next;
      if (next !== undefined) yield next;
    }
  }

  #finish(): void {
    this.#ended = true;
    this.#onEnd(this);
    this.#wake();
  }
}

function copyOf<T extends KubeObject>(object: KubeObject, project: ((object: T) => T) | undefined): T {
  const copy = structuredClone(object) as T;
  return project === undefined ? copy : project(copy);
}

function errorOf(failure: ApiFailure, retryAfterMs?: number): ApiError {
  const options = retryAfterMs === undefined ? {} : { retryAfterMs };
  return new ApiError(failure, { verb: "watch", resource: "things" }, options);
}
