import { type AskedPermissions, admissionPermissions, type Documents, type Permission } from "@berth/host";
import { patchesDaemonSets, readsNamespaces, readsPods } from "../node/permissions.ts";
import { compileFootprints } from "./compile.ts";
import { FOOTPRINT, type Footprint, type OwnerHold } from "./footprint.ts";
import { nodeFootprintKind } from "./resource.ts";

/**
 * Users without footprints can omit this role. If custom kinds stand between a pod and the owner that groups it, users
 * must also grant `get` on these. Berth cannot list them: a footprint names kinds, but RBAC names resources.
 */
export function footprintPermissions(asked: AskedPermissions): readonly Permission[] {
  const role = FOOTPRINT;
  const footprints = footprintsOf(asked.documents);
  const get = (group: string, ...resources: readonly string[]): Permission => ({
    role,
    rule: { apiGroups: [group], resources, verbs: ["get"] },
  });
  return [
    ...readsPods,
    ...admissionPermissions({ name: FOOTPRINT, effect: "mutate" }, asked),
    // Built-in controllers of pods, up to the owners that group them. Berth reads only their metadata.
    get("apps", "deployments", "replicasets", "statefulsets", "daemonsets"),
    get("batch", "jobs", "cronjobs"),
    get("", "replicationcontrollers"),
    readsNamespaces(role),
    // Footprints can select pods by the CSI drivers behind their claims.
    {
      role,
      rule: {
        apiGroups: [""],
        resources: ["persistentvolumeclaims", "persistentvolumes"],
        verbs: ["list", "watch"],
      },
    },
    ...(footprints.some(({ agent }) => agent?.nodeSelector === "Manage") ? [patchesDaemonSets(role)] : []),
    ...holdPermissions(footprints),
  ];
}

export function holdsOf(documents: Documents): readonly OwnerHold[] {
  return footprintsOf(documents).flatMap(({ hold }) => hold ?? []);
}

function footprintsOf(documents: Documents): readonly Footprint[] {
  const given = documents.documentsOf(nodeFootprintKind);
  return compileFootprints({ sources: [{ source: "config", documents: given }] }).footprints;
}

/** Permissions to put finalizers on owners and to delete what these own. One rule per resource, for all versions. */
function holdPermissions(footprints: readonly Footprint[]): readonly Permission[] {
  const verbs = new Map<string, { readonly group: string; readonly resource: string; given: Set<string> }>();
  const unusual: string[] = [];
  for (const { name, hold } of footprints) {
    if (hold === undefined) continue;
    const { resource: owners, ownedResources, onDelete } = hold;
    const deletes = onDelete === "DeleteOwned";
    const all = [
      { ...owners, given: ["get", "list", "watch", "patch"] },
      ...ownedResources.map((owned) => ({
        ...owned,
        given: ["list", "watch", ...(deletes ? ["delete"] : [])],
      })),
    ];
    for (const { group, resource, given } of all) {
      const key = `${resource}.${group}`;
      verbs.set(key, { group, resource, given: new Set([...(verbs.get(key)?.given ?? []), ...given]) });
    }
    const of = `(NodeFootprint ${name})`;
    unusual.push(`patch ${owners.resource} ${of}`);
    if (deletes) unusual.push(`delete ${ownedResources.map(({ resource }) => resource).join(", ")} ${of}`);
  }
  const role = `${FOOTPRINT}-holds`;
  return [...verbs.values()].map(({ group, resource, given }) => {
    const rule = { apiGroups: [group], resources: [resource], verbs: [...given] };
    return { role, rule, unusual: unusual.join("; ") };
  });
}
