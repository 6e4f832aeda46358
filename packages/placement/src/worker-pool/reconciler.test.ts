import { describe, expect, it } from "vitest";
import { ALLOW, PoolRun } from "./testing/pool-run.ts";

const MINUTE = 60_000;

describe("the reconciler of pools", () => {
  it("applies once, and nothing more once the cache shows it", async () => {
    const run = new PoolRun();
    expect(await run.reconcile()).toBeUndefined();
    run.show();
    expect(await run.reconcile()).toBeUndefined();
    expect(run.applied).toHaveLength(1);
  });

  it("makes a Deployment again that is gone", async () => {
    const run = new PoolRun();
    await run.reconcile();
    run.show();
    await run.reconcile();
    run.deployment = undefined;
    // It might not have been shown yet.
    await run.clock.advance(2_000);
    await run.reconcile();
    expect(run.applied).toHaveLength(2);
  });

  it("binds an apply to the Deployment it was decided on", async () => {
    const run = new PoolRun();
    await run.reconcile();
    expect(run.applied[0]?.metadata).not.toHaveProperty("uid");
    run.show({ replicas: 9 });
    await run.reconcile();
    expect(run.applied[1]?.metadata).toMatchObject({
      uid: "d",
      resourceVersion: run.deployment?.metadata?.resourceVersion,
    });
  });

  it.each([
    [
      "is being deleted",
      { metadata: { uid: "u", generation: 1, deletionTimestamp: "2026-01-01T00:00:00Z" } },
    ],
    ["was made anew", { metadata: { uid: "other", generation: 1 } }],
    ["says something else", { metadata: { uid: "u", generation: 2 } }],
    ["is gone", "gone"],
  ] as const)(
    "F-E1 brings nothing back for a pool that %s, though the cache has yet to show it",
    async (_, truth) => {
      const run = new PoolRun();
      await run.reconcile();
      run.show();
      await run.reconcile();
      run.truth = truth;
      // What the garbage collector or a hold does with it comes by another watch, and first.
      run.deployment = undefined;
      await run.reconcile();
      expect(run.applied).toHaveLength(1);
    },
  );

  it("I-3 leaves the Deployment of a pool alone that is gone with its CRD", async () => {
    const run = new PoolRun();
    await run.reconcile();
    run.show({ replicas: 9 });
    run.pool = undefined;
    expect(await run.reconcile()).toBeUndefined();
    expect(run.applied).toHaveLength(1);
  });

  it("writes nothing to a pool that is being deleted, when switched off, and before all is read", async () => {
    const run = new PoolRun();
    run.isSynced = false;
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 1_000 });
    run.isSynced = true;
    run.config = undefined;
    expect(await run.reconcile()).toBeUndefined();
    run.config = { allow: ALLOW, workerPoolUid: false };
    run.pool = {
      ...run.pool,
      metadata: { ...run.pool?.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    };
    expect(await run.reconcile()).toBeUndefined();
    expect([run.applied, run.statuses]).toEqual([[], []]);
  });

  it("leaves a Deployment alone that another writer keeps changing, and says so once", async () => {
    const run = new PoolRun();
    for (let written = 1; written <= 3; written += 1) {
      await run.reconcile();
      expect(run.applied).toHaveLength(written);
      run.show({ replicas: 9 });
    }
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 5 * MINUTE });
    await run.reconcile();
    expect(run.events.map(({ reason, type }) => [reason, type])).toEqual([["Contested", "Warning"]]);
    expect(run.events[0]?.note).toContain(".spec.replicas is 9");
  });

  it("applies a changed pool at once, contested or not", async () => {
    const run = new PoolRun();
    for (let at = 0; at < 5; at += 1) {
      await run.reconcile();
      run.show({ replicas: 9 });
    }
    expect(run.applied).toHaveLength(3);
    run.edit({ replicas: 3 });
    await run.reconcile();
    expect(run.applied.at(-1)?.spec?.replicas).toBe(3);
  });

  it("tells once what the server refuses, and tries again with another pool or after half a minute", async () => {
    const run = new PoolRun();
    run.refusal = { kind: "invalid", causes: [] };
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 30_000 });
    expect(run.events.map(({ reason }) => reason)).toEqual(["WriteRefused"]);
    expect(run.events[0]?.note).toMatch(/^its Deployment stays as it is: /);
    run.edit({ replicas: 3 });
    await run.reconcile();
    expect([run.applied.length, run.events.length]).toEqual([2, 1]);
    run.refusal = undefined;
    await run.clock.advance(30_000);
    expect(await run.reconcile()).toBeUndefined();
    expect(run.applied).toHaveLength(3);
  });

  it("writes a status once while the cache has yet to show it, and none that says nothing new", async () => {
    const run = new PoolRun();
    await run.reconcile();
    run.show();
    await run.reconcile();
    expect(run.statuses).toEqual([]);
    run.deployment = { ...run.deployment, status: { replicas: 2 } };
    await run.reconcile();
    await run.reconcile();
    expect(run.statuses).toEqual([{ replicas: 2 }]);
    run.pool = {
      ...run.pool,
      metadata: { ...run.pool?.metadata, resourceVersion: "999" },
      status: { replicas: 2 },
    };
    await run.reconcile();
    expect(run.statuses).toEqual([{ replicas: 2 }]);
    run.deployment = { ...run.deployment, status: {} };
    await run.reconcile();
    expect(run.statuses).toEqual([{ replicas: 2 }, { replicas: 0 }]);
  });

  it("S-9 makes nothing of a pool that no list allows, says why on the pool, and goes on once one does", async () => {
    const run = new PoolRun();
    run.config = { workerPoolUid: false };
    await run.reconcile();
    await run.reconcile();
    const message = expect.stringMatching(
      /WorkerPools.*images lacks registry\.test\/ateom:1; namespaces lacks n$/,
    );
    const allowed = { type: "Allowed", status: "False", reason: "WorkerPoolNotAllowed", message };
    expect(run.statuses).toEqual([{ conditions: [expect.objectContaining(allowed)] }]);
    expect(run.events.map(({ reason, note }) => [reason, note])).toEqual([["WorkerPoolNotAllowed", message]]);
    expect(run.applied).toEqual([]);
    run.pool = {
      metadata: { ...run.pool?.metadata, resourceVersion: "999" },
      ...(run.pool?.spec && { spec: run.pool.spec }),
      ...(run.statuses[0] && { status: run.statuses[0] }),
    };
    run.config = { allow: ALLOW, workerPoolUid: false };
    await run.reconcile();
    expect(run.statuses.at(-1)).toEqual({ conditions: [] });
    expect(run.applied).toHaveLength(1);
  });
});
