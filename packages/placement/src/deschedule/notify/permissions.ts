import type { AskedPermissions, Permission } from "@berth/host";
import { nodeNotifierKind } from "./document.ts";

/** For notifiers that create Jobs. A user can leave the role out and bind the same rights in one namespace. */
export function notifierPermissions({ documents }: AskedPermissions): readonly Permission[] {
  const role = "notifiers";
  const apiGroups = ["batch"];
  return documents.documentsOf(nodeNotifierKind).flatMap(({ name, spec: { job } }): readonly Permission[] => {
    if (job === undefined) return [];
    const unusual = `create jobs in every namespace (NodeNotifier ${name})`;
    return [
      {
        role,
        rule: { apiGroups, resources: ["cronjobs"], resourceNames: [job.cronJob], verbs: ["get"] },
        unusual,
      },
      { role, rule: { apiGroups, resources: ["jobs"], verbs: ["create"] }, unusual },
    ];
  });
}
