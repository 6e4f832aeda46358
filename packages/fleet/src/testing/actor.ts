/** Plays a controller of another product in a test: it watches the real API server and writes to it. */
import type { KubeClient, KubeObject, Resource } from "@berth/kube";
import {
  type Change,
  type ClusterName,
  type Controller,
  clusterName,
  createController,
  createInformer,
  createSilentLogger,
  type DesiredCondition,
  keyOf,
  mergeConditions,
  systemClock,
  watchFor,
} from "@berth/runtime";

const CLUSTER: ClusterName = clusterName("test");

/** What an actor does with each object of one kind. A failed `act` is retried with backoff. */
export interface Duty<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly act: (object: T) => Promise<void>;
  /** Called at once for each change of an object, in order. */
  readonly onChange?: (change: Change<T>) => void;
}

/** Acts on objects until it is disposed of. */
export class Actor implements AsyncDisposable {
  readonly #client: KubeClient;
  readonly #stopping = new AbortController();
  readonly #ends: Promise<void>[] = [];
  readonly #enqueueAll: (() => void)[] = [];
  #paused = false;

  /** `client` stays the caller's. */
  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Acts on the present objects of this kind and on each that changes. Resolves when it knows the present ones. */
  async follow<T extends KubeObject>({ resource, act, onChange }: Duty<T>): Promise<void> {
    const { signal } = this.#stopping;
    const common = { clock: systemClock, log: createSilentLogger() };
    const informer = createInformer<T>({ ...common, client: this.#client, cluster: CLUSTER, resource });
    if (onChange) informer.subscribe({ onChange });
    const controller: Controller = createController({
      ...common,
      name: resource.plural,
      sources: [watchFor({ informer, map: ({ object }) => [keyOf(CLUSTER, object)] })],
      reconcile: async (key) => {
        const object = informer.get(key);
        if (object !== undefined && !this.#paused) await act(object);
        return undefined;
      },
    });
    for (const component of [informer, controller]) this.#ends.push((await component.start(signal)).ended);
    this.#enqueueAll.push(() => {
      for (const object of informer.list()) controller.enqueue(keyOf(CLUSTER, object), { immediate: true });
    });
  }

  /** Patches the status and its conditions. The write fails when the object was made anew meanwhile. */
  async report<T extends Reported>(
    resource: Resource<T>,
    object: T,
    wanted: DesiredCondition,
    status: object = {},
  ): Promise<void> {
    const { name = "", namespace = "", uid } = object.metadata ?? {};
    const present = object.status?.conditions;
    const conditions = mergeConditions(present, [wanted], systemClock.now());
    if (conditions === present) return;
    const body = { metadata: { uid }, status: { ...status, conditions } };
    await this.#client.patch(
      resource,
      { namespace, name },
      { type: "merge", body },
      { subresource: "status" },
    );
  }

  /** Acts on every object again. */
  again(): void {
    for (const enqueue of this.#enqueueAll) enqueue();
  }

  /** It writes nothing more, beyond what is already in flight. */
  pause(): void {
    this.#paused = true;
  }

  /** It acts on what came and changed during the pause. */
  resume(): void {
    this.#paused = false;
    this.again();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#ends);
  }
}

type Reported = KubeObject & {
  readonly status?: { readonly conditions?: Parameters<typeof mergeConditions>[0] };
};
