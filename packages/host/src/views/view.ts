/** One resource that a capability reads, declared as a value, and the view of its objects. */
import { isDeepStrictEqual } from "node:util";
import {
  type CollectionScope,
  describeRequest,
  type KubeObject,
  nameOfResource,
  type RequestInfo,
  type Resource,
} from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  type Component,
  declareInformerGauges,
  type Informer,
  type InformerRequest,
  keyOf,
  type Lister,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
  type Running,
  type SharedInformer,
  type SharedInformers,
  whenAborted,
} from "@berth/runtime";
import type { WriteClient } from "../objects/intent.ts";
import { OwnWrites } from "./own-writes.ts";

/**
 * One resource that a capability reads.
 *
 * @typeParam C what decides about the scopes: mostly the documents in force.
 * @typeParam M the objects of all reads of the capability.
 */
export interface Read<T extends KubeObject, C, M = never> {
  /** Purpose, `gate-pods`: the label `informer` of metrics, and the name of the component. */
  readonly name: string;
  readonly resource: Resource<T>;
  /** The scopes to read now, each once. None: the resource is not read. @param views where one read shapes another. */
  wanted(inForce: C, views: Views<M>): readonly Scoped<T>[];
  /** What follows for a command when its user may not read the objects, as the end of a sentence. */
  readonly consequence?: string;
  /** True: the process is ready also when it cannot read them. Default false. */
  readonly isMinor?: boolean;
  /** Other reads may depend on it: a command fills it first, and when it is read or changes, `wanted` is asked again. */
  readonly isFirst?: boolean;
  /** True: what this process writes, the view shows at once. See `OwnWrites`, and `Views.writing`. Default false. */
  readonly isWritten?: boolean;
  /** True: a replica leads and answers only once it has been read, or cannot be. Default false. */
  readonly isAwaited?: boolean;
}

/** A scope, and what is kept of its objects. */
export interface Scoped<T extends KubeObject>
  extends Pick<InformerRequest<T>, "project" | "indexes" | "metadataOnly" | "optional"> {
  /** Default: the whole cluster. */
  readonly scope?: CollectionScope;
  /** What `project` keeps beyond the other projections of the read. A scope that lacks some of it is read again. */
  readonly keeps?: readonly string[];
}

/** The objects of each read, and all of them together. */
export type Views<M, C = never> = { readonly [N in keyof M]: View<M[N] & KubeObject> } & {
  /** Sets what decides about the scopes. May be called at any time, also before the start. @param which default all. */
  want(inForce: C, which?: "first"): void;
  /** All that is wanted has been read. False while nothing is wanted. */
  readonly isRead: boolean;
  /** The client of controllers that write what the views show. */
  writing(client: WriteClient): WriteClient;
  /** The first problem of any read. A lost connection counts only after a minute. */
  problem(): string | undefined;
  readonly components: readonly Component[];
};

/** The cluster that views read. A `Host` and a `OneShotRun` are such. */
export interface ReadAt {
  readonly informers: SharedInformers;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
}

export interface ViewOptions<T extends KubeObject> extends ReadAt {
  /** Called when the projected object changed. Not called for the first snapshot, see `onRead`. Must not throw. */
  readonly onChange?: (change: Change<T>) => void;
  /**
   * Called for each new version, even if no projected field changed. For controllers that wait for the version after
   * their own write. Called before `onChange`. Must not throw.
   */
  readonly onVersion?: (change: Change<T>) => void;
  /** Called when a scope has its first snapshot, or the server does not have the resource. Must not throw. */
  readonly onRead?: () => void;
}

/** A scope that was never read is a problem only after this time, ms: its informer may have just started. */
const FIRST_READ_MS = 60_000;

/**
 * The objects of one read: those of all scopes that are wanted.
 *
 * Guarantees: after `want`, exactly the wanted scopes are watched. A scope that stays wanted is not read again. A scope
 * that is no longer wanted reports nothing. After the signal aborts, none is watched.
 */
