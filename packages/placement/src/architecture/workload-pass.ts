import type { WorkloadObserver } from "./pod-view.ts";

interface WorkloadPassOptions {
  /** All unscheduled pods and all DaemonSets there are, as they are called in outcomes; `undefined` until both were read. */
  readonly workloads: () => Iterable<string> | undefined;
  /** Called once for each pass. */
  readonly onDone: () => void;
}

/**
 * Tells when every workload has been decided about by the policies as they are now. Before that nobody knows what would
 * not tolerate a key that is new: nothing uncovered is not the same as nothing looked at.
 */
export class WorkloadPass implements WorkloadObserver {
  readonly #options: WorkloadPassOptions;
  /** Workloads that have been looked at; `undefined` once that is all. */
  #seen: Set<string> | undefined = new Set();
  /** Those that were not, when last all were gone through: nothing is worth another look before they were. */
  #missing = new Set<string>();

  constructor(options: WorkloadPassOptions) {
    this.#options = options;
  }

  get done(): boolean {
    return this.#seen === undefined;
  }

  /** The policies have changed: whoever calls it has all workloads decided about again. */
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

  /** Call when pods and DaemonSets have been read, and after `begin`; afterwards it finds out by itself. */
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
