import type { AskedPermissions, Permission } from "@berth/host";
import { workerPools } from "./resource.ts";
import { workerPoolsKind } from "./settings.ts";

/** For WorkerPools: any Deployment, as RBAC cannot select theirs; and the footprint that holds their deletion. */
export function poolPermissions({ documents, flags }: AskedPermissions): readonly Permission[] {
  const isGiven = documents.specOf(workerPoolsKind) !== undefined;
  if (!isGiven && !flags.has("workerPools")) return [];
  const { group, plural } = workerPools;
  const role = "worker-pools";
  return [
    {
      role,
      rule: { apiGroups: [group], resources: [plural], verbs: ["get", "list", "watch", "patch"] },
      ...(isGiven && { unusual: "make and delete Deployments (WorkerPools)" }),
    },
    { role, rule: { apiGroups: [group], resources: [`${plural}/status`], verbs: ["patch"] } },
    // If the API server requires it (`OwnerReferencesPermissionEnforcement`): to block the deletion of an owner.
    { role, rule: { apiGroups: [group], resources: [`${plural}/finalizers`], verbs: ["update"] } },
    {
      role,
      rule: {
        apiGroups: ["apps"],
        resources: ["deployments"],
        verbs: ["list", "watch", "create", "patch", "delete"],
      },
    },
  ];
}
