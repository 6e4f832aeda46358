/** Runs `berth` beside the demo, as a user does. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import type { CommandDeps } from "../command-deps.ts";

export interface BerthProcess extends AsyncDisposable {
  /** Aborts when the process ends, for any reason. */
  readonly ended: AbortSignal;
  /** The last part of its log. */
  log(): string;
  /** Has it printed this at any time? */
  hasPrinted(text: string): boolean;
}

export function startBerth(
  { self, environment, signal }: CommandDeps,
  args: readonly string[],
): BerthProcess {
  const off = ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"];
  const child = spawn(self, ["run", ...args, ...off], {
    env: environment,
    stdio: ["ignore", "pipe", "pipe"],
    // Ctrl-C then reaches only the demo, which stops this process in order.
    detached: true,
  });
  const ended = new AbortController();
  const abort = (): void => ended.abort(new Error("berth run has ended"));
  const gone = once(child, "exit").then(abort, abort);
  let log = "";
  const keep = (chunk: Buffer): void => {
    log += chunk.toString("utf8");
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  return {
    ended: AbortSignal.any([ended.signal, signal]),
    log: () => log.slice(-4096),
    hasPrinted: (text) => log.includes(text),
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await gone;
    },
  };
}

/** @returns the standard output. @throws Error with the output when the command fails. */
export async function runBerth({ self, environment }: CommandDeps, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(self, args, { env: environment });
  return stdout;
}
