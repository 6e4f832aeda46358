import { isDeepStrictEqual } from "node:util";
import {
  type ApiError,
  type CollectionScope,
  describeRequest,
  isApiError,
  type KubeClient,
  type KubeObject,
  nameOfResource,
  type Projection,
  type RequestInfo,
  type Resource,
} from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  createInformer,
  declareInformerGauges,
  type IndexFunction,
  type Informer,
  type Logger,
  type MetricsRegistry,
  type Running,
  whenAborted,
} from "@berth/runtime";

/** One informer of the set. */
export interface WantedInformer<T extends KubeObject> {
  /** The same key is the same informer: what else is given must be the same as well. */
  readonly key: string;
  readonly scope: CollectionScope;
  readonly project: Projection<T>;
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
  /** See `InformerOptions.metadataOnly`. Default false. */
  readonly metadataOnly?: boolean;
  /** See `InformerOptions.optional`. Default false. */
  readonly optional?: boolean;
}

export interface InformerSetOptions<T extends KubeObject> {
  /** What they are for, `gate-pods`: tells them in metrics from other informers of the resource. */
  readonly name: string;
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly resource: Resource<T>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** A change of what is kept of an object. Not told of the first snapshot: that is `onSynced`. Must not throw. */
  readonly onChange: (change: Change<T>) => void;
  /**
   * Each change, also of what is not kept: for those who write objects and wait for the version after their own. Told
   * before `onChange`. Must not throw.
   */
  readonly onVersion?: (change: Change<T>) => void;
  /** An informer has its first snapshot. Must not throw. */
  readonly onSynced: () => void;
  /** See `isMissing`. Must not throw. */
  readonly onMissing?: () => void;
}

/** A resource that was never readable is a problem only after this long: it may have been wanted just now. Milliseconds. */
const FIRST_READ_MS = 60_000;

/**
 * Informers of one resource that come and go while the process runs, as documents ask for them.
 *
 * Guarantees: after `want`, exactly the wanted ones run; one that stays wanted is neither restarted nor read again;
 * nothing is told of one that is no longer wanted; after the signal aborts none is left.
 */
export class InformerSet<T extends KubeObject> {
  readonly #options: InformerSetOptions<T>;
  readonly #members = new Map<string, Member<T>>();
  /** Of the members, and of those that are coming to rest. */
  readonly #runs = new Set<Promise<void>>();
  readonly #failed = Promise.withResolvers<never>();
  #signal: AbortSignal | undefined;

  constructor(options: InformerSetOptions<T>) {
    const { metrics } = options;
    this.#options = metrics === undefined ? options : { ...options, metrics: countersOf(metrics) };
    // For all of them: gauges of each would outlive it.
    if (metrics !== undefined)
      declareInformerGauges(
        metrics,
        { cluster: options.cluster, resource: nameOfResource(options.resource) },
        this,
      );
  }

