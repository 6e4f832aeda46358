/** What every driver must do, as stories of one deployment. A driver passes on a stage of its own, played or real. */
import { deepStrictEqual, ok } from "node:assert";
import { findCondition } from "@berth/runtime";
import type { DeploymentStatus } from "../../api/workload.ts";

/** One deployment in a project, a hub, and two cells that serve its city, under one driver. */
export interface ConformanceStage {
  create(instances: number): Promise<void>;
  change(instances: number, image: string): Promise<void>;
  /** In the project. */
  remove(): Promise<void>;
  /** Another program deletes it on the hub. */
  removeOnHub(): Promise<void>;
  /** A cell does not answer any more, or is back. */
  setAway(cell: string, isAway: boolean): Promise<void>;
  /** An operator has it left by what runs there, or takes that back. */
  drain(cell: string, isDrained: boolean): Promise<void>;
  /** The process with the driver ends, and another one begins. */
  restart(): Promise<void>;
  /** What can be done without the cells that are away is done. */
  progress(options?: ProgressOptions): Promise<void>;
  /** All cells answer, and nothing is left to do. */
  settle(): Promise<void>;
  look(): Promise<ConformanceLook>;
}

export interface ProgressOptions {
  /** Those of the driver's requests. */
  readonly areAnswersLost?: boolean;
  /** Default: as many as it takes. */
  readonly rounds?: number;
}

export interface ConformanceLook {
  /** Deployments in cells. */
  readonly inCells: readonly { readonly cell: string; readonly uid: string; readonly image: string }[];
  readonly isOnHub: boolean;
  /** In the project. `undefined`: it is not there. */
  readonly status: DeploymentStatus | undefined;
  /** Instances in the project. */
  readonly shown: number;
}

export interface Requirement {
  /** With the numbers of the contract. */
  readonly name: string;
  /** Asked only of drivers that move deployments themselves, or keep in cells what another program deletes on the hub. */
  readonly needs?: "moves" | "keeps";
  readonly run: (stage: ConformanceStage) => Promise<void>;
}

const IMAGE = "app:2";

/** It runs in one cell. @returns which, and its uid there. */
async function running(stage: ConformanceStage, count = 2): Promise<ConformanceLook["inCells"][number]> {
  const { inCells, status, shown, isOnHub } = await stage.look();
  const [only, ...others] = inCells;
  ok(only !== undefined, "no cell has it");
  deepStrictEqual(others, []);
  deepStrictEqual([isOnHub, status?.readyReplicas, status?.unheard, shown], [true, count, undefined, count]);
  return only;
}

async function start(stage: ConformanceStage): Promise<ConformanceLook["inCells"][number]> {
  await stage.create(2);
  await stage.settle();
  return running(stage);
}

async function isGone(stage: ConformanceStage): Promise<void> {
  deepStrictEqual(await stage.look(), { inCells: [], isOnHub: false, status: undefined, shown: 0 });
}

/** Other than this one. */
async function isElsewhere(stage: ConformanceStage, { cell }: { readonly cell: string }): Promise<void> {
  ok((await running(stage)).cell !== cell, `it has not left ${cell}`);
}

