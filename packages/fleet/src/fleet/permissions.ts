/** The permissions of a fleet in its own cluster, by mode. */
import { type AskedPermissions, admissionPermissions, type Permission } from "@berth/host";
import type { PolicyRule, Resource } from "@berth/kube";
import { fleetAdmission } from "../admit/review.ts";
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
import { fleetKind } from "./document.ts";
import { leaseName } from "./settings.ts";

const READ = ["list", "watch"];

export function fleetPermissions(asked: AskedPermissions): readonly Permission[] {
  const spec = asked.documents.specOf(fleetKind);
  if (spec === undefined) return [];
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
    ...(!isSingle && (spec.quota !== undefined || spec.networking !== "Off")
      ? [{ apiGroups: [""], resources: ["namespaces"], verbs: READ }]
      : []),
  ];
  const lease: PolicyRule = {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    resourceNames: [leaseName(spec, asked.name)],
    verbs: ["get", "update"],
  };
  return [
    ...[...rules, ...(isSingle ? admissionPermissions(fleetAdmission, asked).map((it) => it.rule) : [])].map(
      (it): Permission => ({ role: "fleet", rule: it }),
    ),
    { role: "namespace", rule: lease },
  ];
}

function rule({ group, plural }: Resource, verbs: readonly string[], subresource?: string): PolicyRule {
  return {
    apiGroups: [group],
    resources: [subresource === undefined ? plural : `${plural}/${subresource}`],
    verbs,
  };
}
