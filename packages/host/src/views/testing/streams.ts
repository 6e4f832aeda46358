import {
  ApiError,
  type ApiFailure,
  type CollectionScope,
  type ConfigMap,
  type KubeClient,
  type KubeObject,
  type ListOptions,
  type Projection,
  type Resource,
  type Verb,
  type WatchEvent,
  type WatchOptions,
  type WatchStream,
} from "@berth/kube";
import { sleep, type VirtualClock } from "@berth/runtime";

/**
 * Streams that say what they are told to, and what becomes of requests. One object, named as its selector, in each.
 * One that is closed still gives what has arrived, as a socket does.
 */
export class Streams {
  readonly #clock: VirtualClock;
  /** Open streams, by selector. */
  readonly open: Map<string, { tell(event: WatchEvent<KubeObject>): void; cut(): void }[]> = new Map();
  /** Snapshots asked for, by selector. */
  readonly snapshots: Map<string, number> = new Map();
  /** What requests with this verb meet. */
  readonly failures: Map<Verb, ApiFailure> = new Map();
  latencyMs = 5;
  /** The most streams of one selector at one time. */
  most = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  get names(): readonly string[] {
    return [...this.open].flatMap(([name, streams]) => streams.map(() => name)).toSorted();
  }

  readonly client: Pick<KubeClient, "list" | "watch"> = {
    list: async <T extends KubeObject>(_: Resource<T>, options: ListOptions<T> = {}) => {
      await this.#arrive("list", options, options.signal);
      const object = objectOf(options.labelSelector ?? "", "1") as T;
      return { metadata: { resourceVersion: "1" }, items: [options.project?.(object) ?? object] };
    },
    watch: async <T extends KubeObject>(_: Resource<T>, options: WatchOptions<T> = {}) => {
      const { labelSelector: name = "", sendInitialEvents, signal } = options;
      if (sendInitialEvents) this.snapshots.set(name, (this.snapshots.get(name) ?? 0) + 1);
      await this.#arrive("watch", options, signal);
      return this.#stream(
        name,
        sendInitialEvents === true,
        signal,
        options.project as unknown as Projection<KubeObject>,
      ) as WatchStream<T>;
    },
  };

  async #arrive(verb: Verb, { namespace }: CollectionScope, signal: AbortSignal | undefined): Promise<void> {
    const request = { verb, resource: "configmaps", ...(namespace && { namespace }) };
    if (!(await sleep(this.#clock, this.latencyMs, signal))) throw new ApiError({ kind: "aborted" }, request);
    const failure = this.failures.get(verb);
    if (failure !== undefined) throw new ApiError(failure, request);
  }

  #stream(
    name: string,
    initial: boolean,
    signal: AbortSignal | undefined,
    project: Projection<KubeObject> = (object) => object,
  ): WatchStream<KubeObject> {
    const events: WatchEvent<KubeObject>[] = [];
    if (initial) {
      events.push({ type: "ADDED", object: objectOf(name, "1") });
      events.push({ type: "BOOKMARK", resourceVersion: "1", initialEventsEnd: true });
    }
    const closed = new AbortController();
    let wake = Promise.withResolvers<void>();
    const cut = (): void => {
      closed.abort();
      const left = (this.open.get(name) ?? []).filter((one) => one !== stream);
      if (left.length === 0) this.open.delete(name);
      else this.open.set(name, left);
      wake.resolve();
    };
    const tell = (event: WatchEvent<KubeObject>): void => {
      events.push(event);
      wake.resolve();
    };
    const stream = { tell, cut };
    const streams = [...(this.open.get(name) ?? []), stream];
    this.open.set(name, streams);
    this.most = Math.max(this.most, streams.length);
    signal?.addEventListener("abort", cut, { once: true });
    return {
      lastByteAt: 0,
      async *[Symbol.asyncIterator]() {
        while (!closed.signal.aborted || events.length > 0) {
          const event = events.shift();
          if (event !== undefined)
            yield event.type === "BOOKMARK" ? event : { ...event, object: project(event.object) };
          else {
            await wake.promise;
            wake = Promise.withResolvers<void>();
          }
        }
      },
      [Symbol.asyncDispose]: () => Promise.resolve(cut()),
    };
  }
}

/** A version of the one object that a stream has. */
export function objectOf(
  name: string,
  resourceVersion: string,
  data: Readonly<Record<string, string>> = {},
): ConfigMap {
  return { metadata: { name, namespace: "ns", uid: `uid-${name}`, resourceVersion }, data };
}
