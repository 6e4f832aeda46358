/** What a Berth at rest holds in memory, and which pods it asked for: the same for each capability that looks at pods. */
import { setTimeout as delay } from "node:timers/promises";
import type { TestCluster } from "@berth/testcluster";
import { PEER_AGENT } from "./peer.ts";
import { type MeasuredProcess, type Memory, type Program, startProgram } from "./process.ts";

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

/** A process that says when its caches are filled. */
export interface Synced extends Memory {
  /** Resident after all garbage was collected and given back; of Berth, which is not made to, the same as `resident`. */
  readonly least: number;
  /** From the spawn until all caches were filled. Milliseconds. */
  readonly syncMs: number;
  /** What the process said then. */
  readonly said: string;
}

/** @param restSeconds resident memory is read this long after the caches were filled. */
export async function holdSynced(program: Program, restSeconds: number): Promise<Synced> {
  await using running = startProgram(program);
  const said = await running.line("synced");
  const syncMs = Date.now() - running.startedAt;
  await delay(restSeconds * 1000);
  running.ended.throwIfAborted();
  const memory = await running.memory();
  return { ...memory, syncMs, said, least: await leastMemory(running, memory) };
}

/** After a forced collection; only the peer knows how. Nothing else about it changes, so it is read last. */
async function leastMemory(running: MeasuredProcess, { resident }: Memory): Promise<number> {
  if (running.userAgent !== PEER_AGENT) return resident;
  const collected = running.line("collected");
  running.signal("SIGUSR1");
  await collected;
  return (await running.memory()).resident;
}

/** The requests, the same ones together. */
export function countText(asked: readonly string[]): string {
  const by = Map.groupBy(asked, (request) => request.trim());
  return [...by].map(([request, all]) => `${all.length} ${request}`).join(", ") || "none";
}

export function residentText({ resident }: Held): string {
  return `${(resident / MB).toFixed(0)} MB`;
}
