/** What keeping the objects of admission takes. */
import type { AskedPermissions, Permission } from "../capability.ts";
import type { AdmissionRules } from "./rules.ts";
import { admissionServerKind } from "./settings.ts";

const VERBS = ["create", "patch", "delete"];

/** For the objects of these rules; those that are found by their labels cannot be named to RBAC. */
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
          // A replica that stands by asks whether the leader has fallen back to the webhook.
          { rule: { ...group, resources, resourceNames: [own], verbs: ["get"] } },
          // Documents name them.
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
