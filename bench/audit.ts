/** What a process wrote, and when, as the API server's audit log has it: the benchmark watches nothing itself. */
import { setTimeout as delay } from "node:timers/promises";
import type { AuditEntry, AuditMark, TestCluster } from "@berth/testcluster";
import type { MeasuredProcess } from "./process.ts";

/** How often the log is read while a process is at work. Often enough to go on soon, rare enough to cost little. */
const POLL_MS = 400;

/** When the patches of nodes that a user agent made since `mark` were received, ms since the epoch, ascending. */
export async function patchTimes(
  cluster: TestCluster,
  mark: AuditMark,
  userAgent: string,
): Promise<readonly number[]> {
  const entries = await cluster.audit.entriesSince(mark, nodePatches(userAgent));
  return entries.map(receivedAt).toSorted((a, b) => a - b);
}

/**
 * Waits until a process has patched `expected` different nodes since `mark`, each successfully, and gives the time of
 * the first and the last of them. Reads each part of the log about once, so that a long wait costs little.
 *
 * @throws when that takes longer than `timeoutMs`, or the process ends.
 */
export async function waitForPatches(
  cluster: TestCluster,
  mark: AuditMark,
  process: MeasuredProcess,
  { expected, timeoutMs }: { readonly expected: number; readonly timeoutMs: number },
): Promise<PatchSpan> {
  const at = new Map<string, number>();
  const deadline = performance.now() + timeoutMs;
  const next = cluster.audit.follow(mark, { ...nodePatches(process.userAgent), code: 200 });
  for (;;) {
    for (const entry of await next()) at.set(entry.name, receivedAt(entry));
    if (at.size >= expected) break;
    process.ended.throwIfAborted();
    if (performance.now() > deadline)
      throw new Error(`${process.name} wrote ${at.size} of ${expected} nodes\n${process.log}`);
    await delay(POLL_MS);
  }
  const times = [...at.values()].toSorted((a, b) => a - b);
  return { firstAt: times.at(0) ?? Number.NaN, lastAt: times.at(-1) ?? Number.NaN };
}

export interface PatchSpan {
  /** Ms since the epoch. */
  readonly firstAt: number;
  readonly lastAt: number;
}

/** Everything a process wrote since `mark`, whatever the resource, as `verb resource` with a count. */
export async function writesSince(
  cluster: TestCluster,
  mark: AuditMark,
  userAgent: string,
): Promise<{ readonly count: number; readonly detail: string }> {
  const tallies = (await cluster.audit.tallySince(mark, { userAgent })).filter(
    ({ verb }) => verb !== "get" && verb !== "list" && verb !== "watch",
  );
  return {
    count: tallies.reduce((sum, { count }) => sum + count, 0),
    detail: tallies.map(({ count, verb, resource }) => `${count} ${verb} ${resource}`).join(", "),
  };
}

/** Ms since the epoch, with the microseconds that `Date.parse` drops. */
export function receivedAt(entry: AuditEntry): number {
  const micros = /\.\d{3}(\d+)Z$/.exec(entry.receivedAt)?.[1] ?? "0";
  return Date.parse(entry.receivedAt) + Number(`0.${micros}`);
}

function nodePatches(userAgent: string): {
  readonly verb: string;
  readonly resource: string;
  readonly userAgent: string;
} {
  return { verb: "patch", resource: "nodes", userAgent };
}
