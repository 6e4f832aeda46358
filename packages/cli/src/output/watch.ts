/** `--watch`: a command that shows again what changed. */
import type { CommandDeps, Output } from "../command-deps.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";

const EVERY_MS = 2000;

/** Runs a command until the user ends it, and prints what it shows whenever that is not what it showed before. */
export async function watching(
  act: (deps: CommandDeps) => Promise<ExitCode>,
  deps: CommandDeps,
): Promise<ExitCode> {
  const { sleep } = await import("@berth/runtime");
  const { stdout, clock, signal } = deps;
  let shown: string | undefined;
  let code: ExitCode = exitCodes.done;
  do {
    let text = "";
    const write = (more: string): void => void (text += more);
    try {
      code = await act({ ...deps, stdout: Object.assign(Object.create(stdout) as Output, { write }) });
    } catch (error) {
      // A request that Ctrl-C ended is no failure.
      if (signal.aborted) break;
      throw error;
    }
    if (text !== shown) stdout.write(shown === undefined ? text : `\n${text}`);
    shown = text;
  } while (await sleep(clock, EVERY_MS, signal));
  return code;
}
