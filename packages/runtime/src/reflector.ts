/**
 * Keeps a copy of one resource of one cluster true: a snapshot first, then every change, for ever. It ends on its
 * signal and on nothing else; every failure is told and followed by another attempt.
 *
 * The snapshot comes as a stream (WatchList, KEP-3157) where the server can. A server that refuses it, or lets it
 * stall, is asked for paged lists from then on. After any other failure stream and pages take turns, so that a fault
 * of the one (kubernetes#140890: streams that end without their end mark) cannot keep the copy from being made.
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
import type { Snapshot } from "./object-store.ts";
import { ReconnectWait } from "./reconnect.ts";
import { isShared } from "./shared-failure.ts";

/** Where the reflector's findings go. Calls come one at a time; each is waited for. */
export interface ReflectorSink<T extends KubeObject> {
  /** An empty snapshot, to be filled. */
  beginSnapshot(): Snapshot<T>;
  /** A complete, consistent snapshot. */
  replace(snapshot: Snapshot<T>): Promise<void>;
  upsert(object: T): void;
  remove(object: T): void;
  /** An object of a snapshot that is not complete yet; with `gone`, one that was deleted since it came. */
  arrive(object: T, gone: boolean): void;
  /** A connection failed, and why; `undefined` when a watch has held for `STEADY_AFTER_MS`. */
  connection(problem: ApiError | undefined): void;
  /** A snapshot is being taken: `stream` or `pages`. */
  listing(how: "stream" | "pages"): void;
}

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly resource: Resource<T>;
  readonly scope?: CollectionScope;
  /** Only the metadata of each object is asked for. Default false. */
  readonly metadataOnly?: boolean;
  /** Applied to each object as it is decoded. */
  readonly project?: Projection<T>;
  readonly clock: Clock;
  readonly random?: Random;
  /**
   * A snapshot stream is given up for paged lists after this long without an event, and when it is not complete after
   * ten times as long: live events of a busy resource are no progress. Milliseconds, default 30,000.
   */
  readonly streamStallMs?: number;
  /** Objects a page; default 500: about 30 ms of decoding for large objects. */
  readonly pageSize?: number;
  /** The resource may be missing: then it is looked for again every `ABSENT_RETRY_MS`. Default false. */
  readonly optional?: boolean;
  /**
   * The first snapshot is worked on while it arrives, so it comes in pages: a server closes a stream whose live events,
   * those of our own writes included, do not fit into its buffer before the initial ones have been sent. Default false.
   */
  readonly eager?: boolean;
}

/** How often a resource that is not served, or may not be read, is looked for again. Milliseconds. */
export const ABSENT_RETRY_MS = 5_000;

/** Not there, or not for us: a server that does not serve a resource says either, depending on the user's rights. */
export function isAbsence(error: ApiError): boolean {
  return error.failure.kind === "notFound" || error.failure.kind === "forbidden";
}

/**
 * A watch that ends sooner has not worked: servers and proxies accept watches that they end at once. Until then the
 * failure before it stands, and the next wait grows. Milliseconds; client-go draws the same line ("very short watch").
 */
export const STEADY_AFTER_MS = 1_000;

/** Checks of a snapshot stream, one every `streamStallMs`, before it is given up though events still come. */
const MAX_STALL_CHECKS = 10;

type Events<T extends KubeObject> = AsyncIterator<WatchEvent<T>>;

export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #sink: ReflectorSink<T>;
  /** How far we have come; `undefined` until there is a snapshot, and after the server forgot that version. */
  #resourceVersion: string | undefined;
  /** How the next snapshot is taken. */
  #streamNext: boolean;
  #streamRefused = false;
  #stream: WatchStream<T> | undefined;
  /** The present watch has held for `STEADY_AFTER_MS`. */
  #steady = false;

  constructor(options: ReflectorOptions<T>, sink: ReflectorSink<T>) {
    this.#options = options;
    this.#streamNext = options.eager !== true;
    this.#sink = sink;
  }

  /** When bytes last arrived on the watch, as `performance.now`; `undefined` while there is none. */
  get lastByteAt(): number | undefined {
    return this.#stream?.lastByteAt;
  }

  /** Resolves when `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, optional = false } = this.#options;
    const wait = new ReconnectWait(random);
    while (!signal.aborted) {
      this.#steady = false;
      const error = await this.#attempt(signal);
      if (this.#steady) wait.reset();
      // A watch that the server ended in its time, or a version forgotten after it, costs no wait.
      if (this.#steady && (error === undefined || error.failure.kind === "expired")) continue;
      if (optional && error !== undefined && isAbsence(error)) {
        this.#resourceVersion = undefined;
        await sleep(clock, isShared(error) ? wait.next(error) : ABSENT_RETRY_MS, signal);
        continue;
      }
      await sleep(clock, wait.next(error), signal);
    }
  }

  /** One connection: from where we are until it ends. */
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

  /** A watch from where we are, or, without a snapshot, one that begins with it. */
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

  /** Sees to it that there is one. Gives the events after it, when it came by a stream. */
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

  /** `undefined` when the stream was refused, stalled, or ended before the snapshot was complete. */
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

  /** Reads the stream up to the end of the snapshot. `false` when it never comes. */
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

  async #takeOver(snapshot: Snapshot<T>, resourceVersion: string): Promise<void> {
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
  snapshot: Snapshot<T>,
  type: "ADDED" | "MODIFIED" | "DELETED",
  object: T,
  sink: ReflectorSink<T>,
): void {
  const gone = type === "DELETED";
  if (gone) snapshot.remove(object);
  else snapshot.put(object);
  sink.arrive(object, gone);
}
