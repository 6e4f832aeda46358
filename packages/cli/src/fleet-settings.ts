/** The fleet that this process runs: from a document `Fleet` or from flags, with its connection to the quota service. */
import type { Documents } from "@berth/host";
import { type FleetSettings, type FleetSpec, fleetKind, fleetOfFlags, type FleetFlags } from "@berth/fleet";
import { connect, loadKubeconfig } from "@berth/kube";
import type { CommandDeps } from "./command-deps.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { VERSION } from "./version.ts";

/** `undefined`: this process runs no fleet. @throws CommandError when document and flags disagree. */
export function fleetSpecOf(flags: FleetFlags, settings: Documents): FleetSpec | undefined {
  const document = settings.specOf(fleetKind);
  const read = fleetOfFlags(flags, document);
  if (read !== undefined && "problem" in read) throw new CommandError(read.problem, exitCodes.usage);
  return read?.spec;
}

/** Opens the connection of the quota service. The caller disposes of it. */
export async function openFleet(
  spec: FleetSpec,
  { environment }: Pick<CommandDeps, "environment">,
): Promise<FleetSettings & AsyncDisposable> {
  const { kubeconfig } = spec.quota ?? {};
  if (kubeconfig === undefined) return { spec, [Symbol.asyncDispose]: () => Promise.resolve() };
  const { connect: how } = await loadKubeconfig([kubeconfig], { environment });
  const quota = connect({ ...how, userAgent: `berth/${VERSION}` });
  return { spec, quota, [Symbol.asyncDispose]: () => quota.close() };
}
