/** The fleet that this process runs, with its connection to the quota service. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import {
  type FleetFlags,
  type FleetSettings,
  type FleetSpec,
  fleetKind,
  fleetOfFlags,
  type HubConnections,
  type ListedProject,
  type OriginalFlags,
  type OriginalSettings,
  type ProjectPlace,
  readOperator,
} from "@berth/fleet";
import type { Documents } from "@berth/host";
import { type ConnectOptions, connect, followKubeconfig, type KubeClient } from "@berth/kube";
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
  const document = settings.specOf(fleetKind);
  const { serverConfig: shown } = options;
  const mode = options.mode ?? (isCell ? "cell" : isManagement ? "management" : undefined);
  const { federationKubeconfig: hub } = options;
  const federation = hub && hub !== "self" ? path.resolve(place ?? folder, hub) : hub;
  const flags = {
    ...options,
    ...(mode && { mode }),
    ...(federation && { federationKubeconfig: federation }),
  };
  if (!shown) {
    const given = (it: FleetSpec | undefined) => fleetOfFlags(flags, it);
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
  const read = readOperator({ file: shown, content: text }, flags, place ?? path.dirname(file));
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

/**
 * Opens the connections of the quota service and of Milo, and reads those of a hub and of projects. Their credentials follow
 * the files. The caller disposes of them.
 *
 * @throws KubeconfigError
 */
export async function openFleet(
  fleet: Pick<FleetSettings, "spec" | "contradicts">,
  { environment }: Pick<CommandDeps, "environment">,
): Promise<FleetSettings & AsyncDisposable> {
  const opened = new AsyncDisposableStack();
  const userAgent = `berth/${VERSION}`;
  const open = async (kubeconfig: string): Promise<KubeClient> => {
    const proxyFor = proxiesOf(environment);
    const { connect: how } = await followKubeconfig(kubeconfig, { environment, proxyFor });
    return opened.use(connect({ ...how, userAgent }));
  };
  const read = async (kubeconfig: string, context?: string): Promise<ConnectOptions> => {
    const { connect: how } = await followKubeconfig(kubeconfig, { environment, ...(context && { context }) });
    return { ...how, userAgent };
  };
  const readProjects = (listed: readonly ProjectPlace[]): Promise<readonly ListedProject[]> =>
    Promise.all(listed.map(async ({ path: of, kubeconfig }) => ({ path: of, to: await read(kubeconfig) })));
  const { quota: ofQuota, hub, projects } = fleet.spec;
  const quota = ofQuota?.kubeconfig === undefined ? undefined : await open(ofQuota.kubeconfig);
  const planes: { -readonly [K in keyof HubConnections]: HubConnections[K] } = { userAgent };
  if (hub !== undefined && hub !== "self") planes.hub = await read(hub.kubeconfig, hub.context);
  if (projects !== undefined && projects !== "self")
    planes.projects =
      "milo" in projects
        ? { milo: await open(projects.milo.kubeconfig) }
        : { listed: await readProjects(projects.kubeconfigs) };
  return {
    ...fleet,
    quota,
    hub: planes,
    connect: open,
    readProjects,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
