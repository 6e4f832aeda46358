/** Permissions that several capabilities need. */
import type { Permission } from "@berth/host";

const reading = ["list", "watch"];

/** Startup gates, policies and footprints read pods and DaemonSets: for conditions, selection and images on nodes. */
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
