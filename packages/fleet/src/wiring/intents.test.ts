import { expect, it } from "vitest";
import { statusTo } from "./intents.ts";
import { workloadIntents } from "./workloads.ts";

it("a status replaces the stored one: fields that it has no more are removed", () => {
  const body = (stored?: object) => statusTo({ replicas: 1 }, "r", "m", stored);
  expect(body({ replicas: 2, unheard: 1 })).toMatchObject({
    patch: { body: { status: { replicas: 1, unheard: null } } },
  });
  expect(body()).toMatchObject({ patch: { body: { status: { replicas: 1 } } } });
});

it("the deployments of a new Workload do not wait for its finalizer and its status", () => {
  const status = { deployments: 0, replicas: 0, currentReplicas: 0, desiredReplicas: 1, readyReplicas: 0 };
  const create = [{ metadata: { name: "w-us-dfw" } }];
  const decision = { create, finalizers: ["ours"], status, patch: [], delete: [], findings: [] };
  expect(workloadIntents({}, decision).map((it) => it.do)).toEqual(["create", "patch", "patch"]);
});
