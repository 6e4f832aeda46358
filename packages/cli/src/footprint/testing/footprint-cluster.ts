/** A cluster that serves footprints, and what tests of them write there again and again. */
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  namespaces,
  type PolicyRule,
} from "@berth/kube";
import { nodeFootprints, workerPools } from "@berth/placement";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { crds, foreignKinds } from "../../kinds.ts";

/** Serves WorkerPools as well. @param namespace is created, for Berth itself. */
export async function footprintCluster(namespace?: string): Promise<TestCluster> {
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const crd of crds(foreignKinds)) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(nodeFootprints));
  await eventually(() => client.list(workerPools));
  if (namespace !== undefined) await client.create(namespaces, { metadata: { name: namespace } });
  return cluster;
}

/** Gives a user rights in all namespaces, by a ClusterRole of this name. @returns takes them away again. */
export async function grant(
  { client }: TestCluster,
  { name, user = name }: { readonly name: string; readonly user?: string },
  ...rules: readonly PolicyRule[]
): Promise<AsyncDisposable> {
  const apiGroup = "rbac.authorization.k8s.io";
  await client.create(clusterRoles, { metadata: { name }, rules });
  await client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name },
    subjects: [{ apiGroup, kind: "User", name: user }],
  });
  return { [Symbol.asyncDispose]: () => client.delete(clusterRoleBindings, { name }) };
}

export function writeFootprint({ client }: TestCluster, name: string, spec: object): Promise<object> {
  const kind = { apiVersion: "berth.dev/v1alpha1", kind: "NodeFootprint" };
  return client.create(nodeFootprints, { ...kind, metadata: { name }, spec });
}
