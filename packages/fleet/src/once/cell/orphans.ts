/** Deployments in cells that nothing stands for, as the statuses of Cells list them, and what a person decides about one. */
import { formatColumns, type OneShotRun } from "@berth/host";
import { isApiError, type Patch } from "@berth/kube";
import { buildWithdrawal, type Cell, isSameOrphan, type Orphan, withdrawals } from "../../api/cell.ts";

export interface OrphanLine extends Orphan {
  readonly cell: string;
  /** `adopted`: it waits until the project has a deployment of its name, in no other cell. */
  readonly state: "runs" | "held" | "adopted";
}

export function orphanLines(cells: readonly Cell[]): readonly OrphanLine[] {
  return cells.flatMap(({ metadata, spec, status }) =>
    (status?.orphans?.names ?? []).map((it): OrphanLine => {
      const isAdopted = spec?.adopt?.some((one) => isSameOrphan(one, it)) === true;
      const state = isAdopted ? "adopted" : it.held === true ? "held" : "runs";
      return Object.assign({ cell: metadata?.name ?? "", state } as const, it);
    }),
  );
}

/** Ends with a line feed. */
export function formatOrphans(cells: readonly Cell[]): string {
  const rows = orphanLines(cells).map(({ cell, namespace, name, state, of = "" }) => [
    cell,
    `${namespace}/${name}`,
    state,
    of,
  ]);
  if (rows.length === 0) return "There is no orphan.\n";
  const more = cells.flatMap(({ metadata, status: { orphans } = {} }) => {
    const left = (orphans?.count ?? 0) - (orphans?.names.length ?? 0);
    return left > 0 ? `… and ${left} more in cell ${metadata?.name}\n` : [];
  });
  return formatColumns([["CELL", "DEPLOYMENT", "STATE", "OF"], ...rows]) + more.join("");
}

/** @param text `NAMESPACE/NAME`, as `formatOrphans` writes it. */
export function orphanIn({ status }: Cell, text: string): Orphan | undefined {
  return status?.orphans?.names.find(({ namespace, name }) => `${namespace}/${name}` === text);
}

/** Entries that are done go at the same time. */
export function adoptPatch(
  { metadata, spec, status }: Cell,
  { namespace, name, sourceUid, epoch }: Orphan,
): Patch {
  const { uid, resourceVersion } = metadata ?? {};
  const id = { namespace, name, sourceUid, epoch };
  const waiting = (spec?.adopt ?? []).filter(
    (it) => !isSameOrphan(it, id) && status?.orphans?.names.some((one) => isSameOrphan(one, it)),
  );
  return { type: "merge", body: { metadata: { uid, resourceVersion }, spec: { adopt: [...waiting, id] } } };
}

/** A running Berth deletes it in the cell, and proves that it is gone. @returns `false`: it does so already. */
export async function withdrawOrphan(
  { metadata, spec }: Cell,
  { namespace, name, sourceUid, epoch, start }: Orphan,
  { client, signal }: OneShotRun,
): Promise<boolean> {
  const of = { cell: metadata?.name ?? "", cellUid: spec?.uid ?? "" };
  const body = buildWithdrawal({ ...of, namespace, name, sourceUid, epoch, start });
  try {
    await client.create(withdrawals, body, { signal });
    return true;
  } catch (error) {
    if (isApiError(error, "alreadyExists")) return false;
    throw error;
  }
}
