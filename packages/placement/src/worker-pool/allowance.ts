import type { StoredPool } from "./resource.ts";

/**
 * Which pools Deployments are made of. Their pods are privileged, so whoever may create a WorkerPool would otherwise run
 * anything as root of a node. Nothing that is not listed is allowed.
 */
export interface WorkerPoolAllowance {
  /** What `ateomImage` has to begin with: a registry and `/` at least. */
  readonly images: readonly string[];
  /** Where pools may be. */
  readonly namespaces: readonly string[];
  /** What `priorityClassName` may be, besides none. */
  readonly priorityClasses: readonly string[];
}

/** What the lists do not allow of a pool, for people; `undefined`: it is allowed. */
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
