/** The rights that holds take, from a server that is asked for them. */
import type { KubeClient, ResourceAttributes, SelfSubjectAccessReview } from "@berth/kube";
import { createVirtualClock, type VirtualClock } from "@berth/runtime";
import type { Guard } from "../hold/decide.ts";
import { HoldRights } from "../hold/rights.ts";
import { footprintOf } from "./footprints.ts";

const pools = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
export const deployments = { group: "apps", version: "v1", resource: "deployments" };
export const signal: AbortSignal = new AbortController().signal;

export const jobs = { group: "batch", version: "v1", resource: "jobs" };
export const HOLD: Pick<Guard, "resource" | "finalizer"> = { resource: pools, finalizer: "x.test/hold" };
/** The same owners, by another finalizer. */
export const other: typeof HOLD = { ...HOLD, finalizer: "x.test/other" };

export function guardOf(
  onDelete: "DeleteOwned" | "Wait",
  { finalizer = HOLD.finalizer, owned = [deployments] }: { finalizer?: string; owned?: (typeof jobs)[] } = {},
): Guard {
  const hold = { resource: pools, finalizer, onDelete, ownedResources: owned };
  return { resource: pools, finalizer, footprint: footprintOf({ preset: "agent-substrate/pr-134", hold }) };
}

export interface RightsWorld {
  readonly clock: VirtualClock;
  readonly rights: HoldRights;
  /** As `verb namespace`, of Deployments; of Jobs all are there but those to delete. */
  readonly given: Set<string>;
  readonly asked: string[];
  missing(namespace?: string, guard?: Guard): Promise<string | undefined>;
}

/** @param given as `verb namespace`, or `verb *`. */
export function aWorld(...given: readonly string[]): RightsWorld {
  const clock = createVirtualClock();
  const asked: string[] = [];
  const allowed = new Set(given);
  const create = (_: unknown, { spec }: SelfSubjectAccessReview): Promise<SelfSubjectAccessReview> => {
    const { verb, resource, namespace = "*" }: ResourceAttributes = spec.resourceAttributes ?? {};
    if (resource === "jobs") return Promise.resolve({ spec, status: { allowed: verb !== "delete" } });
    asked.push(`${verb} ${namespace}`);
    const isAllowed = allowed.has(`${verb} *`) || allowed.has(`${verb} ${namespace}`);
    return Promise.resolve({ spec, status: { allowed: isAllowed } });
  };
  const client = { create: create as unknown as KubeClient["create"] };
  const rights = new HoldRights({ client, clock });
  const missing = (namespace = "shop", guard = guardOf("DeleteOwned")): Promise<string | undefined> =>
    rights.missing(guard, namespace, signal);
  return { clock, rights, given: allowed, asked, missing };
}
