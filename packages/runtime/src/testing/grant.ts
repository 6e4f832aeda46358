import { clusterRoleBindings, clusterRoles, type Resource, type Verb } from "@berth/kube";
import type { TestCluster } from "@berth/testcluster";

/** Until it is disposed the user may do this to objects of this kind, wherever they are. */
export async function grant(
  { client }: TestCluster,
  user: string,
  { group, plural }: Resource,
  ...verbs: readonly Verb[]
): Promise<AsyncDisposable> {
  const name = `${user}-${plural}-${verbs.join("-")}`;
  const rules = [{ apiGroups: [group], resources: [plural], verbs }];
  const apiGroup = "rbac.authorization.k8s.io";
  await client.create(clusterRoles, { metadata: { name }, rules });
  await client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name },
    subjects: [{ apiGroup, kind: "User", name: user }],
  });
  return {
    async [Symbol.asyncDispose]() {
      await client.delete(clusterRoleBindings, { name });
      await client.delete(clusterRoles, { name });
    },
  };
}
