import { isDeepStrictEqual } from "node:util";
import type { KubeClient, KubeObject, Resource } from "@berth/kube";
import { systemClock } from "../clock.ts";
import { createInformer, type Informer, type InformerOptions } from "../informer.ts";
import { createSilentLogger } from "../json-log.ts";
import { type ClusterName, clusterName } from "../key.ts";
import { ChangeHistory } from "./change-history.ts";
import { createRecordingMetrics, type RecordingMetrics } from "./recording-metrics.ts";

/** The cluster that a `LiveInformer` says its objects are from. */
export const CLUSTER: ClusterName = clusterName("test");

export interface LiveInformer<T extends KubeObject> extends AsyncDisposable {
  readonly informer: Informer<T>;
  /** Of a subscriber that was there from the beginning. */
  readonly history: ChangeHistory<T>;
  readonly metrics: RecordingMetrics;
  get(name: string, namespace?: string): T | undefined;
  names(): readonly string[];
  /** Stops it and waits until it has ended. */
  stop(): Promise<void>;
}

export interface LiveInformerOptions<T extends KubeObject> extends Partial<InformerOptions<T>> {
  readonly client: InformerOptions<T>["client"];
  readonly resource: Resource<T>;
}

/** An informer on the machine's clock that waits the shortest times. Started, not waited for; ends on disposal. */
export function launchInformer<T extends KubeObject>(options: LiveInformerOptions<T>): LiveInformer<T> {
  const metrics = createRecordingMetrics();
  const informer = createInformer<T>({
    cluster: CLUSTER,
    clock: systemClock,
    log: createSilentLogger(),
    metrics,
    random: () => 0,
    ...options,
  });
  const history = new ChangeHistory<T>();
  informer.subscribe(history);
  const stopping = new AbortController();
  const running = informer.start(stopping.signal);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await (await running).ended;
  };
  return {
    informer,
    history,
    metrics,
    get: (name, namespace = "") => informer.get({ cluster: CLUSTER, namespace, name }),
    names: () => [...informer.list()].map(({ metadata }) => metadata?.name ?? "").sort(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** As `launchInformer`, and synced. */
export async function startInformer<T extends KubeObject>(
  options: LiveInformerOptions<T>,
): Promise<LiveInformer<T>> {
  const live = launchInformer(options);
  await live.informer.whenSynced();
  return live;
}

/**
 * How the lister, and the cache that the subscriber made of the changes, differ from what the server has now; empty
 * when they do not. Asks the server through `client`.
 */
export async function differencesFrom<T extends KubeObject>(
  { informer, history }: LiveInformer<T>,
  client: KubeClient,
  { resource, scope = {} }: Pick<LiveInformerOptions<T>, "resource" | "scope">,
): Promise<readonly string[]> {
  const truth = new Map<string, string | undefined>();
  for await (const page of client.pages(resource, scope))
    for (const { metadata } of page.items) truth.set(`${metadata?.uid}`, metadata?.resourceVersion);
  const versionsOf = (objects: Iterable<T>): Map<string, string | undefined> =>
    new Map([...objects].map(({ metadata }) => [`${metadata?.uid}`, metadata?.resourceVersion]));
  return [
    ...(isDeepStrictEqual(versionsOf(informer.list()), truth) ? [] : ["the lister differs from the server"]),
    ...(isDeepStrictEqual(versionsOf(history.objects.values()), truth)
      ? []
      : ["the subscriber was not told all"]),
    ...history.violations,
  ];
}
