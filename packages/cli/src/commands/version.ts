import type { Outside } from "../command-deps.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { VERSION } from "../version.ts";

export interface VersionOptions {
  readonly output?: DataFormat;
}

export async function version(options: VersionOptions, { stdout }: Outside): Promise<ExitCode> {
  const { version: node } = await import("node:process");
  const data = { version: VERSION, node };
  if (options.output) printData(stdout, data, options.output);
  else stdout.write(`berth ${VERSION} (Node.js ${node.slice(1)})\n`);
  return exitCodes.done;
}
