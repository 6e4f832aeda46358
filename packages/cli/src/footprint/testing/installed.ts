/** Berth's account with the rights that its manifests print, and no other. */
import {
  clusterRoleBindings,
  clusterRoles,
  defineResource,
  type KubeClient,
  type KubeObject,
  namespaces,
  type Resource,
  roleBindings,
  roles,
  serviceAccounts,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from "@berth/kube";
import { eventually, type TestCluster } from "@berth/testcluster";
import { expect } from "vitest";
import { installManifests } from "../../manifests.ts";
import type { ExtraRights } from "../../manifests-rights.ts";
import { grant } from "./footprint-cluster.ts";

const KINDS: readonly Resource[] = [
  namespaces,
  serviceAccounts,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  clusterRoles,
  clusterRoleBindings,
  roles,
  roleBindings,
];

/** What `berth manifests` prints of accounts and rights; connects as the account. */
export async function installed(
  cluster: TestCluster,
  installation: string,
  rights: ExtraRights,
): Promise<{ readonly client: KubeClient; readonly user: string; readonly namespace: string }> {
  const namespace = `berth-${installation}`;
  const image = "registry.example.com/berth:1";
  const objects: readonly KubeObject[] = installManifests({
    image,
    namespace,
    installation,
    replicas: 1,
    rules: new Map(),
    rights,
  });
  for (const object of objects) {
    const resource = KINDS.find(({ kind }) => kind === object.kind);
    if (resource !== undefined) await cluster.client.apply(resource, object, { fieldManager: "installer" });
  }
  const user = `system:serviceaccount:${namespace}:${namespace}`;
  const groups = ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"];
  const client = cluster.connect({ user: await cluster.user(user, groups) });
  await untilKnown(cluster, client, { user, namespace });
  return { client, user, namespace };
}

/** What nobody has. Whoever may list it is told so. */
const nothing = defineResource({
  group: "rights.test",
  version: "v1",
  plural: "nothings",
  kind: "Nothing",
  namespaced: false,
});

/** Rights are known to the API server a moment after they were given, roles and bindings each in their order. */
async function untilKnown(
  cluster: TestCluster,
  account: KubeClient,
  { user, namespace }: { readonly user: string; readonly namespace: string },
): Promise<void> {
  const name = `${namespace}-last`;
  const rules = [{ apiGroups: [nothing.group], resources: [nothing.plural], verbs: ["list"] }];
  await grant(cluster, { name, user }, ...rules);
  await eventually(async () => {
    await expect(account.list(nothing)).rejects.toMatchObject({ failure: { kind: "notFound" } });
    await account.get(namespaces, { name: namespace });
  });
}
