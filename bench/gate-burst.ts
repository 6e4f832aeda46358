/** All nodes of a gate become ready at once: how far behind the last of them is Berth? */
import { originalGate } from "@berth/placement";
import type { AuditEntry } from "@berth/testcluster";
import { patchTimes, waitForPatches } from "./audit.ts";
import { type GateStage, gateDocument, says, startReady, WITHOUT_ADMISSION } from "./gate-stage.ts";
import { watchNodes } from "./node-sight.ts";
import { type RawPatch, sendRawPatches } from "./raw-patches.ts";
import { type Figure, median, quantile } from "./report.ts";

export interface BurstOptions {
  /** Nodes that are held. */
  readonly nodes: number;
  readonly rounds: number;
  /** The budgets are for this size. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

/** Milliseconds. */
interface Burst {
  readonly raw: number;
  /** From the first Ready write to the answer of the last. */
  readonly readying: number;
  /** From there to the last version without the taint. */
  readonly behind: number;
  /** Of each node, from the answer to its Ready write to its version without the taint. */
  readonly latencies: readonly number[];
  readonly asked: Asked;
}

/** What Berth asked of the server while the nodes were released. */
interface Asked {
  readonly mostPatches: number;
  readonly mostSinceStart: number;
  readonly refused: number;
  readonly reads: number;
  /** Everything but those patches, as `verb resource` with a count. */
  readonly others: string;
  readonly cpuMs: number;
}

/** For all of them to be released. Milliseconds. */
const TIMEOUT_MS = 120_000;

export async function benchBurst(stage: GateStage, options: BurstOptions): Promise<readonly Figure[]> {
  const bursts: Burst[] = [];
  for (let round = 1; round <= options.rounds; round++) {
    const names = Array.from({ length: options.nodes }, (_, index) => `burst-${round}-${index}`);
    const burst = await measureBurst(stage, names);
    bursts.push(burst);
    const { raw, readying, behind, latencies } = burst;
    options.onProgress(
      `burst ${round} of ${options.rounds}: ready within ${ms(readying)}, the last release ${ms(behind)} after that, ` +
        `p99 ${ms(quantile(latencies, 0.99))}; raw ${ms(raw)}`,
    );
  }
  return toFigures(bursts, options);
}

async function measureBurst(stage: GateStage, names: readonly string[]): Promise<Burst> {
  const { cluster } = stage;
  await stage.addHeldNodes(names);
  await stage.addAgents(names);
  const raw = await timeRaw(stage, names);
  const start = await cluster.audit.mark();
  await using berth = await startReady(await stage.berth([gateDocument(), WITHOUT_ADMISSION]));
  // It has written down of each that it holds it.
  await waitForPatches(cluster, start, berth, { expected: names.length, timeoutMs: TIMEOUT_MS });
  await using sight = await watchNodes(cluster.client);
  const signal = AbortSignal.any([berth.ended, AbortSignal.timeout(TIMEOUT_MS)]);
  const mark = await cluster.audit.mark();
  const cpuBefore = await berth.cpuMs();
  const released = Promise.all(names.map((name) => sight.until(name, isFree, signal)));
  const [answers, releases] = await Promise.all([
    stage.raw.sendAll(names.map((name) => says(name, true))),
    released,
  ]);
  const cpuMs = (await berth.cpuMs()) - cpuBefore;
  const filter = { userAgent: berth.userAgent };
  const asked = {
    ...summarize(await cluster.audit.entriesSince(mark, filter)),
    mostSinceStart: mostPatches(await cluster.audit.entriesSince(start, filter)),
    cpuMs,
  };
  await stage.clear();
  const lastReady = Math.max(...answers.map(({ answeredAt }) => answeredAt));
  return {
    raw,
    readying: lastReady - Math.min(...answers.map(({ sentAt }) => sentAt)),
    behind: Math.max(...releases) - lastReady,
    latencies: releases.map((at, index) => at - (answers[index]?.answeredAt ?? Number.NaN)),
    asked,
  };
}

/** One label on each of the same nodes: from the first patch received to the last. Milliseconds. */
async function timeRaw({ cluster }: GateStage, names: readonly string[]): Promise<number> {
  const target = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  const mark = await cluster.audit.mark();
  const body = { metadata: { labels: { "bench.example.com/raw": "true" } } };
  await sendRawPatches(
    target,
    names.map((node): RawPatch => ({ node, body })),
  );
  const times = await patchTimes(cluster, mark, "bench-raw");
  return (times.at(-1) ?? Number.NaN) - (times[0] ?? Number.NaN);
}

function isFree({
  spec,
}: {
  readonly spec?: { readonly taints?: readonly { readonly key: string }[] };
}): boolean {
  return spec?.taints?.some(({ key }) => key === originalGate.taint.key) !== true;
}

const READS: ReadonlySet<string> = new Set(["get", "list", "watch"]);
/** What a release could be tempted to look up. The CRDs that are absent here are asked for now and then in any case. */
const LOOKED_AT: ReadonlySet<string> = new Set(["nodes", "pods", "daemonsets.apps"]);

function summarize(entries: readonly AuditEntry[]): Omit<Asked, "mostSinceStart" | "cpuMs"> {
  const patches = entries.filter(isNodePatch);
  const reads = entries.filter(({ verb, resource }) => READS.has(verb) && LOOKED_AT.has(resource)).length;
  const others = Map.groupBy(
    entries.filter((entry) => !isNodePatch(entry)),
    ({ verb, resource }) => `${verb} ${resource}`,
  );
  return {
    mostPatches: mostPatches(entries),
    refused: patches.filter(({ code }) => code !== 200).length,
    reads,
    others: [...others].map(([what, all]) => `${all.length} ${what}`).join(", "),
  };
}

/** The most patches that any one node got. */
export function mostPatches(entries: readonly AuditEntry[]): number {
  const counts = new Map<string, number>();
  for (const entry of entries)
    if (isNodePatch(entry) && entry.code === 200) counts.set(entry.name, (counts.get(entry.name) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}

function isNodePatch({ verb, resource }: AuditEntry): boolean {
  return verb === "patch" && resource === "nodes";
}

function toFigures(bursts: readonly Burst[], { nodes, budgeted }: BurstOptions): readonly Figure[] {
  const what = `${nodes} gated nodes ready at once`;
  const ratios = bursts.map(({ behind, raw }) => behind / raw);
  const p99s = bursts.map(({ latencies }) => quantile(latencies, 0.99));
  const middle = (of: (burst: Burst) => number): string => ms(median(bursts.map(of)));
  const most = (of: (asked: Asked) => number): number => Math.max(...bursts.map(({ asked }) => of(asked)));
  return [
    {
      id: `gate-burst-${nodes}-vs-raw`,
      what: `${what}: last Ready write to last release / raw patches`,
      value: median(ratios),
      unit: "x",
      ...(budgeted && { budget: 1.5 }),
      detail:
        `${middle(({ behind }) => behind)} after the last of the Ready writes, which took ${middle(({ readying }) => readying)}; ` +
        `raw ${middle(({ raw }) => raw)}; CPU of berth ${middle(({ asked }) => asked.cpuMs)}; medians of ${bursts.length}`,
      samples: ratios,
    },
    {
      id: `gate-burst-${nodes}-p99`,
      what: `${what}: ready to released, p99`,
      value: median(p99s),
      unit: "ms",
      ...(budgeted && { budget: 2000 }),
      detail: `p50 ${middle(({ latencies }) => quantile(latencies, 0.5))}, longest ${ms(Math.max(...bursts.flatMap(({ latencies }) => latencies)))}, as a watcher sees it`,
      samples: p99s,
    },
    {
      id: `gate-burst-${nodes}-patches`,
      what: `${what}: patches of one node to release it, at most`,
      value: most(({ mostPatches: count }) => count),
      unit: "requests",
      budget: 1,
      detail: `at most ${most(({ mostSinceStart }) => mostSinceStart)} with the one that takes it over; ${most(({ refused }) => refused)} refused`,
    },
    {
      id: `gate-burst-${nodes}-reads`,
      what: `${what}: nodes, pods and DaemonSets that berth reads meanwhile`,
      value: most(({ reads }) => reads),
      unit: "requests",
      budget: 0,
      detail: `gets, lists and new watches, audit log; all but the patches: ${bursts.map(({ asked }) => asked.others || "nothing").join("; ")}`,
    },
  ];
}

function ms(value: number): string {
  return `${value.toFixed(0)} ms`;
}
