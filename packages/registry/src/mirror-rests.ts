/** Orders the servers of a registry: mirrors that failed lately come last. */
import type { Endpoint } from "./endpoints.ts";
import { RecentMap } from "./recent-map.ts";

/** Rest of a mirror, ms. A registry that fails rests as long by default. */
const REST_MS = 30_000;
/** A forgotten mirror is only asked in its usual order again. */
const MAX_MIRRORS = 512;

/**
 * Each read waits a whole request time for a mirror that does not answer. Several such mirrors would use up the time of
 * the read before the registry is asked. So a mirror rests, and is asked only where the registry cannot be reached.
 * Times are ms of a clock that never goes back.
 */
export class MirrorRests {
  /** End of the rest, by origin. */
  readonly #rests: RecentMap<string, number> = new RecentMap(MAX_MIRRORS);

  /** The same servers in this order: mirrors, the registry, resting mirrors. */
  order(endpoints: readonly Endpoint[], now: number): readonly Endpoint[] {
    const resting = endpoints.filter((endpoint) => (this.#rests.get(endpoint.origin) ?? now) > now);
    return [...endpoints.filter((endpoint) => !resting.includes(endpoint)), ...resting];
  }

  /** The registry itself never rests here; `RegistryBreakers` decides that. */
  settle(endpoint: Endpoint, answered: boolean, now: number): void {
    if (answered || isRegistry(endpoint)) this.#rests.delete(endpoint.origin);
    else this.#rests.set(endpoint.origin, now + REST_MS);
  }
}

/** Whether it is the registry, not a mirror. */
export function isRegistry({ credentials }: Endpoint): boolean {
  return credentials === "registry";
}
