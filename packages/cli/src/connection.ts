import { access } from "node:fs/promises";
import path from "node:path";
import { duration, durationMs } from "@berth/host";
import { loadInCluster, loadKubeconfig, type ResolvedConfig, staticCredential } from "@berth/kube";
import type { CommandDeps } from "./command-deps.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { proxiesOf } from "./proxies.ts";

/** The options with which a command chooses its cluster. */
export interface ConnectionOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly master?: string;
  /** The user that the requests are for, and its groups. */
  readonly as?: string;
  readonly asGroup?: readonly string[];
  /** Of each request, such as `5s`; `0` is the default of the client. */
  readonly requestTimeout?: string;
}

export interface ClusterChoice extends ResolvedConfig {
  /** True when read from the pod of this process. */
  readonly inCluster: boolean;
}

/**
 * Chooses the cluster in this order: `--kubeconfig`, `KUBECONFIG` (a list is merged, as in kubectl), the pod's service
 * account, `~/.kube/config`. An empty value counts as absent. `--context` needs a kubeconfig, so it skips the service
 * account. Proxies of the environment count for kubeconfigs, as in kubectl, and not for the service account: its API
 * server is inside the cluster. `--as` replaces the impersonation of a kubeconfig.
 *
 * @throws CommandError, KubeconfigError
 */
export async function chooseCluster(
  options: ConnectionOptions,
  deps: Pick<CommandDeps, "environment" | "folder" | "home">,
  serviceAccountFolder?: string,
): Promise<ClusterChoice> {
  const { as: user, asGroup: groups = [], requestTimeout = "0" } = options;
  if (user === undefined && groups.length > 0)
    throw new CommandError("--as-group needs --as: groups belong to a user", exitCodes.usage);
  const choice = await chooseOwn(options, deps, serviceAccountFolder);
  const connect = {
    ...choice.connect,
    ...(user !== undefined && { impersonate: { user, groups } }),
    ...(requestTimeout !== "0" && { timeoutMs: timeoutOf(requestTimeout) }),
  };
  return { ...choice, connect };
}

/** As kubectl reads it. */
function timeoutOf(given: string): number {
  if (duration.safeParse(given).success && durationMs(given) > 0) return durationMs(given);
  throw new CommandError(
    `--request-timeout ${given}: expected a duration such as 5s, 2m or 1m30s`,
    exitCodes.usage,
  );
}

async function chooseOwn(
  options: ConnectionOptions,
  deps: Pick<CommandDeps, "environment" | "folder" | "home">,
  serviceAccountFolder?: string,
): Promise<ClusterChoice> {
  const { environment, folder, home } = deps;
  const load = async (files: readonly string[]): Promise<ClusterChoice> => {
    const choice = {
      environment,
      proxyFor: proxiesOf(environment),
      ...(options.context ? { context: options.context } : {}),
      ...(options.master ? { server: options.master } : {}),
    };
    return { ...(await loadKubeconfig(files, choice)), inCluster: false };
  };
  if (options.kubeconfig) return load([path.resolve(folder, options.kubeconfig)]);
  const listed = (environment["KUBECONFIG"] ?? "").split(path.delimiter).filter((file) => file !== "");
  if (listed.length > 0) return load(listed.map((file) => path.resolve(folder, file)));
  const pod = options.context ? undefined : await loadInCluster(environment, serviceAccountFolder);
  if (pod !== undefined) return { ...withServer(pod, options.master), inCluster: true };
  const own = home === undefined ? undefined : path.join(home, ".kube", "config");
  if (own !== undefined && (await exists(own))) return load([own]);
  if (options.master && !options.context) {
    const connect = { server: options.master, credential: staticCredential() };
    return { connect, namespace: undefined, origin: `--master ${options.master}`, inCluster: false };
  }
  throw new CommandError(
    "no cluster to talk to: give --kubeconfig FILE, set KUBECONFIG, or put a kubeconfig at ~/.kube/config",
    exitCodes.cluster,
  );
}

function withServer(config: ResolvedConfig, server: string | undefined): ResolvedConfig {
  return server ? { ...config, connect: { ...config.connect, server } } : config;
}

export function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
