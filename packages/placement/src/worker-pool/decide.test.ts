import type { Deployment } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { decideWorkerPool } from "./decide.ts";
import { buildDeployment } from "./deployment.ts";
import type { WorkerPool } from "./resource.ts";
import { ALLOW } from "./testing/pool-run.ts";
import { storedOf } from "./testing/stored-deployment.ts";

const config = { allow: ALLOW, workerPoolUid: false };
const spec = {
  replicas: 2,
  ateomImage: "registry.test/ateom:1",
  template: { nodeSelector: { a: "b" }, resources: { requests: { cpu: "1" } } },
};
const pool: WorkerPool = { metadata: { name: "p", namespace: "n", uid: "u" }, spec };
const stored = storedOf(buildDeployment({ name: "p", namespace: "n", uid: "u", spec }, config));
const withMeta = (change: Deployment["metadata"]): Deployment => ({
  ...stored,
  metadata: { ...stored.metadata, ...change },
});

describe("decideWorkerPool", () => {
  it("is settled when the Deployment is as wanted", () => {
    expect(decideWorkerPool({ pool, deployment: stored }, config)).toEqual({});
  });

  it("wants a Deployment that is missing, or differs, and says why", () => {
    expect(decideWorkerPool({ pool, deployment: undefined }, config).apply).toMatchObject({
      reason: "WorkerPoolDeploymentMissing",
      message: "there is no Deployment p-deployment",
    });
    const other = { ...pool, spec: { ...spec, replicas: 3 } };
    expect(decideWorkerPool({ pool: other, deployment: stored }, config).apply).toMatchObject({
      reason: "WorkerPoolDeploymentDiffers",
      message: ".spec.replicas is 2",
    });
  });

  it("takes over a Deployment without an owner", () => {
    const orphan = withMeta({ ownerReferences: [] });
    expect(decideWorkerPool({ pool, deployment: orphan }, config).apply?.message).toContain(
      "ownerReferences",
    );
  });

  it("leaves a Deployment alone until its deletion is through", () => {
    const deployment = withMeta({ deletionTimestamp: "2026-01-01T00:00:00Z" });
    const other = { ...pool, spec: { ...spec, replicas: 3 } };
    expect(decideWorkerPool({ pool: other, deployment }, config)).toEqual({});
  });

  it("wants nothing for a pool that is being deleted", () => {
    const deleting = { ...pool, metadata: { ...pool.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
    expect(decideWorkerPool({ pool: deleting, deployment: undefined }, config)).toEqual({});
  });

  it("reports the replicas of its own Deployment, and of no other", () => {
    const counted = { ...stored, status: { replicas: 2 } };
    expect(decideWorkerPool({ pool, deployment: counted }, config)).toEqual({ replicas: 2 });
    const old = withMeta({
      ownerReferences: [{ apiVersion: "", kind: "", name: "p", uid: "old", controller: true }],
    });
    const { replicas } = decideWorkerPool({ pool, deployment: { ...old, status: { replicas: 2 } } }, config);
    expect(replicas).toBeUndefined();
  });

  it("says what is wrong with a pool that its CRD should not have let in", () => {
    const broken = { ...pool, spec: { ...spec, replicas: -1 } };
    const decision = decideWorkerPool({ pool: broken, deployment: stored }, config);
    expect(decision.apply).toBeUndefined();
    expect(decision.fault).toMatch(/^spec\.replicas: /);
  });

  it.each([
    [{ ateomImage: "registry.test.example.com/ateom:1" }, "images lacks registry.test.example.com/ateom:1"],
    [
      { template: { priorityClassName: "system-node-critical" } },
      "priorityClasses lacks system-node-critical",
    ],
  ])("S-9 makes and changes nothing for a pool beyond the lists: %j", (more, why) => {
    const greedy = { ...pool, spec: { ...spec, ...more } };
    for (const deployment of [undefined, stored]) {
      const decision = decideWorkerPool({ pool: greedy, deployment }, config);
      expect(decision).toEqual({ refusal: expect.stringContaining(why) });
    }
  });

  it("S-9 makes nothing in a namespace that is not listed", () => {
    const elsewhere = { ...pool, metadata: { ...pool.metadata, namespace: "tenant" } };
    expect(decideWorkerPool({ pool: elsewhere, deployment: undefined }, config).refusal).toContain(
      "namespaces lacks tenant",
    );
  });
});
