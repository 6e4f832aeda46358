import { completionScript, type Shell } from "../completion.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import type { Outside } from "../surroundings.ts";

export interface CompletionOptions {
  readonly shell: Shell;
}

export function completion({ shell }: CompletionOptions, { stdout }: Outside): Promise<ExitCode> {
  stdout.write(completionScript(shell));
  return Promise.resolve(exitCodes.done);
}
