import type { Output } from "@berth/host";
import type { Clock } from "@berth/runtime";

export type { Output } from "@berth/host";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The process as a command sees it. Only `main.ts` creates one from the real process. Tests create their own, so every
 * command can run inside a test.
 */
export interface Outside {
  readonly environment: Environment;
  /** Relative paths start in this folder. Absolute. */
  readonly folder: string;
  /** The user's home folder, or `undefined` when there is none. */
  readonly home: string | undefined;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when the user wants the command to end: SIGINT, SIGTERM. */
  readonly signal: AbortSignal;
  /** Path of the running program, for example commands in messages and for child processes. */
  readonly self: string;
  /** Default: the system clock. */
  readonly clock?: Clock;
}

/** With a clock, for commands that need one. `--help` and completion never load it. */
export interface CommandDeps extends Outside {
  readonly clock: Clock;
}

/** @returns the same with the system clock, unless it has a clock. */
export async function withClock(outside: Outside): Promise<CommandDeps> {
  const { clock } = outside;
  return { ...outside, clock: clock ?? (await import("@berth/runtime")).systemClock };
}
