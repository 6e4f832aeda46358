/**
 * `make bench`: measures Berth beside the raw limit of the API server and beside a careful Go controller, in one run on
 * one machine, and prints ratios. Exits 0 once measured and names missed budgets; `--assert` makes a missed budget
 * fail. The README beside this file explains the options and the figures.
 */
import { parseArgs } from "node:util";
import { benchArchitecture } from "./architecture.ts";
import { type BenchCluster, startBenchCluster, USUAL_KILOBYTES } from "./bench-cluster.ts";
import { benchCapabilities } from "./capabilities.ts";
import { benchDeadLink } from "./dead-link.ts";
import { benchDeschedule } from "./deschedule.ts";
import { benchFleet } from "./fleet.ts";
import { benchFleetCells } from "./fleet-cells.ts";
import { benchFleetDrain } from "./fleet-drain.ts";
import { benchFleetFlood } from "./fleet-flood.ts";
import { benchFleetHub } from "./fleet-hub.ts";
import { benchFleetMemory } from "./fleet-memory.ts";
import { benchFleetPlanes } from "./fleet-planes.ts";
import { benchFleetReviews } from "./fleet-reviews.ts";
import { benchFleetSimulated } from "./fleet-simulated.ts";
import { benchFootprint } from "./footprint.ts";
import { startFootprintStage } from "./footprint-stage.ts";
import { startGateStage } from "./gate-stage.ts";
import { benchGates } from "./gates.ts";
import { growthFigures } from "./growth.ts";
import { benchHostile } from "./hostile.ts";
import { benchLabels } from "./labels.ts";
import { benchMemory } from "./memory.ts";
import { buildPeer } from "./peer.ts";
import { type Figure, report } from "./report.ts";
import { compare, describeCommit, describeMachine, readResult, saveResult } from "./results.ts";
import { benchSoak } from "./soak.ts";
import { benchStart } from "./start.ts";
import { benchSteady } from "./steady.ts";

const PARTS = [
  "start",
  "labels",
  "steady",
  "dead-link",
  "memory",
  "gates",
  "architecture",
  "footprint",
  "deschedule",
  "capabilities",
  "fleet-cell",
  "fleet-networks",
  "fleet-planes",
  "fleet-memory",
  "fleet-reviews",
  "fleet-hub",
  "fleet-drain",
  "fleet-flood",
  "fleet-simulated",
  "hostile",
  "soak",
] as const;
type Part = (typeof PARTS)[number];
/** Takes an hour: only when it is asked for. */
const ON_REQUEST: ReadonlySet<Part> = new Set(["soak"]);

/** What Kubernetes is made for (kubernetes.io, "Considerations for large clusters"): the budgets are for this size. */
const BUDGET_SIZE = 5000;
const BUDGET_PODS = 30_000;
/** A leak shows at any size; few nodes leave less of the memory to vary. */
const SOAK_NODES = 200;
/** These bursts are told apart from their limits by much more than they vary. */
const GATE_ROUNDS = 3;
const FLEET_ROUNDS = 3;
/** What brings a cluster of its own, or needs none. */
const APART: ReadonlySet<Part> = new Set([
  "start",
  "gates",
  "architecture",
  "footprint",
  "deschedule",
  "capabilities",
  "fleet-cell",
  "fleet-networks",
  "fleet-planes",
  "fleet-memory",
  "fleet-reviews",
  "fleet-hub",
  "fleet-drain",
  "fleet-flood",
  "fleet-simulated",
  "hostile",
  "soak",
]);

const { values } = parseArgs({
  options: {
    assert: { type: "boolean", default: false },
    compare: { type: "string" },
    only: { type: "string" },
    sizes: { type: "string" },
    kilobytes: { type: "string", default: String(USUAL_KILOBYTES) },
    nodes: { type: "string" },
    cells: { type: "string", default: "10,300" },
    pods: { type: "string", default: "30000" },
    gated: { type: "string", default: "1000" },
    created: { type: "string", default: "1000" },
    lives: { type: "string", default: "100" },
    bound: { type: "string", default: "200" },
    moved: { type: "string", default: "200" },
    pairs: { type: "string", default: "5" },
    rest: { type: "string", default: "30" },
    minutes: { type: "string", default: "60" },
    peer: { type: "boolean", default: true },
  },
  allowNegative: true,
});

