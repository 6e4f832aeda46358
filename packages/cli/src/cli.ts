import { CommanderError } from "commander";
import { normalizeArguments } from "./arguments.ts";
import type { Outside } from "./command-deps.ts";
import { type ExitCode, exitCodes } from "./exit-codes.ts";
import { guardOutput } from "./output/guard.ts";
import { asksForCapabilities, commandLineOf, createProgram } from "./program.ts";

/**
 * Runs one command line (without the program's name) and resolves with its exit code. Never rejects: prints a failure
 * as one line on standard error.
 */
export async function runCli(given: readonly string[], process: Outside): Promise<ExitCode> {
  const { stdout, stderr } = process;
  const outside: Outside = { ...process, stdout: guardOutput(stdout), stderr: guardOutput(stderr) };
  let code: ExitCode = exitCodes.done;
  const onEnd = (ended: ExitCode): void => {
    code = ended;
  };
  const names = asksForCapabilities(given)
    ? (await import("./capability-names.ts")).capabilityNames
    : { all: [], optional: [] };
  const { arguments: normal, form } = normalizeArguments(
    given,
    commandLineOf(createProgram({ outside, originalForm: false, onEnd, names })),
  );
  const program = createProgram({ outside, originalForm: form === "original", onEnd, names });
  // The arguments are an unfinished command line, so this process must not read options from it.
  const isCompletion = given[0] === "__complete";
  try {
    await program.parseAsync([...(isCompletion ? ["__complete", "--", ...given.slice(1)] : normal)], {
      from: "user",
    });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
    const { describeFailure } = await import("./failure-text.ts");
    const { message, exitCode } = describeFailure(error);
    if (outside.signal.aborted) return exitCodes.interrupted;
    outside.stderr.write(`berth: ${message}\n`);
    return exitCode;
  }
}
