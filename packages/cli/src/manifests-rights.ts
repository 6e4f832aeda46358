/** What Berth may do in a cluster, by role: what every installation has, and what its capabilities ask for. */
import { type AskedPermissions, type Documents, mergeRules, type Permission, toDocuments } from "@berth/host";
import type { PolicyRule } from "@berth/kube";
import { capabilities } from "./capabilities.ts";
import { documentKinds, servedKinds } from "./kinds.ts";

/** The capabilities that an installation may do without, as `--capabilities` calls them. */
export const CAPABILITIES: readonly string[] = capabilities
  .filter(({ foreignKinds }) => foreignKinds === undefined)
  .map(({ name }) => name);

/** What an installation may do beside labelling nodes. Default what all capabilities take, and nothing else. */
export interface ExtraRights {
  /** What is left out here cannot be used. Default all. */
  readonly capabilities?: readonly string[];
  /** What is asked for by flag, such as `pullSecrets`. Default nothing. */
  readonly flags?: ReadonlySet<string>;
  /** The documents take what they ask for. Exactly: one that does not ask for a right does not get it. Default none. */
  readonly documents?: Documents;
}

/** A ClusterRole; its name is that of the installation with `-` and this. */
export interface RoleOf {
  /** Empty: what Berth cannot do without. */
  readonly suffix: string;
  readonly rules: readonly PolicyRule[];
}

/** What the capabilities ask for. @param name of the installation's objects. */
export function permissionsOf(name: string, rights: ExtraRights): readonly Permission[] {
  const { documents = toDocuments([], documentKinds).documents, flags = new Set() } = rights;
  const asked: AskedPermissions = { name, documents, flags };
  const isLeftOut = (one: string): boolean =>
    CAPABILITIES.includes(one) && rights.capabilities?.includes(one) === false;
  return capabilities.flatMap((one) => (isLeftOut(one.name) ? [] : (one.permissions?.(asked) ?? [])));
}

/**
 * In the order in which they are printed. Each has a ClusterRoleBinding of its own, so that one can be left out.
 *
 * @param name of the installation's objects.
 */
export function clusterRoles(name: string, rights: ExtraRights): readonly RoleOf[] {
  const all = [...clusterRules.map((rule): Permission => ({ rule })), ...permissionsOf(name, rights)];
  const byRole = Map.groupBy(all, ({ role = "" }) => role);
  return [...byRole].flatMap(([suffix, permissions]) =>
    suffix === IN_NAMESPACE ? [] : [{ suffix, rules: mergeRules(permissions) }],
  );
}

/** See `Permission.role`. */
const IN_NAMESPACE = "namespace";

const clusterRules: readonly PolicyRule[] = [
  { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch", "patch"] },
  // Events about Nodes are in the namespace default, those about files in Berth's own.
  { apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] },
  // Rules in the cluster. Without their CRDs nothing is there to read, and the rights cost nothing.
  ...servedKinds.flatMap(({ resource: { group, plural } }): readonly PolicyRule[] => [
    { apiGroups: [group], resources: [plural], verbs: ["list", "watch"] },
    { apiGroups: [group], resources: [`${plural}/status`], verbs: ["patch"] },
  ]),
  // To tell rules that were deleted from a CRD that was: their labels must not go with it.
  {
    apiGroups: ["apiextensions.k8s.io"],
    resources: ["customresourcedefinitions"],
    resourceNames: servedKinds.map(({ resource: { group, plural } }) => `${plural}.${group}`),
    verbs: ["get"],
  },
];

/** In its own namespace. */
export function namespaceRules(
  { name, namespace }: { readonly name: string; readonly namespace: string },
  rights: ExtraRights,
): readonly PolicyRule[] {
  const asked = permissionsOf(name, rights).filter(({ role }) => role === IN_NAMESPACE);
  return [
    { apiGroups: [""], resources: ["namespaces"], resourceNames: [namespace], verbs: ["get"] },
    // Creation cannot be limited to a name: the name is not known to authorization then.
    { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"] },
    {
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      resourceNames: [name],
      verbs: ["get", "update"],
    },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["create"] },
    ...mergeRules(asked),
    // Where it has ever tainted or cordoned nodes.
    {
      apiGroups: [""],
      resources: ["configmaps"],
      resourceNames: [`${name}-declared-places`],
      verbs: ["get", "patch"],
    },
    { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
    {
      apiGroups: [""],
      resources: ["secrets"],
      resourceNames: [`${name}-webhook-tls`],
      verbs: ["list", "watch", "patch"],
    },
  ];
}
