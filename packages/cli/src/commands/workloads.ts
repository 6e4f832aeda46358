import { formatOverview, readOverview } from "@berth/fleet";
import type { CommandDeps } from "../command-deps.ts";
import type { ConnectionOptions } from "../connection.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { namespaceOf } from "../fleet-session.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { nothingToGoBy, openSession } from "../session.ts";

export interface WorkloadsOptions extends ConnectionOptions {
  readonly namespace?: string;
  readonly allNamespaces?: boolean;
  readonly output?: DataFormat;
}

/** Lists Workloads with what blocks each. */
export async function workloads(options: WorkloadsOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const { namespace: given, allNamespaces, output, ...connection } = options;
  await using session = await openSession(connection, deps);
  const namespace = allNamespaces ? undefined : namespaceOf(given, session);
  const lines = await readOverview(session, namespace);
  if (lines === undefined)
    throw nothingToGoBy(
      session,
      "Workloads cannot be read",
      "the API server serves no Workloads: install the CRDs (`berth manifests crds --fleet`)",
    );
  const names = lines.map(({ name }) => `workload/${name}`);
  if (output) printData(stdout, { workloads: lines }, output, names);
  else if (lines.length > 0) stdout.write(formatOverview(lines));
  else stdout.write(`There is no Workload${namespace === undefined ? "" : ` in namespace ${namespace}`}.\n`);
  return exitCodes.done;
}
