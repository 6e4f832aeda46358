import type { KeyPair } from "./certificates.ts";

/** How a user proves who they are: exactly one of the two. */
export type UserProof = { readonly token: string } | { readonly clientCertificate: KeyPair };

export interface KubeconfigOptions {
  readonly server: string;
  /** PEM of the authority that signed the server's certificate. */
  readonly ca: string;
  readonly user: { readonly name: string } & UserProof;
  /** Name of the context, cluster and default context. */
  readonly name: string;
}

/**
 * A kubeconfig with everything inline, as block YAML. Strings are written as JSON, which YAML 1.2 reads as its own
 * double-quoted style.
 */
export function renderKubeconfig({ server, ca, user, name }: KubeconfigOptions): string {
  const proof =
    "token" in user
      ? [`    token: ${quote(user.token)}`]
      : [
          `    client-certificate-data: ${base64(user.clientCertificate.certificate)}`,
          `    client-key-data: ${base64(user.clientCertificate.key)}`,
        ];
  return [
    "apiVersion: v1",
    "kind: Config",
    "clusters:",
    `- name: ${quote(name)}`,
    "  cluster:",
    `    server: ${quote(server)}`,
    `    certificate-authority-data: ${base64(ca)}`,
    "users:",
    `- name: ${quote(user.name)}`,
    "  user:",
    ...proof,
    "contexts:",
    `- name: ${quote(name)}`,
    "  context:",
    `    cluster: ${quote(name)}`,
    `    user: ${quote(user.name)}`,
    `current-context: ${quote(name)}`,
    "",
  ].join("\n");
}

const quote = (text: string): string => JSON.stringify(text);
const base64 = (text: string): string => Buffer.from(text).toString("base64");
