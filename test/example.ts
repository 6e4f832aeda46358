/** The programs of `examples/runtime` at work, and what they did. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type ClusterRole,
  clusterRoleBindings,
  clusterRoles,
  configMaps,
  events,
  isApiError,
  type KubeClient,
  type ObjectName,
} from "@berth/kube";
import type { AuditMark, TestCluster, TestUser } from "@berth/testcluster";
import { parse } from "yaml";
import { type Program, startProgram } from "./program.ts";

const folder = join(import.meta.dirname, "../examples/runtime");

export const readYaml = async (...path: readonly string[]): Promise<unknown> =>
  parse(await readFile(join(folder, ...path), "utf8"));

/** A user of this name with the rights in the example's `rbac.yaml`, and no others. */
async function userFor(cluster: TestCluster, name: string): Promise<TestUser> {
  const role = (await readYaml(name, "rbac.yaml")) as ClusterRole;
  const apiGroup = "rbac.authorization.k8s.io";
  await cluster.client.apply(clusterRoles, role);
  await cluster.client.apply(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name: role.metadata?.name ?? "" },
    subjects: [{ apiGroup, kind: "User", name }],
  });
  return await cluster.user(name);
}

export async function startExample(
  cluster: TestCluster,
  name: string,
  ...args: readonly string[]
): Promise<Program> {
  const user = await userFor(cluster, name);
  return await startProgram(cluster, { file: join(folder, name, "main.ts"), args }, { user });
}

/**
 * Everything the server did for a program since then, Events aside: `create configmaps team-a/settings`. What it
 * refused is left out: a program that was asked again before its cache showed its own write may try that once more.
 */
export async function requestsOf(
  name: string,
  { audit }: TestCluster,
  mark: AuditMark,
): Promise<readonly string[]> {
  const entries = await audit.entriesSince(mark, { userAgent: `${name}/1` });
  return entries
    .filter(({ resource, code }) => resource !== "events.events.k8s.io" && code < 400)
    .map(({ verb, resource, namespace, name }) => `${verb} ${resource} ${namespace}/${name}`);
}

export const isGone = async (client: KubeClient, of: ObjectName): Promise<void> => {
  const error = await client.get(configMaps, of).catch((reason: unknown) => reason);
  if (!isApiError(error, "notFound")) throw new Error(`${of.namespace}/${of.name} is there`);
};

/** All Events about an object of this name, by their reasons. */
export async function reasonsFor(client: KubeClient, name: string): Promise<readonly string[]> {
  const { items } = await client.list(events);
  return items.filter(({ regarding }) => regarding?.name === name).map(({ reason }) => reason ?? "");
}
