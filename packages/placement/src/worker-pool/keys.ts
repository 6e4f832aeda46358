/** Names that agent-substrate gives its objects. They are a contract: other programs look for them. */
import { originalFootprint } from "../api/agent-substrate.ts";

/** API group and version of WorkerPool. */
export const WORKER_POOL_GROUP = "ate.dev";
export const WORKER_POOL_VERSION = "v1alpha1";

/** Pod label with the pool's name, and the whole selector of its Deployment. */
export const WORKER_POOL_LABEL: typeof originalFootprint.poolLabel = originalFootprint.poolLabel;
/** Pod label with the pool's uid: node footprints can group pods by it. Not in the selector, which is immutable. */
export const WORKER_POOL_UID_LABEL: typeof originalFootprint.podLabel = originalFootprint.podLabel;
/** Node label, and taint, of nodes that run sandboxes of a class. */
export const SANDBOX_CLASS_KEY = "ate.dev/sandboxClass";

/** Field manager of the Deployment: that of the original, so that Berth owns the fields after replacing it. */
export const WORKER_POOL_FIELD_MANAGER = "workerpool-controller";

export function deploymentNameOf(pool: string): string {
  return `${pool}${DEPLOYMENT_SUFFIX}`;
}

/** The pool whose Deployment would have this name; `undefined` when none would. */
export function poolNameOf(deployment: string): string | undefined {
  return deployment.endsWith(DEPLOYMENT_SUFFIX) ? deployment.slice(0, -DEPLOYMENT_SUFFIX.length) : undefined;
}

const DEPLOYMENT_SUFFIX = "-deployment";
