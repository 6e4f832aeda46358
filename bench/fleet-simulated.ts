/**
 * A hub with hundreds of cells, of which each has 100 deployments with ten Instances: what it takes, and what one
 * change costs. Berth is real, and all that it reads comes by a wire behind which nothing is stored.
 */
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { instances } from "@berth/fleet";
import { HOME } from "../packages/fleet/src/testing/cell-actor.ts";
import { startReady, WITHOUT_ADMISSION } from "./gate-stage.ts";
import { MB } from "./held-memory.ts";
import type { FleetHubOptions } from "./hub-workloads.ts";
import { berthProgram, type MeasuredProcess } from "./process.ts";
import type { Figure } from "./report.ts";
import { cellName, EACH, multiply, PER_CELL, type Sample, takeSample } from "./simulated-fleet.ts";
import { type SimulatedWire, startSimulatedWire } from "./simulated-wire.ts";

export interface FleetSimulatedOptions extends FleetHubOptions {
  /** Numbers of cells, ascending. */
  readonly cells: readonly number[];
}

/** Kinds that are read of each cell. */
const KINDS = 3;
const SYNCED_MS = 480_000;
const POLL_MS = 500;
/** Its metrics have a series for each kind of each cell: asked for twice a second, they took a quarter of its CPU. */
const SYNC_POLL_MS = 5_000;
/** Of a processor, from which on it is not at rest. */
const BUSY = 0.3;
const CHANGES = 200;
const EVERY_MS = 50;
/** How often the CPU at rest is measured, for as long as the changes take. */
const RESTS = 2;

export async function benchFleetSimulated(options: FleetSimulatedOptions): Promise<readonly Figure[]> {
  options.onProgress("a real hub with one cell, for a sample");
  await using sample = await takeSample();
  options.onServer(JSON.parse(await sample.hub.client.read("/version")).gitVersion);
  const rows: Row[] = [];
  for (const count of options.cells) rows.push(await measure(sample, count, options));
  return rows.flatMap((row) => figuresOf(row, rows[0]));
}

interface Row {
  readonly cells: number;
  /** MB. */
  readonly resident: number;
  readonly peak: number;
  /** From the start until all is read and looked at, and the CPU for that. */
  readonly syncedMs: number;
  readonly syncCpuMs: number;
  /** CPU of one change, and of a second at rest. */
  readonly changeMs: number;
  readonly restMs: number;
  readonly writesAtRest: number;
  /** Why it could not be measured. */
  readonly ended?: string;
}

async function measure(
  sample: Sample,
  count: number,
  { restSeconds, onProgress }: FleetSimulatedOptions,
): Promise<Row> {
  const of = `${count} cells, ${count * PER_CELL} deployments, ${count * PER_CELL * EACH} Instances`;
  onProgress(of);
  const serving = await sample.hub.authority.issueServing(["127.0.0.1"]);
  await using wire = await startSimulatedWire(serving, multiply(sample, count));
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-bench-simulated-"));
  const [kubeconfig, config] = [join(folder.path, "kubeconfig"), join(folder.path, "config.yaml")];
  await writeFile(kubeconfig, sample.hub.kubeconfig({ server: `${wire.origin}/hub` }), { mode: 0o600 });
  const spec = { mode: "management", hub: "self", projects: "self" };
  const fleet = { apiVersion: "berth.dev/v1alpha1", kind: "Fleet", metadata: { name: "bench" }, spec };
  await writeFile(config, [fleet, WITHOUT_ADMISSION].map((it) => JSON.stringify(it)).join("\n---\n"));
  const any = "127.0.0.1:0";
  const bind = ["--metrics-bind-address", any, "--health-probe-bind-address", any];
  const args = ["--kubeconfig", kubeconfig, "--config", config, "--namespace", HOME, ...bind];
  await using berth = await startReady(berthProgram(args));
  try {
    return await measureRunning(count, { berth, wire, restSeconds, onProgress });
  } catch (error) {
    if (!berth.ended.aborted) throw error;
    const nothing = Number.NaN;
    const none = { resident: nothing, peak: nothing, syncedMs: nothing, syncCpuMs: nothing };
    const [ended = ""] = /.*(?:heap out of memory|heap limit).*/.exec(berth.log) ?? [berth.log];
    return { cells: count, ...none, changeMs: nothing, restMs: nothing, writesAtRest: nothing, ended };
  }
}

