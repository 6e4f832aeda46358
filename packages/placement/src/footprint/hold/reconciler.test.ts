/** What is carried out, how often, and what becomes of answers that come too late. */
import { ApiError } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { reasons } from "../../api/reasons.ts";
import { FINALIZER, owned, setUp, setUpAlive } from "../testing/hold-setup.ts";
import { makeAteom } from "../testing/pods.ts";

describe("the reconciler of owners", () => {
  it("takes its finalizer off, and keeps those of others in their order", async () => {
    const setup = setUp();
    await setup.look();
    const metadata = { uid: "a", resourceVersion: "7", finalizers: ["x", "y"] };
    expect(setup.requests).toEqual([`patch pool ${JSON.stringify({ metadata })}`]);
  });

  it("puts none on that it could not take off: not before pods are seen, nor while a right is missing", async () => {
    const setup = setUpAlive();
    setup.pods = undefined;
    expect(await setup.look()).toBeUndefined();
    setup.pods = [];
    setup.missing = 'verb "delete" on "deployments.apps" is missing';
    expect(await setup.look()).toEqual({ recheckAfterMs: 30_000 });
    await setup.look();
    expect(setup.requests).toEqual([]);
    setup.missing = undefined;
    expect(await setup.look()).toBeUndefined();
    expect(setup.requests.at(-1)).toContain("patch pool");
  });

  it("puts it behind those of others", async () => {
    const setup = setUpAlive();
    await setup.look();
    const metadata = { uid: "a", resourceVersion: "7", finalizers: ["x", FINALIZER] };
    expect(setup.requests).toEqual([`patch pool ${JSON.stringify({ metadata })}`]);
  });

  it("deletes what is owned once, of the version that it has seen, in the background", async () => {
    const setup = setUp();
    setup.owned = [owned];
    await setup.look();
    await setup.look();
    expect(setup.requests).toEqual(["delete pool-deployment Background d 3"]);
  });

  it("deletes another version when the one that it has seen is no more", async () => {
    const setup = setUp();
    setup.owned = [owned];
    setup.fails = new ApiError({ kind: "conflict", causes: [] }, { verb: "delete", resource: "x" });
    await setup.look();
    setup.fails = undefined;
    setup.owned = [{ ...owned, resourceVersion: "4" }];
    await setup.look();
    expect(setup.requests).toEqual([
      "delete pool-deployment Background d 3",
      "delete pool-deployment Background d 4",
    ]);
  });

  it("says of what is held that a right is missing, and tries again", async () => {
    const setup = setUp();
    setup.owned = [owned];
    setup.mayRead = true;
    setup.fails = new ApiError({ kind: "forbidden" }, { verb: "delete", resource: "deployments.apps" });
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    const [entry] = setup.held.of("cluster/f");
    expect(entry?.message).toMatch(/^what it owns: deployments default\/pool-deployment; delete deployments/);
    setup.fails = undefined;
    setup.owned = [];
    await setup.look();
    expect(setup.requests.at(-1)).toContain("patch pool");
  });

  it("F-B1 deletes what it may, though something before it may not be deleted, and says what was refused", async () => {
    const setup = setUp();
    setup.owned = [owned, { ...owned, name: "far", uid: "e", namespace: "elsewhere" }];
    setup.refused = (name) => name === "pool-deployment";
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    expect(setup.deleted()).toEqual(["pool-deployment", "far"]);
    expect(setup.held.of("cluster/f")[0]?.message).toContain("delete deployments.apps");
    await setup.look();
    expect(setup.deleted().slice(2)).toEqual(["pool-deployment"]);
  });

  it("F-E12 tells once of an owner whose pod is stuck", async () => {
    const setup = setUp();
    const pod = makeAteom("a", "p");
    const at = new Date(setup.clock.now()).toISOString();
    setup.pods = [{ ...pod, metadata: { ...pod.metadata, deletionTimestamp: at } }];
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    expect(setup.events).toEqual([]);
    await setup.clock.advance(30_000);
    await setup.look();
    await setup.look();
    expect(setup.events).toMatchObject([
      { reason: reasons.OwnerHeld, type: "Warning", regarding: { kind: "WorkerPool", name: "pool" } },
    ]);
    expect(setup.held.of("cluster/f")).toMatchObject([
      { name: "default/pool", pods: ["default/p"], isStuck: true },
    ]);
  });

  it("forgets what it held of an owner that is gone", async () => {
    const setup = setUp();
    setup.pods = [makeAteom("a", "p")];
    await setup.look();
    expect(setup.held.size).toBe(1);
    setup.owner = undefined;
    await setup.look();
    expect(setup.held.size).toBe(0);
  });
});
