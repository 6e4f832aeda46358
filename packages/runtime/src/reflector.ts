/**
 * Keeps a copy of one resource of one cluster true: a snapshot first, then every change, for ever. It ends on its
 * signal and on nothing else; every failure is counted, told and followed by another attempt.
 *
 * The snapshot comes as a stream (WatchList, KEP-3157) where the server can; otherwise, or when that stream does
 * not progress (kubernetes#140890, #138557), as a paged list, and the choice is remembered.
 */
import {
  ApiError,
  type CollectionScope,
  isApiError,
  type KubeClient,
  type KubeObject,
  type Projection,
  type Resource,
  type WatchEvent,
  type WatchStream,
} from "@berth/kube";
import { type Random, reconnectDelay } from "./backoff.ts";
import { type Clock, sleep } from "./clock.ts";
import { storeKey } from "./object-store.ts";

/** Where the reflector's findings go. Calls come one at a time; each is waited for. */
export interface ReflectorSink<T extends KubeObject> {
  /** A complete, consistent snapshot. */
  replace(snapshot: Map<string, T>): Promise<void>;
  upsert(object: T): void;
  remove(object: T): void;
  /** The object already held, when it is the same version: saves memory while a snapshot is built. */
  reuse(object: T): T;
  /** The connection works (`undefined`) or not, and why. */
  connection(problem: ApiError | undefined): void;
  /** A snapshot is being taken: `stream` or `pages`. */
  listing(how: "stream" | "pages"): void;
}

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly resource: Resource<T>;
  readonly scope?: CollectionScope;
  /** Applied to each object as it is decoded. */
  readonly project?: Projection<T>;
  readonly clock: Clock;
  readonly random?: Random;
  /** A snapshot stream without an event for this long is given up for paged lists. Milliseconds, default 30,000. */
  readonly streamStallMs?: number;
  /** Objects a page; default 500: about 30 ms of decoding for large objects. */
  readonly pageSize?: number;
}

/** A watch that ends sooner than this is a failure: reconnecting at once would be a storm. */
const SHORTEST_GOOD_WATCH_MS = 1_000;

