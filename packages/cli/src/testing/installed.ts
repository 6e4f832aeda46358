/** Berth as `berth manifests` installs it: its objects in a real cluster, and a connection as its account. */
import {
  type ClusterRole,
  clusterRoleBindings,
  clusterRoles,
  configMaps,
  defineResource,
  deployments,
  type KubeClient,
  type KubeObject,
  namespaces,
  networkPolicies,
  type PolicyRule,
  podDisruptionBudgets,
  type Resource,
  roleBindings,
  roles,
  secrets,
  serviceAccounts,
  services,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from "@berth/kube";
import { eventually, type TestCluster, type TestUser } from "@berth/testcluster";
import { expect } from "vitest";
import { installManifests } from "../manifests.ts";
import type { ExtraRights } from "../manifests-rights.ts";
import { grant } from "./cluster.ts";

/** The kinds of the objects that `berth manifests` prints. */
export const installedKinds: readonly Resource[] = [
  namespaces,
  networkPolicies,
  serviceAccounts,
  secrets,
  clusterRoles,
  clusterRoleBindings,
  roles,
  roleBindings,
  configMaps,
  deployments,
  services,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  podDisruptionBudgets,
];

/** A kind that the API server does not serve. A user who may list it gets "not found" instead of "forbidden". */
const nothing = defineResource({
  group: "rights.test",
  version: "v1",
  plural: "nothings",
  kind: "Nothing",
  namespaced: false,
});

/** Applies what `berth manifests` prints. */
export async function applyManifests(client: KubeClient, objects: readonly KubeObject[]): Promise<void> {
  for (const object of objects) {
    const resource = installedKinds.find(({ kind }) => kind === object.kind);
    if (resource === undefined) throw new Error(`no resource for ${object.kind}`);
    const applied = await client.apply(resource, object, { fieldManager: "installer" });
    // The server defaults and normalizes; what was asked for stands.
    expect(applied).toMatchObject({ metadata: { name: object.metadata?.name } });
  }
}

export interface Installed extends AsyncDisposable {
  readonly installation: string;
  readonly namespace: string;
  readonly user: TestUser;
  /** Connected as Berth's account. */
  readonly client: KubeClient;
  /** All that the manifests grant. */
  readonly rules: readonly PolicyRule[];
}

/** Applies what `berth manifests` prints for this installation, twice. Resolves once its account has its rights. */
export async function installed(
  cluster: TestCluster,
  installation: string,
  rights: ExtraRights = {},
): Promise<Installed> {
  const namespace = `berth-${installation}`;
  const objects = installManifests({
    image: "registry.example.com/berth:1",
    namespace,
    installation,
    replicas: 2,
    rules: new Map([["accelerators/one", "example.com/device\n"]]),
    rights,
    apiServerCidrs: ["10.0.0.0/28", "fd00::1/128"],
  });
  await applyManifests(cluster.client, [...objects, ...objects]);
  const account = `system:serviceaccount:${namespace}:${namespace}`;
  const groups = ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"];
  const user = await cluster.user(account, groups);
  const client = cluster.connect({ user });
  await using _last = await grant(cluster.client, account, "list nothings.rights.test");
  // The API server knows rights a moment after they were given, roles and bindings each in their order.
  await eventually(async () => {
    await expect(client.list(nothing)).rejects.toMatchObject({ failure: { kind: "notFound" } });
    await client.get(namespaces, { name: namespace });
  });
  return {
    installation,
    namespace,
    user,
    client,
    rules: objects.flatMap((it) => (it.kind?.endsWith("Role") ? ((it as ClusterRole).rules ?? []) : [])),
    [Symbol.asyncDispose]: () => client.close(),
  };
}

/**
 * What rules permit: `patch pods/status`, `get secrets berth-webhook-tls`, `list labelrules.berth.dev`. One list for each
 * verb and resource, with one text for each name that it is confined to.
 */
export function permissionsOf(rules: readonly PolicyRule[]): readonly (readonly string[])[] {
  return rules.flatMap(({ verbs, resources = [], apiGroups = [], resourceNames = [""] }) =>
    verbs.flatMap((verb) =>
      resources.map((it) => {
        const [resource = "", subresource] = it.split("/");
        const full = [resource, ...apiGroups.filter((group) => group !== "")].join(".");
        const key = `${verb} ${full}${subresource === undefined ? "" : `/${subresource}`}`;
        return resourceNames.map((name) => `${key} ${name}`.trim());
      }),
    ),
  );
}
