/** Half of the nodes carry a device: from process start until the last of them is labelled, beside limit and peer. */

import { patchTimes, waitForPatches } from "./audit.ts";
import { type BenchCluster, DEVICE, LABEL, USUAL_KILOBYTES } from "./bench-cluster.ts";
import { peerProgram } from "./peer.ts";
import { cpuOf, type Program, startProgram } from "./process.ts";
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
  /** CPU of the API server in that time. */
  readonly serverCpu: number;
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
    const peers = go === undefined ? "" : `; go ${describe(gos.at(-1))}`;
    onProgress(`${pair} of ${pairs}: raw ${seconds(raws.at(-1))}; berth ${describe(berths.at(-1))}${peers}`);
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
  const serverPid = bench.cluster.pidOf("kube-apiserver") ?? Number.NaN;
  const before = await cpuOf(serverPid);
  await using running = startProgram(program);
  const expected = bench.withDevice.length;
  const span = await waitForPatches(bench.cluster, mark, running, { expected, timeoutMs: 300_000 });
  const { startedAt } = running;
  const [cpu, after] = await Promise.all([running.cpuMs(), cpuOf(serverPid)]);
  const serverCpu = after - before;
  return { total: span.lastAt - startedAt, first: span.firstAt - startedAt, cpu, serverCpu };
}

interface Measured {
  readonly raws: readonly number[];
  readonly berths: readonly Run[];
  readonly gos: readonly Run[];
}

function toFigures(
  { names, withDevice, kilobytes }: BenchCluster,
  { raws, berths, gos }: Measured,
  budgeted: boolean,
): readonly Figure[] {
  const isUsual = kilobytes === USUAL_KILOBYTES;
  const id = isUsual ? `labels-${names.length}` : `labels-${names.length}-${kilobytes}kb`;
  const ratios = (over: readonly number[], under: readonly number[]): readonly number[] =>
    over.map((value, index) => value / (under[index] ?? Number.NaN));
  const totals = { berth: berths.map(({ total }) => total), go: gos.map(({ total }) => total) };
  const cpus = { berth: berths.map(({ cpu }) => cpu), go: gos.map(({ cpu }) => cpu) };
  const [vsRaw, vsGo, goVsRaw, cpuVsGo] = [
    ratios(totals.berth, raws),
    ratios(totals.berth, totals.go),
    ratios(totals.go, raws),
    ratios(cpus.berth, cpus.go),
  ];
  const isSmall = kilobytes < USUAL_KILOBYTES;
  const what = `${names.length} nodes, ${withDevice.length} labels, ${kilobytes} KB each: process start to last label`;
  const middle = (runs: readonly Run[], field: keyof Run): string =>
    seconds(median(runs.map((run) => run[field])));
  return [
    {
      id: `${id}-vs-raw`,
      what: `${what}, berth / raw patches`,
      value: median(vsRaw),
      unit: "x",
      ...(budgeted && (isSmall ? { budget: 1.4 } : { budget: 1.25, aim: 1.15 })),
      detail:
        `berth ${middle(berths, "total")}, first patch after ${middle(berths, "first")}, CPU ${middle(berths, "cpu")}; ` +
        `CPU of the API server ${middle(berths, "serverCpu")}; raw ${seconds(median(raws))}; ` +
        `${spread(vsRaw)}; medians of ${raws.length}`,
      samples: vsRaw,
    },
    {
      id: `${id}-vs-go`,
      what: `${what}, berth / Go`,
      value: median(vsGo),
      unit: "x",
      ...((budgeted || names.length >= 20_000) && { budget: isSmall ? 1 : 0.95 }),
      detail: `${spread(vsGo)}; Go ${middle(gos, "total")}, first patch after ${middle(gos, "first")}, CPU ${middle(gos, "cpu")}, of the API server ${middle(gos, "serverCpu")}`,
      samples: vsGo,
    },
    {
      id: `${id}-go-vs-raw`,
      what: `${what}, Go / raw patches`,
      value: median(goVsRaw),
      unit: "x",
      samples: goVsRaw,
    },
    {
      id: `${id}-seconds`,
      what: `${what}, berth`,
      value: median(totals.berth) / 1000,
      unit: "s",
      samples: totals.berth.map((ms) => ms / 1000),
    },
    {
      id: `${id}-cpu`,
      what: `${what}, CPU of berth`,
      value: median(cpus.berth) / 1000,
      unit: "s",
      samples: cpus.berth.map((ms) => ms / 1000),
    },
    {
      id: `${id}-cpu-vs-go`,
      what: `${what}, CPU of berth / CPU of Go`,
      value: median(cpuVsGo),
      unit: "x",
      ...(budgeted && isUsual && { budget: 0.9 }),
      detail: spread(cpuVsGo),
      samples: cpuVsGo,
    },
  ];
}

function describe(run: Run | undefined): string {
  return `${seconds(run?.total)}, CPU ${seconds(run?.cpu)}, of the API server ${seconds(run?.serverCpu)}`;
}

function spread(ratios: readonly number[]): string {
  return `from ${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`;
}

function seconds(ms: number | undefined): string {
  return `${((ms ?? Number.NaN) / 1000).toFixed(2)} s`;
}
