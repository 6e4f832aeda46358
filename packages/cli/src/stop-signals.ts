import { type ExitCode, exitCodes } from "./exit-codes.ts";

export type StopSignal = "SIGINT" | "SIGTERM";

/** How the process handles stop signals. */
export interface StopSignals {
  /** Aborts at the first stop signal, so that everything ends in order. */
  readonly signal: AbortSignal;
  /** To be called for each stop signal. The second one calls `exit`: the user does not want to wait. */
  readonly on: (signal: StopSignal) => void;
}

export function createStopSignals(exit: (code: ExitCode) => void): StopSignals {
  const stopping = new AbortController();
  return {
    signal: stopping.signal,
    on(signal) {
      if (stopping.signal.aborted) exit(signal === "SIGINT" ? exitCodes.interrupted : exitCodes.terminated);
      else stopping.abort();
    },
  };
}
