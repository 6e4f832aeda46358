import { isApiError, type KubeClient, leases } from "@berth/kube";
import { type Clock, type Component, createLoopComponent, type Logger, sleep } from "@berth/runtime";

export interface LeaseGuardOptions {
  readonly client: Pick<KubeClient, "get">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly lease: { readonly namespace: string; readonly name: string };
  /** Does Berth use policies? */
  readonly isUsed: () => boolean;
  /** A leader renews the lease. Called at each check. May reject with `ApiError`, like `onStale`. */
  readonly onLed: (signal: AbortSignal) => Promise<void>;
  /** No replica renews the lease any more. Called at each check. */
  readonly onStale: (signal: AbortSignal) => Promise<void>;
}

/** Interval between two checks of the lease, ms. */
const LOOK_MS = 15_000;
/** After this many lease durations without a renewal, no replica leads and none is expected to. */
const STALE_LEASES = 4;

/**
 * Detects that no replica renews the lease. Then the policies must be off, or new nodes would be held for ever. Every
 * replica runs the guard. The next leader turns the policies on again.
 */
export function createLeaseGuard(options: LeaseGuardOptions): Component {
  const { client, clock, lease, log, isUsed } = options;
  const guard = async (signal: AbortSignal): Promise<void> => {
    let renewal: string | undefined;
    let seenMs: number | undefined;
    while (await sleep(clock, LOOK_MS, signal)) {
      if (!isUsed()) continue;
      try {
        const { spec } = await client.get(leases, lease, { signal });
        const nowMs = clock.monotonic();
        if (seenMs === undefined || spec?.renewTime !== renewal) {
          renewal = spec?.renewTime;
          seenMs = nowMs;
        }
        // Without a holder the leader stepped down in order. The last replica then turned the policies off itself.
        const limitMs = (spec?.leaseDurationSeconds ?? 15) * 1000 * STALE_LEASES;
        const isStale = Boolean(spec?.holderIdentity) && nowMs - seenMs >= limitMs;
        if (isStale)
          log.error("no replica leads: the admission policies are off until one does", { lease: lease.name });
        await (isStale ? options.onStale(signal) : options.onLed(signal));
      } catch (error) {
        if (!signal.aborted && !isApiError(error, "notFound"))
          log.debug("the lease could not be read", { error: String(error) });
      }
    }
  };
  return createLoopComponent({ name: "admission-lease", run: guard });
}
