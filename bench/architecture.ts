/** Architecture placement: creations, misses, the way to a node, what pods that have their node cost. */
import { pods } from "@berth/kube";
import { eventually, startRegistry } from "@berth/testcluster";
import { benchBind } from "./architecture-bind.ts";
import {
  type Creation,
  handlingQuantile,
  isPlaced,
  latencyText,
  measureCreation,
  type Round,
  sumHandling,
  tookOf,
} from "./architecture-creation.ts";
import { benchArchitectureMemory } from "./architecture-memory.ts";
import { benchMiss } from "./architecture-miss.ts";
import {
  type ArchitectureStage,
  creation,
  NAMESPACE_OF_PODS,
  startArchitectureStage,
} from "./architecture-stage.ts";
import { type Figure, median } from "./report.ts";

export interface ArchitectureOptions {
  /** Created at once. */
  readonly count: number;
  /** Pods that have their node already. */
  readonly foreign: number;
  readonly rounds: number;
  /** Resident memory is read this long after the sync. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
  /** Version of the API server. */
  readonly onServer: (version: string) => void;
}

/** What the budgets are for. */
const BUDGET_PODS = 1000;
const IMAGES = 20;
/** The burst that performance budgets have always had. */
const BURST = { pods: 200, images: 2, blocks: 3 };
const CREATION_BUDGET = 1.1;
const BURST_BUDGET = 1.2;
/** Milliseconds. */
const HANDLING_BUDGET = 5;

export async function benchArchitecture(options: ArchitectureOptions): Promise<readonly Figure[]> {
  const { count, foreign, restSeconds, onProgress, onServer } = options;
  await using registry = await startRegistry();
  const figures: Figure[] = [];
  {
    await using stage = await startArchitectureStage({ registry, onProgress });
    onServer(JSON.parse(await stage.cluster.client.read("/version")).gitVersion);
    const budgeted = count >= BUDGET_PODS;
    const { references } = await stage.push("known", IMAGES);
    await teach(stage, references);
    figures.push(...(await benchCreation(stage, references, options)));
    try {
      figures.push(...(await benchMiss(stage, { count, images: IMAGES, budgeted, onProgress })));
    } finally {
      await stage.askNobody();
    }
    figures.push(...(await benchArchitectureMemory(stage, { pods: foreign, restSeconds, onProgress })));
  }
  await using scheduled = await startArchitectureStage({ registry, schedules: true, onProgress });
  figures.push(...(await benchBind(scheduled, onProgress)));
  return figures;
}

/** Berth asks the registry about these images, and keeps what it was told. */
async function teach(stage: ArchitectureStage, images: readonly string[]): Promise<void> {
  try {
    await using berth = await stage.startBerth("Affinity");
    await stage.raw.sendAll(images.map((image, index) => creation(`teach-${index}`, [image])));
    await eventually(async () => {
      berth.ended.throwIfAborted();
      const { items } = await stage.cluster.client.list(pods, { namespace: NAMESPACE_OF_PODS });
      if (!items.every(isPlaced)) throw new Error(`not all images are known\n${berth.log}`);
    });
  } finally {
    await stage.askNobody();
  }
  await stage.clear();
}

async function benchCreation(
  stage: ArchitectureStage,
  images: readonly string[],
  { count, rounds, onProgress }: ArchitectureOptions,
): Promise<readonly Figure[]> {
  const many = await measureCreation(stage, {
    mode: "Affinity",
    pods: count,
    images,
    blocks: 1,
    rounds,
    onProgress,
  });
  const few = await measureCreation(stage, {
    mode: "Both",
    pods: BURST.pods,
    images: images.slice(0, BURST.images),
    blocks: BURST.blocks,
    rounds,
    onProgress,
  });
  const budgeted = count >= BUDGET_PODS;
  return [
    ...rateFigures(many, { count, budgeted }),
    ...hitFigures(many, { count, budgeted }),
    burstFigure(few),
  ];
}

interface Size {
  readonly count: number;
  readonly budgeted: boolean;
}

