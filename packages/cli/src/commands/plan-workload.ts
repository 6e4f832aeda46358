import { readFile } from "node:fs/promises";
import path from "node:path";
import { formatForecast, isChanging, planWorkload, readWorkloads, type WorkloadForecast } from "@berth/fleet";
import { type Fault, formatFault, styleFor } from "@berth/host";
import type { CommandDeps } from "../command-deps.ts";
import { unreadable } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { namespaceOf, readGivenFleet } from "../fleet-session.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { openSession } from "../session.ts";

export interface PlanWorkloadOptions extends ConnectionOptions {
  readonly filename: string;
  readonly namespace?: string;
  readonly config?: readonly string[];
  readonly nodes: readonly string[];
  readonly try?: readonly string[];
  readonly labelDir?: string;
  readonly exitCode?: boolean;
  /** Codes of warnings that are not shown. */
  readonly silence?: readonly string[];
  readonly output?: DataFormat;
}

/** Shows the Instances that Workloads of a file would create, roll and delete. */
export async function planWorkloads(options: PlanWorkloadOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const { filename: file, nodes, output } = options;
  if (nodes.length > 0 || options.try || options.labelDir)
    throw new CommandError(
      "--filename is about Workloads: give no nodes, --try or --label-dir",
      exitCodes.usage,
    );
  const text = await readFile(path.resolve(deps.folder, file), "utf8").catch(
    (error: NodeJS.ErrnoException) => {
      throw new CommandError(formatFault(unreadable(file, error)), exitCodes.faults);
    },
  );
  const { given, faults } = readWorkloads(file, text);
  if (given.length === 0 && faults.length === 0)
    throw new CommandError(`${file} has no Workload`, exitCodes.faults);
  if (faults.length > 0) return refused(faults, options, deps);
  await using owned = new AsyncDisposableStack();
  const fleet = await readGivenFleet(options, deps, owned);
  await using session = await openSession(options, deps);
  const forecasts: WorkloadForecast[] = [];
  const found: Fault[] = [];
  for (const one of given) {
    const namespace = one.workload.metadata?.namespace ?? namespaceOf(options.namespace, session);
    const planned = await planWorkload(one, { ...fleet, run: session, namespace });
    if ("faults" in planned) found.push(...planned.faults);
    else forecasts.push(planned.forecast);
  }
  if (found.length > 0) return refused(found, options, deps);
  const shown = forecasts.map((it) => {
    return { ...it, warnings: it.warnings.filter(({ code }) => !options.silence?.includes(code)) };
  });
  if (output) printData(stdout, { workloads: shown, faults: [] }, output);
  else stdout.write(shown.map((it) => formatForecast(it, styleFor(stdout))).join("\n"));
  if (!options.exitCode) return exitCodes.done;
  if (forecasts.some(isChanging)) return exitCodes.changes;
  // "No changes" would be a guess.
  return forecasts.some(({ unread }) => unread.length > 0) ? exitCodes.cluster : exitCodes.done;
}

function refused(
  faults: readonly Fault[],
  { output }: PlanWorkloadOptions,
  { stdout, stderr }: CommandDeps,
): ExitCode {
  if (output) printData(stdout, { workloads: [], faults }, output);
  else for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
  return exitCodes.faults;
}
