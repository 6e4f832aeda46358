import { scaleOf } from "@berth/fleet";
import type { CommandDeps } from "../command-deps.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { changeWorkload, type FleetObjectOptions } from "../fleet-session.ts";

export interface ScaleOptions extends FleetObjectOptions {
  readonly replicas: string;
  readonly placement?: string;
}

/** As the CRD and admission allow. */
const MAX_REPLICAS = 1000;

/** Changes how many Instances a placement runs in each of its cities. */
export async function scale(options: ScaleOptions, deps: CommandDeps): Promise<ExitCode> {
  const replicas = Number(options.replicas);
  if (!/^\d{1,4}$/.test(options.replicas) || replicas < 1 || replicas > MAX_REPLICAS)
    throw new CommandError(
      `--replicas ${options.replicas}: expected a whole number from 1 to ${MAX_REPLICAS}`,
      exitCodes.usage,
    );
  await changeWorkload(options, deps, (workload) => scaleOf(workload, replicas, options.placement));
  return exitCodes.done;
}
