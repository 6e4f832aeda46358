/** Child processes that never outlive the process that started them, unless that is asked for. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { ComponentName, Program } from "./assets.ts";

export interface ComponentOptions<Name extends string = ComponentName> {
  /** Said in errors. */
  readonly name: Name;
  readonly program: Program;
  /** Flags of the component. */
  readonly flags: readonly string[];
  /** Both output streams are appended here. */
  readonly logFile: string;
}

/** A running component. Disposing kills it at once and waits until it is gone. */
export interface Component<Name extends string = ComponentName>
  extends AsyncDisposable,
    ComponentOptions<Name> {
  readonly pid: number;
  readonly running: boolean;
  /** Resolves when the process has ended, for whatever reason, with how it ended. Never rejects. */
  readonly ended: Promise<string>;
  /**
   * `SIGTERM` lets it close its connections in order, and becomes `SIGKILL` after 15 s; `SIGKILL` is a crash.
   * Resolves when it is gone.
   */
  stop(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** From now on it outlives this process, of which it holds nothing. */
  release(): Promise<void>;
}

/** A component ended while it was needed. The message ends with the last lines of its log. */
export class ComponentFailedError extends Error {
  override readonly name = "ComponentFailedError";
}

const GRACE_MS = 15_000;
const LAST_LINES = 15;

/**
 * Runs a program that dies with this process, even when this process gets SIGKILL. The shell starts a watcher, then
 * becomes the program. The watcher blocks on a pipe whose other end only this process holds; the kernel closes that end
 * however this process ends, and the watcher then kills its own process group, in which nothing else is (`kill 0`, so
 * no process id can be mistaken). It is a grandchild, so that the program has no child it would not know to reap. The word `release` ends the watch. It works for every program, which an option of our
 * own binary would not.
 */
const WATCHED =
  'exec 3<&0; ( (read -r word <&3; [ "$word" = release ] || kill -KILL 0) & ); exec 3<&-; exec "$@" </dev/null';

/** Resolves once the process runs; that says nothing about whether it is ready. */
export async function startComponent<Name extends string>(
  options: ComponentOptions<Name>,
): Promise<Component<Name>> {
  const { name, program, logFile } = options;
  const command = [program.command, ...program.args, ...options.flags];
  await using log = await open(logFile, "a", 0o600);
  // A session of its own: Ctrl-C in a terminal reaches us alone, and we decide in which order things stop.
  const child = spawn("/bin/sh", ["-c", WATCHED, name, ...command], {
    stdio: ["pipe", log.fd, log.fd],
    detached: true,
  });
  await once(child, "spawn");
  return superviseChild(child, options);
}

function superviseChild<Name extends string>(
  child: ChildProcess,
  options: ComponentOptions<Name>,
): Component<Name> {
  const { name } = options;
  const { pid, stdin } = child;
  if (pid === undefined || stdin === null) throw new ComponentFailedError(`${name} was not started`);
  let running = true;
  const ended = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => {
      running = false;
      killGroup(pid); // the watcher, which is all that is left of the group
      resolve(signal ?? `exit ${code}`);
    });
  });
  // A cluster alone does not keep a program running; a caller that waits for the end of a process holds it for that time.
  letGo(child);
  const stop = async (signal: "SIGTERM" | "SIGKILL"): Promise<void> => {
    if (!running) return;
    child.ref();
    if (signal === "SIGTERM") {
      child.kill("SIGTERM");
      using patience = cancellable();
      await Promise.race([
        ended,
        delay(GRACE_MS, undefined, { signal: patience.signal }).catch(() => undefined),
      ]);
    }
    if (running) killGroup(pid);
    await ended;
  };
  return {
    ...options,
    pid,
    ended,
    get running() {
      return running;
    },
    stop,
    release: () => new Promise((resolve) => stdin.end("release\n", resolve)),
    [Symbol.asyncDispose]: () => stop("SIGKILL"),
  };
}

/** Rejects when the component ends before `signal` aborts; resolves then. For racing against a readiness check. */
export async function failWhenEnded(component: Component<string>, signal: AbortSignal): Promise<never> {
  const how = await component.ended;
  if (signal.aborted) return new Promise<never>(() => {});
  throw new ComponentFailedError(
    `${component.name} ended (${how}) before it was ready:\n${await lastLines(component.logFile)}`,
  );
}

/** The end of a log, for messages. `""` when there is none. */
export async function lastLines(logFile: string): Promise<string> {
  const TAIL_BYTES = 16_384;
  try {
    await using file = await open(logFile, "r");
    const { size } = await file.stat();
    const start = Math.max(0, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(TAIL_BYTES), 0, TAIL_BYTES, start);
    return buffer.toString("utf8", 0, bytesRead).trimEnd().split("\n").slice(-LAST_LINES).join("\n");
  } catch {
    return "";
  }
}

/** Removes `folder` when this process is gone without having done so itself. Dispose to call that off. */
export async function removeAfterUs(folder: string): Promise<Disposable> {
  // Processes that died with us may still be writing for a moment, which makes a removal fail halfway.
  const script =
    'read -r _; for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$1" 2>/dev/null && exit; sleep 0.2; done';
  const child = spawn("/bin/sh", ["-c", script, "berth-cleaner", folder], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  await once(child, "spawn");
  letGo(child);
  return { [Symbol.dispose]: () => void child.kill("SIGKILL") };
}

/** Lets this process end while the child runs: neither the child nor the pipe to it holds the event loop. */
function letGo(child: ChildProcess): void {
  child.unref();
  // The pipe of a child is a socket; the types only promise a stream.
  if (child.stdin instanceof Socket) child.stdin.unref();
}

/** The group is led by a process we started and have not been told is gone, or still holds its watcher. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

function cancellable(): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  return { signal: controller.signal, [Symbol.dispose]: () => controller.abort() };
}
