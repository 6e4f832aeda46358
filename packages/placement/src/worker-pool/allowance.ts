import type { StoredPool } from "./resource.ts";

/**
 * Which pools Berth makes Deployments of. Their pods are privileged, so a user who may create a WorkerPool could
 * otherwise run any image as root of a node. Berth allows only the values in these lists.
 */
export interface WorkerPoolAllowance {
  /** Allowed prefixes of `ateomImage`: each has a registry and `/` at least. */
  readonly images: readonly string[];
  /** Allowed namespaces of pools. */
  readonly namespaces: readonly string[];
  /** Allowed values of `priorityClassName`, besides none. */
  readonly priorityClasses: readonly string[];
}

/** Why the lists do not allow a pool, for people; `undefined`: they allow it. */
export function whyNotAllowed(
  { namespace, spec }: Pick<StoredPool, "namespace" | "spec">,
  { images, namespaces, priorityClasses }: WorkerPoolAllowance,
): string | undefined {
  const { ateomImage, template: { priorityClassName = "" } = {} } = spec;
  const lacking = [
    ...(images.some((prefix) => ateomImage.startsWith(prefix)) ? [] : [`images lacks ${ateomImage}`]),
    ...(namespaces.includes(namespace) ? [] : [`namespaces lacks ${namespace}`]),
    ...(["", ...priorityClasses].includes(priorityClassName)
      ? []
      : [`priorityClasses lacks ${priorityClassName}`]),
  ];
  if (lacking.length === 0) return undefined;
  return `spec.allow of the document WorkerPools does not allow it, so its Deployment is neither made nor changed: ${lacking.join("; ")}`;
}
