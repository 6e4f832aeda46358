import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { KubeObject } from "@berth/kube";
import { runCli } from "../cli.ts";
import type { Environment } from "../command-deps.ts";
import type { ExitCode } from "../exit-codes.ts";

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
  /** Runs a command line there: words, or a text of words without spaces. */
  berth(line: string | readonly string[], options?: CliOptions): Promise<CliResult>;
}

/** A folder of its own for one test, with these files. */
export async function testFolder(files: Readonly<Record<string, string>> = {}): Promise<TestFolder> {
  const made = await mkdtempDisposable(path.join(tmpdir(), "berth-cli-"));
  const folder = made.path;
  const write = async (file: string, text: string): Promise<string> => {
    const target = path.join(folder, file);
    await mkdir(path.dirname(target), { recursive: true });
    await writeFile(target, text);
    return target;
  };
  for (const [file, text] of Object.entries(files)) await write(file, text);
  return {
    path: folder,
    write,
    berth: (line, options) => cli(typeof line === "string" ? line.split(" ") : line, { folder, ...options }),
    [Symbol.asyncDispose]: () => made.remove(),
  };
}

/** Runs one command line in a folder of its own with these files. */
export async function berthWith(
  files: Readonly<Record<string, string>>,
  line: string | readonly string[],
): Promise<CliResult> {
  await using folder = await testFolder(files);
  return await folder.berth(line);
}

/** The list that a command printed with `-o json`. */
export function itemsOf({ stdout }: CliResult): readonly PrintedItem[] {
  return (JSON.parse(stdout) as { readonly items: readonly PrintedItem[] }).items;
}

type PrintedItem = KubeObject & { readonly spec?: unknown };
