/**
 * Keeps a complete copy of one resource of one cluster: a snapshot first, then every change. It ends only when its
 * signal aborts; it reports every failure and tries again.
 *
 * The snapshot is a stream (WatchList, KEP-3157) where the server supports it. After a refusal or a stall, the
 * reflector uses paged lists from then on. After any other failure stream and pages alternate. So a fault of one
 * (kubernetes#140890: streams that end without their end mark) cannot prevent the copy.
 */
import {
  ApiError,
  type CollectionScope,
  isApiError,
  type KubeClient,
  type KubeObject,
  nameOfResource,
  type Projection,
  type Resource,
  type WatchEvent,
  type WatchStream,
} from "@berth/kube";
import type { Random } from "./backoff.ts";
import { type Clock, sleep } from "./clock.ts";
import type { GuardedClient } from "./guarded-client.ts";
import type { Snapshot } from "./object-store.ts";
import { ReconnectWait } from "./reconnect.ts";
import { isShared } from "./shared-failure.ts";

/** A snapshot that the reflector fills. */
export type Filling<T extends KubeObject> = Pick<Snapshot<T>, "put" | "remove">;

/** Receives the results of the reflector. Calls come one at a time, and the reflector awaits each. */
export interface ReflectorSink<T extends KubeObject, S extends Filling<T> = Snapshot<T>> {
  /** An empty snapshot, to be filled. */
  beginSnapshot(): S;
  /** A complete, consistent snapshot. */
  replace(snapshot: S): Promise<void>;
  upsert(object: T): void;
  remove(object: T): void;
  /** An object of an incomplete snapshot; with `gone`, one that was deleted since it arrived. */
  arrive(object: T, gone: boolean): void;
  /** Why a connection failed; `undefined` when a watch has lasted for `STEADY_AFTER_MS`. */
  connection(problem: ApiError | undefined): void;
  /** A snapshot begins: `stream` or `pages`. */
  listing(how: "stream" | "pages"): void;
}

/** The part of a client that follows a resource. A `GuardedClient` also says when a missing one is served. */
export type ReadingClient = Pick<KubeClient, "list" | "watch"> & Partial<Pick<GuardedClient, "whenServed">>;

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: ReadingClient;
  readonly resource: Resource<T>;
  readonly scope?: CollectionScope;
  /** Only the metadata of each object is asked for. Default false. */
  readonly metadataOnly?: boolean;
  /** Applied to each object as it is decoded. */
  readonly project?: Projection<T>;
  readonly clock: Clock;
  readonly random?: Random;
  /**
   * After this long without an event, paged lists replace a snapshot stream. The same happens when the snapshot is
   * incomplete after ten times as long, because live events are no progress. Milliseconds, default 30,000.
   */
  readonly streamStallMs?: number;
  /** Objects a page; default 500: about 30 ms of decoding for large objects. */
  readonly pageSize?: number;
  /**
   * The resource may be missing. The reflector then tries again when the client says that it is served. A client that
   * cannot tell is asked after 5 s, then less and less often, up to every 5 min. Default false.
   */
  readonly optional?: boolean;
  /**
   * Handlers work on the first snapshot while it arrives, so it comes in pages. A server closes a stream when live
   * events, including those of our own writes, overflow its buffer before the initial events are sent. Default false.
   */
  readonly eager?: boolean;
}

/** Time between attempts for a resource that may not be read, and the first for one that is missing. Milliseconds. */
export const ABSENT_RETRY_MS = 5_000;
/** The longest time between attempts for a missing resource, for clients without `whenServed`. Milliseconds. */
export const MAX_ABSENT_RETRY_MS = 300_000;

/** Missing or forbidden: for an unserved resource the server answers either, depending on the user's rights. */
export function isAbsence(error: ApiError): boolean {
  return error.failure.kind === "notFound" || error.failure.kind === "forbidden";
}

/**
 * A watch that ends sooner counts as failed: servers and proxies accept watches and end them at once. Until then the
 * previous failure stands, and the next wait grows. Milliseconds; client-go does the same ("very short watch").
 */
export const STEADY_AFTER_MS = 1_000;