const parts = readParts(values.only);
const sizes = readSizes(values.nodes ?? values.sizes ?? "500,5000,20000");
const kilobytes = readSizes(values.kilobytes);
const fleetSizes = readSizes(values.sizes ?? "100,1000,10000");
const cells = readSizes(values.cells);
const pods = readNumber("pods", values.pods);
const gated = readNumber("gated", values.gated);
const created = readNumber("created", values.created);
const lives = readNumber("lives", values.lives);
const bound = readNumber("bound", values.bound);
const moved = readNumber("moved", values.moved);
const pairs = readNumber("pairs", values.pairs);
const restSeconds = readNumber("rest", values.rest);
const minutes = readNumber("minutes", values.minutes);
const before = values.compare === undefined ? undefined : await readResult(values.compare);
/** Where the parts run that are measured at one size only. */
const mainSize = sizes.includes(BUDGET_SIZE) ? BUDGET_SIZE : Math.max(...sizes);

const started = performance.now();
const figures: Figure[] = [];
let apiserver = "none started";
const progress =
  (about: string) =>
  (text: string): void =>
    console.log(`bench: ${((performance.now() - started) / 1000).toFixed(0).padStart(4)} s: ${about}${text}`);

if (parts.has("start")) {
  progress("")("start of the command line");
  figures.push(...(await benchStart()));
}
if (parts.has("gates")) {
  const onProgress = progress("gates: ");
  await using stage = await startGateStage(onProgress);
  apiserver = JSON.parse(await stage.cluster.client.read("/version")).gitVersion;
  const rounds = Math.min(pairs, GATE_ROUNDS);
  figures.push(...(await benchGates(stage, { nodes: gated, pods, rounds, restSeconds, onProgress })));
}
if (parts.has("architecture")) {
  const onProgress = progress("architecture: ");
  const onServer = (version: string): void => void (apiserver = version);
  const common = { rounds: pairs, restSeconds, onProgress, onServer };
  figures.push(...(await benchArchitecture({ ...common, count: created, foreign: pods })));
}
if (parts.has("hostile")) {
  const onServer = (version: string): void => void (apiserver = version);
  figures.push(...(await benchHostile({ onProgress: progress("hostile: "), onServer })));
}
if (parts.has("footprint")) {
  const onProgress = progress("footprint: ");
  await using stage = await startFootprintStage(mainSize, onProgress);
  apiserver = JSON.parse(await stage.cluster.client.read("/version")).gitVersion;
  const budgeted = mainSize === BUDGET_SIZE && pods >= BUDGET_PODS;
  const sizesOfParts = { lives, bound, foreign: pods, restSeconds, budgeted };
  figures.push(...(await benchFootprint(stage, { ...sizesOfParts, onProgress })));
}
if (parts.has("deschedule")) {
  const onProgress = progress("deschedule: ");
  await using stage = await startFootprintStage(mainSize, onProgress);
  apiserver = JSON.parse(await stage.cluster.client.read("/version")).gitVersion;
  const budgeted = mainSize === BUDGET_SIZE && pods >= BUDGET_PODS;
  figures.push(...(await benchDeschedule(stage, { pods, moved, restSeconds, budgeted, onProgress })));
}
if (parts.has("capabilities")) {
  const onProgress = progress("capabilities: ");
  const peer = await buildPeer(onProgress);
  await using stage = await startFootprintStage(mainSize, onProgress);
  apiserver = JSON.parse(await stage.cluster.client.read("/version")).gitVersion;
  figures.push(...(await benchCapabilities(stage, { pods, peer, restSeconds, onProgress })));
}
for (const networks of [false, true]) {
  if (!parts.has(networks ? "fleet-networks" : "fleet-cell")) continue;
  const onProgress = progress(networks ? "fleet with networks: " : "fleet: ");
  const onServer = (version: string): void => void (apiserver = version);
  const peer = values.peer ? await buildPeer(onProgress) : undefined;
  const common = { sizes: fleetSizes, rounds: Math.min(pairs, FLEET_ROUNDS), peer, restSeconds };
  figures.push(...(await benchFleet({ ...common, networks, onProgress, onServer })));
}
for (const [part, bench] of [
  ["fleet-planes", benchFleetPlanes],
  ["fleet-memory", benchFleetMemory],
  ["fleet-reviews", benchFleetReviews],
  ["fleet-hub", benchFleetHub],
  ["fleet-hub", benchFleetCells],
  ["fleet-drain", benchFleetDrain],
  ["fleet-flood", benchFleetFlood],
] as const) {
  if (!parts.has(part)) continue;
  const onServer = (version: string): void => void (apiserver = version);
  const common = { rounds: Math.min(pairs, FLEET_ROUNDS), restSeconds };
  figures.push(...(await bench({ ...common, onProgress: progress(`${part}: `), onServer })));
}
if (parts.has("fleet-simulated")) {
  const onServer = (version: string): void => void (apiserver = version);
  const onProgress = progress("fleet-simulated: ");
  figures.push(...(await benchFleetSimulated({ cells, restSeconds, onProgress, onServer })));
}
if (parts.has("soak")) {
  const onProgress = progress("soak: ");
  await using stage = await startFootprintStage(SOAK_NODES, onProgress);
  apiserver = JSON.parse(await stage.cluster.client.read("/version")).gitVersion;
  figures.push(...(await benchSoak(stage, { minutes, onProgress })));
}
if ([...parts].some((part) => !APART.has(part))) {
  const peer = values.peer || parts.has("memory") ? await buildPeer(progress("")) : undefined;
  for (const size of sizes)
    for (const each of kilobytes) {
      const onProgress = progress(`${size} nodes: `);
      await using bench = await startBenchCluster(size, each, onProgress);
      apiserver = JSON.parse(await bench.cluster.client.read("/version")).gitVersion;
      figures.push(...(await benchSize(bench, { peer, onProgress })));
    }
  figures.push(...growthFigures(figures, sizes));
}
progress("")("done");

