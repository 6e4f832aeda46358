/** Something wrong with a file that a user wrote: shown by `validate`, and by every command that reads the file. */
export interface Fault {
  /** As the user named it, so that a terminal can open it. */
  readonly file: string;
  /** From 1; absent when it is about the file as a whole. */
  readonly line?: number;
  /** In UTF-16 units, from 1. */
  readonly column?: number;
  /** `error`: this part does not work. `warning`: it works, and probably not as meant. */
  readonly severity: "error" | "warning";
  /** A constant, as in Events and metrics. */
  readonly reason: string;
  readonly message: string;
}

/** `file:line:column: error: message (Reason)`, the form that editors and terminals find places by. */
export function formatFault({ file, line, column, severity, message, reason }: Fault): string {
  const at = [file, line, column].filter((part) => part !== undefined).join(":");
  return `${at}: ${severity}: ${message} (${reason})`;
}

export function hasErrors(faults: readonly Fault[]): boolean {
  return faults.some(({ severity }) => severity === "error");
}

/** By file, then by place; what is about the whole file first. */
export function inOrder(a: Fault, b: Fault): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
}
