import * as z from "zod";

const DURATION = /^(?:\d{1,6}(?:ms|s|m|h))+$/;

/** A duration as Kubernetes writes it: `90s`, `5m`, `1h30m`. */
export const duration: z.ZodString = z
  .string()
  .max(20)
  .regex(DURATION, "must be a duration such as 90s, 5m or 1h30m");

/** Converts `1h30m` to milliseconds. The schema has accepted the text before. */
export function durationMs(text: string): number {
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
  let total = 0;
  for (const [, amount = "0", unit = "ms"] of text.matchAll(/(\d+)(ms|s|m|h)/g)) {
    total += Number(amount) * (units[unit] ?? 1);
  }
  return total;
}
