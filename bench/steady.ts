/** Berth once everything is written: sockets, writes at rest and after a restart, memory, and the cost of one change. */
import { setTimeout as delay } from "node:timers/promises";
import { receivedAt, waitForPatches, writesSince } from "./audit.ts";
import { type BenchCluster, CHANGES } from "./bench-cluster.ts";
import { peerArgs } from "./labels.ts";
import { peerProgram } from "./peer.ts";
import { type MeasuredProcess, startProgram } from "./process.ts";
import { type Figure, median, quantile } from "./report.ts";

export interface SteadyOptions {
  /** Absent: not measured. */
  readonly peer: string | undefined;
  /** The budget is for this size. */
  readonly budgeted: boolean;
  /** Resident memory is read this long after the sync. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

const MB = 1024 * 1024;
/** The pool for writes closes what is idle for 15 s; then it is at rest. */
const QUIET_MS = 17_000;
/** Single changes whose way is timed, and the time between two: nothing else is going on meanwhile. */
const CHANGES_TIMED = 100;
const CHANGE_EVERY_MS = 120;
/** How long Berth waits for further changes of a node that changed lately before it writes (`composition.ts`). */
export const COALESCED_MS = 100;

export async function benchSteady(bench: BenchCluster, options: SteadyOptions): Promise<readonly Figure[]> {
  await bench.reset();
  const working = await whileWriting(bench, options);
  const restarted = await afterRestart(bench, options);
  const beside =
    options.peer === undefined ? [] : await besideGo(bench, { ...options, peer: options.peer }, restarted);
  await bench.reset();
  return [...working, ...restarted.figures, ...beside];
}

async function besideGo(
  bench: BenchCluster,
  options: SteadyOptions & { readonly peer: string },
  { resident, cpuMs }: { readonly resident: number; readonly cpuMs: number },
): Promise<readonly Figure[]> {
  const go = await goPeer(bench, options);
  const size = bench.names.length;
  return [
    {
      id: `memory-${size}-nodes-vs-go`,
      what: `${size} nodes: resident ${options.restSeconds} s after sync, berth / Go`,
      value: resident / go.resident,
      unit: "x",
      ...(options.budgeted && { budget: 0.85 }),
      detail: `berth ${mb(resident)}, Go ${mb(go.resident)}, its peak ${mb(go.peak)}`,
    },
    {
      id: `change-${size}-go-p50`,
      what: `${size} nodes: one change to its patch, Go, p50`,
      value: quantile(go.changes.latencies, 0.5),
      unit: "ms",
      detail: describeChanges(go.changes),
    },
    {
      id: `change-${size}-cpu-vs-go`,
      what: `${size} nodes: CPU for one change, berth / Go`,
      value: cpuMs / go.changes.cpuMs,
      unit: "x",
      ...(options.budgeted && { budget: 1.3 }),
    },
  ];
}

/** The first start, which writes every label, until it is at rest. */
async function whileWriting(bench: BenchCluster, options: SteadyOptions): Promise<readonly Figure[]> {
  const { cluster, names, withDevice } = bench;
  options.onProgress("writing all labels, counting sockets");
  const mark = await cluster.audit.mark();
  await using berth = startProgram(await bench.berth());
  const done = new AbortController();
  const most = mostSockets(berth, done.signal);
  await waitForPatches(cluster, mark, berth, { expected: withDevice.length, timeoutMs: 300_000 });
  done.abort();
  const restMark = await cluster.audit.mark();
  await delay(QUIET_MS);
  const writes = await writesSince(cluster, restMark, berth.userAgent);
  const size = names.length;
  return [
    {
      id: `sockets-${size}-writing`,
      what: `${size} nodes: sockets while writing, at most`,
      value: await most,
      unit: "sockets",
      budget: 18,
      detail: "2 for watches and reads, 16 for writes; counted every 50 ms in /proc",
    },
    {
      id: `sockets-${size}-rest`,
      what: `${size} nodes: sockets at rest`,
      value: await berth.sockets(),
      unit: "sockets",
      budget: 2,
      detail: `${QUIET_MS / 1000} s after the last write`,
    },
    {
      id: `writes-${size}-rest`,
      what: `${size} nodes: writes at rest`,
      value: writes.count,
      unit: "requests",
      budget: 0,
      detail: `audit log, ${QUIET_MS / 1000} s from the last label${writes.detail && `: ${writes.detail}`}`,
    },
  ];
}

interface Restarted {
  readonly resident: number;
  /** CPU for one change. */
  readonly cpuMs: number;
  readonly figures: readonly Figure[];
}

/** A second start on the converged cluster: what it writes, what it holds in memory, what one change costs then. */
async function afterRestart(bench: BenchCluster, options: SteadyOptions): Promise<Restarted> {
  const { cluster, names, withoutDevice } = bench;
  const { restSeconds } = options;
  const mark = await cluster.audit.mark();
  await using berth = startProgram(await bench.berth());
  await berth.line('"synced"');
  options.onProgress(`restarted on the converged cluster; reading its memory in ${restSeconds} s`);
  await delay(restSeconds * 1000);
  const writes = await writesSince(cluster, mark, berth.userAgent);
  const { resident, peak } = await berth.memory();
  const changes = await timeChanges(bench, berth, withoutDevice.slice(0, changesTimed(bench)));
  const size = names.length;
  return {
    resident,
    cpuMs: changes.cpuMs,
    figures: [
      {
        id: `writes-${size}-restart`,
        what: `${size} nodes: writes after a restart`,
        value: writes.count,
        unit: "requests",
        budget: 0,
        detail: `audit log, until ${restSeconds} s after sync; it labelled ${changes.latencies.length} changed nodes then${writes.detail && `; ${writes.detail}`}`,
      },
      {
        id: `memory-${size}-nodes`,
        what: `${size} nodes: resident ${restSeconds} s after sync`,
        value: resident / MB,
        unit: "MB",
        detail: `peak ${mb(peak)}`,
      },
      {
        id: `change-${size}-p50`,
        what: `${size} nodes: one change to its patch, p50`,
        value: quantile(changes.latencies, 0.5),
        unit: "ms",
        budget: 20,
        detail: describeChanges(changes),
        samples: changes.latencies,
      },
      {
        id: `change-${size}-cpu`,
        what: `${size} nodes: CPU for one change`,
        value: changes.cpuMs,
        unit: "ms",
        detail: "of berth: its event, its patch, the event of that; mean",
      },
    ],
  };
}

/** The Go peer on the converged cluster. */
async function goPeer(
  bench: BenchCluster,
  { peer, restSeconds, onProgress }: SteadyOptions & { readonly peer: string },
): Promise<{ readonly resident: number; readonly peak: number; readonly changes: Changes }> {
  await using go = startProgram(peerProgram(peer, peerArgs(bench)));
  await go.line("synced");
  onProgress(`the Go peer on the converged cluster; reading its memory in ${restSeconds} s`);
  await delay(restSeconds * 1000);
  const memory = await go.memory();
  const nodes = bench.withoutDevice.slice(changesTimed(bench)).slice(0, changesTimed(bench));
  return { ...memory, changes: await timeChanges(bench, go, nodes) };
}

/** Half of the nodes that have no device yet are Berth's, half the peer's. */
function changesTimed({ withoutDevice }: BenchCluster): number {
  return Math.min(CHANGES_TIMED, Math.floor(withoutDevice.length / 2));
}

interface Changes {
  /** From the change received to the patch received, each. Milliseconds. */
  readonly latencies: readonly number[];
  /** Mean CPU time of the process for one. Milliseconds. */
  readonly cpuMs: number;
}

/** Changes one node after the other, and finds in the audit log when the process answered with a patch. */
async function timeChanges(
  bench: BenchCluster,
  process: MeasuredProcess,
  nodes: readonly string[],
): Promise<Changes> {
  const { cluster } = bench;
  const mark = await cluster.audit.mark();
  const cpuBefore = await process.cpuMs();
  for (const node of nodes) {
    await bench.addDevice(node);
    await delay(CHANGE_EVERY_MS);
  }
  await waitForPatches(cluster, mark, process, { expected: nodes.length, timeoutMs: 60_000 });
  const cpuMs = ((await process.cpuMs()) - cpuBefore) / nodes.length;
  const entries = await cluster.audit.entriesSince(mark, { verb: "patch", resource: "nodes", code: 200 });
  const changedAt = new Map(
    entries.filter(({ userAgent }) => userAgent === CHANGES).map((entry) => [entry.name, receivedAt(entry)]),
  );
  const latencies = entries
    .filter(({ userAgent }) => userAgent.startsWith(process.userAgent))
    .map((entry) => receivedAt(entry) - (changedAt.get(entry.name) ?? Number.NaN));
  return { latencies, cpuMs };
}

function describeChanges({ latencies, cpuMs }: Changes): string {
  const p99 = quantile(latencies, 0.99).toFixed(0);
  return `p99 ${p99} ms, median of ${latencies.length} (${median(latencies).toFixed(0)} ms), CPU ${cpuMs.toFixed(1)} ms each`;
}

/** The most sockets that it has open at one time, until `signal`. */
async function mostSockets(process: MeasuredProcess, signal: AbortSignal): Promise<number> {
  let most = 0;
  while (!signal.aborted) {
    most = Math.max(most, await process.sockets());
    await delay(50);
  }
  return most;
}

function mb(bytes: number): string {
  return `${(bytes / MB).toFixed(0)} MB`;
}