export const requirements: readonly Requirement[] = [
  {
    name: "A1 F2 H18 it runs in exactly one cell, and its numbers and Instances are in the project",
    run: async (stage) => void (await start(stage)),
  },
  {
    name: "R1 A9 A19 a change reaches the cell, and its numbers come back",
    async run(stage) {
      const before = await start(stage);
      await stage.change(1, IMAGE);
      await stage.settle();
      deepStrictEqual(await running(stage, 1), { ...before, image: IMAGE });
    },
  },
  {
    name: "A8 F6 a deletion leaves nothing anywhere",
    async run(stage) {
      await start(stage);
      await stage.remove();
      await stage.settle();
      await isGone(stage);
    },
  },
  {
    name: "8.8 the numbers of a cell that is away are kept and marked, and no other cell gets it",
    async run(stage) {
      const before = await start(stage);
      await stage.setAway(before.cell, true);
      await stage.change(2, IMAGE);
      await stage.progress();
      const { inCells, status } = await stage.look();
      deepStrictEqual(inCells, [before]);
      deepStrictEqual([status?.readyReplicas, status?.unheard], [2, 2]);
      deepStrictEqual(findCondition(status?.conditions, "Stale")?.status, "True");
      await stage.settle();
      deepStrictEqual(await running(stage), { ...before, image: IMAGE });
    },
  },
  {
    name: "A20 a deletion while the cell is away ends in project and hub, and in the cell when it is back",
    async run(stage) {
      const before = await start(stage);
      await stage.setAway(before.cell, true);
      await stage.remove();
      await stage.progress();
      deepStrictEqual(await stage.look(), {
        inCells: [before],
        isOnHub: false,
        status: undefined,
        shown: 0,
      });
      await stage.settle();
      await isGone(stage);
    },
  },
  {
    name: "the name is used again while the cell with the old one is away",
    async run(stage) {
      const before = await start(stage);
      await stage.setAway(before.cell, true);
      await stage.remove();
      await stage.progress();
      await stage.create(2);
      await stage.settle();
      ok((await running(stage)).uid !== before.uid, "it is the old one");
    },
  },
  {
    name: "H16 a deletion on the hub by another program touches no cell",
    needs: "keeps",
    async run(stage) {
      const before = await start(stage);
      await stage.removeOnHub();
      await stage.settle();
      deepStrictEqual(await running(stage), before);
    },
  },
  {
    name: "A23 another process goes on where the last one was, and makes nothing twice",
    async run(stage) {
      const before = await start(stage);
      await stage.change(2, IMAGE);
      await stage.restart();
      await stage.settle();
      deepStrictEqual(await running(stage), { ...before, image: IMAGE });
    },
  },
  {
    name: "a deployment leaves a cell that is drained once all of it is ready in another one",
    needs: "moves",
    async run(stage) {
      const before = await start(stage);
      await stage.drain(before.cell, true);
      await stage.settle();
      await isElsewhere(stage, before);
    },
  },
  {
    name: "the end of a drain takes back a move that is on its way",
    needs: "moves",
    async run(stage) {
      const before = await start(stage);
      await stage.drain(before.cell, true);
      await stage.progress({ rounds: 3 });
      deepStrictEqual((await stage.look()).inCells.length, 2);
      await stage.drain(before.cell, false);
      await stage.settle();
      deepStrictEqual(await running(stage), before);
    },
  },
  {
    name: "a move waits for a cell that is away, and another process goes on with it",
    needs: "moves",
    async run(stage) {
      const before = await start(stage);
      await stage.drain(before.cell, true);
      await stage.progress({ rounds: 3 });
      await stage.setAway(before.cell, true);
      await stage.restart();
      await stage.progress();
      const { inCells, status } = await stage.look();
      deepStrictEqual([inCells.length, (status?.readyReplicas ?? 0) >= 2], [2, true]);
      await stage.settle();
      await isElsewhere(stage, before);
    },
  },
  {
    name: "the only cell of a city keeps what it has",
    needs: "moves",
    async run(stage) {
      const before = await start(stage);
      for (const cell of ["a", "b"]) await stage.drain(cell, true);
      await stage.progress();
      deepStrictEqual(await running(stage), before);
    },
  },
  {
    name: "a deletion during a move leaves nothing anywhere",
    needs: "moves",
    async run(stage) {
      const before = await start(stage);
      await stage.drain(before.cell, true);
      await stage.progress({ rounds: 3 });
      await stage.remove();
      await stage.settle();
      await isGone(stage);
    },
  },
  {
    name: "what was carried out without an answer is not done again",
    async run(stage) {
      await stage.create(2);
      await stage.progress({ areAnswersLost: true });
      const [first] = (await stage.look()).inCells;
      await stage.settle();
      deepStrictEqual((await running(stage)).uid, first?.uid);
    },
  },
];
