/** What is asked before an owner is held, how often, and what is told of it. */
import { ApiError, type KubeObject } from "@berth/kube";
import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { aWorld, deployments, guardOf, HOLD, jobs, other, signal } from "../testing/rights-world.ts";
import { DENIED_MS, GRANTED_MS, HoldRights, TOLD_MS } from "./rights.ts";

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
