import { restartOf } from "@berth/fleet";
import { toTime } from "@berth/runtime";
import type { CommandDeps } from "../command-deps.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { changeWorkload, type FleetObjectOptions } from "../fleet-session.ts";

/** Rolls all Instances of a Workload. */
export async function restart(options: FleetObjectOptions, deps: CommandDeps): Promise<ExitCode> {
  await changeWorkload(options, deps, (workload) => restartOf(workload, toTime(deps.clock.now())));
  return exitCodes.done;
}
