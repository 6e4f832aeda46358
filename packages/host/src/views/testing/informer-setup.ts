import { type ConfigMap, configMaps } from "@berth/kube";
import {
  type Change,
  clusterName,
  createMetricsRegistry,
  createSharedInformers,
  createSilentLogger,
  createVirtualClock,
  type MetricsRegistry,
  type VirtualClock,
} from "@berth/runtime";
import { InformerSet, type InformerSetOptions } from "../informer-set.ts";
import { Streams } from "./streams.ts";

export interface InformerSetup extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly streams: Streams;
  readonly set: InformerSet<ConfigMap>;
  /** What every informer of this set-up takes. */
  readonly at: Pick<InformerSetOptions<ConfigMap>, "informers" | "cluster" | "clock" | "log" | "metrics">;
  readonly changes: readonly Change<ConfigMap>[];
  /** Resource versions, as each was told. */
  readonly versions: readonly string[];
  /** How often an informer has become synced. */
  readonly synced: () => number;
  readonly start: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export function setUp(metrics: MetricsRegistry = createMetricsRegistry()): InformerSetup {
  const clock = createVirtualClock();
  const streams = new Streams(clock);
  const changes: Change<ConfigMap>[] = [];
  const versions: string[] = [];
  let synced = 0;
  const cluster = clusterName("test");
  const at = {
    informers: createSharedInformers({ client: streams.client, cluster, clock }),
    cluster,
    clock,
    log: createSilentLogger(),
    metrics,
  };
  const set = new InformerSet<ConfigMap>({
    ...at,
    name: "red",
    resource: configMaps,
    onChange: (change) => void changes.push(change),
    onVersion: ({ object }) => void versions.push(object.metadata?.resourceVersion ?? ""),
    onSynced: () => void synced++,
  });
  const stopping = new AbortController();
  let ended: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    stopping.abort();
    await ended;
  };
  return {
    clock,
    streams,
    at,
    set,
    changes,
    versions,
    synced: () => synced,
    start: async () => void ({ ended } = await set.start(stopping.signal)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
