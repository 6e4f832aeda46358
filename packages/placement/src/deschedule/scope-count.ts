/** Counts the pods that a policy is about, on request. It keeps nothing for each pod. */
import type { Pod } from "@berth/kube";
import type { DeschedulePolicyInForce } from "./policy.ts";

export interface ScopeCountOptions {
  readonly pods: () => Iterable<Pod>;
  readonly isIn: (pod: Pod, policy: DeschedulePolicyInForce) => boolean;
  /** Monotonic, ms. */
  readonly monotonic: () => number;
}

/** A count reads all pods, so it may be this old, ms. Freezing needs a newer one: pods may have just come. */
const MAX_AGE_MS = 10_000;
export const FRESH_MS = 1_000;

export class ScopeCount {
  readonly #options: ScopeCountOptions;
  readonly #counts = new Map<DeschedulePolicyInForce, { count: number; atMs: number; of: number }>();
  #changes = 0;

  constructor(options: ScopeCountOptions) {
    this.#options = options;
  }

  /** Pods or namespaces have changed. */
  changed(): void {
    this.#changes += 1;
  }

  of(policy: DeschedulePolicyInForce, maxAgeMs: number = MAX_AGE_MS): number {
    const { pods, isIn, monotonic } = this.#options;
    const atMs = monotonic();
    const known = this.#counts.get(policy);
    if (known !== undefined && (known.of === this.#changes || atMs - known.atMs < maxAgeMs))
      return known.count;
    let count = 0;
    for (const pod of pods()) if (isIn(pod, policy)) count += 1;
    this.#counts.set(policy, { count, atMs, of: this.#changes });
    return count;
  }

  /** All pods are judged anew. */
  clear(): void {
    this.#counts.clear();
  }
}
