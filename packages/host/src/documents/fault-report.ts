import type { Fault } from "./fault.ts";

/** Reports each fault when it appears. Reports it again only if it was gone in between. */
export class FaultReport {
  readonly #onFault: (fault: Fault) => void;
  readonly #standing = new Map<string, ReadonlySet<string>>();

  constructor(onFault: (fault: Fault) => void) {
    this.#onFault = onFault;
  }

  /** @param faults all current faults of `about`. */
  report(about: string, faults: readonly Fault[]): void {
    // A fault whose message differs only in a count is the same fault.
    const nameOf = ({ file, line, message }: Fault): string =>
      `${file}:${line ?? 0}: ${message.replaceAll(/\d+ (?=%|of\b|[a-z]+s\b)/g, "")}`;
    const before = this.#standing.get(about);
    this.#standing.set(about, new Set(faults.map(nameOf)));
    for (const fault of faults) if (before?.has(nameOf(fault)) !== true) this.#onFault(fault);
  }
}
