/** Releases pods that still have our gate after the last policy is gone: no other controller would. */
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
import { isKeptPending } from "./reads.ts";

interface LeftoverOptions {
  readonly client: Pick<KubeClient, "pages">;
  /** No policy is in force, and all sources have been read. */
  readonly isIdle: () => boolean;
  /** Pods that Berth keeps pending, from the watch. `undefined` while Berth does not watch or has not read them. */
  readonly gated: () => readonly Pod[] | undefined;
  /** True: Berth has to watch unscheduled pods without a policy. False: it no longer has to. */
  readonly onLinger: (needed: boolean) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How often Berth checks if it has released the last pod. Milliseconds. */
const LOOK_MS = 5000;
/**
 * How long pods may still get the gate after the last policy is gone. Milliseconds. Other replicas add it until they
 * see the change, and the API server calls the webhook for about a second longer.
 */
const LINGER_MS = 60_000;
/** Pause before Berth repeats a failed list, unless the API server asks for another pause. Milliseconds. */
const RETRY_MS = 30_000;
/** After this time without permission Berth gives up: a cluster without policies may not grant it. Milliseconds. */
const DENIED_MS = 300_000;

/** Runs on the leader. Without policies it costs one list of the unscheduled pods, at the start. */
export function createLeftovers(options: LeftoverOptions): {
  readonly component: Component;
  /** Call it after each change, with the number of policies in force. */
  policiesChanged(inForce: number): void;
} {
  const { isIdle, clock } = options;
  let changed = Promise.withResolvers<void>();
  /** Policies were in force since the last check, so pods may have the gate. */
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
      // Not before the first policy: this process has gated no pod yet, and one list finds older gates.
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
      log.debug("pods with a scheduling gate of Berth could not be listed", fields);
      await sleep(clock, (isApiError(error) ? error.retryAfterMs : undefined) ?? RETRY_MS, signal);
    }
  }
  return false;
}
