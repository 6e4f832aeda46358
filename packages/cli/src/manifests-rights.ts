/** What Berth may do in a cluster, by role: what every installation has, and what is asked for by flag or document. */
import { admissionServerKind, type Documents } from "@berth/host";
import type { PolicyRule } from "@berth/kube";
import {
  type Footprint,
  type GroupVersionResource,
  MAX_SHARDS,
  type WorkerPoolConfig,
  workerPools,
  workerPoolsKind,
} from "@berth/placement";
import { servedKinds } from "./kinds.ts";

/** What Berth can do for nodes, each with rights of its own. */
export const CAPABILITIES = ["labels", "gates", "architecture", "footprint"] as const;
export type CapabilityName = (typeof CAPABILITIES)[number];

/** What an installation may do beside labelling nodes. Default what all capabilities take, and nothing else. */
export interface ExtraRights {
  /** What is left out here cannot be used. Default all. */
  readonly capabilities?: readonly CapabilityName[];
  /** To read the pull secrets of pods, which is any Secret of the cluster by its name. */
  readonly pullSecrets?: boolean;
  /** To make and delete the Deployments of WorkerPools, which are any Deployments, and to hold WorkerPools. */
  readonly workerPools?: boolean;
  /** Of which pools they are. Default: of none. */
  readonly pools?: WorkerPoolConfig | undefined;
  /** A webhook configuration of somebody else for startup gates. */
  readonly adopted?: string | undefined;
  /** To have DaemonSets ask for a label, apart from the role of architecture policies. */
  readonly patchDaemonSets?: boolean;
  /** To hold the deletion of owners. */
  readonly holds?: readonly HeldKinds[];
}

export interface HeldKinds {
  readonly resource: GroupVersionResource;
  readonly finalizer: string;
  /** Empty where Berth deletes nothing. */
  readonly ownedResources: readonly GroupVersionResource[];
  /** Does Berth delete them, or only wait for them? */
  readonly deletes: boolean;
}

/** A ClusterRole; its name is that of the installation with `-` and this. */
export interface RoleOf {
  /** Empty: what Berth cannot do without. */
  readonly suffix: string;
  readonly rules: readonly PolicyRule[];
}

/** What documents take beyond what every installation has. Exactly: a document that does not ask for a right does not get it. */
export function rightsOf(settings: Documents, footprints: readonly Footprint[]): ExtraRights {
  const holds = footprints.flatMap(({ hold }): readonly HeldKinds[] =>
    hold === undefined
      ? []
      : [
          {
            resource: hold.resource,
            finalizer: hold.finalizer,
            ownedResources: hold.ownedResources,
            deletes: hold.onDelete === "DeleteOwned",
          },
        ],
  );
  const pools = settings.specOf(workerPoolsKind);
  return {
    workerPools: pools !== undefined,
    pools,
    adopted: settings.specOf(admissionServerKind)?.configuration?.name,
    patchDaemonSets: footprints.some(({ agent }) => agent?.nodeSelector === "Manage"),
    holds,
  };
}

/**
 * In the order in which they are printed. Each has a ClusterRoleBinding of its own, so that one can be left out.
 *
 * @param name of the installation's objects.
 */
export function clusterRoles(name: string, rights: ExtraRights): readonly RoleOf[] {
  const { pullSecrets, workerPools: pools, patchDaemonSets, holds = [] } = rights;
  const manage = patchDaemonSets === true ? [patchDaemonSetsRule] : [];
  const has = (one: CapabilityName): boolean => (rights.capabilities ?? CAPABILITIES).includes(one);
  const seesPods = has("gates") || has("architecture") || has("footprint");
  return [
    {
      suffix: "",
      rules: [
        ...clusterRules,
        ...(seesPods ? [...podRules, ...admissionRules(name, has, rights.adopted)] : []),
      ],
    },
    ...(has("architecture") ? [{ suffix: "architecture", rules: architectureRules }] : []),
    ...(has("footprint") ? [{ suffix: "footprint", rules: [...footprintRules, ...manage] }] : []),
    ...(holds.length > 0 ? [{ suffix: "footprint-holds", rules: footprintHoldRules(holds) }] : []),
    ...(pools === true ? [{ suffix: "worker-pools", rules: workerPoolRules }] : []),
    ...(pullSecrets === true ? [{ suffix: "pull-secrets", rules: pullSecretRules }] : []),
  ];
}

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