/** Checks of a snapshot stream, one every `streamStallMs`, before it is given up though events still come. */
const MAX_STALL_CHECKS = 10;

type Events<T extends KubeObject> = AsyncIterator<WatchEvent<T>>;

export class Reflector<T extends KubeObject, S extends Filling<T> = Snapshot<T>> {
  readonly #options: ReflectorOptions<T>;
  readonly #sink: ReflectorSink<T, S>;
  /** The last version received; `undefined` before a snapshot, and after the server expired that version. */
  #resourceVersion: string | undefined;
  /** Whether the next snapshot is a stream. */
  #streamNext: boolean;
  #streamRefused = false;
  #stream: WatchStream<T> | undefined;
  /** The current watch has lasted for `STEADY_AFTER_MS`. */
  #steady = false;

  constructor(options: ReflectorOptions<T>, sink: ReflectorSink<T, S>) {
    this.#options = options;
    this.#streamNext = options.eager !== true;
    this.#sink = sink;
  }

  /** When bytes last arrived on the watch, as `performance.now`; `undefined` without a watch. */
  get lastByteAt(): number | undefined {
    return this.#stream?.lastByteAt;
  }

  /** Resolves when `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, resource, clock, random, optional = false } = this.#options;
    const wait = new ReconnectWait(random);
    let absentMs = ABSENT_RETRY_MS;
    while (!signal.aborted) {
      this.#steady = false;
      const error = await this.#attempt(signal);
      if (this.#steady) {
        wait.reset();
        absentMs = ABSENT_RETRY_MS;
      }
      // A watch that ended normally, or whose version expired afterwards, is reopened without a wait.
      if (this.#steady && (error === undefined || error.failure.kind === "expired")) continue;
      if (optional && error !== undefined && isAbsence(error)) {
        this.#resourceVersion = undefined;
        if (error.failure.kind === "notFound") {
          await (client.whenServed?.(resource, signal) ?? sleep(clock, absentMs, signal));
          absentMs = Math.min(absentMs * 2, MAX_ABSENT_RETRY_MS);
        } else await sleep(clock, isShared(error) ? wait.next(error) : ABSENT_RETRY_MS, signal);
        continue;
      }
      await sleep(clock, wait.next(error), signal);
    }
  }

  /** Runs one connection, from the last version until the connection ends. */
  async #attempt(signal: AbortSignal): Promise<ApiError | undefined> {
    try {
      const events = (await this.#snapshot(signal)) ?? (await this.#open(signal));
      await this.#follow(events);
      return undefined;
    } catch (error) {
      return this.#failed(error, signal);
    } finally {
      await this.#close();
    }
  }

