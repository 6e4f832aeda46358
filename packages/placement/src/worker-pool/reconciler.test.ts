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

  it("waits for its own write to come back, and no longer than two seconds", async () => {
    const run = new PoolRun();
    await run.reconcile();
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 2_000 });
    expect(run.applied).toHaveLength(1);
    await run.clock.advance(2_000);
    await run.reconcile();
    expect(run.applied).toHaveLength(2);
  });

  it("makes a Deployment again at once when it had been seen and is gone", async () => {
    const run = new PoolRun();
    await run.reconcile();
    run.show();
    await run.reconcile();
    run.deployment = undefined;
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

  it("leaves a Deployment alone that somebody keeps changing, says so once, and tries again after five minutes", async () => {
    const run = new PoolRun();
    for (let written = 1; written <= 3; written += 1) {
      await run.reconcile();
      expect(run.applied).toHaveLength(written);
      run.show({ replicas: 9 });
    }
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 5 * MINUTE });
    await run.clock.advance(4 * MINUTE);
    expect(await run.reconcile()).toEqual({ recheckAfterMs: MINUTE });
    expect(run.events.map(({ reason, type }) => [reason, type])).toEqual([["Contested", "Warning"]]);
    expect(run.events[0]?.note).toContain(".spec.replicas is 9");
    await run.clock.advance(MINUTE);
    await run.reconcile();
    expect(run.applied).toHaveLength(4);
    run.show({ replicas: 9 });
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 10 * MINUTE });
  });

  it("leaves one alone that is reverted every three minutes, as by Argo CD", async () => {
    const run = new PoolRun();
    const at: number[] = [];
    for (let minute = 0; minute < 60; minute += 3) {
      const before = run.applied.length;
      await run.reconcile();
      if (run.applied.length > before) at.push(minute);
      run.show({ replicas: 9 });
      await run.clock.advance(3 * MINUTE);
    }
    expect(at).toEqual([0, 3, 6, 15, 30, 54]);
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

  it("counts from the making of a Deployment: one that is deleted again and again is made again", async () => {
    const run = new PoolRun();
    for (let made = 1; made <= 5; made += 1) {
      run.deployment = undefined;
      await run.reconcile();
      expect(run.applied).toHaveLength(made);
      run.show();
      await run.reconcile();
    }
    run.show({ replicas: 9 });
    await run.reconcile();
    expect(run.applied).toHaveLength(6);
  });

  it("is content with edits that are far apart", async () => {
    const run = new PoolRun();
    await run.reconcile();
    for (let at = 0; at < 6; at += 1) {
      run.show({ replicas: 9 });
      await run.reconcile();
      await run.clock.advance(6 * MINUTE);
    }
    expect(run.applied).toHaveLength(7);
    expect(run.events).toEqual([]);
  });

  it("tells once what the server refuses, and tries again with another pool or after five minutes", async () => {
    const run = new PoolRun();
    run.refusal = { kind: "invalid", causes: [] };
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 5 * MINUTE });
    await run.clock.advance(MINUTE);
    expect(await run.reconcile()).toEqual({ recheckAfterMs: 4 * MINUTE });
    expect(run.events.map(({ reason }) => reason)).toEqual(["WriteRefused"]);
    run.edit({ replicas: 3 });
    await run.reconcile();
    expect(run.applied).toHaveLength(2);
    run.refusal = undefined;
    await run.clock.advance(5 * MINUTE);
    expect(await run.reconcile()).toBeUndefined();
    expect(run.applied).toHaveLength(3);
  });

  it("rejects with a conflict, so that it is decided again", async () => {
    const run = new PoolRun();
    run.refusal = { kind: "conflict", causes: [] };
    await expect(run.reconcile()).rejects.toMatchObject({ retry: "refresh" });
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
    run.pool = { ...run.pool, ...(run.statuses[0] && { status: run.statuses[0] }) };
    run.config = { allow: ALLOW, workerPoolUid: false };
    await run.reconcile();
    expect(run.statuses.at(-1)).toEqual({ conditions: [] });
    expect(run.applied).toHaveLength(1);
  });
});
