import type { Command } from "commander";
import { completionsFor, FILES, NO_FILES } from "../completion.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import type { Outside } from "../surroundings.ts";

export interface CompleteOptions {
  readonly words: readonly string[];
  readonly root: Command;
}

/** Answers a shell: a line about files, then one line for each candidate, a tab before its description. */
export function complete({ words, root }: CompleteOptions, { stdout }: Outside): Promise<ExitCode> {
  const { candidates, files } = completionsFor(root, words.length === 0 ? [""] : words);
  const lines = candidates.map(({ value, description }) => `${value}\t${description}`);
  stdout.write([files ? FILES : NO_FILES, ...lines, ""].join("\n"));
  return Promise.resolve(exitCodes.done);
}
