import { defineResource, type KubeObject, type Resource } from "@berth/kube";
import { createVirtualClock, type VirtualClock } from "../clock.ts";
import { createInformer, type Informer, type InformerOptions } from "../informer.ts";
import { createSilentLogger } from "../json-log.ts";
import { clusterName } from "../key.ts";
import { createRecordingMetrics, type RecordingMetrics } from "./recording-metrics.ts";
import { type LogOptions, VersionLog } from "./version-log.ts";

export interface Thing extends KubeObject {
  readonly colour?: string;
}

export const things: Resource<Thing> = defineResource<Thing>({
  group: "example.com",
  version: "v1",
  plural: "things",
  kind: "Thing",
  namespaced: false,
});

export interface WatchedLog extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly log: VersionLog;
  readonly informer: Informer<Thing>;
  readonly metrics: RecordingMetrics;
  /** Starts the informer; it ends on disposal. */
  start(): void;
  /** Stops the informer and waits until it has ended. */
  stop(): Promise<void>;
  /** The requests since the last call. */
  newRequests(): readonly string[];
}

/** An informer of things that waits the shortest times, unless told otherwise. */
export function informThings(
  options: Partial<InformerOptions<Thing>> & Pick<InformerOptions<Thing>, "client" | "clock">,
): Informer<Thing> {
  return createInformer<Thing>({
    cluster: clusterName("c"),
    resource: things,
    log: createSilentLogger(),
    random: () => 0,
    ...options,
  });
}

/** A log, a clock held still, and an informer of it that waits the shortest times. */
export function watchLog(
  server: Omit<LogOptions, "clock"> = {},
  options: Partial<InformerOptions<Thing>> = {},
): WatchedLog {
  const clock = createVirtualClock();
  const log = new VersionLog({ ...server, clock });
  const metrics = createRecordingMetrics();
  const informer = informThings({ client: log, clock, metrics, ...options });
  const stopping = new AbortController();
  let ended: Promise<void> = Promise.resolve();
  let seen = 0;
  const stop = (): Promise<void> => {
    stopping.abort();
    return ended;
  };
  return {
    clock,
    log,
    informer,
    metrics,
    start: () => {
      ended = informer.start(stopping.signal).then((running) => running.ended);
    },
    stop,
    newRequests: () => {
      const fresh = log.requests.slice(seen);
      seen = log.requests.length;
      return fresh;
    },
    [Symbol.asyncDispose]: stop,
  };
}
