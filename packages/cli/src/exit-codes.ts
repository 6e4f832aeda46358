/** Exit codes of `berth`. docs/reference/cli.md lists them, and a test compares it with `exitCodeMeanings`. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  faults: 3,
  cluster: 4,
  changes: 5,
  leaseLost: 6,
  needsPerson: 7,
  // By convention 128 plus the number of the signal.
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** One line for each code, in order, for the reference documentation and the help text. */
export const exitCodeMeanings: readonly { readonly code: ExitCode; readonly meaning: string }[] = [
  { code: exitCodes.done, meaning: "done" },
  { code: exitCodes.failed, meaning: "failed; the last line on standard error says why" },
  { code: exitCodes.usage, meaning: "the command line cannot be understood; nothing was done" },
  { code: exitCodes.faults, meaning: "configuration or rule files have errors" },
  {
    code: exitCodes.cluster,
    meaning: "the cluster could not be reached, or refused the credential or the request",
  },
  { code: exitCodes.changes, meaning: "`plan --exit-code`: something would change, or cease to be in force" },
  {
    code: exitCodes.leaseLost,
    meaning: "`run --leader-elect`: lost the Lease; started again, it stands by",
  },
  { code: exitCodes.needsPerson, meaning: "`status`, `node-template --check`: something needs a person" },
  { code: exitCodes.interrupted, meaning: "interrupted before it could stop in order (second Ctrl-C)" },
  { code: exitCodes.terminated, meaning: "the same by SIGTERM" },
];

/** An expected failure: one line for the user with the next step, and the exit code. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = exitCodes.failed, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
