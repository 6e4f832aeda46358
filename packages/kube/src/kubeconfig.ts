/**
 * Kubeconfig files and the pod's own service account, as client-go reads them
 * (`tools/clientcmd`): several files are merged, the first to define an entry wins.
 */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { bearerToken, type Credential, staticCredential, tokenFile } from "./credential.ts";
import { type ExecPlugin, execCredential } from "./exec-credential.ts";
import type { ConnectOptions } from "./rest-client.ts";

/** A kubeconfig that cannot be used. The message names the file and what to change; it holds no secret. */
export class KubeconfigError extends Error {
  override readonly name = "KubeconfigError";
}

type Environment = Readonly<Record<string, string | undefined>>;

interface ClusterEntry {
  readonly server?: string;
  readonly "certificate-authority"?: string;
  readonly "certificate-authority-data"?: string;
  readonly "tls-server-name"?: string;
  readonly "insecure-skip-tls-verify"?: boolean;
  readonly "proxy-url"?: string;
}

interface UserEntry {
  readonly token?: string;
  readonly tokenFile?: string;
  readonly username?: string;
  readonly password?: string;
  readonly "client-certificate"?: string;
  readonly "client-certificate-data"?: string;
  readonly "client-key"?: string;
  readonly "client-key-data"?: string;
  readonly exec?: ExecPlugin;
  readonly "auth-provider"?: { readonly name?: string };
  readonly as?: string;
}

interface ContextEntry {
  readonly cluster?: string;
  readonly user?: string;
  readonly namespace?: string;
}

/** An entry together with the folder that its relative paths start from. */
interface Located<T> {
  readonly value: T;
  readonly folder: string;
}

interface Merged {
  readonly clusters: Map<string, Located<ClusterEntry>>;
  readonly users: Map<string, Located<UserEntry>>;
  readonly contexts: Map<string, Located<ContextEntry>>;
  currentContext: string;
}

/** Where to connect, with which credential, and the namespace of the context or pod. */
export interface ResolvedConfig {
  readonly connect: ConnectOptions;
  readonly namespace: string | undefined;
  /** For messages: `context "kind" of ~/.kube/config`, `the pod's service account`. */
  readonly origin: string;
}

export interface KubeconfigOptions {
  /** Passed to exec plugins. */
  readonly environment: Environment;
  /** Default: the file's `current-context`. */
  readonly context?: string;
  /** Replaces the server of the context (the old `-master` flag). */
  readonly server?: string;
}

/** @throws KubeconfigError when a file cannot be read or does not describe a usable cluster and user. */
export async function loadKubeconfig(
  paths: readonly string[],
  options: KubeconfigOptions,
): Promise<ResolvedConfig> {
  const merged: Merged = { clusters: new Map(), users: new Map(), contexts: new Map(), currentContext: "" };
  let read = 0;
  for (const path of paths) {
    const text = await readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
      // As in client-go, a missing file of a list is skipped; a single one must be there.
      if (cause.code === "ENOENT" && paths.length > 1) return undefined;
      throw new KubeconfigError(`the kubeconfig ${path} cannot be read: ${cause.code ?? cause.message}`);
    });
    if (text === undefined) continue;
    read++;
    mergeFile(merged, path, text);
  }
  const from = paths.join(", ");
  if (read === 0) throw new KubeconfigError(`none of the kubeconfig files exists: ${from}`);
  return resolveContext(merged, from, options);
}

function mergeFile(merged: Merged, path: string, text: string): void {
  let document: unknown;
  try {
    document = parse(text);
  } catch (cause) {
    const line = cause instanceof Error ? (cause.message.split("\n", 1)[0] ?? "") : "";
    throw new KubeconfigError(`the kubeconfig ${path} is not YAML: ${line}`);
  }
  if (typeof document !== "object" || document === null)
    throw new KubeconfigError(`the kubeconfig ${path} is empty`);
  const file = document as Readonly<Record<string, unknown>>;
  const folder = dirname(resolve(path));
  const take = <T>(into: Map<string, Located<T>>, list: unknown, field: string): void => {
    for (const entry of Array.isArray(list) ? (list as readonly Readonly<Record<string, unknown>>[]) : []) {
      const name = toText(entry["name"]);
      if (!into.has(name)) into.set(name, { value: (entry[field] ?? {}) as T, folder });
    }
  };
  take(merged.clusters, file["clusters"], "cluster");
  take(merged.users, file["users"], "user");
  take(merged.contexts, file["contexts"], "context");
  if (merged.currentContext === "") merged.currentContext = toText(file["current-context"]);
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}

