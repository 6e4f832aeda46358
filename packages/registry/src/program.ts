/** Runs a program of the operator that prints credentials. */
import { spawn } from "node:child_process";
import { dirname } from "node:path";

/** One run. There is no shell. */
export interface ProgramRun {
  /** Absolute path. It runs in the folder of the file. */
  readonly file: string;
  readonly args: readonly string[];
  /** The whole environment. It inherits none. */
  readonly env: Readonly<Record<string, string>>;
  /** For its standard input. */
  readonly input: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** What it printed, and half a sentence about its fault that quotes nothing of that. */
export interface ProgramResult {
  readonly output: Buffer;
  /** Absent: it ended by itself, with success. */
  readonly fault?: string;
}

/** A token has some KiB, and an answer a handful of them. */
const MAX_OUTPUT_BYTES: number = 256 * 1024;
const STOPPED = "was stopped";

/**
 * Never rejects. The program is the leader of a process group, which ends with it: at a time limit, at too much output,
 * at the signal, and also after success. Standard error is not read, as programs print secrets there.
 */
export function runProgram(run: ProgramRun): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const { timeoutMs, signal } = run;
    if (signal.aborted) return resolve({ output: Buffer.alloc(0), fault: STOPPED });
    let child: ReturnType<typeof start>;
    try {
      child = start(run);
    } catch {
      return resolve({ output: Buffer.alloc(0), fault: "cannot be run" });
    }
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (fault?: string): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      if (child.exitCode === null && child.signalCode === null) killGroup(child.pid);
      // A process that left the group may hold the pipe.
      child.stdout.destroy();
      resolve({ output: Buffer.concat(chunks), ...(fault !== undefined && { fault }) });
    };
    const onAbort = (): void => settle(STOPPED);
    const timer = setTimeout(() => settle(`had not ended after ${timeoutMs / 1000} s`), timeoutMs);
    signal.addEventListener("abort", onAbort);
    child.stdout.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= MAX_OUTPUT_BYTES) chunks.push(chunk);
      else settle(`prints more than ${MAX_OUTPUT_BYTES} bytes`);
    });
    child.on("error", ({ code }: NodeJS.ErrnoException) =>
      settle(code === "ENOENT" ? "does not exist" : `cannot be run (${code ?? "unknown"})`),
    );
    // What it has started ends with it.
    child.on("exit", () => killGroup(child.pid));
    child.on("close", (code, killedBy) =>
      settle(code === 0 ? undefined : `failed (${code === null ? killedBy : `exit code ${code}`})`),
    );
    // A program need not read its input.
    child.stdin.on("error", () => undefined).end(run.input);
  });
}

function start({ file, args, env }: ProgramRun) {
  const cwd = dirname(file);
  return spawn(file, [...args], { cwd, env: { ...env }, detached: true, stdio: ["pipe", "pipe", "ignore"] });
}

function killGroup(leader: number | undefined): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // All of it has ended.
  }
}
