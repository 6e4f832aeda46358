import { execFile } from "node:child_process";
import { root } from "./run-tool.ts";

interface RunOptions {
  readonly input?: string | Uint8Array;
  /** Default: the repository. */
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Kills it. */
  readonly signal?: AbortSignal;
  /** Shows its standard error meanwhile, for what takes minutes. */
  readonly isShown?: boolean;
}

/** Runs a program to its end and returns what it printed, trimmed at the end. @throws Error with its standard error. */
export function run(
  command: string,
  args: readonly string[],
  { input = "", isShown = false, ...options }: RunOptions = {},
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const settings = { cwd: root, ...options, maxBuffer: 1 << 28 };
  const child = execFile(command, args, settings, (error, stdout, stderr) => {
    if (error === null) resolve(stdout.trimEnd());
    else
      reject(new Error(`${command} ${args[0] ?? ""}: ${stderr.trim() || error.message}`, { cause: error }));
  });
  child.stdin?.on("error", () => undefined).end(input);
  if (isShown) child.stderr?.pipe(process.stderr);
  return promise;
}

/** Runs lines of shell, and stops at the first that fails. */
export const shell = (script: string): Promise<string> => run("/bin/sh", ["-euc", script]);
