import { performance } from "node:perf_hooks";
import { eventually } from "@berth/testcluster";
import { expect } from "vitest";
import { createSilentLogger } from "../json-log.ts";
import { type LeaderElectionOptions, LeaderElector, type TermEnd } from "../leader-election.ts";

/** Longer than a machine stands still: no candidate is to lose the lead in a test that is about something else. */
const LONG = { leaseDurationMs: 120_000, renewDeadlineMs: 90_000, retryPeriodMs: 200 };

export interface Candidate extends AsyncDisposable {
  readonly elector: LeaderElector;
  /** When its term began and ended. */
  readonly began: number | undefined;
  readonly ended: number | undefined;
  readonly untilLeading: () => Promise<void>;
  readonly stop: () => Promise<TermEnd>;
}

/** A candidate for the lead, from now until disposed. Times of `performance.now`. */
export function candidate(
  identity: string,
  lease: LeaderElectionOptions["lease"],
  options: Partial<LeaderElectionOptions> & Pick<LeaderElectionOptions, "client">,
): Candidate {
  const elector = new LeaderElector({
    lease,
    identity,
    log: createSilentLogger(),
    ...LONG,
    ...options,
  });
  const stopping = new AbortController();
  let began: number | undefined;
  let ended: number | undefined;
  const end = elector.run(stopping.signal, {
    onStartedLeading: (lead) => {
      began = performance.now();
      lead.addEventListener("abort", () => {
        ended = performance.now();
      });
    },
  });
  const stop = (): Promise<TermEnd> => {
    stopping.abort();
    return end;
  };
  return {
    elector,
    get began() {
      return began;
    },
    get ended() {
      return ended;
    },
    untilLeading: () => eventually(() => expect(elector.leading).toBe(true)),
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}