interface Running {
  readonly berth: MeasuredProcess & { readonly metricsUrl: string };
  readonly wire: SimulatedWire;
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

async function measureRunning(
  count: number,
  { berth, wire, restSeconds, onProgress }: Running,
): Promise<Row> {
  for (let synced = 0; synced < count * KINDS; ) {
    await delay(SYNC_POLL_MS);
    berth.ended.throwIfAborted();
    synced = await syncedInformers(berth.metricsUrl);
    if (Date.now() - berth.startedAt > SYNCED_MS)
      throw new Error(`${synced} of ${count * KINDS} informers of cells are synced\n${berth.log}`);
  }
  onProgress(`cells are synced after ${Math.round((Date.now() - berth.startedAt) / 1000)} s`);
  // The hub itself has twice as much to read as its cells together, and then each object is looked at once.
  for (let before = 0, cpuMs = Number.POSITIVE_INFINITY; cpuMs - before > SYNC_POLL_MS * BUSY; ) {
    before = await berth.cpuMs();
    await delay(SYNC_POLL_MS);
    berth.ended.throwIfAborted();
    cpuMs = await berth.cpuMs();
    if (Date.now() - berth.startedAt > 2 * SYNCED_MS) throw new Error(`it is not at rest\n${berth.log}`);
  }
  const syncedMs = Date.now() - berth.startedAt;
  const syncCpuMs = await berth.cpuMs();
  onProgress(`at rest after ${Math.round(syncedMs / 1000)} s, with ${wire.writes.length} writes`);
  await delay(restSeconds * 1000);
  const { resident, peak } = await berth.memory();
  const seconds = (CHANGES * EVERY_MS) / 1000;
  const writes = wire.writes.length;
  const rests: number[] = [];
  for (let at = 0; at < RESTS; at += 1) {
    const before = await berth.cpuMs();
    await delay(seconds * 1000);
    rests.push((await berth.cpuMs()) - before);
  }
  // The rest is what V8 still collects of what was read.
  const restMs = Math.min(...rests);
  const writesAtRest = wire.writes.length - writes;
  for (const text of wire.writes.slice(0, 5)) onProgress(`written at rest: ${text}`);
  onProgress(`${CHANGES} changes`);
  const cpuBefore = await berth.cpuMs();
  const path = `/apis/${instances.group}/${instances.version}/${instances.plural}`;
  for (let at = 0; at < CHANGES; at += 1) {
    const cell = at % count;
    const index = (Math.floor(at / count) * EACH) % (PER_CELL * EACH);
    wire.change(cellName(cell), path, index, { status: { conditions: changedConditions(at) } });
    await delay(EVERY_MS);
  }
  const due = performance.now() + 10_000;
  while (wire.writes.length - writes < 2 * CHANGES && performance.now() < due) await delay(POLL_MS);
  const done = wire.writes.length - writes;
  onProgress(`${done} writes for them`);
  // Before they are carried out they cost nothing.
  const changeMs = done < 2 * CHANGES ? Number.NaN : ((await berth.cpuMs()) - cpuBefore - restMs) / CHANGES;
  return {
    cells: count,
    resident: resident / MB,
    peak: peak / MB,
    syncedMs,
    syncCpuMs,
    changeMs,
    restMs: restMs / seconds,
    writesAtRest,
  };
}

function changedConditions(at: number): readonly object[] {
  const of = { status: "True", reason: "Available", message: `change ${at}`, observedGeneration: 1 };
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  return ["Ready", "Running", "Programmed"].map((type) => Object.assign({ type, lastTransitionTime }, of));
}

/** Of cells. */
async function syncedInformers(metricsUrl: string): Promise<number> {
  const exposed = await (await fetch(`${metricsUrl}/metrics`)).text();
  return [...exposed.matchAll(/^berth_informer_synced\{.*cluster="cell-\d{4}".*\} 1$/gm)].length;
}

const FULL = 1_000;

function figuresOf(row: Row, least: Row | undefined): readonly Figure[] {
  const { cells, resident, peak, syncedMs, syncCpuMs, changeMs, restMs, writesAtRest, ended } = row;
  const count = `${cells} cells, ${cells * PER_CELL * EACH} Instances`;
  const detail = ended ?? `peak ${peak.toFixed(0)} MB; ${restMs.toFixed(0)} ms of CPU a second at rest`;
  const isFull = cells === FULL;
  return [
    {
      id: `fleet-simulated-${cells}-memory`,
      what: `simulated: resident with ${count}`,
      value: resident,
      unit: "MB",
      ...(isFull && { budget: 1_500 }),
      detail,
    },
    {
      id: `fleet-simulated-${cells}-restart`,
      what: `simulated: ${count}: read after a restart`,
      value: syncedMs / 1000,
      unit: "s",
      detail: `${(syncCpuMs / 1000).toFixed(1)} s of CPU`,
    },
    {
      id: `fleet-simulated-${cells}-rest`,
      what: `simulated: ${count}: writes at rest`,
      value: writesAtRest,
      unit: "requests",
      budget: 0,
    },
    {
      id: `fleet-simulated-${cells}-change`,
      what: `simulated: ${count}: CPU of one changed Instance`,
      value: changeMs,
      unit: "ms",
      ...(least !== undefined && least !== row && { budget: 1.5 * least.changeMs }),
    },
  ];
}
