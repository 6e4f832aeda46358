import { type ExitCode, exitCodes } from "./exit-codes.ts";

export type StopSignal = "SIGINT" | "SIGTERM";

/** What the process does about being asked to stop. */
export interface StopSignals {
  /** Aborts at the first one: everything ends in order. */
  readonly signal: AbortSignal;
  /** To be called for each one. The second calls `exit`: the user does not want to wait. */
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
