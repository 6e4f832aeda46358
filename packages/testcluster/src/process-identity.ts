/** Tells a process from another that was given the same number later. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

/** A process id, and when the process that had it was started, as text that only equality is asked of. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startedAt: string;
}

/** `undefined` when no such process runs; one that has ended but was not reaped yet does not run. */
export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const startedAt = process.platform === "linux" ? await startOnLinux(pid) : await startByPs(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

/** Does this very process still run? */
export async function isRunning(known: ProcessIdentity): Promise<boolean> {
  return (await identify(known.pid))?.startedAt === known.startedAt;
}

/** proc_pid_stat(5): fields 3 (state) and 22 (start, clock ticks since boot); the boot makes that unique. */
async function startOnLinux(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    // Field 2 is the program's name in parentheses and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
    return `${boot.trim()}/${fields[19]}`;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

async function startByPs(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)("ps", ["-o", "stat=,lstart=", "-p", String(pid)]);
    const [state = "Z", ...start] = stdout.trim().split(/\s+/);
    return state.startsWith("Z") ? undefined : start.join(" ");
  } catch (error) {
    // ps exits 1 when there is no such process.
    if (error instanceof Error && "code" in error && error.code === 1) return undefined;
    throw error;
  }
}

/** ESRCH: the process ended between the opening and the reading of its file. */
function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ESRCH");
}
