import { type AskedPermissions, admissionPermissions, type Permission } from "@berth/host";
import { patchesDaemonSets, readsNamespaces, readsPods } from "../node/permissions.ts";
import { MAX_SHARDS } from "./images/fact-shards.ts";
import { ARCHITECTURE } from "./policy.ts";

/** Whoever has no architecture policy can leave the role out. Beside it the webhook has to be reached. */
export function architecturePermissions(asked: AskedPermissions): readonly Permission[] {
  const role = ARCHITECTURE;
  return [
    ...readsPods,
    ...admissionPermissions({ name: ARCHITECTURE, effect: "mutate" }, asked),
    // Pods that wait for a node get tolerations, or are let go with their affinity narrowed.
    { role, rule: { apiGroups: [""], resources: ["pods"], verbs: ["patch"] } },
    // One that can run nowhere gets a condition that says why.
    { role, rule: { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] } },
    // Their templates get tolerations, without which their pods would not come to tainted nodes.
    patchesDaemonSets(role),
    readsNamespaces(role),
    // What is known of images, found by its label.
    { role: "namespace", rule: { apiGroups: [""], resources: ["configmaps"], verbs: ["list", "watch"] } },
    {
      role: "namespace",
      rule: {
        apiGroups: [""],
        resources: ["configmaps"],
        resourceNames: Array.from({ length: MAX_SHARDS }, (_, at) => `${asked.name}-image-facts-${at}`),
        verbs: ["patch"],
      },
    },
    // Each by its name, and only those that a pod names, or its service account. RBAC has no words for that.
    ...(asked.flags.has("pullSecrets")
      ? [
          {
            role: "pull-secrets",
            rule: { apiGroups: [""], resources: ["secrets", "serviceaccounts"], verbs: ["get"] },
          },
        ]
      : []),
  ];
}
