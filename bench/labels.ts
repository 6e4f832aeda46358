/** Half of the nodes carry a device: from process start until the last of them is labelled, beside limit and peer. */

import { patchTimes, waitForPatches } from "./audit.ts";
import { type BenchCluster, DEVICE, LABEL } from "./bench-cluster.ts";
import { peerProgram } from "./peer.ts";
import { type Program, startProgram } from "./process.ts";
import { type Figure, median } from "./report.ts";

export interface LabelsOptions {
  /** Interleaved triples of raw, Berth and the Go peer. */
  readonly pairs: number;
  /** Absent: not measured. */
  readonly peer: string | undefined;
  /** The budgets are for this size. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

/** One measured start. Milliseconds. */
interface Run {
  readonly total: number;
  /** Until the first patch. */
  readonly first: number;
  readonly cpu: number;
}

export async function benchLabels(bench: BenchCluster, options: LabelsOptions): Promise<readonly Figure[]> {
  const { pairs, peer, onProgress } = options;
  const go = peer === undefined ? undefined : peerProgram(peer, peerArgs(bench));
  const berth = await bench.berth();
  const raws: number[] = [];
  const berths: Run[] = [];
  const gos: Run[] = [];
  for (let pair = 1; pair <= pairs; pair++) {
    raws.push(await timeRaw(bench));
    berths.push(await timeProgram(bench, berth));
    if (go !== undefined) gos.push(await timeProgram(bench, go));
    const [raw, ours, theirs] = [raws.at(-1), berths.at(-1)?.total, gos.at(-1)?.total].map(seconds);
    onProgress(`${pair} of ${pairs}: raw ${raw}, berth ${ours}, go ${theirs}`);
  }
  await bench.reset();
  const figures = toFigures(bench, { raws, berths, gos }, options.budgeted);
  return peer === undefined ? figures.filter(({ value }) => !Number.isNaN(value)) : figures;
}

export function peerArgs({ kubeconfig }: BenchCluster): Parameters<typeof peerProgram>[1] {
  return { kubeconfig, device: DEVICE, label: LABEL };
}

/** Has Berth label every node that has to be, and ends it: the cluster is converged. */
export async function labelAll(bench: BenchCluster): Promise<void> {
  await timeProgram(bench, await bench.berth());
}

/** From the first patch received to the last, on bare nodes. Milliseconds. */
async function timeRaw(bench: BenchCluster): Promise<number> {
  await bench.reset();
  const mark = await bench.cluster.audit.mark();
  await bench.labelRaw();
  const times = await patchTimes(bench.cluster, mark, "bench-raw");
  return (times.at(-1) ?? Number.NaN) - (times[0] ?? Number.NaN);
}

/** From the spawn to the last of the patches received, on bare nodes. */
async function timeProgram(bench: BenchCluster, program: Program): Promise<Run> {
  await bench.reset();
  const mark = await bench.cluster.audit.mark();
  await using running = startProgram(program);
  const expected = bench.withDevice.length;
  const span = await waitForPatches(bench.cluster, mark, running, { expected, timeoutMs: 300_000 });
  const { startedAt } = running;
  return { total: span.lastAt - startedAt, first: span.firstAt - startedAt, cpu: await running.cpuMs() };
}

interface Measured {
  readonly raws: readonly number[];
  readonly berths: readonly Run[];
  readonly gos: readonly Run[];
}

function toFigures(
  { names, withDevice }: BenchCluster,
  { raws, berths, gos }: Measured,
  budgeted: boolean,
): readonly Figure[] {
  const size = names.length;
  const ratios = (over: readonly number[], under: readonly number[]): readonly number[] =>
    over.map((value, index) => value / (under[index] ?? Number.NaN));
  const totals = { berth: berths.map(({ total }) => total), go: gos.map(({ total }) => total) };
  const [vsRaw, vsGo, goVsRaw] = [
    ratios(totals.berth, raws),
    ratios(totals.berth, totals.go),
    ratios(totals.go, raws),
  ];
  const what = `${size} nodes, ${withDevice.length} labels: process start to last label`;
  const middle = (runs: readonly Run[], field: keyof Run): string =>
    seconds(median(runs.map((run) => run[field])));
  return [
    {
      id: `labels-${size}-vs-raw`,
      what: `${what}, berth / raw patches`,
      value: median(vsRaw),
      unit: "x",
      ...(budgeted && { budget: 1.25, aim: 1.15 }),
      detail:
        `berth ${middle(berths, "total")}, first patch after ${middle(berths, "first")}, CPU ${middle(berths, "cpu")}; ` +
        `raw ${seconds(median(raws))}; medians of ${raws.length}`,
      samples: vsRaw,
    },
    {
      id: `labels-${size}-vs-go`,
      what: `${what}, berth / Go`,
      value: median(vsGo),
      unit: "x",
      ...(budgeted && { budget: 1 }),
      detail: `Go ${middle(gos, "total")}, first patch after ${middle(gos, "first")}, CPU ${middle(gos, "cpu")}`,
      samples: vsGo,
    },
    {
      id: `labels-${size}-go-vs-raw`,
      what: `${what}, Go / raw patches`,
      value: median(goVsRaw),
      unit: "x",
      samples: goVsRaw,
    },
    {
      id: `labels-${size}-seconds`,
      what: `${what}, berth`,
      value: median(totals.berth) / 1000,
      unit: "s",
      samples: totals.berth.map((ms) => ms / 1000),
    },
    {
      id: `labels-${size}-cpu`,
      what: `${what}, CPU of berth`,
      value: median(berths.map(({ cpu }) => cpu)) / 1000,
      unit: "s",
      samples: berths.map(({ cpu }) => cpu / 1000),
    },
  ];
}

function seconds(ms: number | undefined): string {
  return `${((ms ?? Number.NaN) / 1000).toFixed(2)} s`;
}
