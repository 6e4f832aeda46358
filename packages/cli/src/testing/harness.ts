import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { runCli } from "../cli.ts";
import type { ExitCode } from "../exit-codes.ts";
import type { Environment } from "../surroundings.ts";

export interface CliResult {
  readonly code: ExitCode;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  readonly environment?: Environment;
  readonly folder?: string;
  readonly home?: string;
  readonly signal?: AbortSignal;
  readonly columns?: number;
  /** Called before standard output takes a text. */
  readonly onStdout?: () => void;
}

/** Runs a command line inside the test, with a world of its own. */
export async function cli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const written = { stdout: "", stderr: "" };
  const collect = (name: "stdout" | "stderr") => ({
    write: (text: string): void => {
      if (name === "stdout") options.onStdout?.();
      written[name] += text;
    },
    isTerminal: false,
    columns: options.columns,
  });
  const code = await runCli(args, {
    environment: options.environment ?? {},
    folder: options.folder ?? process.cwd(),
    home: options.home,
    stdout: collect("stdout"),
    stderr: collect("stderr"),
    signal: options.signal ?? new AbortController().signal,
    self: "berth",
  });
  return { code, ...written };
}

export interface TestFolder extends AsyncDisposable {
  readonly path: string;
  /** Writes a file, with the folders it needs. */
  write(file: string, text: string): Promise<string>;
}

/** A folder of its own for one test, with these files. */
export async function testFolder(files: Readonly<Record<string, string>> = {}): Promise<TestFolder> {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-cli-"));
  const write = async (file: string, text: string): Promise<string> => {
    const target = path.join(folder, file);
    await mkdir(path.dirname(target), { recursive: true });
    await writeFile(target, text);
    return target;
  };
  for (const [file, text] of Object.entries(files)) await write(file, text);
  return { path: folder, write, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}
