/** What `berth` ends with. Documented in docs/reference/cli.md, which a test compares with this table. */
export const exitCodes = {
  /** It did what was asked. */
  done: 0,
  /** It failed; the last line on standard error says why. */
  failed: 1,
  /** The command line cannot be understood; nothing was done. */
  usage: 2,
  /** `validate` found errors in the files; `run`, `plan` and others were given files that cannot be used. */
  faults: 3,
  /** The cluster could not be reached, or refused the credential or the request. */
  cluster: 4,
  /** `plan --exit-code`: something would change. */
  changes: 5,
  /** `run --leader-elect`: this process led and lost the Lease. */
  leaseLost: 6,
  /** Ended by a second SIGINT, or by one before there was anything to stop in order. 128 + 2 by convention. */
  interrupted: 130,
  /** The same for SIGTERM. 128 + 15. */
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
  { code: exitCodes.changes, meaning: "`plan --exit-code`: something would change" },
  {
    code: exitCodes.leaseLost,
    meaning: "`run --leader-elect`: lost the Lease; started again, it stands by",
  },
  { code: exitCodes.interrupted, meaning: "interrupted before it could stop in order (second Ctrl-C)" },
  { code: exitCodes.terminated, meaning: "the same by SIGTERM" },
];

/** A failure that was foreseen: one line for the user, what to do next, and the exit code. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = exitCodes.failed, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
