/** Pods of images that nobody has asked about: what is held, written and asked of the registry until all may go. */
import { setTimeout as delay } from "node:timers/promises";
import { type Pod, pods } from "@berth/kube";
import { isPlaced, nth } from "./architecture-creation.ts";
import { type ArchitectureStage, NAMESPACE_OF_PODS } from "./architecture-stage.ts";
import { watchObjects } from "./object-sight.ts";
import { type Figure, quantile } from "./report.ts";

export interface MissOptions {
  readonly count: number;
  readonly images: number;
  /** The budgets are for this size. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

/** For all of them to be placed. Milliseconds. */
const TIMEOUT_MS = 60_000;
/** Whatever would be asked or written once more would have been by then. Milliseconds. */
const SETTLE_MS = 2000;

/**
 * archaware-controller, measured once on the same kind of machine and no part of a run: 200 pods of two containers and two
 * images had it make that many registry requests.
 */
const PEER = { pods: 200, requests: 2000 };

export async function benchMiss(
  stage: ArchitectureStage,
  { count, images, budgeted, onProgress }: MissOptions,
): Promise<readonly Figure[]> {
  const { cluster, registry, raw } = stage;
  const { references, single } = await stage.push("missed", images);
  await stage.forgetImages();
  await using berth = await stage.startBerth("Affinity");
  await using sight = await watchObjects<Pod>(cluster.client, {
    resource: pods,
    namespace: NAMESPACE_OF_PODS,
    project: ({ metadata, spec }) => ({ ...(metadata && { metadata }), ...(spec && { spec }) }),
  });
  const requests = Array.from({ length: count }, (_, index) => nth(index, references));
  const signal = AbortSignal.any([berth.ended, AbortSignal.timeout(TIMEOUT_MS)]);
  const [asked, mark] = [registry.requests.mark(), await cluster.audit.mark()];
  const placed = Promise.all(requests.map((_, index) => sight.until(`pod-${index}`, isPlaced, signal)));
  const [answers, times] = await Promise.all([raw.sendAll(requests), placed]);
  await delay(SETTLE_MS);
  berth.ended.throwIfAborted();
  const entries = await cluster.audit.entriesSince(mark, { userAgent: berth.userAgent });
  const patches = entries.filter(({ verb, resource }) => verb === "patch" && resource === "pods");
  const byPod = Map.groupBy(patches, ({ name }) => name);
  const held = [...byPod].map(([name]) => Number(name.slice("pod-".length)));
  const waits = held.map(
    (index) => (times[index] ?? Number.NaN) - (answers[index]?.answeredAt ?? Number.NaN),
  );
  const took = Math.max(...times) - Math.min(...answers.map(({ sentAt }) => sentAt));
  onProgress(
    `${count} pods of ${images} images that nobody knew: ${held.length} held, all placed within ${took.toFixed(0)} ms`,
  );
  const tallies = registry.requests.tallySince(asked);
  const kinds = Map.groupBy(tallies, ({ method, kind }) => `${method} ${kind}`);
  const total = tallies.reduce((sum, tally) => sum + tally.count, 0);
  const what = `${count} pods of ${images} images that nobody knew, created at once`;
  const others = Map.groupBy(
    entries.filter(({ verb, resource }) => !READS.has(verb) && resource !== "pods"),
    ({ verb, resource }) => `${verb} ${resource}`,
  );
  await stage.clear();
  return [
    {
      id: "architecture-miss-requests",
      what: `${what}: registry requests`,
      value: total,
      unit: "requests",
      ...(budgeted && { budget: images + single }),
      detail:
        `${countsOf(kinds, (all) => all.reduce((sum, tally) => sum + tally.count, 0))}; ${single} images have no index, ` +
        `so that their config is read too; no token, for the registry asks for none. archaware-controller: ${PEER.requests} ` +
        `for ${PEER.pods} pods of two images`,
    },
    {
      id: "architecture-miss-patches",
      what: `${what}: patches of one pod, at most`,
      value: Math.max(0, ...[...byPod.values()].map((all) => all.length)),
      unit: "requests",
      budget: 1,
      detail:
        `${patches.length} for ${held.length} held pods, ${patches.filter(({ code }) => code !== 200).length} refused; the other ` +
        `${count - held.length} got their architectures when they were made. Beside them: ${countsOf(others, (all) => all.length)}`,
    },
    {
      id: "architecture-miss-lifted",
      what: `${what}: created with the gate to placed, p99`,
      value: quantile(waits, 0.99),
      unit: "ms",
      detail: `p50 ${quantile(waits, 0.5).toFixed(0)} ms, of the ${held.length} held pods, as a watcher sees it; the registry is on the same machine`,
    },
  ];
}

const READS: ReadonlySet<string> = new Set(["get", "list", "watch"]);

function countsOf<T>(groups: ReadonlyMap<string, T>, count: (all: T) => number): string {
  return [...groups].map(([what, all]) => `${count(all)} ${what}`).join(", ") || "nothing";
}
