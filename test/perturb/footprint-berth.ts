/** The product as stories start it, with documents in files, and with a wall clock that they can put forward. */
import { startBerth } from "@berth/cli";
import { type Clock, systemClock } from "@berth/runtime";
import type { Connection, Stage } from "@berth/testcluster";
import { PACE } from "./berth.ts";

/** Runs as that of `startBerthInStory`: timers `PACE` times faster, wall time as it is. */
export interface StoryClock extends Clock {
  /** Puts wall time forward: what waits for a time of day looks at it again when its hurried timer ends. */
  leap(ms: number): void;
}

export function createStoryClock(): StoryClock {
  let aheadMs = 0;
  return {
    now: () => systemClock.now() + aheadMs,
    monotonic: () => systemClock.monotonic() * PACE,
    schedule: (delayMs, callback) => systemClock.schedule(delayMs / PACE, callback),
    leap(ms) {
      aheadMs += ms;
    },
  };
}

export interface BerthWithFiles {
  readonly clock: StoryClock;
  /** Configuration files. Default none. */
  readonly config?: readonly string[];
}

/** Starts Berth behind the proxy of a telling. */
export async function startBerthWithFiles(
  { cluster }: Stage,
  { server }: Connection,
  { clock, config = [] }: BerthWithFiles,
): Promise<AsyncDisposable> {
  await using owned = new AsyncDisposableStack();
  const client = owned.use(cluster.connect({ server, userAgent: "berth/perturbed", fieldManager: "berth" }));
  const files = config.map((path) => ({ path, shown: path }));
  // The CRDs are as old as the test run: they count as settled.
  owned.use(await startBerth({ client, clock, crdGraceMs: 0, config: files }));
  return owned.move();
}