  #failed(error: unknown, signal: AbortSignal): ApiError {
    const failure = isApiError(error)
      ? error
      : new ApiError(
          { kind: "undecodable" },
          { verb: "watch", resource: nameOfResource(this.#options.resource) },
          { message: error instanceof Error ? error.message : String(error), cause: error },
        );
    if (failure.failure.kind === "expired") this.#resourceVersion = undefined;
    if (!signal.aborted) this.#sink.connection(failure);
    return failure;
  }

  /** Opens a watch from the last version or, without a snapshot, one that begins with a snapshot. */
  async #open(signal: AbortSignal): Promise<Events<T>> {
    const { client, resource, scope, metadataOnly, project } = this.#options;
    const resourceVersion = this.#resourceVersion;
    this.#stream = await client.watch(resource, {
      ...scope,
      ...(metadataOnly === undefined ? {} : { metadataOnly }),
      signal,
      ...(resourceVersion === undefined ? { sendInitialEvents: true } : { resourceVersion }),
      ...(project === undefined ? {} : { project }),
    });
    return this.#stream[Symbol.asyncIterator]();
  }

  async #close(): Promise<void> {
    const stream = this.#stream;
    this.#stream = undefined;
    await stream?.[Symbol.asyncDispose]();
  }

  /** Takes a snapshot if there is none. Returns the events after it when it came by a stream. */
  async #snapshot(signal: AbortSignal): Promise<Events<T> | undefined> {
    if (this.#resourceVersion !== undefined) return undefined;
    if (this.#streamNext) {
      const events = await this.#streamedSnapshot(signal);
      if (events !== undefined) return events;
      await this.#close();
    }
    await this.#pagedSnapshot(signal);
    return undefined;
  }

  /** `undefined` when the stream is refused, stalls, or ends before the snapshot is complete. */
  async #streamedSnapshot(signal: AbortSignal): Promise<Events<T> | undefined> {
    this.#sink.listing("stream");
    this.#streamNext = false;
    try {
      const events = await this.#open(signal);
      this.#streamNext = await this.#gather(events);
      return this.#streamNext ? events : undefined;
    } catch (error) {
      if (!isApiError(error, "invalid", "unsupported")) throw error;
      this.#streamRefused = true;
      return undefined;
    }
  }

  /** Reads the stream to the end of the snapshot. `false` when the stream ends before that. */
  async #gather(events: Events<T>): Promise<boolean> {
    const snapshot = this.#sink.beginSnapshot();
    using stall = watchForStall(this.#options, () => void this.#close());
    try {
      for (let next = await events.next(); next.done !== true; next = await events.next()) {
        const event = next.value;
        stall.events++;
        if (event.type !== "BOOKMARK") collect(snapshot, event.type, event.object, this.#sink);
        else if (event.initialEventsEnd) {
          stall[Symbol.dispose]();
          await this.#takeOver(snapshot, event.resourceVersion);
          return true;
        }
      }
    } catch (error) {
      if (!stall.detected) throw error;
    }
    if (stall.detected) this.#streamRefused = true;
    return false;
  }

  async #pagedSnapshot(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    this.#sink.listing("pages");
    this.#streamNext = !this.#streamRefused;
    const { client, resource, scope, metadataOnly, project, pageSize } = this.#options;
    const snapshot = this.#sink.beginSnapshot();
    let token: string | undefined;
    let resourceVersion = "";
    do {
      const page = await client.list(resource, {
        ...scope,
        ...(metadataOnly === undefined ? {} : { metadataOnly }),
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

  async #takeOver(snapshot: S, resourceVersion: string): Promise<void> {
    await this.#sink.replace(snapshot);
    this.#resourceVersion = resourceVersion;
  }

  async #follow(events: Events<T>): Promise<void> {
    using _steady = this.#options.clock.schedule(STEADY_AFTER_MS, () => {
      this.#steady = true;
      this.#sink.connection(undefined);
    });
    for (let next = await events.next(); next.done !== true; next = await events.next()) {
      this.#carry(next.value);
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

interface StallWatch extends Disposable {
  /** Events so far, counted by the reader. */
  events: number;
  readonly detected: boolean;
}

function watchForStall(
  { clock, streamStallMs = 30_000 }: Pick<ReflectorOptions<KubeObject>, "clock" | "streamStallMs">,
  onStall: () => void,
): StallWatch {
  let seen = 0;
  let checks = 0;
  let detected = false;
  let timer: Disposable | undefined;
  const watch: StallWatch = {
    events: 0,
    get detected() {
      return detected;
    },
    [Symbol.dispose]: () => timer?.[Symbol.dispose](),
  };
  const check = (): void => {
    checks++;
    detected = watch.events === seen || checks >= MAX_STALL_CHECKS;
    seen = watch.events;
    if (detected) onStall();
    else arm();
  };
  const arm = (): void => {
    timer = clock.schedule(streamStallMs, check);
  };
  arm();
  return watch;
}

function collect<T extends KubeObject>(
  snapshot: Filling<T>,
  type: "ADDED" | "MODIFIED" | "DELETED",
  object: T,
  sink: { arrive(object: T, gone: boolean): void },
): void {
  const gone = type === "DELETED";
  if (gone) snapshot.remove(object);
  else snapshot.put(object);
  sink.arrive(object, gone);
}

/** Drops who wrote which field and when: most of the bytes of many objects, and no use to a controller. */
export function dropManagedFields<T extends KubeObject>(object: T): T {
  const metadata = object.metadata as { managedFields?: unknown } | undefined;
  if (metadata !== undefined) delete metadata.managedFields;
  return object;
}
