import type { Job, KubeObject } from "@berth/kube";
import { fromTime } from "@berth/runtime";

/** How long an object may live, or a Job once it has finished: `90s`, `15m`, `1h`, `7d`. */
export const TTL = "example.com/ttl";

export type Decision =
  /** Nothing to do until it changes. */
  | { readonly act: "keep" }
  | { readonly act: "wait"; readonly forMs: number }
  | { readonly act: "delete" }
  | { readonly act: "report"; readonly fault: string };

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** Ten years. What is meant to live longer needs no janitor. */
const LONGEST_MS = 3650 * 86_400_000;
const KEEP: Decision = { act: "keep" };

/**
 * @param startsAt when its time begins to run, RFC 3339; `undefined` when it has not begun.
 * @param nowMs wall time, as the server's times are.
 */
export function decide(object: KubeObject, startsAt: string | undefined, nowMs: number): Decision {
  const text = object.metadata?.annotations?.[TTL];
  if (text === undefined || object.metadata?.deletionTimestamp !== undefined) return KEEP;
  const ttlMs = parseTtl(text);
  if (ttlMs === undefined)
    return {
      act: "report",
      fault: `${TTL}: ${JSON.stringify(text)} is no time: expected 90s, 15m, 1h or 7d`,
    };
  const startMs = fromTime(startsAt);
  if (startMs === undefined) return KEEP;
  const leftMs = startMs + ttlMs - nowMs;
  return leftMs > 0 ? { act: "wait", forMs: leftMs } : { act: "delete" };
}

/** Milliseconds; `undefined` when it is no time, or one above ten years. */
export function parseTtl(text: string): number | undefined {
  const [, digits = "", unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const ms = Number(digits) * (UNIT_MS[unit] ?? Number.NaN);
  return ms <= LONGEST_MS ? ms : undefined;
}

/** When a Job finished, well or not; `undefined` while it runs. */
export function finishedAt({ status }: Job): string | undefined {
  return status?.conditions?.find(
    ({ type, status }) => (type === "Complete" || type === "Failed") && status === "True",
  )?.lastTransitionTime;
}
