/** Known facts about images, in bounded memory. */
import type { ImageFacts } from "./types.ts";

/** Facts, and the last time when they were known to be true. */
export interface HeldFacts {
  readonly facts: ImageFacts;
  /** Wall clock, ms since 1970. */
  readonly at: number;
  /** The same moment on a clock that never goes back, ms. */
  readonly confirmed: number;
}

/** Average platforms per image. Above it fewer images are held. Multi-platform images have ten. */
const PLATFORMS_PER_IMAGE = 20;

/** Facts by name. When it is full, the least recently used name is forgotten. */
export class FactCache {
  /** In order of use. */
  readonly #held = new Map<string, HeldFacts>();
  readonly #maxFacts: number;
  #platforms = 0;

  /** @param maxFacts names held; the limit of platforms is twenty times as high. */
  constructor(maxFacts: number) {
    this.#maxFacts = maxFacts;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Counts as use. */
  get(name: string): HeldFacts | undefined {
    const held = this.#held.get(name);
    if (held === undefined) return undefined;
    this.#held.delete(name);
    this.#held.set(name, held);
    return held;
  }

  /** Does not count as use. */
  peek(name: string): HeldFacts | undefined {
    return this.#held.get(name);
  }

  set(name: string, held: HeldFacts): void {
    this.#delete(name);
    this.#held.set(name, held);
    this.#platforms += held.facts.platforms.length;
    for (const oldest of this.#held.keys()) {
      if (this.#held.size <= this.#maxFacts && this.#platforms <= this.#maxFacts * PLATFORMS_PER_IMAGE)
        return;
      this.#delete(oldest);
    }
  }

  /** Least recently used first. */
  entries(): readonly (readonly [name: string, held: HeldFacts])[] {
    return [...this.#held];
  }

  #delete(name: string): void {
    this.#platforms -= this.#held.get(name)?.facts.platforms.length ?? 0;
    this.#held.delete(name);
  }
}
