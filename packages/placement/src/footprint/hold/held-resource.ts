/** Resources that documents name: owners, and what these own. Their kinds are not known, and not needed. */
import { defineResource, type Resource } from "@berth/kube";
import type { GroupVersionResource, OwnerHold } from "../footprint.ts";

/** `workerpools.ate.dev`, as kubectl names it: versions of one resource are the same objects. */
export function resourceName({ group, resource }: PluralName): string {
  return group === "" ? resource : `${resource}.${group}`;
}

type PluralName = Pick<GroupVersionResource, "group" | "resource">;

export function isSameResource(a: PluralName, b: PluralName): boolean {
  return a.group === b.group && a.resource === b.resource;
}

export function versionedName(resource: GroupVersionResource): string {
  return `${resourceName(resource)}/${resource.version}`;
}

/** Identifies a hold: holds with the same name keep the same owners, also across footprints. */
export function guardName({ resource, finalizer }: Pick<OwnerHold, "resource" | "finalizer">): string {
  return `${resourceName(resource)} ${finalizer}`;
}

/** `namespace/name` of an owner or an owned object; the name alone without a namespace. */
export function heldName({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return namespace === "" ? name : `${namespace}/${name}`;
}

/** For requests about one object, or about a whole collection. */
export function resourceOf(
  { group, version, resource }: GroupVersionResource,
  isNamespaced = true,
): Resource {
  return defineResource({ group, version, plural: resource, kind: "", namespaced: isNamespaced });
}
