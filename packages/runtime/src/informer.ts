import {
  type ApiError,
  apiVersionOf,
  type CollectionScope,
  type KubeObject,
  nameOfResource,
  type Projection,
  pathOf,
  type Resource,
} from "@berth/kube";
import type { Random } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import type { Component, Running } from "./component.ts";
import type { Feed, InformerSink } from "./informer-feed.ts";
import { declareInformerMetrics, type InformerLabels, type InformerMetrics } from "./informer-metrics.ts";
import type { ClusterName, ObjectKey } from "./key.ts";
import type { Change, Lister } from "./lister.ts";
import type { Logger } from "./log.ts";
import type { MetricsRegistry } from "./metrics.ts";
import { type IndexFunction, ObjectStore, type Snapshot } from "./object-store.ts";
import type { ReadingClient } from "./reflector.ts";
import { dropManagedFields, isAbsence, Reflector } from "./reflector.ts";
import { isShared } from "./shared-failure.ts";
import type { Subscribable } from "./source.ts";

/** The objects to follow, the client, and the cached part of each object. */
export interface InformerOptions<T extends KubeObject> {
  /** Names the component; default `informer-<resource>`. One manager runs no two components of one name. */
  readonly name?: string;
  readonly client: ReadingClient;
  /** Keys of its lister and of what follows from its changes carry this name. */
  readonly cluster: ClusterName;
  readonly resource: Resource<T>;
  /** Which objects; default all. The server does not send objects that a selector excludes. */
  readonly scope?: CollectionScope;
  /** Only the metadata of each object is asked for, and so `T` should promise no more. Default false. */
  readonly metadataOnly?: boolean;
  /** What to keep of each object; default all but `metadata.managedFields`. Runs as it is decoded, once per event. */
  readonly project?: Projection<T>;
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  readonly random?: Random;
  /** See `ReflectorOptions.streamStallMs`. Milliseconds, default 30,000. */
  readonly streamStallMs?: number;
  /** Objects a page of a fallback list; default 500. */
  readonly pageSize?: number;
  /**
   * The resource may be missing, as a custom resource is before its CRD exists. Then `start` does not wait for it, it
   * is no `problem`, and the informer follows it once it is served: see `GuardedClient.whenServed`. With other clients
   * the informer retries after 5 s, then less and less often, up to every 5 min. A read permission that never existed
   * counts as missing as well, and is logged. `start` does not wait beyond the first failure of any kind. Default false.
   */
  readonly optional?: boolean;
  /**
   * Handlers receive the objects of the first snapshot while it arrives, and `start` does not wait for its end. So work
   * on one object begins before all have arrived. For reconcilers that decide on each object alone: until `synced`, an
   * object that the lister lacks may still arrive. Default false.
   */
  readonly eager?: boolean;
  /** A snapshot was taken over, or `connected` may have changed. Must not throw. */
  readonly onState?: (what: "snapshot" | "connection") => void;
  /** After this long without a connection `problem` says so. Milliseconds, default 60,000. */
  readonly staleAfterMs?: number;
}

/**
 * List and watch keeping a cache, with these promises:
 *
 * - Once `synced`, the lister holds a state that the server really had, and it only moves forward.
 * - Handlers learn of every deletion, also of those that the watch missed. An object recreated under one name arrives
 *   as `deleted`, then `added`. A version already delivered is not delivered again after a reconnect.
 * - It retries after any failure, with jitter, and no sooner than the server asked.
 * - Each subscriber receives the changes of an object in order: `added`, then `updated`, `deleted` at most once.
 * - A handler, projection or index function that throws is reported; the informer and other handlers go on. The handler
 *   loses that change, the object stays unprojected, or the index lacks the object.
 */
