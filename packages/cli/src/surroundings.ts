import type { Output } from "@berth/host";
import type { Clock } from "@berth/runtime";

export type { Output } from "@berth/host";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The world as a command sees it. Only `main.ts` makes one of the real process; tests make their own, so every
 * command can run inside a test without touching the process around it.
 */
export interface Outside {
  readonly environment: Environment;
  /** Relative paths start here. Absolute. */
  readonly folder: string;
  /** The user's home folder, or `undefined` when there is none. */
  readonly home: string | undefined;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when the user wants the command to end: SIGINT, SIGTERM. */
  readonly signal: AbortSignal;
  /** Path of the program that was started: for commands to copy, and to start another one. */
  readonly self: string;
  /** Default: the machine's. */
  readonly clock?: Clock;
}

/** The same with a clock, for the commands that do something: `--help` and completion never load one. */
export interface Surroundings extends Outside {
  readonly clock: Clock;
}

/** @returns the world with the machine's clock unless it has one. */
export async function withClock(outside: Outside): Promise<Surroundings> {
  const { clock } = outside;
  return { ...outside, clock: clock ?? (await import("@berth/runtime")).systemClock };
}
