import { findCondition } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import type { DeploymentStatus, Instance, WorkloadDeployment } from "../api/workload.ts";
import { deploymentStatus, type NetworkStep, type StatusView } from "./status.ts";
import { isCurrent, templateHash } from "./template-hash.ts";
import {
  aCondition,
  aDeployment,
  anInstance,
  aTemplate,
  gated,
  NOW_MS,
  withCondition,
} from "./testing/fixtures.ts";

const deployment = aDeployment({ min: 3 });
const ready = (at: number) => anInstance(deployment, at);
const starting = (at: number) => anInstance(deployment, at, "N");
const LOCATION = { name: "dfw-1", namespace: "default" };

function statusOf(
  instances: readonly Instance[],
  change: Partial<StatusView> = {},
  of: WorkloadDeployment = deployment,
): DeploymentStatus {
  const template = of.spec?.template ?? aTemplate();
  return deploymentStatus({
    deployment: of,
    instances,
    isCurrent: (instance) => isCurrent(instance, template, templateHash(template)),
    network: { is: "off" },
    nowMs: NOW_MS,
    ...change,
  });
}

function verdict({ conditions }: DeploymentStatus, type = "Available"): string {
  const found = findCondition(conditions, type);
  return found === undefined ? "" : `${found.status}/${found.reason} ${found.message}`;
}

it("a deployment that the hub brought echoes the generation that it has in the project", () => {
  const brought = (generation: string) =>
    aDeployment({ metadata: { annotations: { "compute.datumapis.com/source-generation": generation } } });
  const first = statusOf([ready(0)], {}, brought("7"));
  expect(first.observedSourceGeneration).toBe(7);
  const again = { ...brought("8"), status: first };
  expect(statusOf([ready(0)], {}, again).observedSourceGeneration).toBe(8);
  expect(statusOf([ready(0)])).not.toHaveProperty("observedSourceGeneration");
});

describe("the condition Available of a deployment", () => {
  const waiting = (step: object = {}): NetworkStep => ({ is: "waiting", location: LOCATION, ...step });
  const noLocation: NetworkStep = { is: "waiting" };
  const pull = withCondition(starting(0), aCondition("Ready", "Unknown", "ImageUnavailable", "pull failed"));
  const quota = (status: "True" | "False" | "Unknown", reason: string) =>
    gated(withCondition(starting(0), aCondition("QuotaGranted", status, reason, "no budget")), "Quota");

  it.each<[string, readonly Instance[], NetworkStep, string]>([
    ["one is ready", [ready(0), starting(1)], noLocation, "True/StableInstanceFound 1/2 instances are ready"],
    [
      "R16 there is no Location",
      [starting(0)],
      noLocation,
      'False/NoMatchingLocation No Location matches city code "DFW"',
    ],
    [
      "two Locations match",
      [],
      { is: "waiting", reason: "AmbiguousServingLocation", message: "a and b" },
      "False/AmbiguousServingLocation a and b",
    ],
    [
      "the network is not ready",
      [starting(0)],
      waiting(),
      "False/NetworkProvisioning the networks of the deployment are not ready",
    ],
    [
      "the network failed",
      [starting(0)],
      waiting({ reason: "NetworkFailedToCreate", message: "no address" }),
      "False/NetworkFailedToCreate no address",
    ],
    [
      "quota is denied",
      [quota("False", "QuotaExceeded")],
      { is: "off" },
      "False/QuotaNotGranted w-us-dfw-0: no budget",
    ],
    [
      "the original has left a gate that Berth does not open, and quota is denied",
      [
        gated(
          withCondition(
            quota("False", "QuotaExceeded"),
            aCondition("Ready", "False", "PendingQuota", "do it"),
          ),
          "Quota",
          "ReferencedData",
        ),
      ],
      { is: "off" },
      "False/ReferencedDataNotReady w-us-dfw-0: do it",
    ],
    [
      "nothing is known of an Instance with such a gate",
      [gated(anInstance(deployment, 0, "D"), "ReferencedData")].map(({ status: _status, ...it }) => it),
      { is: "off" },
      "False/InstancesProvisioning 0/1 instances are ready",
    ],
    [
      "no budget exists",
      [quota("Unknown", "QuotaNoBudget")],
      { is: "off" },
      "False/QuotaNotGranted w-us-dfw-0: no budget",
    ],
    [
      "quota is evaluated",
      [quota("Unknown", "PendingEvaluation")],
      { is: "off" },
      "False/InstancesProvisioning 0/1 instances are ready",
    ],
    [
      "quota is denied after the gate is off (H23)",
      [gated(quota("False", "QuotaExceeded"))],
      { is: "off" },
      "False/InstancesProvisioning 0/1 instances are ready",
    ],
    ["R12 an image is missing", [pull], { is: "off" }, "False/ImageUnavailable w-us-dfw-0: pull failed"],
    [
      "R12 an image is missing and quota is denied",
      [{ ...quota("False", "QuotaExceeded") }, pull],
      { is: "off" },
      "False/ImageUnavailable w-us-dfw-0: pull failed",
    ],
    [
      "an Instance starts",
      [starting(0)],
      { is: "ready", location: LOCATION },
      "False/InstancesProvisioning 0/1 instances are ready",
    ],
    ["there is no Instance", [], { is: "off" }, "False/InstancesProvisioning 0/0 instances are ready"],
  ])("when %s", (_, instances, network, text) => {
    expect(verdict(statusOf(instances, { network }))).toBe(text);
  });

  it("says why the API server refused an Instance", () => {
    const status = statusOf([], { refusal: "create w-us-dfw-0: denied" });
    expect(verdict(status)).toBe("False/InstancesProvisioning create w-us-dfw-0: denied");
    expect(verdict(status, "ReplicasReady")).toBe(
      "False/InstancesProvisioning 0/3 replicas available; create w-us-dfw-0: denied",
    );
  });
});

