/** Builds the binary of a Go module once, however many processes ask for it at the same time. */
import { spawn } from "node:child_process";
import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import readline from "node:readline";
import { setTimeout as delay } from "node:timers/promises";

/** How far a build is. */
export interface BuildProgress {
  readonly elapsedMs: number;
  /**
   * Packages compiled so far by this build; about 2,400 in all for the control plane and 600 for the
   * registry, fewer when Go's own cache is warm.
   */
  readonly packages: number;
  /** The package named last, such as `k8s.io/kubernetes/pkg/controlplane`; `""` while another process builds. */
  readonly current: string;
}

export interface BuildOptions {
  /** Folder of the Go module. */
  readonly source: string;
  /** Where the binary goes; written under another name first, so it is never seen half done. */
  readonly binary: string;
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onProgress?: (progress: BuildProgress) => void;
  readonly signal?: AbortSignal;
}

/** There is no `go` on the PATH. */
export class MissingGoError extends Error {
  override readonly name = "MissingGoError";
}

/** Go ran and failed; the message ends with its last lines. */
export class BuildFailedError extends Error {
  override readonly name = "BuildFailedError";
}

const POLL_MS = 250;
const PROGRESS_MS = 1000;

/**
 * Resolves when `binary` exists. One process builds; others wait for it, and take over when it died.
 *
 * @throws MissingGoError, BuildFailedError
 */
export async function buildOnce(options: BuildOptions): Promise<void> {
  const startedAt = performance.now();
  await mkdir(path.dirname(options.binary), { recursive: true });
  const lockFile = `${options.binary}.lock`;
  while (!(await exists(options.binary))) {
    options.signal?.throwIfAborted();
    if (await takeLock(lockFile)) {
      try {
        if (!(await exists(options.binary))) await build(options, startedAt);
      } finally {
        await rm(lockFile, { force: true });
      }
      return;
    }
    options.onProgress?.({ elapsedMs: performance.now() - startedAt, packages: 0, current: "" });
    await delay(POLL_MS, undefined, options.signal ? { signal: options.signal } : {});
  }
}

/**
 * The lock is a file that holds the builder's process id. One left by a dead process is removed. Should two waiters
 * do that at the same moment, both build, and the renames make either result whole.
 */
async function takeLock(lockFile: string): Promise<boolean> {
  try {
    await using file = await open(lockFile, "wx");
    await file.writeFile(String(process.pid));
    return true;
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
  const holder = Number(await readFile(lockFile, "utf8").catch(() => "0"));
  // An empty file was made this instant, by a process that has not written its id yet.
  if (holder > 0 && !isAlive(holder)) await rm(lockFile, { force: true });
  return false;
}

async function build(options: BuildOptions, startedAt: number): Promise<void> {
  const unfinished = `${options.binary}.${process.pid}`;
  const go = spawn("go", ["build", "-v", ...options.flags, "-o", unfinished, "."], {
    cwd: options.source,
    env: { ...options.env, CGO_ENABLED: "0" },
    stdio: ["ignore", "ignore", "pipe"],
    ...(options.signal ? { signal: options.signal } : {}),
  });
  const closed = new Promise<number | null>((resolve, reject) => {
    go.once("error", reject);
    go.once("close", resolve);
  });
  let packages = 0;
  let current = "";
  const report = (): void =>
    options.onProgress?.({ elapsedMs: performance.now() - startedAt, packages, current });
  const ticker = setInterval(report, PROGRESS_MS);
  const lastLines: string[] = [];
  readline.createInterface({ input: go.stderr }).on("line", (line) => {
    // `go build -v` prints one package path a line, and everything else it has to say to the same stream.
    if (/^[\w.-]+(\/[\w.~-]+)*$/.test(line)) [packages, current] = [packages + 1, line];
    else if (lastLines.push(line) > 20) lastLines.shift();
  });
  try {
    const code = await closed;
    if (code !== 0) throw new BuildFailedError(`go build failed (exit ${code}):\n${lastLines.join("\n")}`);
    await rename(unfinished, options.binary);
  } catch (error) {
    if (isCode(error, "ENOENT") && go.pid === undefined) throw new MissingGoError("no go on the PATH");
    throw error;
  } finally {
    clearInterval(ticker);
    await rm(unfinished, { force: true });
  }
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isCode(error, "EPERM");
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
