/** What a Berth at rest holds in memory, and which pods it asked for: the same for each capability that looks at pods. */
import { setTimeout as delay } from "node:timers/promises";
import type { TestCluster } from "@berth/testcluster";
import type { MeasuredProcess } from "./process.ts";

export const MB: number = 1024 * 1024;
/** More than two runs of one process differ, and much less than the smallest cache of 30,000 pods takes. MB. */
export const NOISE_MB = 15;
/** A small cluster is at rest sooner than a large one. Seconds. */
const MOST_REST = 10;

export interface Held {
  /** Bytes. */
  readonly resident: number;
  /** In its caches. */
  readonly pods: number;
  /** Lists and watches of pods: verb, path, selectors. Those of all pods end with a blank. */
  readonly asked: readonly string[];
}

export interface HoldOptions {
  readonly cluster: TestCluster;
  /** Resolves once it is ready. */
  readonly start: () => Promise<MeasuredProcess & { readonly metricsUrl: string }>;
  /** Resident memory is read this long after it is ready, but at most 10 s. Seconds. */
  readonly restSeconds: number;
}

/** The lesser of two runs: when garbage is collected differs from run to run by more than what is looked for. */
export async function holdTwice(options: HoldOptions): Promise<Held> {
  const [first, second] = [await hold(options), await hold(options)];
  return first.resident < second.resident ? first : second;
}

async function hold({ cluster, start, restSeconds }: HoldOptions): Promise<Held> {
  const mark = await cluster.audit.mark();
  await using berth = await start();
  await delay(Math.min(restSeconds, MOST_REST) * 1000);
  berth.ended.throwIfAborted();
  const { resident } = await berth.memory();
  const exposed = await (await fetch(`${berth.metricsUrl}/metrics`)).text();
  const filter = { userAgent: berth.userAgent, resource: "pods" };
  const requests = await cluster.audit.entriesSince(mark, filter);
  const asked = requests.map(({ verb, requestUri }) => {
    const { pathname, searchParams } = new URL(requestUri, cluster.url);
    const selectors = ["labelSelector", "fieldSelector"].flatMap((name) => searchParams.get(name) ?? []);
    return `${verb} ${pathname} ${selectors.join(" ")}`;
  });
  return { resident, pods: podsIn(exposed), asked };
}

/** Of the metric that counts the objects in caches, the samples of pods. */
function podsIn(exposed: string): number {
  const samples = exposed.matchAll(/^berth_informer_objects\{[^}]*resource="pods"[^}]*\} (\d+)$/gm);
  return [...samples].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The requests, the same ones together. */
export function countText(asked: readonly string[]): string {
  const by = Map.groupBy(asked, (request) => request.trim());
  return [...by].map(([request, all]) => `${all.length} ${request}`).join(", ") || "none";
}

export function residentText({ resident }: Held): string {
  return `${(resident / MB).toFixed(0)} MB`;
}
