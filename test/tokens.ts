import { clusterRoleBindings, isApiError, nodes, secrets, serviceAccounts } from "@berth/kube";
import { eventually, type TestCluster } from "@berth/testcluster";
import { expect } from "vitest";

export interface IssuedToken {
  readonly token: string;
  /** Resolves when the server no longer accepts it. */
  revoke(): Promise<void>;
}

/** A token of a service account that may do everything, valid while the Secret that it is bound to is there. */
export async function issueToken(
  cluster: TestCluster,
  namespace: string,
  name: string,
): Promise<IssuedToken> {
  const { client } = cluster;
  const account = "berth";
  await client.create(serviceAccounts, { metadata: { name: account, namespace } }).catch((error: unknown) => {
    if (!isApiError(error, "alreadyExists")) throw error;
  });
  await client.apply(clusterRoleBindings, {
    metadata: { name: `all-for-${namespace}` },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: account, namespace }],
  });
  const secret = await client.create(secrets, { metadata: { name, namespace } });
  const boundObjectRef = { apiVersion: "v1", kind: "Secret", name, uid: secret.metadata?.uid };
  const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { boundObjectRef } };
  const answer = await client.create(serviceAccounts, request, {
    subresource: "token",
    name: account,
    namespace,
  });
  const { status } = answer as { readonly status?: { readonly token?: string } };
  const token = status?.token ?? "";
  const revoke = async (): Promise<void> => {
    await client.delete(secrets, { name, namespace });
    // The server remembers for 10 s that it has accepted a token.
    await eventually(
      async () => {
        await using as = cluster.connect({ user: { name: account, groups: [], token } });
        const refused = await as.list(nodes, { limit: 1 }).then(
          () => false,
          (error: unknown) => isApiError(error, "unauthorized"),
        );
        expect(refused).toBe(true);
      },
      { everyMs: 500 },
    );
  };
  return { token, revoke };
}

export function tokenKubeconfig(cluster: TestCluster, tokenFile: string): string {
  const text = cluster.kubeconfig({ user: { name: "berth", groups: [], token: "-" } });
  return text.replace('token: "-"', `tokenFile: ${JSON.stringify(tokenFile)}`);
}
