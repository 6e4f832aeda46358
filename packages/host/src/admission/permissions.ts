/** Permissions that Berth needs to manage its admission objects. */
import type { AskedPermissions, Permission } from "../capability.ts";
import type { AdmissionRules } from "./rules.ts";
import { admissionServerKind } from "./settings.ts";

const VERBS = ["create", "patch", "delete"];

/** Permissions for the objects of these rules. RBAC cannot name objects that Berth finds by their labels. */
export function admissionPermissions(
  { name: component, effect, policies }: Pick<AdmissionRules<never>, "name" | "effect" | "policies">,
  { name, documents }: AskedPermissions,
): readonly Permission[] {
  const group = { apiGroups: ["admissionregistration.k8s.io"] };
  const resources = [
    effect === "mutate" ? "mutatingwebhookconfigurations" : "validatingwebhookconfigurations",
  ];
  const adopted = documents.specOf(admissionServerKind)?.configuration?.name;
  const own = `${name}-${component}`;
  const resourceNames = effect === "mutate" && adopted !== undefined ? [own, adopted] : [own];
  return [
    { rule: { ...group, resources, verbs: ["list", "watch"] } },
    { rule: { ...group, resources, resourceNames, verbs: VERBS } },
    ...(policies === undefined
      ? []
      : [
          // A standby replica checks whether the leader has switched to the webhook.
          { rule: { ...group, resources, resourceNames: [own], verbs: ["get"] } },
          // Documents determine the names of these objects, so the rule cannot list them.
          {
            rule: {
              ...group,
              resources: ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
              verbs: ["list", "watch", ...VERBS],
            },
          },
        ]),
  ];
}
