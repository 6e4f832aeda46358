/**
 * Many Instances at once, in deployments of 20: from the creation of their Workloads to the last one that is Available.
 * Beside it a loop sends the same requests, which it takes from the audit log. Requests and CPU of each at several sizes.
 */
import { receivedAt } from "./audit.ts";
import { captureLanes, type Lanes, runLoop } from "./fleet-loop.ts";
import {
  areReady,
  CITIES,
  createWorkload,
  isWrite,
  ofAudit,
  PER_CITY,
  requestsSince,
  startFleetStage,
  textOf,
  waitForWorkloads,
} from "./fleet-stage.ts";
import { type Figure, median } from "./report.ts";

export interface FleetBurstOptions {
  /** Numbers of Instances. */
  readonly sizes: readonly number[];
  readonly networks?: boolean | undefined;
  /** Of Berth and the loop in turn. */
  readonly rounds: number;
  readonly onProgress: (text: string) => void;
}

/** The budget is for so many: 50 deployments. */
const BUDGET_SIZE = 1000;
const BUDGET_RATIO = 1.3;
const FLAT = 1.2;
/** What has not become Available within it is left out, and said. Milliseconds. */
const TIMEOUT_MS = 1_200_000;

/** Each run has a new cluster. */
export async function benchFleetBurst({
  sizes,
  networks,
  rounds,
  onProgress,
}: FleetBurstOptions): Promise<readonly Figure[]> {
  const ascending = sizes.map((size) => Math.ceil(size / PER_CITY) * PER_CITY).toSorted((a, b) => a - b);
  const main = ascending.includes(BUDGET_SIZE) ? BUDGET_SIZE : Math.min(...ascending);
  const bursts: Burst[] = [];
  const figures: Figure[] = [];
  for (const size of ascending) {
    if (size !== main) {
      onProgress(`${size} Instances at once`);
      bursts.push((await burst(size, networks)).measured);
      continue;
    }
    const all: Burst[] = [];
    for (let round = 1; round <= rounds; round++) {
      onProgress(`${size} Instances at once, and the loop, round ${round} of ${rounds}`);
      const { measured, lanes } = await burst(size, networks);
      await using stage = await startFleetStage({ runsPods: true, networks });
      all.push({ ...measured, loopSeconds: await runLoop(stage, lanes) });
    }
    bursts.push(...all.slice(0, 1));
    figures.push(toRatio(all));
  }
  return [...figures, ...bursts.map(toSeconds), ...growth(bursts)];
}

interface Burst {
  /** That became Available. */
  readonly count: number;
  readonly wanted: number;
  /** From the creation of the first Workload to the last Available. */
  readonly seconds: number;
  /** Berth's, watches and leader election left out. */
  readonly requests: number;
  readonly text: string;
  readonly cpuMs: number;
  readonly loopSeconds?: number;
}

/** @returns also what Berth sent. */
async function burst(
  size: number,
  networks: boolean | undefined,
): Promise<{ readonly measured: Burst; readonly lanes: Lanes }> {
  await using stage = await startFleetStage({ runsPods: true, networks });
  const { cluster, raw } = stage;
  await using berth = await stage.startBerth({ quota: false });
  const cpuBefore = await berth.cpuMs();
  const mark = await cluster.audit.mark();
  const perWorkload = CITIES.length * PER_CITY;
  for (let at = 0; at * perWorkload < size; at++) {
    const cities = CITIES.slice(0, Math.ceil((size - at * perWorkload) / PER_CITY));
    await raw.send(createWorkload(`burst-${at}`, { cities, perCity: PER_CITY }));
  }
  await waitForWorkloads(stage, berth, { is: (all) => areReady(all, size), timeoutMs: TIMEOUT_MS });
  const cpuMs = (await berth.cpuMs()) - cpuBefore;
  const requests = (await requestsSince(stage, berth, mark)).filter(({ verb }) => verb !== "watch");
  const created = { verb: "create", resource: ofAudit.workloads, userAgent: raw.userAgent };
  const [first] = await cluster.audit.entriesSince(mark, created);
  const statuses = requests.filter(
    (it) => it.resource === ofAudit.instances && it.subresource === "status" && it.code === 200,
  );
  // The second status of an Instance without quota says that it is Available.
  const available = [...Map.groupBy(statuses, ({ name }) => name).values()].filter((all) => all.length > 1);
  const lastAt = available.reduce((last, all) => Math.max(last, ...all.map(receivedAt)), 0);
  const measured = {
    count: available.length,
    wanted: size,
    seconds: (lastAt - (first === undefined ? Number.NaN : receivedAt(first))) / 1000,
    requests: requests.length,
    text: textOf(requests),
    cpuMs,
  };
  return { measured, lanes: await captureLanes(stage, requests.filter(isWrite)) };
}

function toRatio(bursts: readonly Burst[]): Figure {
  const ratios = bursts.map(({ seconds, loopSeconds = Number.NaN }) => seconds / loopSeconds);
  const text = (values: readonly (number | undefined)[]): string =>
    `${median(values.map((it) => it ?? Number.NaN)).toFixed(2)} s`;
  const [{ count, wanted, text: requests }] = bursts as [Burst, ...Burst[]];
  return {
    id: "fleet-burst-vs-loop",
    what: `${wanted} Instances in ${wanted / PER_CITY} deployments, from apply to all Available, berth / loop`,
    value: count === wanted ? median(ratios) : Number.NaN,
    unit: "x",
    ...(wanted === BUDGET_SIZE && { budget: BUDGET_RATIO }),
    detail:
      `berth ${text(bursts.map(({ seconds }) => seconds))}, loop ${text(bursts.map(({ loopSeconds }) => loopSeconds))}; medians of ${bursts.length}. ` +
      `The loop sends the same requests in the same order, and waits for each pod: ${requests}`,
    samples: ratios,
  };
}

function toSeconds({ count, wanted, seconds, requests, cpuMs }: Burst): Figure {
  const each = `${(requests / count).toFixed(2)} requests and ${(cpuMs / count).toFixed(2)} ms of CPU each`;
  const left = count === wanted ? "" : `; stopped after ${TIMEOUT_MS / 1000} s with ${count} of them`;
  return {
    id: `fleet-burst-${wanted}-seconds`,
    what: `${wanted} Instances in ${wanted / PER_CITY} deployments, from apply to all Available`,
    value: seconds,
    unit: "s",
    detail: `${each}${left}`,
  };
}

/** The most that a larger size costs over a smaller one, for each Instance. */
function growth(bursts: readonly Burst[]): readonly Figure[] {
  if (bursts.length < 2) return [];
  const figure = (id: string, what: string, of: (burst: Burst) => number, unit: string): Figure => {
    const each = bursts.map((it) => of(it) / it.count);
    const ratios = each.flatMap((large, at) => each.slice(0, at).map((small) => large / small));
    return {
      id: `fleet-growth-${id}`,
      what: `growth of ${what} for each Instance: the most at a larger size / at a smaller one`,
      value: Math.max(...ratios),
      unit: "x",
      budget: FLAT,
      detail: bursts.map(({ count }, at) => `${count}: ${each[at]?.toFixed(2)}${unit}`).join(", "),
    };
  };
  return [
    figure("requests", "requests", ({ requests }) => requests, ""),
    figure("cpu", "CPU", ({ cpuMs }) => cpuMs, " ms"),
  ];
}