export interface Informer<T extends KubeObject> extends Lister<T>, Component, Subscribable<T> {
  readonly cluster: ClusterName;
  /** The same as `get`. @param path `namespace/name`. */
  at(path: string): T | undefined;
  /** For an optional resource: the last answer of the server was that it is missing, or may not be read. */
  readonly absent: boolean;
  /** Changes arrive as they happen: no failure since a watch has lasted for a second. False before the first snapshot. */
  readonly connected: boolean;
  /** The message of the server's last refusal; `undefined` before a request, and once the server allows it. */
  readonly refusal: string | undefined;
  /** Resolves `true` once synced, `false` when `signal` aborts first. */
  whenSynced(signal?: AbortSignal): Promise<boolean>;
  /** Why the lister is unreliable. `undefined` while it is reliable; a short loss of the connection is no problem. */
  problem(): string | undefined;
}

/** Creates an informer; nothing happens before `start`. */
export function createInformer<T extends KubeObject>(options: InformerOptions<T>): Informer<T> {
  return createFedInformer(options, (sink) => {
    const { fields } = options.project ?? {};
    const project = Object.assign((object: T) => sink.project(object), fields && { fields });
    return new Reflector<T>({ ...options, project }, sink);
  });
}

/** An informer with a feed of the caller's choice. */
export function createFedInformer<T extends KubeObject>(
  options: Omit<InformerOptions<T>, "client">,
  feedOf: (sink: InformerSink<T>) => Feed,
): Informer<T> {
  return new CachingInformer(options, feedOf);
}

/** Changes delivered before timers and sockets get a turn. */
const CHANGES_PER_TURN = 500;
/** A refusal that lasts longer is a problem. Milliseconds. */
const REFUSED_MS = 10_000;
/** A handler should enqueue and return. A slower one is reported. Milliseconds. */
const SLOW_HANDLER_MS = 50;

type Handler<T extends KubeObject> = { onChange(change: Change<T>): void };

class CachingInformer<T extends KubeObject> implements Informer<T> {
  readonly name: string;
  readonly cluster: ClusterName;
  readonly #options: Omit<InformerOptions<T>, "client">;
  readonly #log: Logger;
  readonly #store: ObjectStore<T>;
  readonly #handlers = new Set<Handler<T>>();
  readonly #waiting = new Set<() => void>();
  readonly #feed: Feed;
  readonly #metrics: InformerMetrics | undefined;
  readonly #labels: InformerLabels;
  readonly #whenAbsent = Promise.withResolvers<void>();
  #synced = false;
  #started = false;
  /** Why an optional resource is missing at present. */
  #absence: ApiError | undefined;
  #failure: { readonly error: ApiError; readonly since: number } | undefined;
  /** The log says that the informer is not connected. */
  #isTold = false;

