/** The path and query of a request, and names that cannot be part of one. */
import type { ObjectName } from "./object.ts";
import type { Resource } from "./resource.ts";

/** Segments as RFC 3986 has them, but none that a URL parser removes. */
export const PATH: RegExp = /^(?:\/(?!(?:\.|%2e){1,2}(?:\/|$))[\w.~!$&'()*+,;=:@%-]+)+$/i;

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * The longest name of an object (apimachinery `DNS1123SubdomainMaxLength`). Names come from references that any author
 * of an object can write. A header that is too long can end a connection that all requests share.
 */
export const MAX_NAME = 253;

/** Without a namespace, the server would answer a bare 404 or 405 for one object, and for a creation. */
export function faultOfNamespace(resource: Resource, namespace: string | undefined): string | undefined {
  return resource.namespaced && !namespace
    ? `${resource.kind} is namespaced and no namespace is given`
    : undefined;
}

/** Why a name is invalid: the server would answer a bare 404 or 405, use another path, or reject it. */
export function faultOfName(resource: Resource, of: ObjectName): string | undefined {
  const fault = faultOfNamespace(resource, of.namespace);
  if (fault !== undefined) return fault;
  if (of.name === "") return "the name is empty";
  if (of.name.length > MAX_NAME) return `a name has at most ${MAX_NAME} characters`;
  if ((of.namespace ?? "").length > MAX_NAME) return `a namespace has at most ${MAX_NAME} characters`;
  return of.name === "." || of.name === ".." ? `"${of.name}" is no name` : undefined;
}

export function pathOf(resource: Resource, namespace: string | undefined): string {
  const root =
    resource.group === "" ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const within = resource.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${within}/${resource.plural}`;
}

export function toQuery(query: Query): string {
  const text = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${key}=${encodeURIComponent(String(value))}`)
    .join("&");
  return text === "" ? "" : `?${text}`;
}
