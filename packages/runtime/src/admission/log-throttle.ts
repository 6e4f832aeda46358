import type { Clock } from "../clock.ts";
import type { LogFields } from "../log.ts";

/**
 * Writes one line per `everyMs`; the next line counts the omitted ones (`leftOut`). For events that any client can
 * cause at any rate.
 */
export function throttleLog(
  write: (fields: LogFields) => void,
  { clock, everyMs }: { readonly clock: Clock; readonly everyMs: number },
): (fields: LogFields) => void {
  let openAtMs = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  return (fields) => {
    const nowMs = clock.monotonic();
    if (nowMs < openAtMs) {
      leftOut += 1;
      return;
    }
    write(leftOut === 0 ? fields : { ...fields, leftOut });
    openAtMs = nowMs + everyMs;
    leftOut = 0;
  };
}