function rateFigures(rounds: readonly Round[], { count, budgeted }: Size): readonly Figure[] {
  const what = `${count} pods of ${IMAGES} known images created at once`;
  const rate = (asked: keyof Round): string =>
    `${((count * 1000) / median(rounds.map((round) => tookOf(round[asked])))).toFixed(0)}/s`;
  const blocks = (asked: keyof Round): readonly Creation[] => rounds.flatMap((round) => round[asked]);
  const versus = (asked: keyof Round): readonly number[] =>
    rounds.map((round) => tookOf(round.berth) / tookOf(round[asked]));
  const cpu = (asked: keyof Round): string =>
    `${median(blocks(asked).map(({ cpuMs }) => cpuMs)).toFixed(0)} ms`;
  return [
    {
      id: `architecture-create-${count}-vs-patch`,
      what: `${what}, Berth / a webhook that sends the same patch`,
      value: median(versus("fixed")),
      unit: "x",
      ...(budgeted && { budget: CREATION_BUDGET }),
      detail:
        `${rate("berth")} and ${rate("fixed")}; each creation ${latencyText(blocks("berth"))} and ` +
        `${latencyText(blocks("fixed"))}; CPU of the process ${cpu("berth")} and ${cpu("fixed")}; medians of ${rounds.length}`,
      samples: versus("fixed"),
    },
    {
      id: `architecture-create-${count}-vs-nobody`,
      what: `${what}, Berth / nobody asked`,
      value: median(versus("nobody")),
      unit: "x",
      detail: `${rate("nobody")} with nobody asked, each creation ${latencyText(blocks("nobody"))}`,
      samples: versus("nobody"),
    },
  ];
}

function hitFigures(rounds: readonly Round[], { count, budgeted }: Size): readonly Figure[] {
  const what = `${count} pods of ${IMAGES} known images`;
  const berth = sumHandling(rounds.flatMap((round) => round.berth.map(({ handling }) => handling)));
  const fixed = sumHandling(rounds.flatMap((round) => round.fixed.map(({ handling }) => handling)));
  const quantiles = (of: typeof berth): string =>
    `p50 ${handlingQuantile(of, 0.5).toFixed(2)} ms, p99 ${handlingQuantile(of, 0.99).toFixed(2)} ms`;
  const writes = rounds.flatMap((round) => round.berth.map((block) => block.writes));
  const ofPods = writes.flat().filter(({ resource }) => resource === "pods");
  const others = Map.groupBy(
    writes.flat().filter(({ resource }) => resource !== "pods"),
    ({ verb, resource, subresource }) => [verb, resource, subresource].filter(Boolean).join(" "),
  );
  return [
    {
      id: "architecture-handling-p99",
      what: `${what}: Berth's own handling of a creation, p99`,
      value: handlingQuantile(berth, 0.99),
      unit: "ms",
      ...(budgeted && { budget: HANDLING_BUDGET }),
      detail:
        `${quantiles(berth)} of ${berth.requests}; the webhook that sends a patch: ${quantiles(fixed)}; from the headers of a request ` +
        `to its answer, by the histogram of each process`,
    },
    {
      id: "architecture-hit-writes",
      what: `${what}: writes of pods beyond their creation`,
      value: ofPods.length,
      unit: "requests",
      budget: 0,
      detail: `audit log of all ${writes.length * count} creations; beside them: ${[...others].map(([name, all]) => `${all.length} ${name}`).join(", ") || "nothing"}`,
    },
  ];
}

function burstFigure(rounds: readonly Round[]): Figure {
  const ratios = rounds.map((round) => tookOf(round.berth) / tookOf(round.fixed));
  const took = (asked: keyof Round): string =>
    `${median(rounds.map((round) => tookOf(round[asked]))).toFixed(0)} ms`;
  return {
    id: "architecture-burst-200-vs-patch",
    what: `${BURST.pods} pods of ${BURST.images} known images created at once: all placed / created with a webhook that sends the same patch`,
    value: median(ratios),
    unit: "x",
    budget: BURST_BUDGET,
    detail:
      `${took("berth")} and ${took("fixed")}, ${took("nobody")} with nobody asked; mode Both: affinity and tolerations; ` +
      `medians of ${BURST.blocks} blocks in each of ${rounds.length} rounds`,
    samples: ratios,
  };
}
