/** Carries out the intents of reconcilers that work for the objects of many clusters. */
import {
  type CarriedOut,
  CarryOut,
  type CarryOutOptions,
  type Finding,
  type Host,
  type Intent,
} from "@berth/host";
import type { KubeObject, Resource } from "@berth/kube";
import {
  type ClusterName,
  type ClusterSet,
  earliest,
  type GuardedClient,
  type ObjectKey,
  type ReconcileContext,
  toKeyText,
} from "@berth/runtime";

export interface SenderOptions<T extends KubeObject> {
  readonly host: Pick<Host, "clock">;
  /** That of the objects that are decided about. Events about them are recorded in their own clusters. */
  readonly set: ClusterSet;
  readonly resource: Resource<T>;
  /** The `action` of Events. */
  readonly action: string;
  /** See `CarryOutOptions`. */
  readonly done?: CarryOutOptions<T>["done"];
}

/** One decision about one object. */
export interface Sending<T extends KubeObject> {
  readonly key: ObjectKey;
  readonly object: T;
  readonly context: ReconcileContext;
}

/**
 * Keeps what was written for each object of a cluster until the object is gone, or the cluster leaves or is restored: its
 * views show nothing any more of what was written since the backup.
 */
export class Sender<T extends KubeObject> {
  readonly #options: SenderOptions<T>;
  readonly #byCluster = new Map<
    ClusterName,
    { readonly carryOut: CarryOut<T>; readonly restores: number | undefined }
  >();

  constructor(options: SenderOptions<T>) {
    this.#options = options;
    // As long as the process: so is the sender.
    options.set.subscribe((of) => {
      if (!options.set.has(of)) this.#byCluster.delete(of);
    });
  }

  tell({ key, object }: Sending<T>, findings: readonly Finding[]): void {
    this.#of(key.cluster).tell(toKeyText(key), this.#subject(object), findings);
  }

  /** Sends all intents in order, and stops at none. @throws ApiError the first failure. */
  send({ key, object, context }: Sending<T>, intents: readonly Intent[]): Promise<CarriedOut> {
    return this.#of(key.cluster).send(toKeyText(key), this.#subject(object), intents, context);
  }

  /** The object is gone, so there is nothing to wait for. */
  forget(key: ObjectKey): undefined {
    this.#byCluster.get(key.cluster)?.carryOut.forget(toKeyText(key));
    return undefined;
  }

  /** The object is as it should be, as far as the views show it. */
  settle(key: ObjectKey): undefined {
    this.#byCluster.get(key.cluster)?.carryOut.settle(toKeyText(key));
    return undefined;
  }

  #subject(object: T): { readonly resource: Resource<T>; readonly object: T } {
    return { resource: this.#options.resource, object };
  }

  #of(cluster: ClusterName): CarryOut<T> {
    const { host, set, action, done } = this.#options;
    const known = this.#byCluster.get(cluster);
    const restores = set.get(cluster)?.restores;
    if (known !== undefined && known.restores === restores) return known.carryOut;
    const made = new CarryOut<T>({
      client: presentClient(set, cluster),
      clock: host.clock,
      events: { record: (event) => set.get(cluster)?.events.record(event) },
      action,
      ...(done && { done }),
    });
    this.#byCluster.set(cluster, { carryOut: made, restores });
    return made;
  }
}

/** Sends in turn, also after a failure: one refused write must not hold back the others. @throws the first failure. */
export async function sendEach(
  ...stages: readonly (() => Promise<CarriedOut>)[]
): Promise<CarriedOut["recheckAfterMs"]> {
  const waits: CarriedOut["recheckAfterMs"][] = [];
  const failures: unknown[] = [];
  for (const stage of stages)
    try {
      waits.push((await stage()).recheckAfterMs);
    } catch (error) {
      failures.push(error);
    }
  if (failures.length > 0) throw failures[0];
  return earliest(...waits);
}

export type PresentClient = Pick<
  GuardedClient,
  "server" | "create" | "patch" | "apply" | "delete" | "get" | "list"
>;

/** The client of a cluster, which is replaced whenever the cluster is lost or reached again. */
export function presentClient(set: ClusterSet, cluster: ClusterName): PresentClient {
  const now = (): GuardedClient => {
    const engaged = set.get(cluster);
    if (engaged === undefined) throw new Error(`cluster ${cluster} is not engaged`);
    return engaged.client;
  };
  return {
    // What was written to a server before it was restored counts as written to another one.
    get server() {
      const { client, restores } = set.get(cluster) ?? {};
      return `${cluster} ${client?.server} ${restores}`;
    },
    create: (...request) => now().create(...request),
    patch: (...request) => now().patch(...request),
    apply: (...request) => now().apply(...request),
    delete: (...request) => now().delete(...request),
    get: (...request) => now().get(...request),
    list: (...request) => now().list(...request),
  };
}
