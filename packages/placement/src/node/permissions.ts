/** Permissions that several capabilities need. */
import type { Permission } from "@berth/host";

const reading = ["list", "watch"];

/** Startup gates wait for these objects. Policies and footprints select them, and check whether a node runs them. */
export const readsPods: readonly Permission[] = [
  { rule: { apiGroups: [""], resources: ["pods"], verbs: reading } },
  { rule: { apiGroups: ["apps"], resources: ["daemonsets"], verbs: reading } },
];

/** Pods are selected by the labels of their namespaces. */
export function readsNamespaces(role: string): Permission {
  return { role, rule: { apiGroups: [""], resources: ["namespaces"], verbs: reading } };
}

/** Templates of DaemonSets are changed. */
export function patchesDaemonSets(role: string): Permission {
  return { role, rule: { apiGroups: ["apps"], resources: ["daemonsets"], verbs: ["patch"] } };
}
