import { formatFleet, readFleetLines } from "@berth/fleet";
import type { CommandDeps } from "../command-deps.ts";
import type { ConnectionOptions } from "../connection.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { nothingToGoBy, openSession } from "../session.ts";

export interface FleetShowOptions extends ConnectionOptions {
  readonly output?: DataFormat;
}

/** Shows cities × Workloads, as the project and the hub know them. */
export async function fleet(options: FleetShowOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, clock } = deps;
  await using session = await openSession(options, deps);
  const lines = await readFleetLines(session);
  if (lines === undefined)
    throw nothingToGoBy(
      session,
      "WorkloadDeployments cannot be read",
      "the API server serves no Workloads: install the CRDs (`berth manifests crds --fleet`)",
    );
  const names = lines.map(({ workload }) => `workload/${workload}`);
  if (options.output) printData(stdout, { fleet: lines }, options.output, names);
  else stdout.write(lines.length === 0 ? "There is no Workload.\n" : formatFleet(lines, clock.now()));
  return exitCodes.done;
}
