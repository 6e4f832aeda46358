import { resolve } from "node:path";
import {
  type Credential,
  type CredentialMaterial,
  fileCredential,
  readTokenFile,
  staticCredential,
} from "./credential.ts";
import { type ExecPlugin, execCredential } from "./exec-credential.ts";
import {
  type ClusterEntry,
  KubeconfigError,
  type Located,
  readPem,
  type UserEntry,
} from "./kubeconfig-file.ts";
import type { Impersonation } from "./transport.ts";

export interface UserContext {
  /** For messages: `user "me" of ~/.kube/config`. */
  readonly who: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The cluster description for an exec plugin that requests it (`provideClusterInfo`). */
  readonly cluster: Readonly<Record<string, unknown>>;
}

/** @throws KubeconfigError when the user entry has no credential that works here. */
export async function toCredential(user: Located<UserEntry>, context: UserContext): Promise<Credential> {
  const { value, folder } = user;
  const { who, environment, cluster } = context;
  if (value["auth-provider"] !== undefined)
    throw new KubeconfigError(`${who} uses the removed auth-provider; use an exec plugin instead`);
  if (value.exec !== undefined)
    return execCredential(checkPlugin(value.exec, who), { folder, environment, cluster });
  const read = (): Promise<CredentialMaterial> => readMaterial(user, who);
  const rotates = [value.tokenFile, value["client-certificate"], value["client-key"]].some(Boolean);
  if (!rotates) return staticCredential(await read());
  const credential = fileCredential(read);
  await credential.material(); // a missing file is told now and not at the first request
  return credential;
}

/**
 * The user that the entry wants requests to be for; `undefined` for the one of its credential.
 * @throws KubeconfigError when it has no name, or what no header can hold.
 */
export function impersonationOf({ value }: Located<UserEntry>, who: string): Impersonation | undefined {
  const { as: user, "as-uid": uid, "as-groups": groups = [], "as-user-extra": extra = {} } = value;
  if (!Array.isArray(groups) || !Object.values(extra).every(Array.isArray))
    throw new KubeconfigError(`${who} has an as-groups or as-user-extra that holds no lists`);
  const texts: readonly unknown[] = [user ?? "", uid ?? "", ...groups, ...Object.values(extra).flat()];
  if (!texts.every((text) => typeof text === "string" && /^[\x20-\x7e]*$/.test(text)))
    throw new KubeconfigError(`${who} wants impersonation (as…) with what no HTTP header can hold`);
  if (user) return { user, ...(uid && { uid }), groups, extra };
  if (texts.length === 2 && !uid) return undefined;
  throw new KubeconfigError(`${who} wants impersonation of groups, uid or extra without a user (as)`);
}

/** As in client-go, a token file wins over a token. Either is sent together with a client certificate. */
async function readMaterial(user: Located<UserEntry>, who: string): Promise<CredentialMaterial> {
  const { value, folder } = user;
  const [cert, key] = await Promise.all([readPem(user, "client-certificate"), readPem(user, "client-key")]);
  if ((cert === undefined) !== (key === undefined))
    throw new KubeconfigError(
      `${who} has a client certificate without its key, or a key without certificate`,
    );
  const authorization = value.tokenFile
    ? await readTokenFile(resolve(folder, value.tokenFile)).catch((cause: Error) => {
        throw new KubeconfigError(`${who}: ${cause.message}`);
      })
    : authorizationOf(value);
  return {
    ...(authorization === undefined ? {} : { authorization }),
    ...(cert !== undefined && key !== undefined ? { certificate: { cert, key } } : {}),
  };
}

function authorizationOf({ token, username, password }: UserEntry): string | undefined {
  if (token) return `Bearer ${token}`;
  if (username === undefined) return undefined;
  return `Basic ${Buffer.from(`${username}:${password ?? ""}`).toString("base64")}`;
}

const EXEC_VERSIONS: readonly string[] = ["v1", "v1beta1"].map(
  (version) => `client.authentication.k8s.io/${version}`,
);

function checkPlugin({ apiVersion, command, ...rest }: Partial<ExecPlugin>, who: string): ExecPlugin {
  if (!command) throw new KubeconfigError(`${who} has an exec without a command`);
  if (apiVersion === undefined || !EXEC_VERSIONS.includes(apiVersion)) {
    const said = apiVersion === undefined ? "no apiVersion" : `the apiVersion ${apiVersion}`;
    throw new KubeconfigError(`${who} has an exec with ${said}; use ${EXEC_VERSIONS.join(" or ")}`);
  }
  return { apiVersion, command, ...rest };
}

/** Name of the cluster extension that is handed to plugins as `config` (`clientcmd/client_config.go`). */
const PLUGIN_EXTENSION = "client.authentication.k8s.io/exec";

/** `spec.cluster` of an ExecCredential, from the entry of the kubeconfig. */
export function clusterForPlugins(
  entry: ClusterEntry,
  server: string,
  ca: string | undefined,
): Readonly<Record<string, unknown>> {
  const serverName = entry["tls-server-name"];
  const config = (entry.extensions ?? []).find(({ name }) => name === PLUGIN_EXTENSION)?.extension;
  return {
    server,
    ...(serverName ? { "tls-server-name": serverName } : {}),
    ...(entry["insecure-skip-tls-verify"] ? { "insecure-skip-tls-verify": true } : {}),
    ...(ca ? { "certificate-authority-data": Buffer.from(ca).toString("base64") } : {}),
    ...(config === undefined ? {} : { config }),
  };
}