  constructor(options: Omit<InformerOptions<T>, "client">, feedOf: (sink: InformerSink<T>) => Feed) {
    const resource = nameOfResource(options.resource);
    this.name = options.name ?? `informer-${resource.replaceAll(".", "-")}`;
    this.cluster = options.cluster;
    this.#options = options;
    this.#log = options.log.with({ resource, cluster: options.cluster });
    this.#store = new ObjectStore(options.indexes, (index, object, error) =>
      this.#report(`the index function "${index}"`, object, error),
    );
    this.#feed = feedOf({
      project: (item) => this.#project(item),
      replace: (snapshot) => this.#replace(snapshot),
      upsert: (object) => this.#tellAll(this.#store.upsert(object)),
      remove: (object) => this.#tellAll(this.#store.remove(object)),
      leave: (object) => this.#leave(object),
      arrive: (object, gone) => this.#arrive(object, gone),
      beginSnapshot: () => this.#store.beginSnapshot(),
      connection: (problem, isKnown = false) => {
        this.#connection(problem, isKnown);
        options.onState?.("connection");
      },
      listing: (how) => {
        this.#metrics?.snapshots.inc({ ...this.#labels, how });
        this.#log.debug("taking a snapshot", { how });
      },
    });
    this.#labels = { cluster: options.cluster, resource };
    this.#metrics = options.metrics && declareInformerMetrics(options.metrics, this.#labels, this);
  }

  get synced(): boolean {
    return this.#synced;
  }

  get size(): number {
    return this.#store.size;
  }

  /** Seconds since bytes last came from the server: objects, or the bookmarks it sends about once a minute. */
  get quietSeconds(): number | undefined {
    const at = this.#feed.lastByteAt;
    return at === undefined ? undefined : (performance.now() - at) / 1000;
  }

  get(key: ObjectKey): T | undefined {
    return key.cluster === this.cluster ? this.at(`${key.namespace}/${key.name}`) : undefined;
  }

  at(path: string): T | undefined {
    return this.#store.get(path);
  }

  list(): IterableIterator<T> {
    return this.#store.values();
  }

  byIndex(index: string, value: string): readonly T[] {
    return this.#store.byIndex(index, value);
  }

  subscribe(handler: Handler<T>): Disposable {
    // A separate copy, because a handler may subscribe twice and each subscription ends by itself.
    const subscription: Handler<T> = { onChange: (change) => handler.onChange(change) };
    this.#handlers.add(subscription);
    if (this.#synced || this.#options.eager === true) {
      for (const object of this.#store.values())
        this.#tell(subscription, { type: "added", object, initial: true });
    }
    return { [Symbol.dispose]: () => this.#handlers.delete(subscription) };
  }

  whenSynced(signal?: AbortSignal): Promise<boolean> {
    if (this.#synced) return Promise.resolve(true);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const synced = (): void => {
      signal?.removeEventListener("abort", aborted);
      resolve(true);
    };
    const aborted = (): void => {
      this.#waiting.delete(synced);
      resolve(false);
    };
    if (signal?.aborted) return Promise.resolve(false);
    this.#waiting.add(synced);
    signal?.addEventListener("abort", aborted, { once: true });
    return promise;
  }

  async start(signal: AbortSignal): Promise<Running> {
    if (this.#started) throw new Error(`${this.name} was started before`);
    this.#started = true;
    const ended = this.#feed.run(signal);
    if (this.#options.eager !== true) {
      await Promise.race([this.whenSynced(signal), this.#whenAbsent.promise]);
    }
    return { ended };
  }

  get absent(): boolean {
    return this.#absence !== undefined;
  }

  get connected(): boolean {
    return this.#synced && this.#failure === undefined && this.#absence === undefined;
  }

  get refusal(): string | undefined {
    const error = this.#absence ?? this.#failure?.error;
    return error?.failure.kind === "forbidden" ? error.message : undefined;
  }

  note(): string | undefined {
    return this.#absence && `not followed: ${this.#absence.message}`;
  }

  problem(): string | undefined {
    const { clock, staleAfterMs = 60_000, optional = false } = this.#options;
    const failure = this.#failure;
    if (this.#absence !== undefined) return undefined;
    if (!this.#synced && !optional) {
      return failure === undefined ? "not synced yet" : `not synced yet: ${failure.error.message}`;
    }
    if (failure === undefined) return undefined;
    const forMs = clock.monotonic() - failure.since;
    // A restarted server refuses for some seconds. A refusal that lasts longer is a missing permission.
    const isLong = forMs >= (failure.error.failure.kind === "forbidden" ? REFUSED_MS : staleAfterMs);
    if (!isLong) return undefined;
    return `not connected for ${Math.round(forMs / 1000)} s: ${failure.error.message}`;
  }

  #connection(error: ApiError | undefined, isKnownElsewhere: boolean): void {
    if (error === undefined) {
      this.#absence = undefined;
      if (this.#isTold) this.#log.info("connected again");
      this.#isTold = false;
      this.#failure = undefined;
      return;
    }
    if (!isKnownElsewhere) this.#metrics?.failures.inc({ ...this.#labels, failure: error.failure.kind });
    if (this.#options.optional === true) this.#whenAbsent.resolve();
    // A revoked permission is a problem: the cache no longer follows the server.
    const lost = this.#synced && error.failure.kind === "forbidden";
    if (this.#options.optional === true && isAbsence(error) && !lost) {
      if (this.#absence?.failure.kind !== error.failure.kind && !isKnownElsewhere) this.#reportAbsence(error);
      this.#absence = error;
      this.#failure = undefined;
      return;
    }
    this.#absence = undefined;
    const known = this.#failure?.error.failure.kind === error.failure.kind;
    const routine = error.failure.kind === "expired" || error.failure.kind === "unreachable";
    // A single broken connection is restored at once, so it is only debug.
    const isQuiet = isKnownElsewhere || isShared(error) || (routine && !known);
    const level = isQuiet ? "debug" : known ? "info" : "warn";
    this.#log[level]("the watch failed; trying again", { error: error.message });
    this.#isTold ||= level !== "debug";
    this.#failure = { error, since: this.#failure?.since ?? this.#options.clock.monotonic() };
  }

  /** A user without read permission gets the same answer whether the resource exists or not. */
  #reportAbsence(error: ApiError): void {
    const { message } = error;
    if (isShared(error)) return;
    if (error.failure.kind === "forbidden")
      this.#log.warn("the server does not allow reads of the resource; trying again", { error: message });
    else this.#log.info("the server does not have the resource; trying again", { error: message });
  }

  #arrive(object: T, gone: boolean): void {
    if (this.#synced || this.#options.eager !== true) return;
    this.#tellAll(gone ? this.#store.remove(object) : this.#store.upsert(object, true));
  }

  /** As the API server tells of an object that a selector no longer selects: the state before, and the new version. */
  #leave({ metadata }: KubeObject): void {
    const last = this.#store.get(pathOf(metadata));
    if (last === undefined) return;
    const resourceVersion = metadata?.resourceVersion ?? "";
    this.#tellAll(this.#store.remove({ ...last, metadata: { ...last.metadata, resourceVersion } }));
  }

  async #replace(snapshot: Snapshot<T>): Promise<void> {
    // Later subscribers receive the whole store; the present ones receive the differences.
    const handlers = [...this.#handlers];
    const changes = this.#store.replace(snapshot);
    if (!this.#synced) this.#log.info("synced", { objects: snapshot.objects.size });
    this.#synced = true;
    this.#absence = undefined;
    // The list succeeded, so reading is allowed now. The watch is tried next.
    if (this.#failure?.error.failure.kind === "forbidden") this.#failure = undefined;
    this.#options.onState?.("snapshot");
    for (const synced of this.#waiting) synced();
    this.#waiting.clear();
    let told = 0;
    for (const change of changes) {
      this.#tellEach(handlers, change);
      if (++told % CHANGES_PER_TURN === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** The store has changed already, so a subscriber added meanwhile receives the new state. */
  #tellAll(changes: readonly Change<T>[]): void {
    const handlers = [...this.#handlers];
    for (const change of changes) this.#tellEach(handlers, change);
  }

  #tellEach(handlers: readonly Handler<T>[], change: Change<T>): void {
    for (const handler of handlers) if (this.#handlers.has(handler)) this.#tell(handler, change);
  }

  #tell(handler: Handler<T>, change: Change<T>): void {
    const startedAt = this.#options.clock.monotonic();
    try {
      handler.onChange(change);
    } catch (error) {
      this.#metrics?.handlerFailures.inc(this.#labels);
      this.#report("a handler", change.object, error);
    }
    const tookMs = this.#options.clock.monotonic() - startedAt;
    if (tookMs > SLOW_HANDLER_MS)
      this.#log.warn("a handler of the informer is slow", { tookMs: Math.round(tookMs) });
  }

  /**
   * The items of a list carry no `apiVersion` and `kind` on the wire; here they are added, as in a watch. An object
   * that makes a projection throw stays as it came, so that all others still arrive.
   */
  #project(item: T): T {
    const { resource, project = dropManagedFields } = this.#options;
    const object =
      item.kind === undefined ? { apiVersion: apiVersionOf(resource), kind: resource.kind, ...item } : item;
    try {
      return project(object);
    } catch (error) {
      this.#report("the projection", object, error);
      return object;
    }
  }

  #report(what: string, object: T, error: unknown): void {
    this.#log.error(`${what} of the informer failed`, {
      object: object.metadata?.name,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  }
}
