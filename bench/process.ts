import { type ChildProcess, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** `bin/berth run` as a user starts it; disposed with SIGTERM. */
export interface BerthProcess extends AsyncDisposable {
  /** When it was spawned, ms since the epoch. */
  readonly startedAt: number;
  /** Resident memory now and at its highest, bytes. */
  memory(): Promise<{ readonly resident: number; readonly peak: number }>;
  /** Its log so far, for the message when it fails. */
  readonly log: string;
  /** Aborts when it has ended, wanted or not; the reason holds its log. */
  readonly ended: AbortSignal;
}

export function startBerth(args: readonly string[]): BerthProcess {
  const startedAt = Date.now();
  const child: ChildProcess = spawn(join(root, "bin/berth"), ["run", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  const keep = (chunk: Buffer): void => {
    log = (log + chunk.toString("utf8")).slice(-8192);
  };
  child.stdout?.on("data", keep);
  child.stderr?.on("data", keep);
  const ended = new AbortController();
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve())).then(() =>
    ended.abort(new Error(`berth run ended:\n${log}`)),
  );
  return {
    startedAt,
    get log() {
      return log;
    },
    ended: ended.signal,
    async memory() {
      const status = await readFile(`/proc/${child.pid}/status`, "utf8");
      const bytes = (field: string): number =>
        Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) * 1024;
      return { resident: bytes("VmRSS"), peak: bytes("VmHWM") };
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await gone;
    },
  };
}
