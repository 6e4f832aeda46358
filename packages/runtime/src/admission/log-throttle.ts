import type { Clock } from "../clock.ts";
import type { LogFields } from "../log.ts";

/**
 * Lets one line through per `everyMs`; the next one says how many were left out (`leftOut`). For what strangers can
 * bring about as often as they like.
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
