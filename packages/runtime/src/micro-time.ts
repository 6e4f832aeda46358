/**
 * The two time formats of the API. Lease and Event times are MicroTime, whose decoder insists on exactly six
 * fractional digits (`RFC3339Micro` in apimachinery's micro_time.go): `Date.prototype.toISOString` is refused
 * with HTTP 400. All other times are whole seconds.
 */

/** MicroTime of a wall time, in UTC. Fractions of a millisecond become microseconds; finer ones are cut off. */
export function toMicroTime(epochMs: number): string {
  const wholeMs = Math.floor(epochMs);
  const micros = Math.floor((epochMs - wholeMs) * 1000);
  return `${new Date(wholeMs).toISOString().slice(0, -1)}${String(micros).padStart(3, "0")}Z`;
}

/** `metav1.Time` of a wall time, in UTC: whole seconds, rounded down so that it is never in the future. */
export function toTime(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19)}Z`;
}

/** Milliseconds since the epoch of either format, any offset; `undefined` when absent or not RFC 3339. */
export function fromTime(time: string | undefined): number | undefined {
  if (time === undefined || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(time))
    return undefined;
  const epochMs = Date.parse(time);
  return Number.isNaN(epochMs) ? undefined : epochMs;
}
