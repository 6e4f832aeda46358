import type { Outside } from "../command-deps.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { REVISION, TESTED_KUBERNETES, VERSION } from "../version.ts";

export interface VersionOptions {
  readonly output?: DataFormat;
}

export async function version(options: VersionOptions, { stdout }: Outside): Promise<ExitCode> {
  const { version: node } = await import("node:process");
  const data = { version: VERSION, revision: REVISION, node, testedKubernetes: TESTED_KUBERNETES };
  if (options.output) printData(stdout, data, options.output);
  else {
    stdout.write(`berth ${VERSION} (revision ${REVISION}, Node.js ${node.slice(1)})\n`);
    stdout.write(`tested with Kubernetes ${TESTED_KUBERNETES.join(", ")}\n`);
  }
  return exitCodes.done;
}
