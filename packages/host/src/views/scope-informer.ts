/** The informer of one scope of a read. */
import { isDeepStrictEqual } from "node:util";
import {
  type CollectionScope,
  describeRequest,
  type KubeObject,
  nameOfResource,
  type Resource,
} from "@berth/kube";
import type {
  Change,
  Clock,
  ClusterName,
  Informer,
  InformerRequest,
  Logger,
  MetricsRegistry,
  SharedInformer,
  SharedInformers,
} from "@berth/runtime";
import { toRule } from "../once/left-out.ts";

/** What is read, and what for. */
export interface Purpose<T extends KubeObject> {
  /** Purpose, `gate-pods`: the label `informer` of metrics, and the name of the component. */
  readonly name: string;
  readonly resource: Resource<T>;
  /** What follows for a command when its user may not read the objects, as the end of a sentence. */
  readonly consequence?: string;
}

/** A scope, and what is kept of its objects. */
export interface Scoped<T extends KubeObject>
  extends Pick<InformerRequest<T>, "project" | "indexes" | "metadataOnly" | "optional"> {
  /** Default: the whole cluster. */
  readonly scope?: CollectionScope;
  /** What `project` keeps beyond the other projections of the read. A scope that lacks some of it is read again. */
  readonly keeps?: readonly string[];
}

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

/** The informer of one scope, from when it is wanted until it is not. */
export class ScopeInformer<T extends KubeObject> {
  readonly #shared: SharedInformer<T>;
  readonly #wanted: Scoped<T>;
  readonly #keeps: ReadonlySet<string>;
  readonly #resource: string;
  readonly #options: ViewOptions<T>;
  readonly #abort = new AbortController();
  readonly #since: number;

  constructor(wanted: Scoped<T>, { name, resource, consequence }: Purpose<T>, options: ViewOptions<T>) {
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

/** Do two versions differ only in fields that the projection drops? */
function isSameContent(a: KubeObject, b: KubeObject): boolean {
  const unversioned = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, resourceVersion: "" },
  });
  return isDeepStrictEqual(unversioned(a), unversioned(b));
}

/** Copies these fields where they are defined. For projections. */
export function pick<T extends object, K extends keyof T>(from: T, keys: readonly K[]): Pick<T, K> {
  const picked: Partial<Pick<T, K>> = {};
  for (const key of keys) if (from[key] !== undefined) picked[key] = from[key];
  return picked as Pick<T, K>;
}
