/** Startup gates: the burst, the writes of a fresh node, what admission costs, what foreign pods cost. */
import { benchAdmission } from "./gate-admission.ts";
import { benchBurst } from "./gate-burst.ts";
import { benchFresh } from "./gate-fresh.ts";
import { benchGateMemory } from "./gate-memory.ts";
import type { GateStage } from "./gate-stage.ts";
import type { Figure } from "./report.ts";

export interface GatesOptions {
  /** Nodes that become ready at once. */
  readonly nodes: number;
  /** Pods that are no business of a gate. */
  readonly pods: number;
  readonly rounds: number;
  /** Resident memory is read this long after the sync. Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

/** What the budgets are for. */
const BUDGET_NODES = 1000;

export async function benchGates(stage: GateStage, options: GatesOptions): Promise<readonly Figure[]> {
  const { nodes, pods, rounds, restSeconds, onProgress } = options;
  return [
    ...(await benchBurst(stage, { nodes, rounds, budgeted: nodes >= BUDGET_NODES, onProgress })),
    ...(await benchFresh(stage, onProgress)),
    ...(await benchAdmission(stage, onProgress)),
    ...(await benchGateMemory(stage, { nodes, pods, restSeconds, onProgress })),
  ];
}