const podRules: readonly PolicyRule[] = [
  // What startup gates wait for, what policies and footprints select, and whether a node that came without a taint runs something already.
  { apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"] },
  { apiGroups: ["apps"], resources: ["daemonsets"], verbs: ["list", "watch"] },
];

/** What the API server asks Berth about, and what it puts on new nodes by itself. */
function admissionRules(
  name: string,
  has: (one: CapabilityName) => boolean,
  adopted: string | undefined,
): readonly PolicyRule[] {
  const apiGroups = ["admissionregistration.k8s.io"];
  const [mutating, validating] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
  const all = { gates: "startup-gate", architecture: "architecture", footprint: "footprint" } as const;
  const named = (Object.keys(all) as (keyof typeof all)[]).filter(has).map((it) => `${name}-${all[it]}`);
  const verbs = ["create", "patch", "delete"];
  return [
    // Found by their labels, which RBAC does not know.
    { apiGroups, resources: [mutating, ...(has("gates") ? [validating] : [])], verbs: ["list", "watch"] },
    // A replica that stands by asks whether the leader has fallen back to the webhook.
    ...(has("gates")
      ? [{ apiGroups, resources: [mutating], resourceNames: [`${name}-startup-gate`], verbs: ["get"] }]
      : []),
    { apiGroups, resources: [mutating], resourceNames: [...named, ...(adopted ? [adopted] : [])], verbs },
    ...(has("gates")
      ? [
          { apiGroups, resources: [validating], resourceNames: [`${name}-direct-binding`], verbs },
          // There is one for each gate, so names cannot be named here.
          {
            apiGroups,
            resources: ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
            verbs: ["list", "watch", "create", "patch", "delete"],
          },
        ]
      : []),
  ];
}

const patchDaemonSetsRule: PolicyRule = { apiGroups: ["apps"], resources: ["daemonsets"], verbs: ["patch"] };

/** For architecture policies; whoever has none can leave this role out. Beside it the webhook has to be reached. */
const architectureRules: readonly PolicyRule[] = [
  // Pods that wait for a node get tolerations, or are let go with their affinity narrowed.
  { apiGroups: [""], resources: ["pods"], verbs: ["patch"] },
  // One that can run nowhere gets a condition that says why.
  { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
  // Their templates get tolerations, without which their pods would not come to tainted nodes.
  patchDaemonSetsRule,
  // Policies select pods by the labels of their namespaces.
  { apiGroups: [""], resources: ["namespaces"], verbs: ["list", "watch"] },
];

/**
 * For node footprints; whoever has none can leave this role out. Kinds of somebody else between a pod and the owner that it is
 * grouped by take `get` beside: a footprint names kinds, and RBAC resources. That DaemonSets ask for the label
 * (`nodeSelector: Manage`) is in the role above, and here where a document is known to want it.
 */
const footprintRules: readonly PolicyRule[] = [
  // What makes pods, up to those that footprints group them by. Of each only metadata is read.
  {
    apiGroups: ["apps"],
    resources: ["deployments", "replicasets", "statefulsets", "daemonsets"],
    verbs: ["get"],
  },
  { apiGroups: ["batch"], resources: ["jobs", "cronjobs"], verbs: ["get"] },
  { apiGroups: [""], resources: ["replicationcontrollers"], verbs: ["get"] },
  // Workloads are selected by the labels of their namespaces, and by the CSI drivers behind their claims.
  { apiGroups: [""], resources: ["namespaces"], verbs: ["list", "watch"] },
  { apiGroups: [""], resources: ["persistentvolumeclaims", "persistentvolumes"], verbs: ["list", "watch"] },
];

/** A finalizer on owners, and what they own deleted once. One rule for each kind, whatever its versions. */
function footprintHoldRules(holds: readonly HeldKinds[]): readonly PolicyRule[] {
  const verbs = new Map<string, Set<string>>();
  const kinds = new Map<string, GroupVersionResource>();
  const give = (resource: GroupVersionResource, given: readonly string[]): void => {
    const key = `${resource.resource}.${resource.group}`;
    kinds.set(key, resource);
    verbs.set(key, (verbs.get(key) ?? new Set<string>()).union(new Set(given)));
  };
  for (const { resource, ownedResources, deletes } of holds) {
    give(resource, ["get", "list", "watch", "patch"]);
    for (const owned of ownedResources) give(owned, ["list", "watch", ...(deletes ? ["delete"] : [])]);
  }
  return [...kinds].map(([key, { group, resource }]) => ({
    apiGroups: [group],
    resources: [resource],
    verbs: [...(verbs.get(key) ?? [])],
  }));
}

/** For WorkerPools: their Deployments, and the footprint that holds their deletion. */
const workerPoolRules: readonly PolicyRule[] = [
  {
    apiGroups: [workerPools.group],
    resources: [workerPools.plural],
    verbs: ["get", "list", "watch", "patch"],
  },
  { apiGroups: [workerPools.group], resources: [`${workerPools.plural}/status`], verbs: ["patch"] },
  // Where the API server asks for it (`OwnerReferencesPermissionEnforcement`), to block the deletion of an owner.
  { apiGroups: [workerPools.group], resources: [`${workerPools.plural}/finalizers`], verbs: ["update"] },
  {
    apiGroups: ["apps"],
    resources: ["deployments"],
    verbs: ["list", "watch", "create", "patch", "delete"],
  },
];

/** Each by its name, and only those that a pod names, or its service account. RBAC has no words for that. */
const pullSecretRules: readonly PolicyRule[] = [
  { apiGroups: [""], resources: ["secrets", "serviceaccounts"], verbs: ["get"] },
];

/** In its own namespace. */
export function namespaceRules(name: string, namespace: string): readonly PolicyRule[] {
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
    // What is known of images, found by its label.
    { apiGroups: [""], resources: ["configmaps"], verbs: ["list", "watch", "create"] },
    {
      apiGroups: [""],
      resources: ["configmaps"],
      resourceNames: Array.from({ length: MAX_SHARDS }, (_, at) => `${name}-image-facts-${at}`),
      verbs: ["patch"],
    },
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
