/** Commands of Berth as users run them, in this process. */
import { runCli } from "@berth/cli";

/** @returns what it prints, once it has ended by itself. @throws Error unless it ends well. */
export async function runCommand(...args: readonly string[]): Promise<string> {
  let output = "";
  const printer = { isTerminal: false, columns: undefined, write: (text: string) => void (output += text) };
  const code = await runCli(args, {
    environment: {},
    folder: import.meta.dirname,
    home: undefined,
    stdout: printer,
    stderr: printer,
    signal: new AbortController().signal,
    self: "berth",
  });
  if (code !== 0) throw new Error(`berth ${args.join(" ")} ends with ${code}:\n${output}`);
  return output;
}