const missed = report(figures);
const result = {
  date: new Date().toISOString(),
  commit: describeCommit(),
  machine: describeMachine(apiserver),
  args: process.argv.slice(2),
  figures,
};
if (before !== undefined) compare(before, result);
console.log(`written to ${await saveResult(result)}`);
if (values.assert && missed.length > 0) process.exitCode = 1;

interface Tools {
  readonly peer: string | undefined;
  readonly onProgress: (text: string) => void;
}

async function benchSize(bench: BenchCluster, { peer, onProgress }: Tools): Promise<readonly Figure[]> {
  const size = bench.names.length;
  const common = { peer, onProgress, restSeconds };
  const measured: Figure[] = [];
  // Beyond the size of the budgets only the growth is of interest, and each pair takes four times as long.
  const rounds = size > BUDGET_SIZE ? Math.min(pairs, 2) : pairs;
  if (parts.has("labels"))
    measured.push(
      ...(await benchLabels(bench, { ...common, pairs: rounds, budgeted: size === BUDGET_SIZE })),
    );
  if (bench.kilobytes !== USUAL_KILOBYTES) return measured;
  if (parts.has("steady"))
    measured.push(...(await benchSteady(bench, { ...common, budgeted: size === BUDGET_SIZE })));
  if (size !== mainSize) return measured;
  if (parts.has("dead-link")) measured.push(...(await benchDeadLink(bench, onProgress)));
  if (parts.has("memory") && peer !== undefined) {
    const budgeted = size === BUDGET_SIZE && pods >= BUDGET_PODS;
    measured.push(...(await benchMemory(bench, { ...common, peer, pods, budgeted })));
  }
  return measured;
}

function readParts(text: string | undefined): ReadonlySet<Part> {
  if (text === undefined) return new Set(PARTS.filter((part) => !ON_REQUEST.has(part)));
  const asked = text.split(",");
  const unknown = asked.filter((name) => !PARTS.some((part) => part === name));
  if (unknown.length > 0) throw new Error(`--only knows ${PARTS.join(", ")}, and not ${unknown.join(", ")}`);
  return new Set(PARTS.filter((part) => asked.includes(part)));
}

function readSizes(text: string): readonly number[] {
  return text.split(",").map((size) => readNumber("sizes", size));
}

function readNumber(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new Error(`--${name} takes whole numbers, not ${text}`);
  return number;
}
