/** Pods that are held by the gate of a policy that is gone: nobody else would ever let them go. */
import { isApiError, type KubeClient, type Pod, pods } from "@berth/kube";
import {
  type Clock,
  type Component,
  createLoopComponent,
  type Logger,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { UNSCHEDULED } from "../node/pod-nodes.ts";
import { ARCHITECTURE_GATE } from "./document.ts";
import { isKeptPending } from "./watches.ts";

interface LeftoverOptions {
  readonly client: Pick<KubeClient, "pages">;
  /** No policy is in force, and all sources have been read. */
  readonly isIdle: () => boolean;
  /** Pods that Berth keeps pending, as of the watch; `undefined` while they are not watched or not known. */
  readonly gated: () => readonly Pod[] | undefined;
  /** Unscheduled pods are to be watched though there is no policy, or no longer. */
  readonly onLinger: (needed: boolean) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How often it is looked whether the last pod has been let go. Milliseconds. */
const LOOK_MS = 5000;
/**
 * How long after the last policy pods may still come with the gate: other replicas answer the API server until they have
 * heard of it as well, and the API server asks for a second or so longer. Milliseconds.
 */
const LINGER_MS = 60_000;
/** How soon a look that failed is repeated, unless the client knows. Milliseconds. */
const RETRY_MS = 30_000;
/** A permission that is missing for longer is not granted: to no one who has never had a policy. Milliseconds. */
const DENIED_MS = 300_000;

/** Runs where this replica leads. Without policies it costs one list of the unscheduled pods, at the start. */
export function createLeftovers(options: LeftoverOptions): {
  readonly component: Component;
  /** Policies came into force, or ceased to be: so many are. */
  policiesChanged(inForce: number): void;
} {
  const { isIdle, clock } = options;
  let changed = Promise.withResolvers<void>();
  /** Policies were in force since it was last looked: there may be pods that they hold. */
  let hasWatched = false;
  const run = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      if (isIdle()) {
        const isKnown = hasWatched;
        hasWatched = false;
        if (isKnown || (await hasGated(options, signal))) await letGo(options, signal);
      }
      await Promise.race([changed.promise, whenAborted(signal)]);
      changed = Promise.withResolvers();
    }
  };
  return {
    component: createLoopComponent({ name: "architecture-leftovers", run }),
    policiesChanged(inForce) {
      // Not while the first sources are read: nothing was held then, and one list tells what others have left.
      if (inForce > 0) hasWatched = true;
      changed.resolve();
    },
  };
  async function letGo({ onLinger, gated }: LeftoverOptions, signal: AbortSignal): Promise<void> {
    const until = clock.monotonic() + LINGER_MS;
    onLinger(true);
    while (isIdle() && (await sleep(clock, LOOK_MS, signal)))
      if (clock.monotonic() >= until && gated()?.length === 0) break;
    onLinger(false);
  }
}

async function hasGated(
  { client, clock, log, isIdle }: LeftoverOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const scope = { fieldSelector: UNSCHEDULED, signal };
  const deniedAt = clock.monotonic() + DENIED_MS;
  while (!signal.aborted && isIdle()) {
    try {
      for await (const { items } of client.pages(pods, scope)) if (items.some(isKeptPending)) return true;
      return false;
    } catch (error) {
      if (signal.aborted) return false;
      if (isApiError(error, "forbidden") && clock.monotonic() >= deniedAt) return false;
      const fields = { gate: ARCHITECTURE_GATE, error: String(error) };
      log.debug("pods with a gate of ours could not be looked for", fields);
      await sleep(clock, (isApiError(error) ? error.retryAfterMs : undefined) ?? RETRY_MS, signal);
    }
  }
  return false;
}
