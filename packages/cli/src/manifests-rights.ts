/** Berth's permissions in a cluster, by role: those of every installation, and those of its capabilities. */
import {
  type AskedPermissions,
  admissionPermissions,
  type Documents,
  documentReviews,
  mergeRules,
  type Permission,
  toDocuments,
} from "@berth/host";
import type { PolicyRule } from "@berth/kube";
import { capabilities } from "./capabilities.ts";
import { capabilityNames } from "./capability-names.ts";
import { documentKinds, servedKinds } from "./kinds.ts";

/** Permissions beyond labelling nodes. Default: those that all capabilities need. */
export interface ExtraRights {
  /** The capabilities to install; others get no permissions. Default all. */
  readonly capabilities?: readonly string[];
  /** Rights that the user requests by flag, such as `pullSecrets`. Default none. */
  readonly flags?: ReadonlySet<string>;
  /** Each document adds exactly the rights that it asks for. Default: no documents. */
  readonly documents?: Documents;
}

/** A ClusterRole. Its name is the name of the installation, `-` and the suffix. */
export interface RoleOf {
  /** Empty for the rights that every installation needs. */
  readonly suffix: string;
  readonly rules: readonly PolicyRule[];
}

/** The permissions that the capabilities ask for. @param name of the installation's objects. */
export function permissionsOf(name: string, rights: ExtraRights): readonly Permission[] {
  const { documents = toDocuments([], documentKinds).documents, flags = new Set() } = rights;
  const asked: AskedPermissions = { name, documents, flags };
  const isLeftOut = (one: string): boolean =>
    capabilityNames.optional.includes(one) && rights.capabilities?.includes(one) === false;
  const all = capabilities.flatMap((one) => (isLeftOut(one.name) ? [] : (one.permissions?.(asked) ?? [])));
  // Documents are reviewed only where something else is. The role of a fleet has the same right.
  const isServed = all.some(
    ({ role, rule }) => role === undefined && rule.resources?.includes("mutatingwebhookconfigurations"),
  );
  return isServed ? [...all, ...admissionPermissions(documentReviews, asked)] : all;
}

/**
 * ClusterRoles in the order of printing. Each gets its own ClusterRoleBinding, so that the user can leave a role out.
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
  // Events about Nodes are in the namespace default. Events about files are in Berth's own namespace.
  { apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] },
  // Rules in the cluster. Without their CRDs these rights have no effect.
  ...servedKinds.flatMap(({ resource: { group, plural } }): readonly PolicyRule[] => [
    { apiGroups: [group], resources: [plural], verbs: ["list", "watch"] },
    { apiGroups: [group], resources: [`${plural}/status`], verbs: ["patch"] },
  ]),
  // To distinguish deleted rules from a deleted CRD: a deleted CRD must not remove their labels.
  {
    apiGroups: ["apiextensions.k8s.io"],
    resources: ["customresourcedefinitions"],
    resourceNames: servedKinds.map(({ resource: { group, plural } }) => `${plural}.${group}`),
    verbs: ["get"],
  },
  // To notice that a missing kind is served now. Discovery and OpenAPI show as much to every authenticated user.
  { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"], verbs: ["list", "watch"] },
];

/** Rules of the Role in Berth's own namespace. */
export function namespaceRules(
  { name, namespace }: { readonly name: string; readonly namespace: string },
  rights: ExtraRights,
): readonly PolicyRule[] {
  const asked = permissionsOf(name, rights).filter(({ role }) => role === IN_NAMESPACE);
  return [
    { apiGroups: [""], resources: ["namespaces"], resourceNames: [namespace], verbs: ["get"] },
    // RBAC cannot limit `create` to a name, because authorization does not know the name of the new object.
    { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"] },
    {
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      resourceNames: [name],
      verbs: ["get", "update"],
    },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["create"] },
    ...mergeRules(asked),
    // The places that Berth has ever tainted or cordoned.
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
