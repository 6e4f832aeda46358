/** A kubeconfig that other people wrote, as the content of a Secret: it must not run, read or reach anything here. */
import { createHash, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { CredentialMaterial } from "./credential.ts";
import { type ResolvedConfig, resolveContext } from "./kubeconfig.ts";
import { KubeconfigError, type KubeconfigFile, toKubeconfigFile } from "./kubeconfig-file.ts";

/** A connection that a text described. */
export interface ParsedKubeconfig extends ResolvedConfig {
  /**
   * Equal for equal credentials, whatever else the texts say, and for no others. It does not give a strong credential
   * away, and it still belongs into no log.
   */
  readonly fingerprint: string;
  /** When the credential ends, ms since the epoch: its certificate, or its token if that is a JWT. Absent: it does not say. */
  readonly expiresMs?: number;
}

/** The text, its name in messages, and the context to use. */
export interface ParseKubeconfigOptions {
  /** Names the text in messages: `Secret berth/dfw-01`. */
  readonly origin: string;
  /** Default: the text's `current-context`. */
  readonly context?: string;
}

/** Fields of a user that read files, run programs or change the identity. Each has the advice for its error. */
const REFUSED_OF_USER: Readonly<Record<string, string>> = {
  exec: "has an exec plugin: use a token or a client certificate",
  "auth-provider": "has an auth-provider: use a token or a client certificate",
  tokenFile: "names a tokenFile: put the token itself there",
  "client-certificate": "names a file in client-certificate: use client-certificate-data",
  "client-key": "names a file in client-key: use client-key-data",
  as: "wants impersonation (as): use the credential of that user",
  "as-groups": "wants impersonation (as-groups): use the credential of such a user",
  "as-uid": "wants impersonation (as-uid): use the credential of that user",
  "as-user-extra": "wants impersonation (as-user-extra): use the credential of that user",
};

const REFUSED_OF_CLUSTER: Readonly<Record<string, string>> = {
  "certificate-authority": "names a file in certificate-authority: use certificate-authority-data",
  "insecure-skip-tls-verify":
    "skips the verification of the server's certificate: use certificate-authority-data",
  "proxy-url": "wants a proxy (proxy-url): connect directly",
};

/**
 * Reads a kubeconfig that holds all it needs: an https address, and a token, a password or a client certificate. Entries
 * that the context does not use may be anything.
 *
 * @throws KubeconfigError with the field and what to write instead. It repeats no value but the names of entries.
 */
export async function parseKubeconfig(
  text: string,
  { origin, context }: ParseKubeconfigOptions,
): Promise<ParsedKubeconfig> {
  const file = await toKubeconfigFile(text, origin, "/");
  refuse(file, origin, context ?? file.currentContext);
  const config = await resolveContext(file, origin, { environment: {}, ...(context && { context }) });
  const material = await config.connect.credential.material();
  const { authorization, certificate } = material;
  if (authorization === undefined && certificate === undefined)
    throw new KubeconfigError(`${origin} has no credential: its user needs a token or a client certificate`);
  if (!isUsable(config.connect.ca, certificate))
    throw new KubeconfigError(
      `${origin} has a certificate or a key that cannot be used, or that do not match`,
    );
  const expiresMs = expiryOf(material);
  return { ...config, fingerprint: fingerprintOf(material), ...(expiresMs !== undefined && { expiresMs }) };
}

/** The server decides: what a token says of itself is not verified here. */
function expiryOf({ authorization = "", certificate }: CredentialMaterial): number | undefined {
  const ends = [
    certificate && new X509Certificate(certificate.cert).validToDate.getTime(),
    endOfToken(/^Bearer [^.]+\.([\w-]+)\.[^.]+$/.exec(authorization)?.[1] ?? ""),
  ].filter((it) => it !== undefined);
  return ends.length === 0 ? undefined : Math.min(...ends);
}

/** @param claims of a JWT, in base64url. */
function endOfToken(claims: string): number | undefined {
  try {
    const { exp } = JSON.parse(Buffer.from(claims, "base64url").toString("utf8")) as {
      readonly exp?: unknown;
    };
    return typeof exp === "number" && Number.isFinite(exp) ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}

/** As `ParsedKubeconfig` has it, of a credential that came another way. */
export function fingerprintOf({ authorization, certificate }: CredentialMaterial): string {
  return createHash("sha256")
    .update(JSON.stringify([authorization, certificate?.cert]))
    .digest("base64url");
}

/** A text that `parseKubeconfig` reads as the same connection. Other entries of the text that it came from are not in it. */
export async function formatKubeconfig({ connect }: ParsedKubeconfig): Promise<string> {
  const { server, ca, serverName, credential } = connect;
  const { authorization, certificate } = await credential.material();
  const [scheme, proof = ""] = authorization?.split(" ") ?? [];
  const password = scheme === "Basic" ? Buffer.from(proof, "base64").toString("utf8") : undefined;
  const colon = password?.indexOf(":") ?? 0;
  const cluster = {
    server,
    ...(ca !== undefined && { "certificate-authority-data": toBase64(ca) }),
    ...(serverName !== undefined && { "tls-server-name": serverName }),
  };
  const user = {
    ...(scheme === "Bearer" && { token: proof }),
    ...(password !== undefined && {
      username: password.slice(0, colon),
      password: password.slice(colon + 1),
    }),
    ...(certificate && {
      "client-certificate-data": toBase64(certificate.cert),
      "client-key-data": toBase64(certificate.key),
    }),
  };
  const name = "cluster";
  const file = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    "current-context": name,
  };
  return `${JSON.stringify(file, undefined, 2)}\n`;
}

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** @returns false rather than the reason, which may quote a key. */
function isUsable(ca: string | undefined, certificate: CredentialMaterial["certificate"]): boolean {
  try {
    if (certificate) createSecureContext(certificate);
    // A secure context takes a text without a certificate for an authority, and then trusts none.
    return ca === undefined || new X509Certificate(ca).raw.length > 0;
  } catch {
    return false;
  }
}

function refuse(file: KubeconfigFile, origin: string, name: string): void {
  const context = file.contexts.get(name)?.value ?? {};
  const user = file.users.get(context.user ?? "")?.value ?? {};
  const cluster = file.clusters.get(context.cluster ?? "")?.value ?? {};
  refuseFields(user, REFUSED_OF_USER, `user "${context.user}" of ${origin}`);
  refuseFields(cluster, REFUSED_OF_CLUSTER, `cluster "${context.cluster}" of ${origin}`);
  const { server = "" } = cluster;
  const url = URL.parse(server);
  const isSafe = url?.protocol === "https:" && url.username === "" && url.password === "";
  if (server !== "" && !isSafe) {
    throw new KubeconfigError(
      `cluster "${context.cluster}" of ${origin} has a server that is not https://HOST:PORT, without user and password`,
    );
  }
}

function refuseFields(entry: object, refused: Readonly<Record<string, string>>, owner: string): void {
  for (const [field, why] of Object.entries(refused)) {
    const value = Object.hasOwn(entry, field) ? Reflect.get(entry, field) : undefined;
    if (value !== undefined && value !== null && value !== false && value !== "")
      throw new KubeconfigError(`${owner} ${why}`);
  }
}
