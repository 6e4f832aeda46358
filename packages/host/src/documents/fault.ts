/** A problem in a file of the user. `validate` shows it, and so does every command that reads the file. */
export interface Fault {
  /** As the user wrote it, so that a terminal can open it. */
  readonly file: string;
  /** From 1; absent when the fault concerns the whole file. */
  readonly line?: number;
  /** In UTF-16 units, from 1. */
  readonly column?: number;
  /** `error`: this part does not work. `warning`: it works, but probably not as the user intended. */
  readonly severity: "error" | "warning";
  /** A constant, also used in Events and metrics. */
  readonly reason: string;
  readonly message: string;
}

/** `file:line:column: error: message (Reason)`: editors and terminals can open the place. */
export function formatFault({ file, line, column, severity, message, reason }: Fault): string {
  const at = [file, line, column].filter((part) => part !== undefined).join(":");
  return `${at}: ${severity}: ${message} (${reason})`;
}

export function hasErrors(faults: readonly Fault[]): boolean {
  return faults.some(({ severity }) => severity === "error");
}

/** Sorts by file, then by place. Faults of the whole file come first. */
export function inOrder(a: Fault, b: Fault): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
}
