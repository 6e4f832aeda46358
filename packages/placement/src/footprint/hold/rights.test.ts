/** What is asked before an owner is held, how often, and what is told of it. */
import {
  ApiError,
  type KubeClient,
  type KubeObject,
  type ResourceAttributes,
  type SelfSubjectAccessReview,
} from "@berth/kube";
import { createVirtualClock, type VirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { footprintOf } from "../testing/footprints.ts";
import type { Guard } from "./decide.ts";
import { DENIED_MS, GRANTED_MS, HoldRights, TOLD_MS } from "./rights.ts";

const pools = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
const deployments = { group: "apps", version: "v1", resource: "deployments" };
const { signal } = new AbortController();

const jobs = { group: "batch", version: "v1", resource: "jobs" };
const HOLD = { resource: pools, finalizer: "x.test/hold" };
const other = { ...HOLD, finalizer: "x.test/other" };

function guardOf(
  onDelete: "DeleteOwned" | "Wait",
  { finalizer = HOLD.finalizer, owned = [deployments] }: { finalizer?: string; owned?: (typeof jobs)[] } = {},
): Guard {
  const hold = { resource: pools, finalizer, onDelete, ownedResources: owned };
  return { resource: pools, finalizer, footprint: footprintOf({ preset: "agent-substrate/pr-134", hold }) };
}

interface World {
  readonly clock: VirtualClock;
  readonly rights: HoldRights;
  /** As `verb namespace`, of Deployments; of Jobs all are there but those to delete. */
  readonly given: Set<string>;
  readonly asked: string[];
  missing(namespace?: string, guard?: Guard): Promise<string | undefined>;
}

function aWorld(...given: readonly string[]): World {
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

const LACK = 'verb "delete" on "deployments.apps" in namespace "shop" is missing';

describe("the rights to let an owner go", () => {
  it("are those to see what it owns and to delete it, asked for all namespaces once for many owners", async () => {
    const world = aWorld("list *", "watch *", "delete *");
    for (const namespace of ["shop", "bank", ""]) expect(await world.missing(namespace)).toBeUndefined();
    expect(world.asked).toEqual(["list *", "watch *", "delete *"]);
    expect(world.rights.why(HOLD)).toBeUndefined();
    await world.clock.advance(GRANTED_MS);
    world.given.delete("watch *");
    expect(await world.missing()).toBe('verb "watch" on "deployments.apps" in namespace "shop" is missing');
  });

  it("are not those to delete where somebody else does", async () => {
    const world = aWorld("list *", "watch *");
    expect(await world.missing("shop", guardOf("Wait"))).toBeUndefined();
    expect(await world.missing()).toBe(LACK);
  });

  it("may be given for the namespace alone", async () => {
    const world = aWorld("list *", "watch *", "delete shop");
    expect(await world.missing("shop")).toBeUndefined();
    expect(await world.missing("bank")).toContain('"delete" on "deployments.apps" in namespace "bank"');
    expect(await world.missing("")).toBe('verb "delete" on "deployments.apps" is missing');
  });

  it("are told while they are missing and asked for, and asked for again after a while", async () => {
    const world = aWorld("list *", "watch *");
    expect(await world.missing()).toBe(LACK);
    expect(world.rights.why(HOLD)).toBe(LACK);
    world.given.add("delete *");
    expect(await world.missing()).toBe(LACK);
    await world.clock.advance(DENIED_MS);
    expect(await world.missing()).toBeUndefined();
    expect(world.rights.why(HOLD)).toBeUndefined();
  });

  it("are asked for all that the owners own", async () => {
    const world = aWorld("list *", "watch *", "delete *");
    const lack = 'verb "delete" on "jobs.batch" in namespace "shop" is missing';
    const shared = guardOf("DeleteOwned", { owned: [deployments, jobs] });
    expect(await world.missing("shop", shared)).toBe(lack);
    expect(world.rights.why(HOLD)).toBe(lack);
    await world.clock.advance(DENIED_MS);
    expect(await world.missing("shop")).toBeUndefined();
    expect(world.rights.why(HOLD)).toBeUndefined();
  });

  it("are not told to those that hold them by another: they lack nothing", async () => {
    const world = aWorld("list *", "watch *");
    expect(await world.missing("shop")).toBe(LACK);
    expect(await world.missing("shop", guardOf("Wait", other))).toBeUndefined();
    expect(world.rights.why(other)).toBeUndefined();
    expect(world.rights.why(HOLD)).toBe(LACK);
    expect(world.rights.why({ ...HOLD, resource: jobs })).toBeUndefined();
  });

  it("are no longer told of when nobody needs them any more", async () => {
    const world = aWorld();
    await world.missing();
    await world.clock.advance(TOLD_MS);
    expect(world.rights.why(HOLD)).toBeUndefined();
  });

  it("count as missing where the server does not let them be asked for, and not where it cannot be reached", async () => {
    const failing = (kind: "forbidden" | "unreachable"): HoldRights => {
      const error = new ApiError({ kind }, { verb: "create", resource: "selfsubjectaccessreviews" });
      const create = <T extends KubeObject>(): Promise<T> => Promise.reject(error);
      return new HoldRights({ client: { create }, clock: createVirtualClock() });
    };
    const refused = failing("forbidden");
    const guard = guardOf("DeleteOwned");
    expect(await refused.missing(guard, "shop", signal)).toContain("create selfsubjectaccessreviews");
    expect(refused.why(HOLD)).toContain("create selfsubjectaccessreviews");
    await expect(failing("unreachable").missing(guard, "shop", signal)).rejects.toThrow(ApiError);
  });
});
