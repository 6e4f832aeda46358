/** The fleet that this process runs, with its connection to the quota service. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import {
  type FleetFlags,
  type FleetSettings,
  fleetKind,
  fleetOfFlags,
  type OriginalFlags,
  type OriginalSettings,
  readOperator,
} from "@berth/fleet";
import type { Documents } from "@berth/host";
import { connect, loadKubeconfig } from "@berth/kube";
import type { CommandDeps } from "./command-deps.ts";
import { refuseFaults, unreadable } from "./config/settings.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { VERSION } from "./version.ts";

/** Flags that say what this process does about Workloads, those of the original included. */
export interface FleetOptions extends FleetFlags, OriginalFlags {
  readonly leaderElectNamespace?: string;
  readonly enableManagementControllers?: boolean;
  readonly federationKubeconfig?: string;
}

type Read = Partial<Omit<OriginalSettings, "fleet">> &
  Pick<FleetSettings, "spec"> & {
    /** The file of the original. */
    readonly file?: { readonly name: string; readonly text: string };
  };

/**
 * Reads the document `Fleet`, the flags, or the configuration of the original. `undefined`: there is no fleet.
 * @param place where relative paths in that configuration start. Default: its own folder.
 * @throws CommandError when they disagree, or with all faults of the file.
 */
export async function readFleet(
  options: FleetOptions,
  settings: Documents,
  { folder, place }: { readonly folder: string; readonly place?: string },
): Promise<Read | undefined> {
  const refuse = (message: string): never => {
    throw new CommandError(message, exitCodes.usage);
  };
  if (options.enableManagementControllers || options.federationKubeconfig)
    refuse("this release has the modes single and cell; it carries no Workloads to other clusters");
  const document = settings.specOf(fleetKind);
  const { serverConfig: shown } = options;
  if (!shown) {
    const mode = options.mode ?? (options.enableCellControllers ? "cell" : undefined);
    const read = fleetOfFlags({ ...options, ...(mode && { mode }) }, document);
    return read !== undefined && "problem" in read ? refuse(read.problem) : read;
  }
  if (document !== undefined) refuse(`--server-config ${shown}: there is a document Fleet already`);
  const file = path.resolve(folder, shown);
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    refuseFaults([unreadable(shown, error)]);
    throw error;
  });
  const read = readOperator({ file: shown, content: text }, options, place ?? path.dirname(file));
  if ("settings" in read)
    return { spec: read.settings.fleet, ...read.settings, file: { name: path.basename(file), text } };
  refuseFaults(read.faults);
  return undefined;
}

/** Opens the connection of the quota service. The caller disposes of it. @throws KubeconfigError */
export async function openFleet(
  { spec }: Pick<FleetSettings, "spec">,
  { environment }: Pick<CommandDeps, "environment">,
): Promise<FleetSettings & AsyncDisposable> {
  const { kubeconfig } = spec.quota ?? {};
  if (kubeconfig === undefined) return { spec, [Symbol.asyncDispose]: () => Promise.resolve() };
  const { connect: how } = await loadKubeconfig([kubeconfig], { environment });
  const quota = connect({ ...how, userAgent: `berth/${VERSION}` });
  return { spec, quota, [Symbol.asyncDispose]: () => quota.close() };
}
