/** One line about each Cell. */
import { formatAge, formatColumns } from "@berth/host";
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
  /** Why it is not reached, or else why it accepts nothing. Empty: it is well. */
  readonly reason: string;
  readonly message: string;
  /** RFC 3339: when it was heard last. Absent while it is heard. */
  readonly since?: string;
  readonly forgotten: boolean;
}

export function cellLine({ metadata, spec, status }: Cell): CellLine {
  const reachable = findCondition(status?.conditions, "Reachable");
  const accepting = findCondition(status?.conditions, "Accepting");
  const forgotten = spec?.forgotten === true;
  const drained = findCondition(status?.conditions, "Drained");
  const told = [reachable, drained ?? accepting].find(
    (it) => it !== undefined && (it.status !== "True" || it === drained),
  );
  return {
    name: metadata?.name ?? "",
    city: spec?.city ?? "",
    uid: spec?.uid ?? "",
    reachable: reachable?.status ?? "Unknown",
    accepting: accepting?.status ?? "Unknown",
    reason: forgotten ? "CellForgotten" : (told?.reason ?? ""),
    message: told?.message ?? "",
    ...(status?.since !== undefined && { since: status.since }),
    forgotten,
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
