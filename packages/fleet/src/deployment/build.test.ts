import { describe, expect, it } from "vitest";
import { buildInstance, desiredCount, ordinalStart, sourceGeneration } from "./build.ts";
import { aDeployment, aTemplate } from "./testing/fixtures.ts";

const options = { ordinal: 0, templateHash: "v1-x", location: undefined, hasNetwork: true, hasQuota: true };

describe("a new Instance", () => {
  const template = aTemplate("app:1", { labels: { team: "a" }, annotations: { note: "b" } });
  const deployment = aDeployment({ template });

  it("carries its labels, its owner and its finalizers", () => {
    expect(buildInstance(deployment, options)).toEqual({
      apiVersion: "compute.datumapis.com/v1alpha",
      kind: "Instance",
      metadata: {
        name: "w-us-dfw-0",
        namespace: "default",
        labels: {
          team: "a",
          "compute.datumapis.com/workload-uid": "uid-w",
          "compute.datumapis.com/workload-deployment-uid": "uid-w-us-dfw",
          "compute.datumapis.com/instance-index": "0",
          "compute.datumapis.com/workload-deployment-name": "w-us-dfw",
          "compute.datumapis.com/city-code": "DFW",
          "compute.datumapis.com/workload-name": "w",
          "compute.datumapis.com/placement-name": "us",
        },
        annotations: { note: "b" },
        finalizers: [
          "compute.datumapis.com/instance-controller",
          "quota.compute.datumapis.com/claim-cleanup",
        ],
        ownerReferences: [
          {
            apiVersion: "compute.datumapis.com/v1alpha",
            kind: "WorkloadDeployment",
            name: "w-us-dfw",
            uid: "uid-w-us-dfw",
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: {
        ...template.spec,
        controller: { templateHash: "v1-x", schedulingGates: [{ name: "Network" }, { name: "Quota" }] },
      },
    });
  });

  it("R28 has no gate Network without networking, and no finalizer of a claim without quota", () => {
    const { metadata, spec } = buildInstance(deployment, { ...options, hasNetwork: false, hasQuota: false });
    expect(spec?.controller?.schedulingGates).toEqual([{ name: "Quota" }]);
    expect(metadata?.finalizers).toEqual(["compute.datumapis.com/instance-controller"]);
  });

  it("H3 has labels and annotations of its own, and leaves the template alone", () => {
    const before = structuredClone(deployment);
    const [first, second] = [0, 1].map((ordinal) => buildInstance(deployment, { ...options, ordinal }));
    expect(first?.metadata?.labels?.["compute.datumapis.com/instance-index"]).toBe("0");
    expect(second?.metadata?.labels?.["compute.datumapis.com/instance-index"]).toBe("1");
    expect(first?.metadata?.annotations).not.toBe(template.metadata?.annotations);
    expect(deployment).toEqual(before);
  });

  it("takes the known Location and never one of the template", () => {
    const location = { name: "dfw-1", namespace: "default" };
    const odd = { ...template, spec: { ...template.spec, location: { name: "x", namespace: "x" } } };
    expect(buildInstance(deployment, { ...options, location }).spec?.location).toEqual(location);
    expect(buildInstance(aDeployment({ template: odd }), options).spec?.location).toBeUndefined();
  });
});

describe("what a deployment wants", () => {
  it.each([
    [-1, 0],
    [0, 0],
    [3, 3],
    [1000, 1000],
    [2 ** 31, 1000],
    [1.5, 1],
    [Number.NaN, 0],
  ])("H2 minReplicas %d is %i Instances", (min, count) => {
    expect(desiredCount(aDeployment({ min }))).toBe(count);
  });

  it("nothing while it is being deleted", () => {
    expect(desiredCount(aDeployment({ metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }))).toBe(0);
  });

  it("nothing while the hub holds it", () => {
    expect(desiredCount(aDeployment({ metadata: { annotations: { "berth.dev/hold": "" } } }))).toBe(0);
  });

  it.each([
    [undefined, undefined],
    ["0", 0],
    ["17", 17],
    ["-1", undefined],
    ["1.5", undefined],
    ["", undefined],
    ["9".repeat(16), undefined],
  ])("source-generation %j is %j", (text, generation) => {
    const annotations: Record<string, string> =
      text === undefined ? {} : { "compute.datumapis.com/source-generation": text };
    expect(sourceGeneration(aDeployment({ metadata: { annotations } }))).toBe(generation);
  });

  it.each([
    [undefined, 0],
    ["0", 0],
    ["1000", 1000],
    ["-1", undefined],
    ["010", undefined],
    ["a", undefined],
    ["99999999999", undefined],
  ])("ordinal-start %j is %j", (text, start) => {
    const annotations: Record<string, string> = text === undefined ? {} : { "berth.dev/ordinal-start": text };
    expect(ordinalStart(aDeployment({ metadata: { name: "d", annotations } }))).toBe(start);
  });
});
