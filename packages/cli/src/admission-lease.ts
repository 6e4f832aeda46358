import { isApiError, type KubeClient, leases, serviceAccounts } from "@berth/kube";
import { type Clock, type Component, createLoopComponent, type Logger, sleep } from "@berth/runtime";

export interface LeaseGuardOptions {
  readonly client: Pick<KubeClient, "get" | "delete">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly lease: { readonly namespace: string; readonly name: string };
  /** The object without which no admission policy acts. */
  readonly switch: { readonly namespace: string; readonly name: string };
  /** Are there policies at all? */
  readonly isUsed: () => boolean;
}

/** How often it looks whether anybody leads. Milliseconds. */
const LOOK_MS = 15_000;
/** Lease durations without a renewal after which nobody leads, and nobody is going to soon. */
const STALE_LEASES = 4;

/**
 * Takes the switch of the admission policies away when the lead is renewed by nobody, and nobody takes it over: nodes
 * would be held for ever. Every replica runs it; whoever leads next makes the switch again.
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
        // Without a holder the lead was given up in order, and whoever did so took the switch away if he was the last.
        const limitMs = (spec?.leaseDurationSeconds ?? 15) * 1000 * STALE_LEASES;
        if (!spec?.holderIdentity || nowMs - seenMs < limitMs) continue;
        await client.delete(serviceAccounts, options.switch, { signal });
        log.error("nobody leads: new nodes are not gated until somebody does", { lease: lease.name });
      } catch (error) {
        if (!signal.aborted && !isApiError(error, "notFound"))
          log.debug("the lease could not be looked at", { error: String(error) });
      }
    }
  };
  return createLoopComponent({ name: "admission-lease", run: guard });
}
