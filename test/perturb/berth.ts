/** The product as stories start it: in this process, in a hurry, and ended at any moment. */
import { startBerth } from "@berth/cli";
import { type Clock, systemClock } from "@berth/runtime";
import type { Connection, Stage } from "@berth/testcluster";

export interface BerthInStory {
  readonly labelFolder: string;
}

/**
 * How many times faster than real time its clock runs, so that what it puts off (coalescing, debouncing, reconnecting)
 * does not make up most of a replay. Its deadlines shrink as well: the shortest, for a patch, is real time.
 */
const PACE = 10;

const hurriedClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * PACE,
  schedule: (delayMs, callback) => systemClock.schedule(delayMs / PACE, callback),
};

/** Starts Berth behind the proxy of a telling. */
export async function startBerthInStory(
  { cluster }: Stage,
  { server }: Connection,
  { labelFolder }: BerthInStory,
): Promise<AsyncDisposable> {
  await using owned = new AsyncDisposableStack();
  const client = owned.use(cluster.connect({ server, userAgent: "berth/perturbed", fieldManager: "berth" }));
  const folder = { path: labelFolder, shown: labelFolder, options: { allowReserved: [] } };
  owned.use(await startBerth({ client, labelFolder: folder, clock: hurriedClock }));
  return owned.move();
}