export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #sink: ReflectorSink<T>;
  /** How far we have come; `undefined` until there is a snapshot, and after the server forgot that version. */
  #resourceVersion: string | undefined;
  #streamSnapshots = true;
  #stream: WatchStream<T> | undefined;

  constructor(options: ReflectorOptions<T>, sink: ReflectorSink<T>) {
    this.#options = options;
    this.#sink = sink;
  }

  /** When bytes last arrived on the watch, as `performance.now`; `undefined` while there is none. */
  get lastByteAt(): number | undefined {
    return this.#stream?.lastByteAt;
  }

  /** Resolves when `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#options;
    let waitMs: number | undefined;
    while (!signal.aborted) {
      const startedAt = clock.monotonic();
      const error = await this.#attempt(signal);
      if (signal.aborted) return;
      const lasted = clock.monotonic() - startedAt >= SHORTEST_GOOD_WATCH_MS;
      if (lasted) waitMs = undefined;
      // A watch that the server ended in its time, or a version forgotten after it, costs no wait.
      if (lasted && (error === undefined || error.failure.kind === "expired")) continue;
      waitMs = Math.max(reconnectDelay(waitMs, random ? { random } : {}), error?.retryAfterMs ?? 0);
      await sleep(clock, waitMs, signal);
    }
  }

  /** One connection: from where we are until it ends. */
  async #attempt(signal: AbortSignal): Promise<ApiError | undefined> {
    try {
      if (this.#resourceVersion === undefined && this.#streamSnapshots)
        return await this.#streamSnapshot(signal);
      if (this.#resourceVersion === undefined) await this.#pagedSnapshot(signal);
      const stream = await this.#open(signal, this.#resourceVersion);
      this.#sink.connection(undefined);
      await this.#follow(stream);
      return undefined;
    } catch (error) {
      return this.#failed(error, signal);
    }
  }

  #failed(error: unknown, signal: AbortSignal): ApiError {
    const failure = isApiError(error)
      ? error
      : new ApiError(
          { kind: "undecodable" },
          { verb: "watch", resource: this.#options.resource.plural },
          { message: error instanceof Error ? error.message : String(error), cause: error },
        );
    if (failure.failure.kind === "expired") this.#resourceVersion = undefined;
    if (!signal.aborted) this.#sink.connection(failure);
    return failure;
  }

  async #open(signal: AbortSignal, resourceVersion: string | undefined): Promise<WatchStream<T>> {
    const { client, resource, scope, project } = this.#options;
    this.#stream = await client.watch(resource, {
      ...scope,
      signal,
      ...(resourceVersion === undefined ? { sendInitialEvents: true } : { resourceVersion }),
      ...(project === undefined ? {} : { project }),
    });
    return this.#stream;
  }

  /** The snapshot as the first part of a watch, which then goes on. */
  async #streamSnapshot(signal: AbortSignal): Promise<ApiError | undefined> {
    this.#sink.listing("stream");
    const { clock, streamStallMs = 30_000 } = this.#options;
    const stalled = new AbortController();
    const snapshot = new Map<string, T>();
    let progress = 0;
    let seen = -1;
    let timer: Disposable | undefined;
    const check = (): void => {
      if (progress === seen) return stalled.abort();
      seen = progress;
      timer = clock.schedule(streamStallMs, check);
    };
    check();
    const stop = (): void => stalled.abort();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const stream = await this.#open(stalled.signal, undefined);
      for await (const event of stream) {
        progress++;
        if (event.type !== "BOOKMARK") collect(snapshot, event.type, event.object, this.#sink);
        else if (event.initialEventsEnd) {
          timer?.[Symbol.dispose]();
          await this.#takeOver(snapshot, event.resourceVersion);
          await this.#follow(stream);
          return undefined;
        }
      }
      // Ended before the snapshot was complete: as after a refusal, the paged list is next.
      this.#streamSnapshots = false;
      return undefined;
    } catch (error) {
      if (signal.aborted) return undefined;
      if (stalled.signal.aborted || isApiError(error, "invalid", "unsupported")) {
        this.#streamSnapshots = false;
        return undefined;
      }
      throw error;
    } finally {
      timer?.[Symbol.dispose]();
      signal.removeEventListener("abort", stop);
      stop();
    }
  }

  async #pagedSnapshot(signal: AbortSignal): Promise<void> {
    this.#sink.listing("pages");
    const { client, resource, scope, project, pageSize } = this.#options;
    const snapshot = new Map<string, T>();
    let token: string | undefined;
    let resourceVersion = "";
    do {
      const page = await client.list(resource, {
        ...scope,
        signal,
        ...(project === undefined ? {} : { project }),
        ...(pageSize === undefined ? {} : { limit: pageSize }),
        ...(token === undefined ? {} : { continue: token }),
      });
      for (const object of page.items) collect(snapshot, "ADDED", object, this.#sink);
      token = page.metadata.continue || undefined;
      resourceVersion = page.metadata.resourceVersion ?? "";
    } while (token !== undefined);
    await this.#takeOver(snapshot, resourceVersion);
  }

  async #takeOver(snapshot: Map<string, T>, resourceVersion: string): Promise<void> {
    await this.#sink.replace(snapshot);
    this.#resourceVersion = resourceVersion;
    this.#sink.connection(undefined);
  }

  async #follow(stream: WatchStream<T>): Promise<void> {
    try {
      for await (const event of stream) this.#carry(event);
    } finally {
      this.#stream = undefined;
    }
  }

  #carry(event: WatchEvent<T>): void {
    if (event.type === "BOOKMARK") {
      this.#resourceVersion = event.resourceVersion;
      return;
    }
    if (event.type === "DELETED") this.#sink.remove(event.object);
    else this.#sink.upsert(event.object);
    this.#resourceVersion = event.object.metadata?.resourceVersion ?? this.#resourceVersion;
  }
}

function collect<T extends KubeObject>(
  snapshot: Map<string, T>,
  type: "ADDED" | "MODIFIED" | "DELETED",
  object: T,
  sink: ReflectorSink<T>,
): void {
  if (type === "DELETED") snapshot.delete(storeKey(object));
  else snapshot.set(storeKey(object), sink.reuse(object));
}
