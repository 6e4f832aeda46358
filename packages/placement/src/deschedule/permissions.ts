import type { AskedPermissions, Permission } from "@berth/host";
import { deschedulePolicyKind } from "./resource.ts";

const role = "deschedule";

/** In a role of its own, so that a user who wants no evictions can leave it out. */
export function deschedulePermissions({ documents }: AskedPermissions): readonly Permission[] {
  const isGiven = documents.documentsOf(deschedulePolicyKind).length > 0;
  return [
    { role, rule: { apiGroups: [""], resources: ["pods", "namespaces"], verbs: ["list", "watch"] } },
    {
      role,
      rule: {
        apiGroups: ["scheduling.k8s.io"],
        resources: ["priorityclasses"],
        verbs: ["list", "watch"],
      },
    },
    {
      role,
      rule: { apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"] },
      ...(isGiven && { unusual: "evict pods (DeschedulePolicy)" }),
    },
  ];
}
