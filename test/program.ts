/** A program of this repository's documentation, run as a reader would: a process of its own that knows a kubeconfig. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KubeconfigChoice, TestCluster } from "@berth/testcluster";
import { expect } from "vitest";

/** Either a file, or TypeScript text that is run as if it stood in `folder`. */
export type ProgramSource =
  | { readonly file: string; readonly args?: readonly string[] }
  | { readonly text: string; readonly folder: string; readonly args?: readonly string[] };

/** Disposing kills it. */
export interface Program extends AsyncDisposable {
  /** What it has printed, its end only, for the message of a failing test. */
  readonly output: string;
  /** Tells it to stop, as Kubernetes does. Resolves with its exit code, or the signal that ended it, and how long it took. */
  stop(): Promise<{ readonly exit: number | string; readonly tookMs: number }>;
  /** Resolves with how it ended, by itself or not. */
  readonly ended: Promise<number | string>;
  /** A crash. Resolves when it is gone. */
  kill(): Promise<void>;
}

/**
 * Programs end within two seconds of SIGTERM, or say by their exit code that they did not end in order; this is beside
 * that, for what does not end at all, and leaves a machine that stands still some time. Milliseconds.
 */
const STOP_LIMIT_MS = 10_000;
const MOST_OUTPUT = 16_384;

/**
 * Starts it and waits for nothing. It knows `KUBECONFIG` and nothing else: the admin and the cluster itself, unless
 * `choice` names another user, or a proxy.
 */
export async function startProgram(
  cluster: TestCluster,
  source: ProgramSource,
  choice: KubeconfigChoice = {},
): Promise<Program> {
  const folder = await mkdtempDisposable(join(tmpdir(), "berth-program-"));
  const kubeconfig = join(folder.path, "config");
  await writeFile(kubeconfig, cluster.kubeconfig(choice));
  const how =
    "file" in source ? [source.file] : ["--input-type=module-typescript", "--eval", source.text, "program"];
  const child: ChildProcess = spawn(
    process.execPath,
    ["--conditions=berth-source", ...how, ...(source.args ?? [])],
    {
      cwd: "folder" in source ? source.folder : folder.path,
      env: { KUBECONFIG: kubeconfig },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => (output = (output + chunk.toString("utf8")).slice(-MOST_OUTPUT)));
  const gone = once(child, "close").then(([code, signal]) => (code ?? signal) as number | string);
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await gone;
  };
  return {
    get output() {
      return output;
    },
    ended: gone,
    stop: async () => {
      const startedAt = performance.now();
      child.kill("SIGTERM");
      return { exit: await gone, tookMs: performance.now() - startedAt };
    },
    kill,
    [Symbol.asyncDispose]: async () => {
      await kill();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Told to, it ends well and in time. */
export async function expectToStop(program: Program): Promise<void> {
  const { exit, tookMs } = await program.stop();
  expect({ exit, output: program.output }).toEqual({ exit: 0, output: program.output });
  expect(tookMs).toBeLessThan(STOP_LIMIT_MS);
}
