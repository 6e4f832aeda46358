import { fleetKind } from "@berth/fleet";
import type { Documents } from "@berth/host";
import type {
  ClusterRole,
  ClusterRoleBinding,
  KubeObject,
  Namespace,
  PodDisruptionBudget,
  PolicyRule,
  Role,
  RoleBinding,
  Service,
  ServiceAccount,
} from "@berth/kube";
import {
  architecturePolicyKind,
  holdsOf,
  type OwnerHold,
  originalFootprint,
  originalGate,
  startupGateKind,
  workerPoolsKind,
} from "@berth/placement";
import { confinement } from "./confinement.ts";
import type { InstanceConfinement } from "./instance-confinement.ts";
import { deployment, filesConfigMap, mountsOf, type Own, type PodOptions } from "./manifests-pod.ts";
import { clusterRoles, type ExtraRights, namespaceRules } from "./manifests-rights.ts";
import { webhookNetworkPolicy } from "./network-policy.ts";

/** The owners that a footprint with the agent-substrate preset holds. A user may create it in the cluster later. */
const poolHold: OwnerHold = {
  resource: originalFootprint.owners,
  finalizer: originalFootprint.finalizer,
  ownedResources: [{ group: "apps", version: "v1", resource: "deployments" }],
  onDelete: "DeleteOwned",
};

export interface InstallOptions extends PodOptions {
  /** Rights beyond those of every installation. Default none. */
  readonly rights?: ExtraRights;
  /** Confines Berth's account to the fields that it writes. Needs Kubernetes 1.30. Default true. */
  readonly confinement?: boolean;
  /** What the policy lets Berth hold. Default: what the documents and the flag `workerPools` ask for. */
  readonly holds?: readonly OwnerHold[];
  /** Addresses of the API servers: only they can reach the webhook. Default: every client can. */
  readonly apiServerCidrs?: readonly string[];
}

/** Namespaces that Kubernetes creates. Not printed: their pods do not meet the policy of Berth's Namespace. */
const MADE_BY_KUBERNETES = /^(?:default|kube-(?:system|public|node-lease))$/;

/**
 * All objects that run Berth on a cluster, in the order of creation. Roles hold exactly the rights that Berth uses: a
 * test runs Berth with them. CRDs are separate. They must exist first, several installations may share them, and
 * deleting them deletes all rules.
 *
 * @throws RangeError when the rules or documents do not fit into a ConfigMap; CommandError for an invalid CIDR.
 */
export function installManifests(options: InstallOptions): readonly KubeObject[] {
  const { namespace, installation, rights = {} } = options;
  const { documents: given } = rights;
  const pools = given?.specOf(workerPoolsKind);
  const hasPools = pools !== undefined || rights.flags?.has("workerPools") === true;
  const name = installation === "berth" ? "berth" : `berth-${installation}`;
  const labels = { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": installation };
  const own = { name, namespace, labels };
  const { serviceAccountName } = options.patch?.spec ?? {};
  const subject = { kind: "ServiceAccount", name: serviceAccountName ?? name, namespace } as const;
  const rbac = "rbac.authorization.k8s.io";
  const account: ServiceAccount = { apiVersion: "v1", kind: "ServiceAccount", metadata: own };
  const clusterWide = (roleName: string, rules: readonly PolicyRule[]): [ClusterRole, ClusterRoleBinding] => {
    const metadata = { name: roleName, labels };
    const roleRef = { apiGroup: rbac, kind: "ClusterRole", name: roleName };
    const apiVersion = `${rbac}/v1`;
    return [
      { apiVersion, kind: "ClusterRole", metadata, rules },
      { apiVersion, kind: "ClusterRoleBinding", metadata, roleRef, subjects: [subject] },
    ];
  };
  const role: Role = {
    apiVersion: `${rbac}/v1`,
    kind: "Role",
    metadata: own,
    rules: namespaceRules(own, rights),
  };
  const binding: RoleBinding = {
    apiVersion: `${rbac}/v1`,
    kind: "RoleBinding",
    metadata: own,
    roleRef: { apiGroup: rbac, kind: "Role", name },
    subjects: [subject],
  };
  const files = mountsOf(options).flatMap((mount) =>
    mount.files === undefined ? [] : [filesConfigMap(mount, { ...own, name: `${name}-${mount.name}` })],
  );
  const access = [
    ...namespaceOf(namespace),
    ...(serviceAccountName === undefined ? [account] : []),
    // Created before the rights that it limits.
    ...(options.confinement === false
      ? []
      : confinement({
          metadata: { name: `${name}-confinement`, labels },
          username: `system:serviceaccount:${namespace}:${subject.name}`,
          holds: options.holds ?? [
            ...(given === undefined ? [] : holdsOf(given)),
            ...(hasPools ? [poolHold] : []),
          ],
          pools,
          instances: instancesOf(given, namespace),
        })),
    ...clusterRoles(name, rights).flatMap(({ suffix, rules }) =>
      clusterWide(suffix === "" ? name : `${name}-${suffix}`, rules),
    ),
    role,
    binding,
  ];
  const { apiServerCidrs = [] } = options;
  const closed = apiServerCidrs.length > 0 ? [webhookNetworkPolicy(own, apiServerCidrs)] : [];
  const spread = options.replicas > 1 ? [disruptionBudget(own)] : [];
  const pod = deployment({ ...options, evictingTaints: evictingTaints(given) }, own);
  return [...access, ...files, webhookService(own), ...closed, ...spread, pod];
}

/** Berth's namespace, unless Kubernetes makes it. */
export function namespaceOf(name: string): readonly Namespace[] {
  if (MADE_BY_KUBERNETES.test(name)) return [];
  return [{ apiVersion: "v1", kind: "Namespace", metadata: { name, labels: policy } }];
}

/** The taint of the original, which a gate in the cluster may have, and those of the gates in files. */
function evictingTaints(given: Documents | undefined): readonly string[] {
  const gates = given?.documentsOf(startupGateKind) ?? [];
  const evicting = gates.filter(({ spec: { taint } }) => taint.effect === "NoExecute");
  return [originalGate.taint.key, ...evicting.map(({ spec: { taint } }) => taint.key)];
}

/** What confines the Pods of Instances. `undefined`: Berth makes none. */
function instancesOf(given: Documents | undefined, namespace: string): InstanceConfinement | undefined {
  const fleet = given?.specOf(fleetKind);
  const policies = given?.documentsOf(architecturePolicyKind) ?? [];
  const taintKeys = policies.flatMap(({ spec: { taint } }) => taint?.key ?? []);
  const makesPods = fleet?.provider === "pods" && fleet.mode !== "management";
  return makesPods ? { fleet, namespace, taintKeys } : undefined;
}

/** Limits a drain to one pod at a time, so that the webhook answers and another replica can lead. */
function disruptionBudget({ labels, ...own }: Own): PodDisruptionBudget {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { ...own, labels },
    spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
  };
}

/** Namespace labels. Berth's pods meet the strictest Pod Security Standard. */
const policy = { "pod-security.kubernetes.io/enforce": "restricted" };

/** The Service of the webhook. The ports are the defaults of `run`, and those of nodetaintshandler. */
function webhookService({ name, namespace, labels }: Own): Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: `${name}-webhook`, namespace, labels },
    spec: { selector: labels, ports: [{ name: "webhook", port: 443, targetPort: "webhook" }] },
  };
}
