/** One resource that a capability reads, declared as a value, and the view of its objects. */
import { type CollectionScope, type KubeObject, nameOfResource, type Resource } from "@berth/kube";
import {
  type Component,
  declareInformerGauges,
  type Informer,
  keyOf,
  type Lister,
  type MetricsRegistry,
  type ObjectKey,
  type ObservedInformer,
  type Running,
  whenAborted,
} from "@berth/runtime";
import type { WriteClient } from "../objects/intent.ts";
import { OwnWrites } from "./own-writes.ts";
import { type Purpose, type Scoped, ScopeInformer, type ViewOptions } from "./scope-informer.ts";

/**
 * One resource that a capability reads.
 *
 * @typeParam C what decides about the scopes: mostly the documents in force.
 * @typeParam M the objects of all reads of the capability.
 */
export interface Read<T extends KubeObject, C, M = never> extends Purpose<T> {
  /** The scopes to read now, each once. None: the resource is not read. @param views where one read shapes another. */
  wanted(inForce: C, views: Views<M>): readonly Scoped<T>[];
  /** True: the process is ready also when it cannot read them. Default false. */
  readonly isMinor?: boolean;
  /** Other reads may depend on it: a command fills it first, and when it is read or changes, `wanted` is asked again. */
  readonly isFirst?: boolean;
  /** True: what this process writes, the view shows at once. See `OwnWrites`, and `Views.writing`. Default false. */
  readonly isWritten?: boolean;
  /** True: a replica leads and answers only once it has been read, or cannot be. Default false. */
  readonly isAwaited?: boolean;
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
  readonly #members = new Map<string, ScopeInformer<T>>();
  /** Of the members, and of those that are still stopping. */
  readonly #runs = new Set<Promise<void>>();
  readonly #failed = Promise.withResolvers<never>();
  readonly #settled = Promise.withResolvers<void>();
  /** What the informers have. */
  readonly #shown: Pick<Lister<T>, "get" | "list" | "byIndex"> = {
    get: (key) => {
      for (const { read } of this.#members.values()) {
        const found = read?.get(key);
        if (found !== undefined) return found;
      }
      return undefined;
    },
    list: () => this.#listed(),
    byIndex: (index, value) => {
      const found = Array.from(this.#members.values(), ({ read }) => read?.byIndex(index, value) ?? []);
      const [only = []] = found;
      return found.length > 1 ? found.flat() : only;
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
    if (metrics === undefined) return;
    // One gauge for all scopes: a gauge of a single informer would stay after the informer stopped.
    declareInformerGauges(metrics, { cluster, resource: nameOfResource(read.resource) }, this.#observed());
  }

  /** For metrics. Without a wanted scope the view lacks nothing, so it counts as synced. */
  #observed(): ObservedInformer {
    return Object.defineProperties({} as ObservedInformer, {
      name: { value: this.name },
      size: { get: () => this.size },
      synced: { get: () => this.synced || !this.isWanted },
    });
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
      const member = new ScopeInformer(one, this.#read, this.#options);
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
    for (const { read } of this.#members.values()) if (read !== undefined) yield* read.list();
  }

  #launch(member: ScopeInformer<T>): void {
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

/** All informers share counters. Their gauges do nothing. */
function countersOf(metrics: MetricsRegistry): MetricsRegistry {
  return {
    prefix: metrics.prefix,
    counter: (options) => metrics.counter(options),
    histogram: (options) => metrics.histogram(options),
    gauge: () => ({ set: () => undefined, remove: () => undefined }),
    expose: () => metrics.expose(),
  };
}
