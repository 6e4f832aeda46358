/** Which of a registry's servers to ask first, by which of its mirrors did not answer lately. */
import type { Endpoint } from "./endpoints.ts";
import { RecentMap } from "./recent-map.ts";

/** As long as a registry that fails is left alone by default, ms. */
const REST_MS = 30_000;
/** A mirror that is forgotten is only asked in its turn again. */
const MAX_MIRRORS = 512;

/**
 * A mirror that does not answer costs each read the whole time of a request, and several of them all the time that a
 * read has: the registry would never be asked. So it rests, and is asked only where the registry cannot be reached.
 * Times are ms of a clock that never goes back.
 */
export class MirrorRests {
  /** Until when, by origin. */
  readonly #rests: RecentMap<string, number> = new RecentMap(MAX_MIRRORS);

  /** The same servers: mirrors, the registry, mirrors that rest. */
  order(endpoints: readonly Endpoint[], now: number): readonly Endpoint[] {
    const resting = endpoints.filter((endpoint) => (this.#rests.get(endpoint.origin) ?? now) > now);
    return [...endpoints.filter((endpoint) => !resting.includes(endpoint)), ...resting];
  }

  /** The registry itself never rests here: others decide that. */
  settle(endpoint: Endpoint, answered: boolean, now: number): void {
    if (answered || isRegistry(endpoint)) this.#rests.delete(endpoint.origin);
    else this.#rests.set(endpoint.origin, now + REST_MS);
  }
}

/** Whether it is the registry, and no mirror of it. */
export function isRegistry({ credentials }: Endpoint): boolean {
  return credentials === "registry";
}