describe("the condition ReplicasReady", () => {
  const denied = gated(
    withCondition(starting(1), aCondition("QuotaGranted", "False", "QuotaExceeded", "m")),
    "Quota",
  );
  const crashing = withCondition(starting(2), aCondition("Ready", "False", "InstanceCrashing", "exit 1"));

  it.each<[string, readonly Instance[], string]>([
    ["all are ready", [ready(0), ready(1), ready(2)], "True/ReplicasAvailable 3/3 replicas available"],
    ["none is ready", [], "False/InstancesProvisioning 0/3 replicas available"],
    [
      "one starts",
      [withCondition(starting(0), aCondition("Ready", "False", "Provisioning", "soon"))],
      "False/InstancesProvisioning 0/3 replicas available",
    ],
    [
      "A13 quota is denied",
      [ready(0), denied],
      "False/QuotaExceeded 1 of 3 desired replicas are pending quota",
    ],
    [
      "A12 one of a roll crashes",
      [ready(0), ready(1), crashing],
      "False/InstancesProvisioning 2/3 replicas available; w-us-dfw-2: exit 1",
    ],
  ])("when %s", (_, instances, text) => {
    expect(verdict(statusOf(instances), "ReplicasReady")).toBe(text);
  });
});

describe("the condition Failing", () => {
  const of = (at: number, reason: string) =>
    withCondition(starting(at), aCondition("Ready", "False", reason, `m${at}`));

  it.each<[string, readonly Instance[], string]>([
    ["there is none while none fails", [ready(0), of(1, "Provisioning"), of(2, "PendingQuota")], ""],
    [
      "there is none while quota is denied",
      [gated(withCondition(of(0, "x"), aCondition("QuotaGranted", "False", "QuotaExceeded", "no")), "Quota")],
      "",
    ],
    [
      "it says why one fails while others are ready",
      [ready(0), of(1, "ImageUnavailable")],
      "True/ImageUnavailable w-us-dfw-1: m1",
    ],
    [
      "it says the worst of several",
      [of(0, "ImageUnavailable"), of(1, "NetworkFailedToCreate")],
      "True/NetworkFailedToCreate w-us-dfw-1: m1",
    ],
  ])("%s", (_, instances, text) => {
    expect(verdict(statusOf(instances), "Failing")).toBe(text);
  });
});

describe("the counters", () => {
  it("R11 updatedReplicas counts the observed hash, ready or not, and currentReplicas what is programmed", () => {
    const old = anInstance(deployment, 0, "Ro");
    const crashing = withCondition(ready(1), aCondition("Ready", "False", "InstanceCrashing"));
    const observed = {
      ...starting(2),
      status: { ...starting(2).status, controller: { observedTemplateHash: templateHash(aTemplate()) } },
    };
    expect(statusOf([old, crashing, observed])).toMatchObject({
      replicas: 3,
      readyReplicas: 1,
      updatedReplicas: 2,
      currentReplicas: 1,
      desiredReplicas: 3,
      observedGeneration: 1,
    });
  });

  it("R17 an Instance without controller is not updated", () => {
    const bare = { metadata: { name: "w-us-dfw-0" }, status: { controller: { observedTemplateHash: "x" } } };
    expect(statusOf([bare])).toMatchObject({ replicas: 1, updatedReplicas: 0 });
  });

  it.each([
    ["b7d9", 1],
    ["c8e2", 0],
    [undefined, 0],
  ])(
    "T1 an Instance of the original that observed the hash %s is counted as updated: %d",
    (observed, count) => {
      const { spec, status, ...rest } = ready(0);
      const adopted = {
        ...rest,
        ...(spec && { spec: { ...spec, controller: { templateHash: "b7d9" } } }),
        status: { ...status, ...(observed && { controller: { observedTemplateHash: observed } }) },
      };
      if (observed === undefined) delete adopted.status.controller;
      expect(statusOf([adopted])).toMatchObject({
        readyReplicas: 1,
        updatedReplicas: count,
        currentReplicas: count,
      });
    },
  );
});

