import { describe, expect, it } from "vitest";
import type { PropagationPolicy, ResourceBinding } from "../../api/karmada.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { going, onHub } from "../../hub/testing/fixtures.ts";
import { interpreter, interpreterPatch } from "./interpreter.ts";
import { decidePolicy, type PolicyView } from "./policy.ts";

const inCity = (city: string, metadata: WorkloadDeployment["metadata"] = {}): WorkloadDeployment =>
  onHub({ metadata: { labels: { "topology.datum.net/city-code": city }, ...metadata } });
const bound = (...names: readonly string[]): ResourceBinding => ({
  spec: { clusters: names.map((name) => ({ name })) },
});
const view: PolicyView = {
  namespace: "ns-U",
  policy: undefined,
  deployments: [inCity("DFW")],
  bindings: [],
};
const made = decidePolicy(view).create ?? {};

/** 1.8: as the original makes it. */
const original: PropagationPolicy = {
  metadata: { name: "city-dfw", namespace: "ns-U" },
  spec: {
    resourceSelectors: [
      {
        apiVersion: "compute.datumapis.com/v1alpha",
        kind: "WorkloadDeployment",
        labelSelector: { matchLabels: { "topology.datum.net/city-code": "DFW" } },
      },
    ],
    placement: {
      clusterAffinity: { labelSelector: { matchLabels: { "topology.datum.net/city-code": "DFW" } } },
    },
  },
};
const [selector] = original.spec?.resourceSelectors ?? [];
const withSelectors = (...resourceSelectors: readonly object[]): PropagationPolicy => ({
  ...original,
  spec: { ...original.spec, resourceSelectors: resourceSelectors as never },
});

describe("1.8 the policy of a city", () => {
  it("selects the deployments of the city, and one Cluster of it for each, which keeps them", () => {
    expect(made).toEqual({
      apiVersion: "policy.karmada.io/v1alpha1",
      kind: "PropagationPolicy",
      metadata: { name: "city-dfw", namespace: "ns-U" },
      spec: {
        ...original.spec,
        placement: {
          ...original.spec?.placement,
          clusterTolerations: [
            { key: "cluster.karmada.io/not-ready", operator: "Exists", effect: "NoExecute" },
            { key: "cluster.karmada.io/unreachable", operator: "Exists", effect: "NoExecute" },
          ],
          spreadConstraints: [{ spreadByField: "cluster", minGroups: 1, maxGroups: 1 }],
        },
      },
    });
  });

  it.each<[string, Partial<PolicyView>, string]>([
    ["is made", {}, "create"],
    ["is made once", { policy: made }, ""],
    ["is not made for what is being deleted", { deployments: [inCity("DFW", going)] }, ""],
    ["is not made without a city", { deployments: [inCity("")] }, ""],
    ["T3 of the original gets one cell", { policy: original, bindings: [bound("dfw-01"), bound()] }, "patch"],
    [
      "T3 of the original stays while cells run it twice",
      { policy: original, bindings: [bound("dfw-01", "dfw-02")] },
      "",
    ],
    [
      "is corrected",
      {
        policy: {
          ...made,
          spec: { ...made.spec, placement: { ...made.spec?.placement, clusterAffinity: {} } },
        },
      },
      "patch",
    ],
    [
      "is as Karmada stores it",
      {
        policy: {
          ...made,
          spec: { ...made.spec, resourceSelectors: [{ ...selector, namespace: "ns-U" } as never] },
        },
      },
      "",
    ],
    [
      "R23 stays while another deployment of the city is there",
      { policy: made, deployments: [inCity("DFW", going)] },
      "",
    ],
    ["R23 A8 goes with the last one", { policy: made, deployments: [] }, "delete"],
    ["R23 waits for the last binding", { policy: made, deployments: [], bindings: [bound("dfw-01")] }, ""],
    [
      "R23 is not deleted twice",
      { policy: { ...made, metadata: { ...made.metadata, ...going } }, deployments: [] },
      "",
    ],
    [
      "H10 stays that of its city, however another one is written",
      { policy: made, deployments: [inCity("dfw"), inCity("DFW")] },
      "",
    ],
    [
      "H10 goes with its city, and then the other one gets it",
      { policy: made, deployments: [inCity("dfw")] },
      "delete",
    ],
    [
      "of another program is left alone",
      { policy: withSelectors({ ...selector, kind: "Deployment" }), deployments: [] },
      "",
    ],
    ["of several kinds is left alone", { policy: withSelectors({ ...selector }, {}), deployments: [] }, ""],
    [
      "of another name is left alone",
      { policy: { ...made, metadata: { name: "mine" } }, deployments: [] },
      "",
    ],
  ])("%s", (_, fields, expected) =>
    expect(Object.keys(decidePolicy({ ...view, ...fields })).join()).toBe(expected),
  );
});

describe("F2 how Karmada reads a status", () => {
  it("has both scripts, for the kind of the fleet", () =>
    expect(interpreter).toMatchObject({
      metadata: { name: "workloaddeployment" },
      spec: {
        target: { apiVersion: "compute.datumapis.com/v1alpha", kind: "WorkloadDeployment" },
        customizations: {
          statusReflection: { luaScript: expect.stringContaining("return observedObj.status") },
          statusAggregation: { luaScript: expect.stringContaining("desiredObj.status = item.status") },
        },
      },
    }));

  it.each<[string, object | undefined, boolean]>([
    ["is left alone", interpreter.spec.customizations, false],
    [
      "keeps what others customize",
      { ...interpreter.spec.customizations, retention: { luaScript: "x" } },
      false,
    ],
    ["is corrected", { ...interpreter.spec.customizations, statusReflection: { luaScript: "x" } }, true],
    ["is completed", undefined, true],
  ])("%s", (_, customizations, isPatched) => {
    const present = { spec: { ...interpreter.spec, customizations: customizations as never } };
    expect(interpreterPatch(present) !== undefined).toBe(isPatched);
  });
});
