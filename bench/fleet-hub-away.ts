/** What a cell that does not answer does to the others, and how soon the hub says so and all is true again. */
import { setTimeout as delay } from "node:timers/promises";
import { type Cell, cells, workloads } from "@berth/fleet";
import { findCondition } from "@berth/runtime";
import type { TestCluster } from "@berth/testcluster";
import { COMPUTE, NAMESPACE } from "./fleet-stage.ts";
import { readyOf, waitForCells } from "./hub-stage.ts";
import {
  type Bench,
  create,
  ENGAGED_MS,
  EVERY_MS,
  everyTenth,
  LATEST_MS,
  NAMES,
  PACED,
  placedDeployments,
} from "./hub-workloads.ts";
import { watchObjects } from "./object-sight.ts";
import { type Figure, median, quantile } from "./report.ts";

/** Creations in the other city, without and with a frozen cell. */
export async function whileOneIsFrozen(bench: Bench): Promise<readonly Figure[]> {
  bench.options.onProgress("creations in other cells while one is frozen");
  const others = (round: string): Promise<readonly number[]> =>
    everyTenth(PACED, (at) => create(bench, `${round}-${at}`, "ORD"));
  const before = await others("alone");
  const frozen = bench.cells.planes[0]?.cluster;
  signalServer(frozen, "SIGSTOP");
  const during = await others("frozen");
  signalServer(frozen, "SIGCONT");
  await waitForCells(bench.stage, NAMES.length, ENGAGED_MS, bench.berth);
  return [
    {
      id: "fleet-hub-frozen",
      what: "Workload created to its cell, p50, while another cell is frozen / before",
      value: median(during) / median(before),
      unit: "x",
      budget: 1.1,
      detail: `p50 ${median(during).toFixed(0)} and ${median(before).toFixed(0)} ms, p99 ${quantile(during, 0.99).toFixed(0)} and ${quantile(before, 0.99).toFixed(0)} ms`,
    },
  ];
}

function signalServer(cluster: TestCluster | undefined, signal: "SIGSTOP" | "SIGCONT"): void {
  process.kill(cluster?.pidOf("kube-apiserver") ?? Number.NaN, signal);
}

/** How soon the hub says that a cell is away, and how soon all is true again. Meanwhile a Workload of the cell changes. */
export async function whileAway(bench: Bench): Promise<readonly Figure[]> {
  const {
    stage,
    cells: { planes },
    options,
    raw,
    berth,
  } = bench;
  const awaySeconds = options.restSeconds * 6;
  const figures: Figure[] = [];
  for (const how of ["refused", "silent"] as const) {
    const plane = planes[how === "refused" ? 2 : 3];
    if (plane === undefined) break;
    options.onProgress(`a cell is ${how} for ${awaySeconds} s`);
    const { cluster, name: cell } = plane;
    // Nothing has changed the statuses of these.
    const target = (await placedDeployments([plane])).find(({ name }) => name.startsWith("burst-"));
    if (target === undefined) throw new Error(`nothing is placed in ${cell}`);
    const workload = target.name.replace(/-all-[a-z]+$/, "");
    await using sight = await watchObjects<Cell>(stage.hub.client, { resource: cells, project: (it) => it });
    const signal = AbortSignal.timeout(LATEST_MS);
    const lost = sight.until(cell, (it) => statusIs(it, "False"), signal);
    const lostAt = performance.now();
    if (how === "refused") await cluster.stopComponent("kube-apiserver", "SIGKILL");
    else signalServer(cluster, "SIGSTOP");
    const reportedMs = await lost.then((at) => at - lostAt).catch(() => LATEST_MS);
    await raw.send({
      method: "PATCH",
      path: `${COMPUTE}/workloads/${workload}`,
      body: {
        spec: { placements: [{ name: "all", cityCodes: ["ORD"], scaleSettings: { minReplicas: 2 } }] },
      },
    });
    const zeros = { count: 0 };
    const endAt = lostAt + awaySeconds * 1000;
    while (performance.now() < endAt) {
      const { items } = await stage.hub.client.list(workloads, {
        namespace: NAMESPACE,
        resourceVersion: "0",
      });
      const seen = items.find(({ metadata }) => metadata?.name === workload);
      if (seen !== undefined && readyOf(seen) === 0) zeros.count++;
      berth.ended.throwIfAborted();
      await delay(1000);
    }
    if (how === "refused") await cluster.startComponent("kube-apiserver");
    else signalServer(cluster, "SIGCONT");
    const backAt = performance.now();
    const isTrue = await untilTrue(bench, workload);
    figures.push(
      {
        id: `fleet-hub-${how}-reported`,
        what: `a cell is ${how}: reported after`,
        value: reportedMs / 1000,
        unit: "s",
        budget: 15,
      },
      {
        id: `fleet-hub-${how}-healed`,
        what: `the same, back after ${awaySeconds} s: the change made meanwhile runs and is shown after`,
        value: ((isTrue ?? backAt + LATEST_MS) - backAt) / 1000,
        unit: "s",
        budget: 10,
      },
      {
        id: `fleet-hub-${how}-zeros`,
        what: "the same: looks, one a second, at a Workload that said 0 of its Instances are ready",
        value: zeros.count,
        unit: "requests",
        budget: 0,
      },
    );
  }
  return figures;
}

const statusIs = ({ status }: Cell, is: string): boolean =>
  findCondition(status?.conditions, "Reachable")?.status === is;

/** When the Workload shows the two Instances of the change. `undefined`: not within the time of `LATEST_MS`. */
async function untilTrue({ stage }: Bench, name: string): Promise<number | undefined> {
  const deadline = performance.now() + LATEST_MS;
  while (performance.now() < deadline) {
    const seen = await stage.hub.client.get(workloads, { namespace: NAMESPACE, name });
    if (readyOf(seen) === 2) return performance.now();
    await delay(EVERY_MS);
  }
  return undefined;
}
