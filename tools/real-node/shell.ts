import { execFile } from "node:child_process";

interface RunOptions {
  readonly input?: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Kills it. */
  readonly signal?: AbortSignal;
}

/** Runs a program to its end and returns what it printed. @throws Error with its standard error. */
export function run(
  command: string,
  args: readonly string[],
  { input = "", ...options }: RunOptions = {},
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = execFile(command, args, { ...options, maxBuffer: 1 << 28 }, (error, stdout, stderr) => {
    if (error === null) resolve(stdout);
    else
      reject(new Error(`${command} ${args[0] ?? ""}: ${stderr.trim() || error.message}`, { cause: error }));
  });
  child.stdin?.on("error", () => undefined).end(input);
  return promise;
}

/** Runs lines of shell, and stops at the first that fails. */
export const shell = (script: string): Promise<string> => run("/bin/sh", ["-euc", script]);
