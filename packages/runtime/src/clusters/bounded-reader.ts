/** Bounds what a cluster can have others keep in memory, however much it has. */
import {
  ApiError,
  type KubeObject,
  type ListOptions,
  nameOfResource,
  pathOf,
  type RequestInfo,
  type Resource,
  type WatchOptions,
  type WatchStream,
} from "@berth/kube";
import { type Clock, sleep } from "../clock.ts";
import type { ReadingClient } from "../reflector.ts";

/** What is read of each kind of object of one cluster, at most. */
export interface ReadLimit {
  readonly objects: number;
  /** Of what is kept of the objects, as JSON. */
  readonly bytes: number;
}

export interface BoundedReaderOptions {
  readonly clock: Clock;
  readonly limit: ReadLimit;
  /** The cluster has more of a kind than the limit. @param excess says so with figures; absent: it has no more. */
  readonly onExcess: (kind: string, excess: string | undefined) => void;
}

/** After an excess nothing is read for this long: a cluster that is too large costs little. Milliseconds. */
export const EXCESS_REST_MS = 60_000;

/**
 * A client for one watch. When the cluster has more than the limit, the watch ends, and a snapshot is tried once a minute:
 * it ends at the limit too. What was read last stays.
 */
export function boundedReader(client: ReadingClient, options: BoundedReaderOptions): ReadingClient {
  const { clock, limit, onExcess } = options;
  const kept = new Map<string, number>();
  let bytes = 0;
  let readAtMs = Number.NEGATIVE_INFINITY;
  const begin = async (signal: AbortSignal | undefined): Promise<void> => {
    kept.clear();
    bytes = 0;
    const waitMs = readAtMs - clock.monotonic();
    if (waitMs > 0) await sleep(clock, waitMs, signal);
  };
  const drop = (key: string): void => {
    bytes -= kept.get(key) ?? 0;
    kept.delete(key);
  };
  const keep = (object: KubeObject, about: RequestInfo): void => {
    const key = pathOf(object.metadata);
    drop(key);
    const size = JSON.stringify(object).length;
    kept.set(key, size);
    bytes += size;
    if (kept.size <= limit.objects && bytes <= limit.bytes) return;
    readAtMs = clock.monotonic() + EXCESS_REST_MS;
    const message = `it has more than ${limit.objects} ${about.resource}, or more than ${limit.bytes >> 20} MiB of them`;
    onExcess(about.resource, message);
    // Only a snapshot can show that they are fewer: a watch would stop at the same event again.
    throw new ApiError({ kind: "expired" }, about, { message });
  };
  return {
    ...(client.whenServed && { whenServed: client.whenServed.bind(client) }),
    async list<T extends KubeObject>(resource: Resource<T>, asked: ListOptions<T> = {}) {
      const about: RequestInfo = { verb: "list", resource: nameOfResource(resource) };
      if (asked.continue === undefined) await begin(asked.signal);
      const page = await client.list(resource, asked);
      for (const item of page.items) keep(item, about);
      if (!page.metadata.continue) onExcess(about.resource, undefined);
      return page;
    },
    async watch<T extends KubeObject>(resource: Resource<T>, asked: WatchOptions<T> = {}) {
      const about: RequestInfo = { verb: "watch", resource: nameOfResource(resource) };
      if (asked.sendInitialEvents) await begin(asked.signal);
      return counting(await client.watch(resource, asked), {
        keep: (object) => keep(object, about),
        drop: (object) => drop(pathOf(object.metadata)),
        end: () => onExcess(about.resource, undefined),
      });
    },
  };
}

interface Counts {
  keep(object: KubeObject): void;
  drop(object: KubeObject): void;
  /** Of the snapshot. */
  end(): void;
}

function counting<T extends KubeObject>(stream: WatchStream<T>, counts: Counts): WatchStream<T> {
  return {
    get lastByteAt() {
      return stream.lastByteAt;
    },
    async *[Symbol.asyncIterator]() {
      for await (const event of stream) {
        if (event.type === "DELETED") counts.drop(event.object);
        else if (event.type !== "BOOKMARK") counts.keep(event.object);
        else if (event.initialEventsEnd) counts.end();
        yield event;
      }
    },
    [Symbol.asyncDispose]: () => stream[Symbol.asyncDispose](),
  };
}