async function resolveContext(
  merged: Merged,
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
  const server = options.server ?? cluster?.value.server;
  if (server === undefined || server === "") {
    throw new KubeconfigError(
      `context "${name}" of ${from} refers to cluster "${context.cluster ?? ""}", which has no server`,
    );
  }
  if (cluster?.value["proxy-url"]) {
    throw new KubeconfigError(
      `cluster "${context.cluster}" of ${from} wants proxy-url, which is not supported: connect directly`,
    );
  }
  const user = merged.users.get(context.user ?? "");
  const ca = cluster && (await material(cluster, "certificate-authority"));
  const serverName = cluster?.value["tls-server-name"];
  return {
    connect: {
      server: checkServer(server, from),
      ...(ca === undefined ? {} : { ca }),
      ...(serverName === undefined ? {} : { serverName }),
      ...(cluster?.value["insecure-skip-tls-verify"] ? { insecure: true } : {}),
      credential:
        user === undefined
          ? staticCredential()
          : await toCredential(user, context.user ?? "", from, options, { server, ca }),
    },
    namespace: context.namespace,
    origin: `context "${name}" of ${from}`,
  };
}

function checkServer(server: string, from: string): string {
  const text = server.includes("://") ? server : `https://${server}`;
  if (!URL.canParse(text)) throw new KubeconfigError(`the server ${server} of ${from} is no URL`);
  const url = new URL(text);
  const loopback = ["localhost", "[::1]"].includes(url.hostname) || url.hostname.startsWith("127.");
  if (url.protocol === "http:" && !loopback) {
    throw new KubeconfigError(
      `the server ${server} of ${from} is plain http: credentials would be readable; use https`,
    );
  }
  return text;
}

/** `<field>-data` (base64) wins over `<field>` (a path relative to its file), as in client-go. */
async function material<T>(entry: Located<T>, field: string): Promise<string | undefined> {
  const values = entry.value as Readonly<Record<string, unknown>>;
  const data = values[`${field}-data`];
  if (typeof data === "string" && data !== "") return Buffer.from(data, "base64").toString("utf8");
  const path = values[field];
  if (typeof path !== "string" || path === "") return undefined;
  return readFile(resolve(entry.folder, path), "utf8").catch((cause: NodeJS.ErrnoException) => {
    throw new KubeconfigError(`${field} ${path} cannot be read: ${cause.code ?? cause.message}`);
  });
}

async function toCredential(
  user: Located<UserEntry>,
  name: string,
  from: string,
  options: KubeconfigOptions,
  cluster: { readonly server: string; readonly ca: string | undefined },
): Promise<Credential> {
  const { value, folder } = user;
  if (value["auth-provider"] !== undefined) {
    throw new KubeconfigError(
      `user "${name}" of ${from} uses the removed auth-provider; use an exec plugin instead`,
    );
  }
  if (value.as !== undefined)
    throw new KubeconfigError(`user "${name}" of ${from} wants impersonation (as), which is not supported`);
  if (value.exec !== undefined) {
    const info = {
      server: cluster.server,
      ...(cluster.ca ? { "certificate-authority-data": Buffer.from(cluster.ca).toString("base64") } : {}),
    };
    return execCredential(value.exec, { folder, environment: options.environment, cluster: info });
  }
  const cert = await material(user, "client-certificate");
  const key = await material(user, "client-key");
  if (cert !== undefined && key !== undefined) return staticCredential({ certificate: { cert, key } });
  // client-go: a token file wins over a token.
  if (value.tokenFile) return tokenFile(resolve(folder, value.tokenFile));
  if (value.token) return bearerToken(value.token);
  if (value.username !== undefined) {
    const basic = Buffer.from(`${value.username}:${value.password ?? ""}`).toString("base64");
    return staticCredential({ authorization: `Basic ${basic}` });
  }
  return staticCredential();
}

/** Where kubelet puts a pod's credentials (serviceaccount admission, `DefaultAPITokenMountPath`). */
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