export class View<T extends KubeObject, C = never, M = never>
  implements Component, Pick<Lister<T>, "get" | "list" | "synced">
{
  readonly name: string;
  readonly resource: Resource;
  /** Absent for a read that is not written. */
  readonly own: OwnWrites<T> | undefined;
  readonly #read: Read<T, C, M>;
  readonly #options: ViewOptions<T>;
  /** By the text of the scope. */
  readonly #members = new Map<string, Member<T>>();
  /** Of the members, and of those that are still stopping. */
  readonly #runs = new Set<Promise<void>>();
  readonly #failed = Promise.withResolvers<never>();
  readonly #settled = Promise.withResolvers<void>();
  /** What the informers have. */
  readonly #shown: Pick<Lister<T>, "get" | "list" | "byIndex"> = {
    get: (key) => {
      for (const informer of this.#all()) {
        const found = informer.get(key);
        if (found !== undefined) return found;
      }
      return undefined;
    },
    list: () => this.#listed(),
    byIndex: (index, value) => {
      const all = this.#all();
      const [only] = all;
      if (only !== undefined && all.length === 1) return only.byIndex(index, value);
      return all.flatMap((informer) => informer.byIndex(index, value));
    },
  };
  /** The first scope: all scopes of a read that is written keep the same. */
  #wanted: Scoped<T> | undefined;
  #signal: AbortSignal | undefined;

  constructor(read: Read<T, C, M>, options: ViewOptions<T>) {
    const { metrics, cluster, onChange, onVersion, onRead } = options;
    this.name = read.name;
    this.resource = read.resource;
    this.#read = read;
    this.own = read.isWritten
      ? new OwnWrites<T>({
          ...options,
          shown: this.#shown,
          indexes: () => this.#wanted?.indexes ?? {},
          project: (object) => this.#wanted?.project(object) ?? object,
          onLost: (object) => onChange?.({ type: "deleted", object }),
        })
      : undefined;
    this.#options = {
      ...options,
      ...(metrics && { metrics: countersOf(metrics) }),
      onVersion: (change) => {
        this.own?.see(change);
        onVersion?.(change);
      },
      onRead: () => {
        this.#settled.resolve();
        onRead?.();
      },
    };
    // One gauge for all scopes: a gauge of a single informer would stay after the informer stopped.
    if (metrics !== undefined)
      declareInformerGauges(metrics, { cluster, resource: nameOfResource(read.resource) }, this);
  }

  /** May be called at any time, also before `start`; ignored after the end. @param views see `Read.wanted`. */
  want(inForce: C, views?: Views<M>): void {
    if (this.#signal?.aborted) return;
    const scopes = this.#read
      .wanted(inForce, views as Views<M>)
      .map((it) => [textOf(it.scope ?? {}), it] as const);
    const wanted = new Map(scopes);
    this.#wanted = scopes[0]?.[1];
    for (const [text, member] of this.#members) {
      if (member.serves(wanted.get(text))) continue;
      this.#members.delete(text);
      member.stop();
    }
    for (const [text, one] of wanted) {
      if (this.#members.has(text)) continue;
      const member = new Member(one, this.#read, this.#options);
      this.#members.set(text, member);
      if (this.#signal !== undefined) this.#launch(member);
    }
  }

  get isWanted(): boolean {
    return this.#members.size > 0;
  }

  /** All wanted scopes have been read. False while none is wanted. */
  get synced(): boolean {
    return this.isWanted && this.#members.values().every(({ informer }) => informer.synced);
  }

  /** The number of objects in memory. */
  get size(): number {
    return this.#members.values().reduce((sum, { informer }) => sum + informer.size, 0);
  }

  get(key: ObjectKey): T | undefined {
    return (this.own ?? this.#shown).get(key);
  }

  /** `null`: there is none of this name. `undefined`: not known yet, or not wanted. */
  find(name: string, namespace = ""): T | null | undefined {
    return this.get(this.keyOf({ metadata: { namespace, name } })) ?? (this.synced ? null : undefined);
  }

  keyOf(object: KubeObject): ObjectKey {
    return keyOf(this.#options.cluster, object);
  }

  keys(): readonly ObjectKey[] {
    return Array.from(this.list(), (object) => this.keyOf(object));
  }

  /** Of the scopes that have been read. An object occurs once for each scope that has it. */
  list(): IterableIterator<T> {
    return (this.own ?? this.#shown).list();
  }

  byIndex(index: string, value: string): readonly T[] {
    return (this.own ?? this.#shown).byIndex(index, value);
  }

  /** The objects of one wanted scope. `undefined` until it has been read. */
  at(scope: CollectionScope): Informer<T> | undefined {
    return this.#members.get(textOf(scope))?.read;
  }

  /** Did the server last answer that it does not have the resource? It may have had it before. */
  isMissing(scope: CollectionScope = {}): boolean {
    return this.#members.get(textOf(scope))?.isMissing ?? false;
  }

  /** Does the server refuse the reading? */
  isRefused(scope: CollectionScope = {}): boolean {
    return this.#members.get(textOf(scope))?.isRefused ?? false;
  }

  /** Waits for no snapshot, unless the read is awaited: some resources may not be readable. Call once. */
  async start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    const end = async (): Promise<void> => {
      await whenAborted(signal);
      for (const member of this.#members.values()) member.stop();
      this.#members.clear();
      await Promise.all(this.#runs);
    };
    if (!signal.aborted) for (const member of this.#members.values()) this.#launch(member);
    const running = { ended: Promise.race([end(), this.#failed.promise]) };
    if (this.#read.isAwaited === true && this.isWanted)
      await Promise.race([this.#settled.promise, running.ended]);
    return running;
  }

  /** The first problem of any scope. A lost connection counts only after a minute. */
  problem(): string | undefined {
    return this.#read.isMinor ? undefined : this.#problem();
  }

  /** For a component that goes on without these objects: the first problem, or that the server does not have them. */
  note(): string | undefined {
    const isMissing = this.#members.values().some((member) => member.isMissing);
    return (
      this.#problem() ?? (isMissing ? `${nameOfResource(this.#read.resource)} is not served` : undefined)
    );
  }

  #problem(): string | undefined {
    return [...this.#members.values()].map((member) => member.problem()).find((it) => it !== undefined);
  }

  *#listed(): IterableIterator<T> {
    for (const informer of this.#all()) yield* informer.list();
  }

  #all(): readonly Informer<T>[] {
    return [...this.#members.values()].flatMap(({ read }) => read ?? []);
  }

  #launch(member: Member<T>): void {
    const run: Promise<void> = member
      .run()
      .catch(this.#failed.reject)
      .finally(() => this.#runs.delete(run));
    this.#runs.add(run);
  }
}

function textOf({ namespace = "", labelSelector = "", fieldSelector = "" }: CollectionScope): string {
  return JSON.stringify([namespace, labelSelector, fieldSelector]);
}

class Member<T extends KubeObject> {
  readonly #shared: SharedInformer<T>;
  readonly #wanted: Scoped<T>;
  readonly #keeps: ReadonlySet<string>;
  readonly #resource: string;
  readonly #options: ViewOptions<T>;
  readonly #abort = new AbortController();
  readonly #since: number;

  constructor(
    wanted: Scoped<T>,
    { name, resource, consequence }: Pick<Read<T, never>, "name" | "resource" | "consequence">,
    options: ViewOptions<T>,
  ) {
    const { informers, clock, log, metrics } = options;
    const { keeps = [], scope = {}, ...rest } = wanted;
    this.#wanted = wanted;
    this.#keeps = new Set(keeps);
    this.#resource = nameOfResource(resource);
    this.#options = options;
    this.#since = clock.monotonic();
    this.#shared = informers.informer<T>({
      ...rest,
      name,
      resource,
      scope,
      log: log.with({ namespace: scope.namespace, selector: scope.labelSelector }),
      ...(metrics && { metrics }),
      ...(consequence !== undefined && { consequence }),
      onMissing: () => this.#onRead(),
    });
  }

  serves(wanted: Scoped<T> | undefined): boolean {
    return wanted?.keeps?.every((it) => this.#keeps.has(it)) ?? wanted !== undefined;
  }

  /** `undefined` until it has a snapshot. */
  get read(): Informer<T> | undefined {
    return this.informer.synced ? this.informer : undefined;
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
    this.#onRead();
    await running.ended;
  }

  stop(): void {
    this.#abort.abort();
  }

  get isMissing(): boolean {
    return this.#shared.isMissing;
  }

  get isRefused(): boolean {
    return this.#shared.refused !== undefined;
  }

  problem(): string | undefined {
    const { namespace, labelSelector, fieldSelector } = this.#wanted.scope ?? {};
    const selector = [labelSelector, fieldSelector].filter(Boolean).join(" and ");
    const what = `${this.#resource}${namespace ? ` in "${namespace}"` : ""}${
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

  #onRead(): void {
    if (!this.#abort.signal.aborted) this.#options.onRead?.();
  }

  #subscribe(signal: AbortSignal): Disposable {
    let isReplay = true;
    const subscription = this.informer.subscribe({
      onChange: (change) => {
        if (isReplay || signal.aborted) return;
        this.#options.onVersion?.(change);
        if (change.type === "updated" && isSameContent(change.old, change.object)) return;
        this.#options.onChange?.(change);
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
