/** Nodes and all pods with an index by node, as the capabilities to come need them: memory beside the Go peer, stalls. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import type { BenchCluster } from "./bench-cluster.ts";
import { holdSynced, MB, type Synced } from "./held-memory.ts";
import { labelAll, peerArgs } from "./labels.ts";
import { peerProgram } from "./peer.ts";
import type { Program } from "./process.ts";
import type { Figure } from "./report.ts";

export interface MemoryOptions {
  readonly pods: number;
  readonly peer: string;
  /** The budget is for this size. */
  readonly budgeted: boolean;
  /** Resident memory is read this long after the sync. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

/** As `bin/berth` and the image start Node. */
const YOUNG_GENERATION = "--max-semi-space-size=4";

export async function benchMemory(bench: BenchCluster, options: MemoryOptions): Promise<readonly Figure[]> {
  const { peer, restSeconds, onProgress } = options;
  // Labelled already, so that the sync is all there is to do.
  await labelAll(bench);
  await bench.createPods(options.pods);
  const hold = async (program: Program): Promise<Synced> => {
    onProgress(`${program.name}: caching ${bench.names.length} nodes and ${options.pods} pods`);
    return holdSynced(program, restSeconds);
  };
  const args = { ...peerArgs(bench), pods: true };
  await using program = await bundleBerthWithPods(bench);
  const berth = await hold(program);
  const go = await hold(peerProgram(peer, args));
  const stripped = await hold({
    ...peerProgram(peer, { ...args, strip: true }),
    name: "the Go peer without managedFields",
  });
  await bench.reset();
  return toFigures(bench, options, { berth, go, stripped });
}

/**
 * The built packages in one bundle, as `make build` makes one of the command line (without its trimmed undici, which
 * costs about 5 MB more), on the Node that runs this.
 */
async function bundleBerthWithPods({
  kubeconfig,
  labelFolder,
}: BenchCluster): Promise<Program & AsyncDisposable> {
  const outdir = await mkdtemp(join(tmpdir(), "berth-bench-bundle-"));
  await build({
    entryPoints: [join(import.meta.dirname, "children/berth-with-pods.ts")],
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    minifyWhitespace: true,
    logLevel: "warning",
    // Some dependencies are CommonJS and load Node's own modules with `require`.
    banner: {
      js: 'import{createRequire as __createRequire}from"node:module";const require=__createRequire(import.meta.url);',
    },
  });
  return {
    name: "berth with pods",
    command: process.execPath,
    args: [YOUNG_GENERATION, join(outdir, "berth-with-pods.mjs"), kubeconfig, labelFolder],
    userAgent: "bench-berth-pods",
    [Symbol.asyncDispose]: () => rm(outdir, { recursive: true, force: true }),
  };
}

interface AllHeld {
  readonly berth: Synced;
  readonly go: Synced;
  readonly stripped: Synced;
}

function toFigures(
  { names }: BenchCluster,
  { pods, restSeconds, budgeted }: MemoryOptions,
  { berth, go, stripped }: AllHeld,
): readonly Figure[] {
  const what = `${names.length} nodes, ${pods} pods`;
  const stall = stallOf(berth.said);
  return [
    {
      id: "memory-pods-vs-go",
      what: `${what}: resident ${restSeconds} s after sync, berth / Go`,
      value: berth.resident / go.resident,
      unit: "x",
      ...(budgeted && { budget: 0.45, aim: 0.3 }),
      detail: `berth ${describe(berth)}; Go ${describe(go)}`,
    },
    {
      id: "memory-pods-vs-go-collected",
      what: `${what}: the same, Go after a forced collection`,
      value: berth.resident / go.least,
      unit: "x",
      detail: "Go gives garbage back minutes after a sync; berth as it is",
    },
    {
      id: "memory-pods-vs-go-stripped",
      what: `${what}: the same, Go without managedFields`,
      value: berth.resident / stripped.resident,
      unit: "x",
      detail: `Go ${describe(stripped)}`,
    },
    {
      id: "memory-pods-vs-go-stripped-collected",
      what: `${what}: the same, Go without managedFields after a forced collection`,
      value: berth.resident / stripped.least,
      unit: "x",
      detail: "the leanest of the peers",
    },
    {
      id: "memory-pods",
      what: `${what}: resident ${restSeconds} s after sync`,
      value: berth.resident / MB,
      unit: "MB",
      detail: `peak ${(berth.peak / MB).toFixed(0)} MB`,
    },
    {
      id: "memory-pods-peak",
      what: `${what}: peak, berth / Go`,
      value: berth.peak / go.peak,
      unit: "x",
    },
    {
      id: "stall-pods",
      what: `${what}: longest event-loop stall during the sync`,
      value: stall.stallMs,
      unit: "ms",
      budget: 100,
      detail: `p99 ${stall.stallP99Ms.toFixed(1)} ms; perf_hooks, every ms, in the process itself`,
    },
  ];
}

function describe({ resident, least, peak, syncMs }: Synced): string {
  const collected = least === resident ? "" : `, ${(least / MB).toFixed(0)} MB once collected`;
  return `${(resident / MB).toFixed(0)} MB${collected}, peak ${(peak / MB).toFixed(0)} MB, synced after ${(syncMs / 1000).toFixed(1)} s`;
}

/** From the line that `berth-with-pods.ts` prints. */
function stallOf(said: string): { readonly stallMs: number; readonly stallP99Ms: number } {
  return JSON.parse(said.slice(said.indexOf("{"))) as { stallMs: number; stallP99Ms: number };
}
