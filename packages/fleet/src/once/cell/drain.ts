/** What the drain of a Cell does, and how far it is. */
import { counted, formatColumns, listObjects, MOST_LISTED, type OneShotRun } from "@berth/host";
import { type ConnectOptions, connect, type Namespace, namespaces, pathOf } from "@berth/kube";
import { findCondition, sleep } from "@berth/runtime";
import { type Cell, cells } from "../../api/cell.ts";
import { projectOfNamespace } from "../../api/keys.ts";
import { boundedCount } from "../../deployment/build.ts";
import { cellsSeen, type PlaneFacts, placementIn } from "../../explain/planes.ts";
import { chooseNext } from "../../hub/placement/choose.ts";
import { sourceUidOf } from "../../hub/source.ts";
import { readPlanes } from "../read.ts";
import { pathIn } from "./forget.ts";

export interface DrainView {
  readonly cell: Cell;
  readonly planes: PlaneFacts;
  /** Of the hub. */
  readonly namespaces: readonly Namespace[];
  /** So many deployments move at once. */
  readonly atOnce: number;
}

export interface DrainMove {
  /** `web/default/hello-us-dfw`: its project, namespace and name. */
  readonly deployment: string;
  readonly instances: number;
  /** The cell that has the fewest replicas then. Absent: it stays. */
  readonly to?: string;
  /** Why it stays. */
  readonly reason?: string;
  readonly message?: string;
}

export interface DrainPlan {
  readonly cell: string;
  readonly city: string;
  readonly atOnce: number;
  /** In this order. */
  readonly moves: readonly DrainMove[];
  /** Instances that each project needs quota for meanwhile, beside those that it has: at most. */
  readonly quota: Readonly<Record<string, number>>;
}

/** As the hub would do it now, one after the other. What cells have, but the hub does not know, is not seen. */
export function drainPlanOf({ cell, planes, namespaces: all, atOnce }: DrainView): DrainPlan {
  const uid = cell.spec?.uid ?? "";
  const city = cell.spec?.city ?? "";
  const drained = planes.cells.map((it) =>
    it.spec?.uid === uid ? { ...it, spec: { ...it.spec, drain: true } } : it,
  );
  const byName = new Map(all.map((it) => [it.metadata?.name ?? "", it]));
  const more = new Map<string, number>();
  const moved = new Map<string, number[]>();
  const here = planes.deployments.filter((it) => placementIn(it)?.uid === uid);
  const moves: DrainMove[] = [];
  for (const it of here.toSorted((a, b) => (pathOf(a.metadata) < pathOf(b.metadata) ? -1 : 1))) {
    const placement = placementIn(it);
    const sourceUid = sourceUidOf(it) ?? "";
    const instances = boundedCount(it);
    const move = { deployment: pathIn(byName, it), instances };
    const choice =
      placement &&
      chooseNext({
        city,
        sourceUid,
        placement,
        ranBefore: true,
        cells: cellsSeen({ ...planes, cells: drained }, more),
        found: [],
        withdrawals: planes.withdrawals.filter(({ spec }) => spec?.sourceUid === sourceUid),
      });
    if (placement?.next !== undefined) moves.push({ ...move, to: placement.next.cell });
    else if (choice?.is === "none") moves.push({ ...move, reason: choice.reason, message: choice.message });
    else if (choice?.placement.next !== undefined) {
      const { next } = choice.placement;
      more.set(next.uid, (more.get(next.uid) ?? 0) + instances);
      const project = projectOfNamespace(byName.get(it.metadata?.namespace ?? "") ?? {}) ?? "";
      moved.set(project, [...(moved.get(project) ?? []), instances]);
      moves.push({ ...move, to: next.cell });
    }
  }
  const quota = [...moved].map(([project, counts]) => {
    const largest = counts.toSorted((a, b) => b - a).slice(0, atOnce);
    return [project, largest.reduce((sum, it) => sum + it, 0)] as const;
  });
  return { cell: cell.metadata?.name ?? "", city, atOnce, moves, quota: Object.fromEntries(quota) };
}

/** Ends with a line feed. */
export function formatDrainPlan({ cell, city, atOnce, moves, quota }: DrainPlan): string {
  if (moves.length === 0) return `Cell ${cell} in ${city} has no deployment.\n`;
  const rows = moves
    .slice(0, MOST_LISTED)
    .map(({ deployment, instances, to, reason, message }) => [
      `  ${deployment}`,
      counted(instances, "Instance"),
      to === undefined ? `stays: ${reason}: ${message}` : `to ${to}`,
    ]);
  const rest = moves.length - rows.length;
  const needs = Object.entries(quota)
    .filter(([, count]) => count > 0)
    .map(([project, count]) => `  ${project}: ${counted(count, "Instance")}\n`);
  return [
    `Cell ${cell} in ${city} has ${counted(moves.length, "deployment")}. They move in this order, at most ${atOnce} at once:\n`,
    formatColumns(rows),
    rest > 0 ? `  … and ${rest} more\n` : "",
    needs.length === 0 ? "" : "Quota that projects need meanwhile, beside what they use, at most:\n",
    ...needs,
  ].join("");
}

/** @param toHub its connection. Absent: it is the cluster of `run`. */
export async function readDrainPlan(
  cell: Cell,
  run: OneShotRun,
  { atOnce, toHub }: { readonly atOnce: number; readonly toHub: ConnectOptions | undefined },
): Promise<DrainPlan> {
  const planes = await readPlanes(run, true, toHub);
  await using hub = toHub && connect({ ...toHub, cluster: "hub" });
  const consequence = "projects are not shown";
  const on = hub ? { ...run, client: hub } : run;
  const found = await listObjects<Namespace>({ resource: namespaces, metadataOnly: true, consequence }, on);
  const none: PlaneFacts = { cells: [], deployments: [], withdrawals: [] };
  return drainPlanOf({ cell, planes: planes ?? none, namespaces: found ?? [], atOnce });
}

/** What a running Berth says of the drain of a Cell. */
export type DrainSeen =
  | { readonly is: "unseen" }
  | { readonly is: "drained" | "draining"; readonly message: string };

export function drainSeen({ metadata, status }: Cell): DrainSeen {
  const drained = findCondition(status?.conditions, "Drained");
  if (drained === undefined || drained.observedGeneration !== metadata?.generation) return { is: "unseen" };
  return { is: drained.status === "True" ? "drained" : "draining", message: drained.message };
}

/** How often it looks how far a drain is. Milliseconds. */
const LOOK_MS = 500;

/**
 * Follows the drain until it is over, ends, or `signal` aborts. Without a running Berth that has seen it, for `unseenMs`.
 * @param onNews called with each new message.
 */
export async function whenDrained(
  name: string,
  { client, clock, signal }: OneShotRun,
  { onNews, unseenMs }: { readonly onNews: (message: string) => void; readonly unseenMs: number },
): Promise<"drained" | "unseen" | "ended" | "stopped"> {
  const end = clock.monotonic() + unseenMs;
  let told: string | undefined;
  for (;;) {
    const cell = await client.get(cells, { name }, { signal });
    if (cell.spec?.drain !== true) return "ended";
    const seen = drainSeen(cell);
    if (seen.is === "unseen" && clock.monotonic() >= end) return "unseen";
    if (seen.is !== "unseen" && seen.message !== told) {
      told = seen.message;
      onNews(seen.message);
    }
    if (seen.is === "drained") return "drained";
    if (!(await sleep(clock, LOOK_MS, signal))) return "stopped";
  }
}