  /** At any time, also before `start`; ignored after the end. */
  want(wanted: readonly WantedInformer<T>[]): void {
    if (this.#signal?.aborted) return;
    const keys = new Set(wanted.map(({ key }) => key));
    for (const [key, member] of this.#members) {
      if (keys.has(key)) continue;
      this.#members.delete(key);
      member.stop();
    }
    for (const one of wanted) {
      if (this.#members.has(one.key)) continue;
      const member = new Member(one, this.#options);
      this.#members.set(one.key, member);
      if (this.#signal !== undefined) this.#launch(member);
    }
  }

  /** `undefined` while it is not wanted, or has not been read. */
  get(key: string): Informer<T> | undefined {
    const informer = this.#members.get(key)?.informer;
    return informer?.synced ? informer : undefined;
  }

  /** Has the server said, when last asked, that it has no such resource? It may have lost it since it was read. */
  isMissing(key: string): boolean {
    return this.#members.get(key)?.isMissing ?? false;
  }

  get name(): string {
    return this.#options.name;
  }

  /** Has each of them been read? */
  get synced(): boolean {
    return this.#members.values().every(({ informer }) => informer.synced);
  }

  /** Objects held by all of them. */
  get size(): number {
    return this.#members.values().reduce((sum, { informer }) => sum + informer.size, 0);
  }

  /** Does not wait for a snapshot: what is wanted may not be readable. Call once. */
  start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    const end = async (): Promise<void> => {
      await whenAborted(signal);
      for (const member of this.#members.values()) member.stop();
      this.#members.clear();
      await Promise.all(this.#runs);
    };
    if (!signal.aborted) for (const member of this.#members.values()) this.#launch(member);
    return Promise.resolve({ ended: Promise.race([end(), this.#failed.promise]) });
  }

  /** The first that cannot be relied on, with why. */
  problem(): string | undefined {
    for (const member of this.#members.values()) {
      const problem = member.problem();
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  #launch(member: Member<T>): void {
    const run: Promise<void> = member
      .run()
      .catch(this.#failed.reject)
      .finally(() => this.#runs.delete(run));
    this.#runs.add(run);
  }
}

class Member<T extends KubeObject> {
  readonly informer: Informer<T>;
  readonly #wanted: WantedInformer<T>;
  readonly #options: InformerSetOptions<T>;
  readonly #abort = new AbortController();
  readonly #since: number;
  /** The refused requests, by verb: one right can be there without the other. */
  readonly #refused = new Map<string, ApiError>();
  #isMissing = false;

  constructor(wanted: WantedInformer<T>, options: InformerSetOptions<T>) {
    const { client, cluster, resource, clock, log, metrics } = options;
    const { scope, project, indexes, metadataOnly = false, optional = false } = wanted;
    this.#wanted = wanted;
    this.#options = options;
    this.#since = clock.monotonic();
    this.informer = createInformer({
      client: this.#listenTo(client),
      cluster,
      resource,
      scope,
      project,
      metadataOnly,
      optional,
      ...(indexes && { indexes }),
      clock,
      log: log.with({ namespace: scope.namespace, selector: scope.labelSelector }),
      ...(metrics && { metrics }),
    });
  }

  /** Until `stop`. */
  async run(): Promise<void> {
    const { signal } = this.#abort;
    const running = await this.informer.start(signal);
    // Only from here on, so that the first snapshot is told once and as a whole.
    using _subscription = this.#subscribe(signal);
    if (!signal.aborted) this.#options.onSynced();
    await running.ended;
  }

  stop(): void {
    this.#abort.abort();
  }

  get isMissing(): boolean {
    return this.#isMissing;
  }

  problem(): string | undefined {
    const { namespace, labelSelector, fieldSelector } = this.#wanted.scope;
    const selector = [labelSelector, fieldSelector].filter(Boolean).join(" and ");
    const what = `${nameOfResource(this.#options.resource)}${namespace ? ` in "${namespace}"` : ""}${
      selector ? ` with ${selector}` : ""
    }`;
    for (const { request } of this.#refused.values())
      return `${what}: ${describeRequest(request)} is forbidden: ${toRule(request)} is missing`;
    const isNew = this.#options.clock.monotonic() - this.#since < FIRST_READ_MS;
    if (!this.informer.synced && isNew) return undefined;
    const problem = this.informer.problem();
    return problem === undefined ? undefined : `${what}: ${problem}`;
  }

  #miss(): void {
    if (this.#isMissing || this.#abort.signal.aborted) return;
    this.#isMissing = true;
    this.#options.onMissing?.();
  }

  #subscribe(signal: AbortSignal): Disposable {
    let isReplay = true;
    const subscription = this.informer.subscribe({
      onChange: (change) => {
        if (isReplay || signal.aborted) return;
        this.#options.onVersion?.(change);
        if (change.type === "updated" && isSameContent(change.old, change.object)) return;
        this.#options.onChange(change);
      },
    });
    isReplay = false;
    return subscription;
  }

  /** The client, with its refusals noted. A watch that is accepted is all that an informer needs. */
  #listenTo(client: InformerSetOptions<T>["client"]): InformerSetOptions<T>["client"] {
    const noted = async <R>(request: Promise<R>, granted: () => void): Promise<R> => {
      try {
        const answer = await request;
        granted();
        this.#isMissing = false;
        return answer;
      } catch (error) {
        if (isApiError(error, "forbidden")) this.#refused.set(error.request.verb, error);
        if (isApiError(error, "notFound")) this.#miss();
        throw error;
      }
    };
    return {
      list: (resource, options) => noted(client.list(resource, options), () => this.#refused.delete("list")),
      watch: (resource, options) => noted(client.watch(resource, options), () => this.#refused.clear()),
    };
  }
}

/** What an administrator has to grant. */
function toRule({ verb, resource, namespace }: RequestInfo): string {
  return `verb "${verb}" on "${resource}"${namespace ? ` in namespace "${namespace}"` : ""}`;
}

/** Another version that says the same, of what is kept: nobody has to look. */
function isSameContent(a: KubeObject, b: KubeObject): boolean {
  const unversioned = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: "" },
  });
  return isDeepStrictEqual(unversioned(a), unversioned(b));
}

/** Counters of the informers add up. */
function countersOf(metrics: MetricsRegistry): MetricsRegistry {
  return {
    counter: (options) => metrics.counter(options),
    histogram: (options) => metrics.histogram(options),
    gauge: () => ({ set: () => undefined }),
    expose: () => metrics.expose(),
  };
}

/** These fields, as far as they are there: for projections. */
export function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Pick<T, K> {
  const picked: Partial<Pick<T, K>> = {};
  for (const key of keys) if (from[key] !== undefined) picked[key] = from[key];
  return picked as Pick<T, K>;
}
