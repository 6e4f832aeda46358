import type { Fault } from "./fault.ts";

/** Tells each fault when it appears, and again only after it was gone. */
export class FaultReport {
  readonly #onFault: (fault: Fault) => void;
  readonly #standing = new Map<string, ReadonlySet<string>>();

  constructor(onFault: (fault: Fault) => void) {
    this.#onFault = onFault;
  }

  /** All faults that there are now about one thing. */
  report(about: string, faults: readonly Fault[]): void {
    // A message that only counts differently is about the same fault.
    const nameOf = ({ file, line, message }: Fault): string =>
      `${file}:${line ?? 0}: ${message.replaceAll(/\d+ (?=of|nodes|%)/g, "")}`;
    const before = this.#standing.get(about);
    this.#standing.set(about, new Set(faults.map(nameOf)));
    for (const fault of faults) if (before?.has(nameOf(fault)) !== true) this.#onFault(fault);
  }
}
