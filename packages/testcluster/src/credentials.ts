/** Writes the files that the components of one cluster prove themselves with. */
import { randomBytes } from "node:crypto";
import { access, writeFile } from "node:fs/promises";
import path from "node:path";
import type { ComponentName } from "./assets.ts";
import { type CertificateAuthority, createAuthority, createServiceAccountKeys } from "./certificates.ts";
import { COMPONENT_USERS, FILES, kubeconfigOf, type Layout } from "./components.ts";
import { renderKubeconfig } from "./kubeconfig.ts";

/** A user with a static token, known to the API server from its start. */
export interface TokenUser {
  readonly name: string;
  readonly groups: readonly string[];
  readonly token: string;
}

export interface ClusterCredentials {
  readonly authority: CertificateAuthority;
  /** Name `admin`, group `system:masters`: may do everything, whatever RBAC says. */
  readonly admin: TokenUser;
  /** The users asked for, by name. */
  readonly users: ReadonlyMap<string, TokenUser>;
}

/** Names under which the API server's certificate is valid, inside and outside of the cluster. */
export const SERVER_HOSTS: readonly string[] = [
  "127.0.0.1",
  "::1",
  "localhost",
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
  "10.0.0.1",
];

const AUDIT_POLICY = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`;

/**
 * Fills the folder of a cluster: a new authority, new tokens and the kubeconfig files of its components. Only the keys
 * that sign service account tokens stay from an earlier start, since tokens made then are in the data.
 */
export async function writeCredentials(
  layout: Layout,
  users: readonly Pick<TokenUser, "name" | "groups">[],
): Promise<ClusterCredentials> {
  const { folder } = layout;
  const write = (file: string, content: string): Promise<void> =>
    writeFile(path.join(folder, file), content, { mode: 0o600 });
  const authority = await createAuthority();
  const serving = await authority.issueServing(SERVER_HOSTS);
  const admin = tokenUser({ name: "admin", groups: [MASTERS] });
  const components = Object.entries(COMPONENT_USERS).map(
    ([component, name]) => [component as ComponentName, tokenUser({ name, groups: [MASTERS] })] as const,
  );
  const named = users.map(tokenUser);
  const server = serverUrl(layout);
  await Promise.all([
    write(FILES.ca, authority.certificate),
    write(FILES.servingCertificate, serving.certificate),
    write(FILES.servingKey, serving.key),
    write(FILES.tokens, [admin, ...components.map(([, user]) => user), ...named].map(tokenLine).join("")),
    write(FILES.auditPolicy, AUDIT_POLICY),
    keepServiceAccountKeys(folder, write),
    ...components.map(([component, user]) =>
      writeFile(
        kubeconfigOf(folder, component),
        renderKubeconfig({ server, ca: authority.certificate, user, name: "berth" }),
        { mode: 0o600 },
      ),
    ),
  ]);
  return { authority, admin, users: new Map(named.map((user) => [user.name, user])) };
}

export function serverUrl({ ports }: Layout): string {
  return `https://127.0.0.1:${ports.apiServer}`;
}

/** Bound to cluster-admin by the API server itself (plugin/pkg/auth/authorizer/rbac/bootstrappolicy). */
const MASTERS = "system:masters";

function tokenUser({ name, groups }: Pick<TokenUser, "name" | "groups">): TokenUser {
  return { name, groups, token: randomBytes(24).toString("base64url") };
}

/** `token,user,uid,"group,group"`: the static token file of the API server, read with Go's encoding/csv. */
function tokenLine({ name, groups, token }: TokenUser): string {
  const quoted = [token, name, name, groups.join(",")].map((field) => `"${field.replaceAll('"', '""')}"`);
  return `${quoted.join(",")}\n`;
}

async function keepServiceAccountKeys(
  folder: string,
  write: (file: string, content: string) => Promise<void>,
): Promise<void> {
  const kept = await access(path.join(folder, FILES.serviceAccountKey)).then(
    () => true,
    () => false,
  );
  if (kept) return;
  const keys = createServiceAccountKeys();
  await write(FILES.serviceAccountPublicKey, keys.publicKey);
  await write(FILES.serviceAccountKey, keys.privateKey);
}
