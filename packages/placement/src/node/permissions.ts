/** Permissions that several capabilities need. */
import type { Permission } from "@berth/host";

const reading = ["list", "watch"];

/** What startup gates wait for, what policies and footprints select, and whether a node runs something already. */
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
