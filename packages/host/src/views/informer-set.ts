import { isDeepStrictEqual } from "node:util";
import {
  type CollectionScope,
  describeRequest,
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
  declareInformerGauges,
  type IndexFunction,
  type Informer,
  type Logger,
  type MetricsRegistry,
  type Running,
  type SharedInformer,
  type SharedInformers,
  whenAborted,
} from "@berth/runtime";

/** One informer of the set. */
export interface WantedInformer<T extends KubeObject> {
  /** The identity of the informer. Two requests with one key must have equal options. */
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
  /** Purpose of the informers, `gate-pods`: in metrics it separates them from other informers of the resource. */
  readonly name: string;
  readonly informers: SharedInformers;
  /** See `InformerRequest.consequence`. */
  readonly consequence?: string;
  readonly cluster: ClusterName;
  readonly resource: Resource<T>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** Called when the projected object changed. Not called for the first snapshot, see `onSynced`. Must not throw. */
  readonly onChange: (change: Change<T>) => void;
  /**
   * Called for each new version, even if no projected field changed. For controllers that wait for the version after
   * their own write. Called before `onChange`. Must not throw.
   */
  readonly onVersion?: (change: Change<T>) => void;
  /** Called when an informer has its first snapshot. Must not throw. */
  readonly onSynced: () => void;
  /** See `isMissing`. Must not throw. */
  readonly onMissing?: () => void;
}

/** An informer that never read its resource reports a problem only after this time, ms: it may have just started. */
const FIRST_READ_MS = 60_000;

/**
 * Informers of one resource that start and stop while the process runs, as documents need them.
 *
 * Guarantees: after `want`, exactly the wanted informers run. An informer that stays wanted is not restarted. An
 * informer that is no longer wanted reports nothing. After the signal aborts, none runs.
 */
export class InformerSet<T extends KubeObject> {
  readonly #options: InformerSetOptions<T>;
  readonly #members = new Map<string, Member<T>>();
  /** Of the members, and of informers that are still stopping. */
  readonly #runs = new Set<Promise<void>>();
  readonly #failed = Promise.withResolvers<never>();
  #signal: AbortSignal | undefined;

  constructor(options: InformerSetOptions<T>) {
    const { metrics } = options;
    this.#options = metrics === undefined ? options : { ...options, metrics: countersOf(metrics) };
    // One gauge for the whole set: a gauge of a single informer would stay after the informer stopped.
    if (metrics !== undefined)
      declareInformerGauges(
        metrics,
        { cluster: options.cluster, resource: nameOfResource(options.resource) },
        this,
      );
  }

  /** May be called at any time, also before `start`; ignored after the end. */
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

  /** `undefined` while the informer is not wanted or has no snapshot. */
  get(key: string): Informer<T> | undefined {
    const informer = this.#members.get(key)?.informer;
    return informer?.synced ? informer : undefined;
  }

  /** Did the server last answer that it does not have the resource? It may have had it before. */
  isMissing(key: string): boolean {
    return this.#members.get(key)?.isMissing ?? false;
  }

  get name(): string {
    return this.#options.name;
  }

  /** Do all informers have a snapshot? */
  get synced(): boolean {
    return this.#members.values().every(({ informer }) => informer.synced);
  }

  /** Number of objects in all informers. */
  get size(): number {
    return this.#members.values().reduce((sum, { informer }) => sum + informer.size, 0);
  }

  /** Does not wait for a snapshot: some resources may not be readable. Call once. */
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

  /** The first problem of any informer. */
  problem(): string | undefined {
    for (const member of this.#members.values()) {
      const problem = member.problem();
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  /** For a component that goes on without these objects: the first problem, or that the server does not have them. */
  note(): string | undefined {
    const isMissing = this.#members.values().some((member) => member.isMissing);
    return (
      this.problem() ?? (isMissing ? `${nameOfResource(this.#options.resource)} is not served` : undefined)
    );
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
  readonly #shared: SharedInformer<T>;
  readonly #wanted: WantedInformer<T>;
  readonly #options: InformerSetOptions<T>;
  readonly #abort = new AbortController();
  readonly #since: number;

  constructor(wanted: WantedInformer<T>, options: InformerSetOptions<T>) {
    const { informers, resource, consequence, clock, log, metrics } = options;
    const { key: _, scope, ...rest } = wanted;
    this.#wanted = wanted;
    this.#options = options;
    this.#since = clock.monotonic();
    this.#shared = informers.informer<T>({
      ...rest,
      name: options.name,
      resource,
      scope,
      log: log.with({ namespace: scope.namespace, selector: scope.labelSelector }),
      ...(metrics && { metrics }),
      ...(consequence !== undefined && { consequence }),
      onMissing: () => {
        if (!this.#abort.signal.aborted) this.#options.onMissing?.();
      },
    });
  }

  get informer(): Informer<T> {
    return this.#shared.informer;
  }

  /** Runs until `stop`. */
  async run(): Promise<void> {
    const { signal } = this.#abort;
    const running = await this.informer.start(signal);
    // Subscribes only now, so that the first snapshot is reported once and as a whole.
    using _subscription = this.#subscribe(signal);
    if (!signal.aborted) this.#options.onSynced();
    await running.ended;
  }

  stop(): void {
    this.#abort.abort();
  }

  get isMissing(): boolean {
    return this.#shared.isMissing;
  }

  problem(): string | undefined {
    const { namespace, labelSelector, fieldSelector } = this.#wanted.scope;
    const selector = [labelSelector, fieldSelector].filter(Boolean).join(" and ");
    const what = `${nameOfResource(this.#options.resource)}${namespace ? ` in "${namespace}"` : ""}${
      selector ? ` with ${selector}` : ""
    }`;
    const { refused } = this.#shared;
    if (refused !== undefined)
      return `${what}: ${describeRequest(refused.request)} is forbidden: ${toRule(refused.request)} is missing`;
    const isNew = this.#options.clock.monotonic() - this.#since < FIRST_READ_MS;
    if (!this.informer.synced && isNew) return undefined;
    const problem = this.informer.problem();
    return problem === undefined ? undefined : `${what}: ${problem}`;
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
}

/** The permission that an administrator has to grant. */
function toRule({ verb, resource, namespace }: RequestInfo): string {
  return `verb "${verb}" on "${resource}"${namespace ? ` in namespace "${namespace}"` : ""}`;
}

/** Do two versions differ only in fields that the projection drops? */
function isSameContent(a: KubeObject, b: KubeObject): boolean {
  const unversioned = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: "" },
  });
  return isDeepStrictEqual(unversioned(a), unversioned(b));
}

/** All informers share counters. Their gauges do nothing. */
function countersOf(metrics: MetricsRegistry): MetricsRegistry {
  return {
    prefix: metrics.prefix,
    counter: (options) => metrics.counter(options),
    histogram: (options) => metrics.histogram(options),
    gauge: () => ({ set: () => undefined }),
    expose: () => metrics.expose(),
  };
}

/** Copies these fields where they are defined. For projections. */
export function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Pick<T, K> {
  const picked: Partial<Pick<T, K>> = {};
  for (const key of keys) if (from[key] !== undefined) picked[key] = from[key];
  return picked as Pick<T, K>;
}
