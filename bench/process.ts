/** The processes that are measured: Berth as a user starts it, the Go peer, Berth with pods. */
import { type ChildProcess, spawn } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

export interface Program {
  /** For messages. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The API server's audit log knows its requests by a user agent that begins so. */
  readonly userAgent: string;
}

/** `bin/berth run` with these arguments. */
export function berthProgram(args: readonly string[]): Program {
  return { name: "berth", command: join(root, "bin/berth"), args: ["run", ...args], userAgent: "berth/" };
}

export interface Memory {
  /** Bytes. */
  readonly resident: number;
  readonly peak: number;
}

/** A process that runs; disposed with SIGTERM. */
export interface MeasuredProcess extends AsyncDisposable {
  readonly name: string;
  readonly pid: number;
  readonly userAgent: string;
  /** When it was spawned, ms since the epoch. */
  readonly startedAt: number;
  /** The last of what it said, for the message when it fails. */
  readonly log: string;
  /** Aborts when it has ended, wanted or not; the reason holds its log. */
  readonly ended: AbortSignal;
  /** The first line of its standard output that holds `text`, among the first hundred or later. Rejects when it ends. */
  line(text: string): Promise<string>;
  signal(name: NodeJS.Signals): void;
  /** Resident memory now and at its highest. */
  memory(): Promise<Memory>;
  /** CPU time so far, user and system, ms; the kernel counts in steps of 10. */
  cpuMs(): Promise<number>;
  /** Established TCP connections. */
  sockets(): Promise<number>;
}

/** How much is kept of what it says: characters of the end, and lines of the beginning. */
const KEPT = 8192;
const KEPT_LINES = 100;

export function startProgram({ name, command, args, userAgent }: Program): MeasuredProcess {
  const startedAt = Date.now();
  const child: ChildProcess = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new AbortController();
  const gone = new Promise<void>((resolve) => {
    child.once("error", () => resolve());
    child.once("exit", () => resolve());
  }).then(() => ended.abort(new Error(`${name} ended:\n${log}`)));
  const waiting = new Set<{ readonly text: string; readonly found: (line: string) => void }>();
  const lines: string[] = [];
  let log = "";
  let rest = "";
  const keep = (chunk: Buffer): void => {
    log = (log + chunk.toString("utf8")).slice(-KEPT);
  };
  child.stderr?.on("data", keep);
  child.stdout?.on("data", (chunk: Buffer) => {
    keep(chunk);
    const [...whole] = (rest + chunk.toString("utf8")).split("\n");
    rest = whole.pop() ?? "";
    for (const line of whole) {
      if (lines.length < KEPT_LINES) lines.push(line);
      for (const one of waiting) if (line.includes(one.text)) one.found(line);
    }
  });
  const pid = child.pid ?? 0;
  return {
    name,
    pid,
    userAgent,
    startedAt,
    get log() {
      return log;
    },
    ended: ended.signal,
    line(text) {
      const said = lines.find((line) => line.includes(text));
      if (said !== undefined) return Promise.resolve(said);
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      const one = { text, found: resolve };
      waiting.add(one);
      const failed = (): void => reject(ended.signal.reason);
      ended.signal.addEventListener("abort", failed, { once: true });
      return promise.finally(() => {
        waiting.delete(one);
        ended.signal.removeEventListener("abort", failed);
      });
    },
    signal: (signal) => void child.kill(signal),
    memory: () => memoryOf(pid),
    cpuMs: () => cpuOf(pid),
    sockets: () => establishedSockets(pid),
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await gone;
    },
  };
}

async function memoryOf(pid: number): Promise<Memory> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const bytes = (field: string): number =>
    Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1] ?? Number.NaN) * 1024;
  return { resident: bytes("VmRSS"), peak: bytes("VmHWM") };
}

/** `USER_HZ`: 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** CPU time of a process so far, user and system, ms. */
export async function cpuOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The second field is the name in brackets and may hold blanks. utime and stime are the 14th and 15th (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
}

const ESTABLISHED = "01";

async function establishedSockets(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fd`;
  const links = await Promise.all(
    (await readdir(folder)).map((fd) => readlink(join(folder, fd)).catch(() => "")),
  );
  const inodes = new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []));
  const tables = await Promise.all(
    ["tcp", "tcp6"].map((table) => readFile(`/proc/${pid}/net/${table}`, "utf8").catch(() => "")),
  );
  return tables
    .flatMap((table) => table.split("\n").slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === ESTABLISHED && inodes.has(fields[9] ?? "")).length;
}
