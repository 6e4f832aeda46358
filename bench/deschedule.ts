/** Descheduling: eviction after `for`, reads, rest and restart, a change that matters to no pod, memory, plan. */
import { setTimeout as delay } from "node:timers/promises";
import { writesSince } from "./audit.ts";
import { benchChange } from "./deschedule-change.ts";
import { benchEvictions } from "./deschedule-eviction.ts";
import { benchDescheduleMemory } from "./deschedule-memory.ts";
import { benchPlan } from "./deschedule-plan.ts";
import { furnish, startSynced } from "./deschedule-stage.ts";
import type { FootprintStage } from "./footprint-stage.ts";
import type { Figure } from "./report.ts";

export interface DescheduleOptions {
  /** That are not evicted. */
  readonly pods: number;
  /** That are evicted, each from a node of its own; fewer where there are fewer nodes. */
  readonly moved: number;
  /** Without a change; and before resident memory is read. Seconds. */
  readonly restSeconds: number;
  /** The cluster has the size that budgets are for. */
  readonly budgeted: boolean;
  readonly onProgress: (text: string) => void;
}

/** Berth evicts nothing for 10 s after its start. Milliseconds. */
const QUIET_MS = 11_000;
/** What writes once too often does so within it. Milliseconds. */
const LATE_MS = 1500;

/** Plan is measured last: its lost pods must meet no running Berth. */
export async function benchDeschedule(
  stage: FootprintStage,
  { pods, moved, restSeconds, budgeted, onProgress }: DescheduleOptions,
): Promise<readonly Figure[]> {
  const { cluster } = stage;
  onProgress(`creating ${pods} pods of 11 KB`);
  const furnished = await furnish(stage, { pods, moved });
  const common = { furnished, budgeted, onProgress };
  const evictions = await (async () => {
    const started = await cluster.audit.mark();
    await using berth = await startSynced(stage);
    await delay(QUIET_MS);
    return await benchEvictions(stage, berth, { ...common, started });
  })();
  const restarted = await cluster.audit.mark();
  const steady = await (async () => {
    await using berth = await startSynced(stage);
    await delay(LATE_MS);
    const again = await writesSince(cluster, restarted, berth.userAgent);
    onProgress(`at rest for ${restSeconds} s`);
    const resting = await cluster.audit.mark();
    await delay(restSeconds * 1000);
    const rest = await writesSince(cluster, resting, berth.userAgent);
    onProgress("changes of nodes that matter to no pod");
    const detail = (writes: typeof rest): string => (writes.detail ? `: ${writes.detail}` : "");
    const writes = { unit: "requests", budget: 0 } as const;
    return [
      {
        id: "deschedule-restart-writes",
        what: `${pods} pods: writes after a restart`,
        value: again.count,
        ...writes,
        detail: `audit log, until ${LATE_MS} ms after it was ready${detail(again)}`,
      },
      {
        id: "deschedule-rest-writes",
        what: `${pods} pods: writes at rest`,
        value: rest.count,
        ...writes,
        detail: `audit log, ${restSeconds} s${detail(rest)}`,
      },
      ...(await benchChange(stage, berth, furnished)),
    ];
  })();
  return [
    ...evictions,
    ...steady,
    ...(await benchDescheduleMemory(stage, { pods, restSeconds, onProgress })),
    ...(await benchPlan(stage, common)),
  ];
}
