import { type CollectionScope, type ConfigMap, configMaps } from "@berth/kube";
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
import type { ReadAt, Scoped } from "../scope-informer.ts";
import { View } from "../view.ts";
import { Streams } from "./streams.ts";

export interface InformerSetup extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly streams: Streams;
  readonly view: View<ConfigMap>;
  /** The selectors of the scopes to read. */
  readonly want: (...selectors: readonly string[]) => void;
  readonly wantScopes: (scopes: readonly CollectionScope[]) => void;
  /** What every informer of this set-up takes. */
  readonly at: ReadAt;
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
  const read = {
    name: "red",
    resource: configMaps,
    wanted: (scopes: readonly Scoped<ConfigMap>[]) => scopes,
  };
  const view = new View<ConfigMap, readonly Scoped<ConfigMap>[]>(read, {
    ...at,
    onChange: (change) => void changes.push(change),
    onVersion: ({ object }) => void versions.push(object.metadata?.resourceVersion ?? ""),
    onRead: () => void synced++,
  });
  const wantScopes = (scopes: readonly CollectionScope[]): void =>
    view.want(scopes.map((scope) => ({ scope, project: (object) => object })));
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
    view,
    want: (...selectors) => wantScopes(selectors.map((labelSelector) => ({ labelSelector }))),
    wantScopes,
    changes,
    versions,
    synced: () => synced,
    start: async () => void ({ ended } = await view.start(stopping.signal)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
