/** The fleet that this process runs, with its connection to the quota service. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import {
  type FleetFlags,
  type FleetSettings,
  type FleetSpec,
  fleetKind,
  fleetOfFlags,
  type OriginalFlags,
  type OriginalSettings,
  readOperator,
} from "@berth/fleet";
import type { Documents } from "@berth/host";
import { connect, type KubeClient, loadKubeconfig } from "@berth/kube";
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
  Pick<FleetSettings, "spec" | "contradicts"> & {
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
    const given = (it: FleetSpec | undefined) => fleetOfFlags({ ...options, ...(mode && { mode }) }, it);
    const read = given(document);
    if (read === undefined) return undefined;
    if ("problem" in read) return refuse(read.problem);
    const contradicts = (it: FleetSpec): string | undefined => {
      const after = given(it);
      return after && "problem" in after ? after.problem : undefined;
    };
    return { ...read, contradicts };
  }
  const twice = `--server-config ${shown}: there is a document Fleet already`;
  if (document !== undefined) refuse(twice);
  const file = path.resolve(folder, shown);
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    refuseFaults([unreadable(shown, error)]);
    throw error;
  });
  const read = readOperator({ file: shown, content: text }, options, place ?? path.dirname(file));
  if ("settings" in read)
    return {
      spec: read.settings.fleet,
      contradicts: () => twice,
      ...read.settings,
      file: { name: path.basename(file), text },
    };
  refuseFaults(read.faults);
  return undefined;
}

/** Opens the connections of the quota service. The caller disposes of them. @throws KubeconfigError */
export async function openFleet(
  fleet: Pick<FleetSettings, "spec" | "contradicts">,
  { environment }: Pick<CommandDeps, "environment">,
): Promise<FleetSettings & AsyncDisposable> {
  const opened = new AsyncDisposableStack();
  const open = async (kubeconfig: string): Promise<KubeClient> => {
    const { connect: how } = await loadKubeconfig([kubeconfig], { environment });
    return opened.use(connect({ ...how, userAgent: `berth/${VERSION}` }));
  };
  const { kubeconfig } = fleet.spec.quota ?? {};
  const quota = kubeconfig === undefined ? undefined : await open(kubeconfig);
  return { ...fleet, quota, connect: open, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
