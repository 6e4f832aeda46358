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
import { type ConnectOptions, connect, type KubeClient, loadKubeconfig } from "@berth/kube";
import type { CommandDeps } from "./command-deps.ts";
import { refuseFaults, unreadable } from "./config/settings.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { proxiesOf } from "./proxies.ts";
import { VERSION } from "./version.ts";

/** Flags that say what this process does about Workloads, those of the original included. */
export interface FleetOptions extends FleetFlags, OriginalFlags {
  readonly leaderElectNamespace?: string;
  readonly enableManagementControllers?: boolean;
}

type Read = Partial<Omit<OriginalSettings, "fleet">> &
  Pick<FleetSettings, "spec" | "contradicts"> & {
    /** The file of the original. */
    readonly file?: { readonly name: string; readonly text: string };
  };

/**
 * Reads the document `Fleet`, the flags, or the configuration of the original. `undefined`: there is no fleet.
 * @param place where relative paths in that configuration and in flags start. Default: its own folder, and `folder`.
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
  const { enableCellControllers: isCell, enableManagementControllers: isManagement } = options;
  if (isCell && isManagement)
    refuse("--enable-cell-controllers and --enable-management-controllers: a process has one mode");
  if (isManagement && options.serverConfig)
    refuse("--enable-management-controllers: write a document Fleet, and give it with --config");
  const document = settings.specOf(fleetKind);
  const { serverConfig: shown } = options;
  if (!shown) {
    const mode = options.mode ?? (isCell ? "cell" : isManagement ? "management" : undefined);
    const { federationKubeconfig: given } = options;
    const federation = given && given !== "self" ? path.resolve(place ?? folder, given) : given;
    const flags = {
      ...options,
      ...(mode && { mode }),
      ...(federation && { federationKubeconfig: federation }),
    };
    const fleetWith = (it: FleetSpec | undefined) => fleetOfFlags(flags, it);
    const read = fleetWith(document);
    if (read === undefined) return undefined;
    if ("problem" in read) return refuse(read.problem);
    const contradicts = (it: FleetSpec): string | undefined => {
      const after = fleetWith(it);
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

/** Opens the connections of the quota service, and reads those of a hub and of projects. The caller disposes of them. @throws KubeconfigError */
export async function openFleet(
  fleet: Pick<FleetSettings, "spec" | "contradicts">,
  { environment }: Pick<CommandDeps, "environment">,
): Promise<FleetSettings & AsyncDisposable> {
  const opened = new AsyncDisposableStack();
  const open = async (kubeconfig: string): Promise<KubeClient> => {
    const proxyFor = proxiesOf(environment);
    const { connect: how } = await loadKubeconfig([kubeconfig], { environment, proxyFor });
    return opened.use(connect({ ...how, userAgent: `berth/${VERSION}` }));
  };
  const { quota: ofQuota, hub, projects } = fleet.spec;
  const quota = ofQuota?.kubeconfig === undefined ? undefined : await open(ofQuota.kubeconfig);
  const read = async (kubeconfig: string): Promise<ConnectOptions> => {
    const { connect: how } = await loadKubeconfig([kubeconfig], { environment });
    return { ...how, userAgent: `berth/${VERSION}` };
  };
  const planes: { hub?: ConnectOptions; projects?: { path: string; to: ConnectOptions }[] } = {};
  if (hub !== undefined && hub !== "self") planes.hub = await read(hub.kubeconfig);
  if (projects !== undefined && projects !== "self") {
    planes.projects = [];
    for (const { path: of, kubeconfig } of projects.kubeconfigs)
      planes.projects.push({ path: of, to: await read(kubeconfig) });
  }
  return { ...fleet, quota, hub: planes, connect: open, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
