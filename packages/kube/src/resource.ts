import type { KubeObject } from "./object.ts";

declare const wireType: unique symbol;

/**
 * The collection of the API that a request is about, and (at compile time only) the type of its objects.
 * `defineResource` creates it; the built-in ones are in `resources.ts`.
 */
export interface Resource<T extends KubeObject = KubeObject> {
  /** API group, `""` for core. */
  readonly group: string;
  readonly version: string;
  /** Plural, lower case: the path segment, as in RBAC rules. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never present at run time: carries the type of the objects. */
  readonly [wireType]?: T;
}

/** Declares a resource, for a custom resource or one that `resources.ts` does not list. */
export function defineResource<T extends KubeObject>(
  resource: Pick<Resource<T>, "group" | "version" | "plural" | "kind" | "namespaced">,
): Resource<T> {
  return Object.freeze({ ...resource });
}

/** `v1` or `apps/v1`: the `apiVersion` of the resource's objects. */
export function apiVersionOf(resource: Resource): string {
  return resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
}

/** `nodes` or `deployments.apps`: how kubectl and RBAC messages name the resource. */
export function nameOfResource(resource: Resource): string {
  return resource.group === "" ? resource.plural : `${resource.plural}.${resource.group}`;
}