describe("a status that is there", () => {
  it("H19 stays the same object, whatever the time", () => {
    const { spec, metadata: { generation: _generation, ...metadata } = {} } = deployment;
    for (const one of [deployment, { ...(spec && { spec }), metadata }]) {
      const status = statusOf([ready(0)], {}, one);
      expect(statusOf([ready(0)], { nowMs: NOW_MS + 60_000 }, { ...one, status })).toBe(status);
      expect(Object.hasOwn(status, "observedGeneration")).toBe(one === deployment);
    }
  });

  it("keeps its Location when none is found", () => {
    const status = statusOf([ready(0)], { network: { is: "ready", location: LOCATION } });
    expect(status.location).toEqual(LOCATION);
    const later = statusOf([ready(0)], { network: { is: "waiting" } }, { ...deployment, status });
    expect(later.location).toEqual(LOCATION);
  });

  it("T2 loses the conditions of the central scheduler, and keeps those of others and its Location", () => {
    const status: DeploymentStatus = {
      replicas: 0,
      currentReplicas: 0,
      desiredReplicas: 0,
      readyReplicas: 0,
      location: LOCATION,
      conditions: [
        aCondition("LocationAssigned", "True"),
        aCondition("Scheduled", "False", "NoCandidateLocations"),
        aCondition("Theirs", "True"),
      ],
    };
    const next = statusOf([], {}, { ...deployment, status });
    expect(next.conditions?.map(({ type }) => type)).toEqual(["Available", "ReplicasReady", "Theirs"]);
    expect(next.location).toEqual(LOCATION);
  });

  it("has TemplateApplied only while keys of the template are left out", () => {
    const leftOut = { status: "False", reason: "KeysLeftOut", message: "a/b" } as const;
    const status = statusOf([ready(0)], { leftOut });
    expect(verdict(status, "TemplateApplied")).toBe("False/KeysLeftOut a/b");
    expect(verdict(statusOf([ready(0)], {}, { ...deployment, status }), "TemplateApplied")).toBe("");
  });

  it("H24 has Progressing only while a roll is held", () => {
    const status = statusOf([ready(0)], { hold: "503" });
    expect(verdict(status, "Progressing")).toMatch(/^False\/RollPaused .* a new one could not start: 503$/);
    expect(verdict(status)).toMatch(/^True\/StableInstanceFound/);
    expect(verdict(statusOf([ready(0)], { hold: "" }, { ...deployment, status }), "Progressing")).toMatch(
      /503$/,
    );
    expect(verdict(statusOf([ready(0)], { hold: "" }), "Progressing")).toBe("");
    expect(verdict(statusOf([ready(0)], {}, { ...deployment, status }), "Progressing")).toBe("");
  });

  it("says also while Instances are Ready why no Instance can start, and no longer then", () => {
    const refused = { reason: "TemplateTooLarge", message: "m" };
    const status = statusOf([ready(0)], { refused, hold: "" });
    expect(verdict(status)).toMatch(/^True\/StableInstanceFound/);
    expect(verdict(status, "Progressing")).toBe("False/TemplateTooLarge m");
    expect(verdict(statusOf([ready(0)], {}, { ...deployment, status }), "Progressing")).toBe("");
    expect(verdict(statusOf([], { refused }))).toBe("False/TemplateTooLarge m");
  });

  it("names what cannot be read of the networks, also while Instances are Ready", () => {
    const network = { is: "waiting", reason: "NetworksNotRead", message: "subnets: not served" } as const;
    const status = statusOf([ready(0)], { network });
    expect(verdict(status, "NetworksRead")).toBe("False/NetworksNotRead subnets: not served");
    expect(verdict(status, "Progressing")).toBe("");
    expect(verdict(statusOf([ready(0)], {}, { ...deployment, status }), "NetworksRead")).toBe("");
    expect(verdict(statusOf([], { network }))).toBe("False/NetworksNotRead subnets: not served");
  });

  it("H9 names who has the name of an Instance, until the name is free", () => {
    const network = { is: "waiting" } as const;
    const status = statusOf([ready(0)], { taken: ["a is of b", "c"] });
    expect(verdict(status, "InstanceConflict")).toBe("True/InstanceNameTaken a is of b; c");
    expect(verdict(status)).toMatch(/^True\/StableInstanceFound/);
    expect(verdict(status, "ReplicasReady")).toMatch(/^False\/InstancesProvisioning .*; a is of b; c$/);
    expect(verdict(statusOf([], { taken: ["a is of b"], network }))).toBe(
      "False/InstanceNameTaken a is of b",
    );
    expect(verdict(statusOf([ready(0)], {}, { ...deployment, status }), "InstanceConflict")).toBe("");
  });
});
