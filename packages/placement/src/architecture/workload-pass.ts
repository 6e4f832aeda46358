import type { WorkloadObserver } from "./pod-view.ts";

interface WorkloadPassOptions {
  /** All unscheduled pods and DaemonSets, named as in outcomes. `undefined` until Berth has read both. */
  readonly workloads: () => Iterable<string> | undefined;
  /** Called once for each pass. */
  readonly onDone: () => void;
}

/**
 * Reports when Berth has decided about every workload by the current policies. Before that, a count of no uncovered
 * workloads proves nothing: Berth may not have looked yet.
 */
export class WorkloadPass implements WorkloadObserver {
  readonly #options: WorkloadPassOptions;
  /** Workloads with a decision; `undefined` once all have one. */
  #seen: Set<string> | undefined = new Set();
  /** Workloads without a decision at the last check. The next check waits until all of them have one. */
  #missing = new Set<string>();

  constructor(options: WorkloadPassOptions) {
    this.#options = options;
  }

  get done(): boolean {
    return this.#seen === undefined;
  }

  /** Call it when the policies change. The caller must queue all workloads again. */
  begin(): void {
    this.#seen = new Set();
    this.#missing = new Set();
  }

  decided(workload: string): void {
    this.#seen?.add(workload);
    this.#without(workload);
  }

  gone(workload: string): void {
    this.#seen?.delete(workload);
    this.#without(workload);
  }

  /** Call it after `begin`, and once Berth has read pods and DaemonSets. Later checks run by themselves. */
  check(): void {
    const seen = this.#seen;
    const workloads = seen && this.#options.workloads();
    if (seen === undefined || workloads === undefined) return;
    const missing = new Set<string>();
    for (const workload of workloads) if (!seen.has(workload)) missing.add(workload);
    this.#missing = missing;
    if (missing.size > 0) return;
    this.#seen = undefined;
    this.#options.onDone();
  }

  #without(workload: string): void {
    this.#missing.delete(workload);
    if (this.#missing.size === 0) this.check();
  }
}
