/** The permissions of a fleet in its own cluster, by mode, and those of a hub in other clusters. */
import { type AskedPermissions, admissionPermissions, documentReviews, type Permission } from "@berth/host";
import type { PolicyRule, Resource } from "@berth/kube";
import { fleetAdmission, isAsked } from "../admit/review.ts";
import { cells, withdrawals } from "../api/cell.ts";
import {
  interpreterCustomizations,
  memberClusters,
  propagationPolicies,
  resourceBindings,
} from "../api/karmada.ts";
import {
  locations,
  networkBindings,
  networkContexts,
  networks,
  subnetClaims,
  subnets,
} from "../api/networking.ts";
import { resourceClaims } from "../api/quota.ts";
import { instances, workloadDeployments, workloads } from "../api/workload.ts";
import { type FleetSpec, fleetKind } from "./document.ts";
import { leaseName } from "./settings.ts";

const READ = ["list", "watch"];
const WRITE = ["create", "patch", "delete"];

/**
 * What a cluster is for the account that gets rights there. `karmada`: the hub, where Karmada carries its deployments.
 * `write-back`: that hub, for a cell that writes its Instances there.
 */
export type Plane = "cell" | "project" | "hub" | "karmada" | "write-back";

/** Of each plane. The identity of a cluster is the uid of a namespace. */
const NAMESPACES_SEEN: PolicyRule = {
  apiGroups: [""],
  resources: ["namespaces"],
  verbs: ["get", ...READ],
};
const LEASES: PolicyRule = { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["list"] };
/** A probe lists the Lease that each cluster has. */
const SEEN: readonly PolicyRule[] = [
  NAMESPACES_SEEN,
  { ...LEASES, resourceNames: ["kube-controller-manager"] },
];
const EVENTS: PolicyRule = {
  apiGroups: ["events.k8s.io"],
  resources: ["events"],
  verbs: ["create", "patch"],
};
const NAMESPACES_MADE: PolicyRule = { apiGroups: [""], resources: ["namespaces"], verbs: ["create"] };
const STORED: readonly PolicyRule[] = [
  ...[workloadDeployments, instances].flatMap((it) => [
    rule(it, [...READ, ...WRITE]),
    rule(it, ["patch"], "status"),
  ]),
  ...SEEN,
  EVENTS,
];

const HUB: readonly PolicyRule[] = [...STORED, NAMESPACES_MADE];

/** What a hub may do in a cluster. It never changes or deletes a namespace, and no Instance in a cell. */
export const planeRules: Readonly<Record<Plane, readonly PolicyRule[]>> = {
  cell: [
    rule(workloadDeployments, ["get", ...READ, ...WRITE]),
    rule(instances, READ),
    NAMESPACES_SEEN,
    NAMESPACES_MADE,
  ],
  project: [
    rule(workloads, [...READ, "patch"]),
    rule(workloads, ["patch"], "status"),
    rule(workloads, ["update"], "finalizers"),
    ...STORED,
  ],
  hub: HUB,
  "write-back": [
    rule(workloadDeployments, READ),
    rule(instances, [...READ, ...WRITE]),
    rule(instances, ["patch"], "status"),
    ...SEEN,
    EVENTS,
  ],
  karmada: [
    ...HUB,
    rule(propagationPolicies, [...READ, ...WRITE]),
    rule(resourceBindings, READ),
    rule(memberClusters, READ),
    rule(interpreterCustomizations, [...READ, "create", "patch"]),
  ],
};

/** What it may do in Berth's namespace of a cell: it hears the cell by a Lease there. */
export const cellHomeRules: readonly PolicyRule[] = [LEASES];

/** Its own cluster has Cells, Withdrawals, and Secrets in Berth's namespace. It may be the hub and a project as well. */
function managementRules({ hub, projects, driver }: FleetSpec): readonly Permission[] {
  const rules = [
    rule(cells, [...READ, "patch"]),
    rule(cells, ["patch"], "status"),
    rule(withdrawals, [...READ, "create", "delete"]),
    ...SEEN,
    ...(projects === "self" ? planeRules.project : []),
    ...(hub === "self" ? planeRules[driver === "karmada" ? driver : "hub"] : []),
  ];
  const secrets: PolicyRule = { apiGroups: [""], resources: ["secrets"], verbs: READ };
  return [
    ...rules.map((it): Permission => ({ role: "fleet", rule: it })),
    { role: "namespace", rule: secrets },
  ];
}

export function fleetPermissions(asked: AskedPermissions): readonly Permission[] {
  const spec = asked.documents.specOf(fleetKind);
  if (spec === undefined) return [];
  const lease: PolicyRule = {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    resourceNames: [leaseName(spec, asked.name)],
    verbs: ["get", "update"],
  };
  const ofLease: Permission = { role: "namespace", rule: lease };
  const ofAdmission = (isAsked(spec) ? [fleetAdmission, documentReviews] : []).flatMap((rules) =>
    admissionPermissions(rules, asked).map((it): Permission => ({ role: "fleet", rule: it.rule })),
  );
  if (spec.mode === "management") return [...managementRules(spec), ...ofAdmission, ofLease];
  const isSingle = spec.mode === "single";
  const written = [...(isSingle ? [workloads] : []), workloadDeployments, instances];
  const made = [...(isSingle ? [workloadDeployments] : []), instances];
  const rules: readonly PolicyRule[] = [
    ...written.flatMap((resource) => [
      rule(resource, [...READ, "patch"]),
      rule(resource, ["patch"], "status"),
      // If the API server requires it (`OwnerReferencesPermissionEnforcement`): to block the deletion of an owner.
      rule(resource, ["update"], "finalizers"),
    ]),
    ...made.map((resource) => rule(resource, ["create", "delete"])),
    ...(spec.provider === "pods"
      ? [{ apiGroups: [""], resources: ["pods"], verbs: [...READ, "create", "delete"] }]
      : []),
    ...(spec.networking === "Off"
      ? []
      : [
          ...[locations, networks, networkContexts, subnets].map((resource) => rule(resource, READ)),
          ...[networkBindings, subnetClaims].map((resource) => rule(resource, [...READ, "create"])),
        ]),
    ...(spec.quota?.from === "Cluster" ? [rule(resourceClaims, ["get", ...READ, "create", "delete"])] : []),
    ...(isSingle
      ? [
          {
            apiGroups: ["authorization.k8s.io"],
            resources: ["subjectaccessreviews"],
            verbs: ["create"],
          },
        ]
      : []),
    // Its copies on the hub say of which cluster they are.
    ...(spec.hub !== undefined
      ? [{ ...NAMESPACES_SEEN, resourceNames: ["kube-system"], verbs: ["get"] }]
      : []),
    ...(!isSingle && (spec.quota !== undefined || spec.networking !== "Off")
      ? [{ apiGroups: [""], resources: ["namespaces"], verbs: READ }]
      : []),
  ];
  return [...rules.map((it): Permission => ({ role: "fleet", rule: it })), ...ofAdmission, ofLease];
}

function rule({ group, plural }: Resource, verbs: readonly string[], subresource?: string): PolicyRule {
  return {
    apiGroups: [group],
    resources: [subresource === undefined ? plural : `${plural}/${subresource}`],
    verbs,
  };
}
