/** One line about each Cell. */
import { counted, formatAge, formatColumns } from "@berth/host";
import type { Condition } from "@berth/kube";
import { findCondition, fromTime } from "@berth/runtime";
import type { Cell } from "../../api/cell.ts";

export interface CellLine {
  readonly name: string;
  readonly city: string;
  readonly uid: string;
  /** `Unknown`: no running Berth has looked at it. */
  readonly reachable: Condition["status"];
  readonly accepting: Condition["status"];
  /** Why it is not reached, else why it accepts nothing, else what a person has to do. Empty: it is well. */
  readonly reason: string;
  readonly message: string;
  /** RFC 3339: when it was heard last. Absent while it is heard. */
  readonly since?: string;
  readonly forgotten: boolean;
  /** Deployments there that nothing stands for. */
  readonly orphans: number;
}

export function cellLine({ metadata, spec, status }: Cell): CellLine {
  const reachable = findCondition(status?.conditions, "Reachable");
  const accepting = findCondition(status?.conditions, "Accepting");
  const forgotten = spec?.forgotten === true;
  const drained = findCondition(status?.conditions, "Drained");
  const told =
    [reachable, drained ?? accepting].find(
      (it) => it !== undefined && (it.status !== "True" || it === drained),
    ) ?? findCondition(status?.conditions, "CredentialExpiring");
  const orphans = status?.orphans?.count ?? 0;
  return {
    name: metadata?.name ?? "",
    city: spec?.city ?? "",
    uid: spec?.uid ?? "",
    reachable: reachable?.status ?? "Unknown",
    accepting: accepting?.status ?? "Unknown",
    reason: forgotten ? "CellForgotten" : (told?.reason ?? (orphans > 0 ? "Orphaned" : "")),
    message:
      told?.message ?? (orphans > 0 ? `${counted(orphans, "orphan")}: \`berth cell list --orphans\`` : ""),
    ...(status?.since !== undefined && { since: status.since }),
    forgotten,
    orphans,
  };
}

/** Ends with a line feed. @param nowMs wall clock. */
export function formatCells(lines: readonly CellLine[], nowMs: number): string {
  const rows = lines.map(({ name, city, reachable, accepting, reason, since, message }) => [
    name,
    city,
    reachable,
    accepting,
    since === undefined ? "" : formatAge(nowMs - (fromTime(since) ?? nowMs)),
    reason,
    message,
  ]);
  return formatColumns([["NAME", "CITY", "REACHABLE", "ACCEPTING", "UNHEARD", "REASON", "MESSAGE"], ...rows]);
}
