/**
 * Kubeconfig files and the pod's own service account, as client-go reads them
 * (`tools/clientcmd`): several files are merged, the first to define an entry wins.
 */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { staticCredential, tokenFile } from "./credential.ts";
import { KubeconfigError, type KubeconfigFile, readKubeconfigFile, readPem } from "./kubeconfig-file.ts";
import { clusterForPlugins, impersonationOf, toCredential } from "./kubeconfig-user.ts";
import type { ConnectOptions } from "./rest-client.ts";
import { isConfidential } from "./transport.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The server, the credential, and the namespace of the context or pod. */
export interface ResolvedConfig {
  readonly connect: ConnectOptions;
  readonly namespace: string | undefined;
  /** For messages: `context "kind" of ~/.kube/config`, `the pod's service account`. */
  readonly origin: string;
}

/** The context to use, and its replacements. */
export interface KubeconfigOptions {
  /** Passed to exec plugins. */
  readonly environment: Environment;
  /** Default: the file's `current-context`. */
  readonly context?: string;
  /** Replaces the server of the context (the old `-master` flag). */
  readonly server?: string;
  /** The URL of the proxy for a server where the file names none (`proxy-url`). Default: none. */
  readonly proxyFor?: ((server: URL) => string | undefined) | undefined;
}

/** @throws KubeconfigError when a file cannot be read or does not describe a usable cluster and user. */
export async function loadKubeconfig(
  paths: readonly string[],
  options: KubeconfigOptions,
): Promise<ResolvedConfig> {
  const from = paths.join(", ");
  const read = await Promise.all(paths.map(readKubeconfigFile));
  // As in client-go, a missing file of a list is skipped, but one must exist.
  const files = read.filter((file) => file !== undefined);
  if (files.length === 0) {
    throw new KubeconfigError(
      paths.length === 1 ? `there is no kubeconfig ${from}` : `none of the kubeconfig files exists: ${from}`,
    );
  }
  return resolveContext(merge(files), from, options);
}

/**
 * The cluster that a program is meant for: that of the files in `KUBECONFIG`, else the pod's own, else that of
 * `~/.kube/config`. An empty variable counts as absent.
 *
 * @param environment the variables of the process. Without `HOME`, the home folder is that of the user.
 * @throws KubeconfigError
 */
export async function loadConfig(environment: Environment): Promise<ResolvedConfig> {
  const listed = (environment["KUBECONFIG"] ?? "").split(delimiter).filter((file) => file !== "");
  const inCluster = listed.length > 0 ? undefined : await loadInCluster(environment);
  const files = listed.length > 0 ? listed : [join(environment["HOME"] || homedir(), ".kube/config")];
  return inCluster ?? (await loadKubeconfig(files, { environment }));
}

/** The first file that names an entry or a current-context wins. */
function merge(files: readonly KubeconfigFile[]): KubeconfigFile {
  return {
    clusters: firstOfEach(files.map(({ clusters }) => clusters)),
    users: firstOfEach(files.map(({ users }) => users)),
    contexts: firstOfEach(files.map(({ contexts }) => contexts)),
    currentContext: files.find(({ currentContext }) => currentContext !== "")?.currentContext ?? "",
  };
}

function firstOfEach<T>(maps: readonly ReadonlyMap<string, T>[]): ReadonlyMap<string, T> {
  const merged = new Map<string, T>();
  for (const [name, entry] of maps.flatMap((map) => [...map])) {
    if (!merged.has(name)) merged.set(name, entry);
  }
  return merged;
}

export async function resolveContext(
  merged: KubeconfigFile,
  from: string,
  options: KubeconfigOptions,
): Promise<ResolvedConfig> {
  const name = options.context ?? merged.currentContext;
  if (name === "") throw new KubeconfigError(`${from} names no current-context: choose one with --context`);
  const context = merged.contexts.get(name)?.value;
  if (context === undefined) {
    throw new KubeconfigError(
      `${from} has no context "${name}"; it has: ${[...merged.contexts.keys()].join(", ") || "none"}`,
    );
  }
  const cluster = merged.clusters.get(context.cluster ?? "");
  const entry = cluster?.value ?? {};
  const server = options.server ?? entry.server;
  if (!server) {
    throw new KubeconfigError(
      `context "${name}" of ${from} refers to cluster "${context.cluster ?? ""}", which has no server`,
    );
  }
  const user = merged.users.get(context.user ?? "");
  if (user === undefined && context.user) {
    throw new KubeconfigError(
      `context "${name}" of ${from} refers to user "${context.user}", which does not exist`,
    );
  }
  const url = checkServer(server, from);
  const proxyUrl = entry["proxy-url"];
  if (proxyUrl) checkProxy(proxyUrl, `cluster "${context.cluster ?? ""}" of ${from}`);
  const proxy = proxyUrl || options.proxyFor?.(new URL(url));
  const ca = cluster && (await readPem(cluster, "certificate-authority"));
  const who = `user "${context.user ?? ""}" of ${from}`;
  const forPlugins = clusterForPlugins(entry, server, ca);
  const impersonate = user && impersonationOf(user, who);
  return {
    connect: {
      server: url,
      ...(ca === undefined ? {} : { ca }),
      ...(entry["tls-server-name"] ? { serverName: entry["tls-server-name"] } : {}),
      ...(entry["insecure-skip-tls-verify"] === true ? { insecure: true } : {}),
      ...(proxy ? { proxy } : {}),
      ...(impersonate ? { impersonate } : {}),
      credential:
        user === undefined
          ? staticCredential()
          : await toCredential(user, { who, environment: options.environment, cluster: forPlugins }),
    },
    namespace: context.namespace,
    origin: `context "${name}" of ${from}`,
  };
}

/** The message does not repeat the URL, because it may hold a password. */
function checkProxy(proxy: string, of: string): void {
  const { protocol } = URL.parse(proxy) ?? {};
  if (protocol !== "http:" && protocol !== "https:")
    throw new KubeconfigError(`${of} has a proxy-url that is no http:// or https:// URL`);
}

function checkServer(server: string, from: string): string {
  const text = server.includes("://") ? server : `https://${server}`;
  if (!URL.canParse(text)) throw new KubeconfigError(`the server ${server} of ${from} is no URL`);
  if (!isConfidential(new URL(text))) {
    throw new KubeconfigError(`the server ${server} of ${from} is not https: credentials would be readable`);
  }
  return text;
}

/** Where the kubelet puts a pod's credentials (serviceaccount admission, `DefaultAPITokenMountPath`). */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The pod's own cluster; `undefined` when this process does not run in a pod. The token is re-read as it rotates. */
export async function loadInCluster(
  environment: Environment,
  folder: string = SERVICE_ACCOUNT,
): Promise<ResolvedConfig | undefined> {
  const host = environment["KUBERNETES_SERVICE_HOST"];
  const port = environment["KUBERNETES_SERVICE_PORT"];
  if (!host || !port) return undefined;
  const ca = await readFile(`${folder}/ca.crt`, "utf8").catch(() => undefined);
  if (ca === undefined) return undefined;
  const namespace = await readFile(`${folder}/namespace`, "utf8").catch(() => undefined);
  return {
    connect: {
      server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      ca,
      credential: tokenFile(`${folder}/token`),
    },
    namespace: namespace?.trim(),
    origin: "the pod's service account",
  };
}
