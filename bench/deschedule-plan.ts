/** `berth plan` with a policy, beside the lists that it cannot do without. */
import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type KubeClient, namespaces, nodes, pods } from "@berth/kube";
import { type Furnished, moving, POLICY } from "./deschedule-stage.ts";
import type { FootprintStage } from "./footprint-stage.ts";
import { type Figure, median } from "./report.ts";

export interface PlanOptions {
  readonly furnished: Furnished;
  /** The budgets are for this size. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

const BUDGET_RATIO = 1.3;
const ROUNDS = 3;
const MAX_OUTPUT = 256 * 1024 * 1024;
/** As plan asks for pods: those that have not ended. */
const RUNNING = "status.phase!=Succeeded,status.phase!=Failed";
const berth = join(import.meta.dirname, "../bin/berth");

/** The nodes have lost the device already: one pod for each of them would be evicted. */
export async function benchPlan(
  { cluster, raw, names }: FootprintStage,
  { furnished: { losing }, budgeted, onProgress }: PlanOptions,
): Promise<readonly Figure[]> {
  const lost = losing.map((node, index) =>
    moving(`lost-${index}`, { owner: `lost-${index}`, node, asks: true }),
  );
  await raw.sendAll(lost.flatMap(([made]) => made ?? []));
  await raw.sendAll(lost.flatMap(([, reported]) => reported ?? []));
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-bench-plan-"));
  const [kubeconfig, config] = [join(folder.path, "kubeconfig"), join(folder.path, "policy.yaml")];
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  await writeFile(config, JSON.stringify(POLICY));
  const args = ["plan", "--kubeconfig", kubeconfig, "--config", config, "--output", "json"];
  await using client = cluster.connect({ userAgent: "bench-lists" });
  const [plans, lists]: [number[], number[]] = [[], []];
  let evicted = 0;
  for (let round = 1; round <= ROUNDS; round++) {
    onProgress(`plan and lists, round ${round} of ${ROUNDS}`);
    lists.push(await timeOf(() => readAll(client)));
    plans.push(
      await timeOf(async () => {
        const { stdout } = await promisify(execFile)(berth, args, { maxBuffer: MAX_OUTPUT });
        evicted = evictionsOf(stdout);
      }),
    );
  }
  if (evicted !== losing.length) throw new Error(`plan shows ${evicted} evictions of ${losing.length}`);
  return [
    {
      id: "deschedule-plan-ratio",
      what: `${names.length} nodes: plan of ${evicted} evictions / the lists it needs`,
      value: median(plans) / median(lists),
      unit: "x",
      ...(budgeted && { budget: BUDGET_RATIO }),
      detail: `plan ${secondsOf(plans)}, from start to exit; lists ${secondsOf(lists)}: nodes, pods and namespaces in pages of 500 with the client of Berth; medians of ${ROUNDS}`,
    },
  ];
}

/** Those that would be made, not those that would stay. */
function evictionsOf(printed: string): number {
  const { evictions } = JSON.parse(printed) as { readonly evictions: readonly { readonly step?: number }[] };
  return evictions.filter(({ step }) => step !== undefined).length;
}

async function readAll(client: KubeClient): Promise<void> {
  const read = async (pages: AsyncIterable<object>): Promise<void> => {
    for await (const page of pages) void page;
  };
  await read(client.pages(pods, { fieldSelector: RUNNING }));
  await read(client.pages(namespaces, { metadataOnly: true }));
  await read(client.pages(nodes));
}

async function timeOf(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

function secondsOf(times: readonly number[]): string {
  return `${(median(times) / 1000).toFixed(2)} s`;
}
