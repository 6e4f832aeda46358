/** The views of a fleet, over caches that are behind a model of the API server, each by itself. */
import { createViews } from "@berth/host";
import type { KubeObject, Resource } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  clusterName,
  createSilentLogger,
  type ObjectKey,
  type Running,
  type SharedInformers,
  whenAborted,
} from "@berth/runtime";
import type { FleetSpec } from "../fleet/document.ts";
import { type Again, fleetConcerns } from "../wiring/concerns.ts";
import type { NetworkStep } from "../wiring/network-step.ts";
import type { PodSight } from "../wiring/pod-sight.ts";
import { type FleetObjects, type FleetViews, fleetReads } from "../wiring/reads.ts";
import type { ObjectServer } from "./object-server.ts";

export const clusterOfModel: ClusterName = clusterName("model");

interface Listener {
  onChange(change: {
    readonly type: "added" | "updated" | "deleted";
    readonly object: KubeObject;
    readonly old: KubeObject;
  }): void;
}

function isIn(state: ReadonlyMap<string, KubeObject>, { metadata }: KubeObject): boolean {
  return state.get(metadata?.name ?? "")?.metadata?.uid === metadata?.uid;
}

export interface CacheOptions {
  readonly indexes?: Readonly<Record<string, (object: KubeObject) => readonly string[]>>;
}

/** A cache of one kind. It shows one state of the server, and never an earlier one again. */
export class LaggingCache {
  readonly #server: ObjectServer;
  readonly #resource: Resource;
  readonly #indexes: NonNullable<CacheOptions["indexes"]>;
  readonly #listeners: Listener[] = [];
  #seen: number;

  constructor(server: ObjectServer, resource: Resource, options: CacheOptions) {
    this.#server = server;
    this.#resource = resource;
    this.#indexes = options.indexes ?? {};
    this.#seen = server.statesOf(resource).length - 1;
  }

  readonly cluster: ClusterName = clusterOfModel;
  /** Which state of the server it shows. */
  get seen(): number {
    return this.#seen;
  }

  readonly synced: boolean = true;
  readonly absent: boolean = false;
  readonly refusal: string | undefined;
  readonly size = 0;

  async start(signal: AbortSignal): Promise<Running> {
    return { ended: whenAborted(signal) };
  }

  /** Takes up so many states more. */
  see(states: number = Number.POSITIVE_INFINITY): void {
    const before = this.#state;
    this.#seen = Math.min(this.#seen + states, this.#server.statesOf(this.#resource).length - 1);
    for (const old of before.values()) if (!isIn(this.#state, old)) this.#tell("deleted", old);
    for (const object of this.list()) {
      const old = before.get(object.metadata?.name ?? "");
      if (old !== object) this.#tell(isIn(before, object) ? "updated" : "added", object, old);
    }
  }

  subscribe(listener: Listener): Disposable {
    this.#listeners.push(listener);
    return { [Symbol.dispose]: () => undefined };
  }

  get({ name }: Pick<ObjectKey, "name">): KubeObject | undefined {
    return this.#state.get(name);
  }

  list(): IterableIterator<KubeObject> {
    return this.#state.values();
  }

  byIndex(index: string, value: string): readonly KubeObject[] {
    return [...this.list()].filter((object) => this.#indexes[index]?.(object).includes(value));
  }

  problem(): undefined {
    return undefined;
  }

  #tell(type: "added" | "updated" | "deleted", object: KubeObject, old: KubeObject = object): void {
    for (const listener of this.#listeners) listener.onChange({ type, object, old });
  }

  get #state(): ReadonlyMap<string, KubeObject> {
    return this.#server.statesOf(this.#resource)[this.#seen] ?? new Map();
  }
}

/** The views of a fleet over such caches. */
export function viewsOver(
  cacheOf: (resource: Resource, options: CacheOptions) => LaggingCache,
  {
    clock,
    fleet,
    onKey,
  }: {
    readonly clock: Clock;
    readonly fleet: FleetSpec;
    readonly onKey: (again: Again, changed: keyof FleetObjects) => void;
  },
  network: () => NetworkStep,
  pods?: () => PodSight,
): FleetViews {
  const informers = {
    informer(asked: CacheOptions & { readonly resource: Resource }) {
      const cache = cacheOf(asked.resource, asked);
      return {
        informer: cache,
        get refused() {
          return cache.refusal;
        },
        get isMissing() {
          return cache.absent;
        },
      };
    },
  };
  const views: FleetViews = createViews(fleetReads, {
    // The caches of the model have all that is used of an informer, for objects of any kind.
    informers: informers as unknown as SharedInformers,
    cluster: clusterOfModel,
    clock,
    log: createSilentLogger(),
    concerns: fleetConcerns(clusterOfModel, () => network().namespaces),
    onChange: { pods: (change) => pods?.().shown(change) },
    onKeys(keys: Iterable<Again>, changed) {
      for (const key of keys) onKey(key, changed);
    },
  });
  views.want(fleet);
  for (const view of views.components) void view.start(new AbortController().signal);
  return views;
}
