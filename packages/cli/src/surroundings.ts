import type { Clock } from "@berth/runtime";

/** A stream of text for people or scripts. */
export interface Output {
  write(text: string): void;
  /** Colours and progress lines only on a terminal. */
  readonly isTerminal: boolean;
  /** Width of the terminal in columns; `undefined` elsewhere. */
  readonly columns: number | undefined;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The world as a command sees it. Only `main.ts` makes one of the real process; tests make their own, so every
 * command can run inside a test without touching the process around it.
 */
export interface Surroundings {
  readonly environment: Environment;
  /** Relative paths start here. Absolute. */
  readonly folder: string;
  /** The user's home folder, or `undefined` when there is none. */
  readonly home: string | undefined;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when the user wants the command to end: SIGINT, SIGTERM. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Path of the program that was started: for commands to copy, and to start another one. */
  readonly self: string;
}
