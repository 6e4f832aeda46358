/** What 400 Instances with large templates cost a Berth, over the same Berth without them. */
import { setTimeout as delay } from "node:timers/promises";
import {
  areReady,
  CITIES,
  createWorkload,
  deleteWorkload,
  type FleetStage,
  PER_CITY,
  type RunningBerth,
  startFleetStage,
  waitForWorkloads,
} from "./fleet-stage.ts";
import { MB } from "./held-memory.ts";
import { type Figure, median } from "./report.ts";

export interface FleetMemoryOptions {
  readonly rounds: number;
  /** Before memory is read. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
  readonly onServer: (version: string) => void;
}

const WORKLOADS = 4;
const CITIES_OF_ONE = 5;
const COUNT = WORKLOADS * CITIES_OF_ONE * PER_CITY;
/** Characters of one variable: with the rest of the template 32 KiB of JSON, the most that a Fleet admits by default. */
const PADDING = 31_900;
const BUDGET_MB = 40;
const TIMEOUT_MS = 600_000;

export async function benchFleetMemory(options: FleetMemoryOptions): Promise<readonly Figure[]> {
  const { rounds, restSeconds, onProgress, onServer } = options;
  await using stage = await startFleetStage({ runsPods: true });
  onServer(JSON.parse(await stage.cluster.client.read("/version")).gitVersion);
  const rested = async (berth: RunningBerth): Promise<number> => {
    await delay(restSeconds * 1000);
    berth.ended.throwIfAborted();
    return (await berth.memory()).resident / MB;
  };
  const [none, made, read]: [number[], number[], number[]] = [[], [], []];
  const names = Array.from({ length: WORKLOADS }, (_, at) => `large-${at}`);
  const shape = { cities: CITIES.slice(0, CITIES_OF_ONE), perCity: PER_CITY };
  for (let round = 1; round <= rounds; round++) {
    onProgress(`${COUNT} Instances with templates of 32 KiB, round ${round} of ${rounds}`);
    {
      await using berth = await stage.startBerth({ quota: false });
      none.push(await rested(berth));
      for (const name of names) await stage.raw.send(createWorkload(name, shape, PADDING));
      await reach(stage, berth, COUNT);
      made.push(await rested(berth));
    }
    await using berth = await stage.startBerth({ quota: false });
    read.push(await rested(berth));
    for (const name of names) await stage.raw.send(deleteWorkload(name));
    await waitForWorkloads(stage, berth, { is: (all) => all.length === 0, timeoutMs: TIMEOUT_MS });
  }
  const over = (held: readonly number[]): readonly number[] => held.map((it, at) => it - (none[at] ?? 0));
  const what = `${COUNT} Instances with templates of 32 KiB in ${WORKLOADS} Workloads: resident over that with none`;
  const text = (values: readonly number[]): string => values.map((it) => it.toFixed(0)).join(", ");
  const detail = `MB with none: ${text(none)}; in the process that made them: ${text(made)}; after a restart: ${text(read)}; ${restSeconds} s at rest each; median of ${rounds}`;
  return [
    { id: "fleet-templates-memory", what, value: median(over(made)), unit: "MB", budget: BUDGET_MB, detail },
    {
      id: "fleet-templates-memory-restart",
      what: `${what}, after a restart`,
      value: median(over(read)),
      unit: "MB",
      budget: BUDGET_MB,
    },
  ];
}

async function reach(stage: FleetStage, berth: RunningBerth, count: number): Promise<void> {
  if (!(await waitForWorkloads(stage, berth, { is: (all) => areReady(all, count), timeoutMs: TIMEOUT_MS })))
    throw new Error(`${count} Instances did not become Ready within ${TIMEOUT_MS} ms\n${berth.log}`);
}
