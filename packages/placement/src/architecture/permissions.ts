import { type AskedPermissions, admissionPermissions, type Permission } from "@berth/host";
import { patchesDaemonSets, readsNamespaces, readsPods } from "../node/permissions.ts";
import { MAX_SHARDS } from "./images/fact-shards.ts";
import { ARCHITECTURE } from "./policy.ts";

/** Users without architecture policies can leave the role out. The API server also has to reach the webhook. */
export function architecturePermissions(asked: AskedPermissions): readonly Permission[] {
  const role = ARCHITECTURE;
  return [
    ...readsPods,
    ...admissionPermissions({ name: ARCHITECTURE, effect: "mutate" }, asked),
    // Berth adds tolerations to pods without a node, narrows their affinity and lifts its gate.
    { role, rule: { apiGroups: [""], resources: ["pods"], verbs: ["patch"] } },
    // Berth sets a condition on a pod that can run nowhere.
    { role, rule: { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] } },
    // Berth adds tolerations to templates. Without them, tainted nodes would get no pod of the DaemonSet.
    patchesDaemonSets(role),
    readsNamespaces(role),
    // Image facts. Berth finds their ConfigMaps by the label.
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
    // Berth reads by name only those that a pod or its service account names. RBAC cannot express that limit.
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
