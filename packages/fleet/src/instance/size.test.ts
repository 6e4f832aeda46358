import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { requestTypes } from "../api/quota.ts";
import type { InstanceRuntime, SandboxContainer } from "../api/workload.ts";
import { RULES } from "../fleet/testing/rules.ts";
import { buildPod } from "../pods/build.ts";
import { claimFor } from "./claim.ts";
import { sizeOf } from "./size.ts";
import { anInstance } from "./testing/views.ts";

const run = seededRun(500, process.env);
const instanceType = "datumcloud/d1-standard-2";
const aContainer = (resources: SandboxContainer["resources"], at: number): SandboxContainer => ({
  name: `c${at}`,
  image: "i",
  ...(resources && { resources }),
});
const withResources = (...all: readonly SandboxContainer["resources"][]): InstanceRuntime => ({
  resources: { instanceType },
  sandbox: { containers: all.map(aContainer) },
});
const faultOf = (runtime: InstanceRuntime): string | undefined =>
  sizeOf({ runtime, networkInterfaces: [] }, RULES.catalog).fault;

const amount = (...texts: readonly string[]) => fc.option(fc.constantFrom(...texts), { nil: undefined });
const ODD = ["0", "-1", "1E", "much", "0.0001"];
const amounts = fc.record({
  cpu: amount("250m", "1", "1.5", "1m", ...ODD),
  memory: amount("64Mi", "1Gi", "100M", "1", ...ODD),
});
const set = (list: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(list).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
const resources = fc.option(
  fc.tuple(amounts, fc.option(amounts, { nil: {} }), fc.boolean()).map(([limits, requests, hasGpu]) => ({
    limits: { ...set(limits), ...(hasGpu && { "nvidia.com/gpu": "1" }) },
    requests: set(requests),
  })),
  { nil: undefined },
);

it(`S-13 the Pod gets what the claim asks for, or there is none (${run.name})`, run.options, () => {
  const property = fc.property(
    fc.array(resources, { minLength: 1, maxLength: 3 }),
    amounts,
    (all, requests) => {
      const runtime = withResources(...all);
      const asking = { ...runtime, resources: { instanceType, requests: set(requests) } };
      const instance = anInstance({ runtime: asking });
      const built = buildPod(instance, RULES);
      if ("fault" in built) return;
      const asked = claimFor({ instance, source: "a", rules: RULES }, "web").spec?.requests;
      const { containers = [], resources: whole } = built.pod.spec ?? {};
      const shares = whole === undefined ? containers.map((it) => it.resources) : [whole];
      const sum = (name: string, unit: string): number =>
        shares.reduce((total, it) => total + Number(String(it?.limits?.[name]).replace(unit, "")), 0);
      expect(asked).toContainEqual({ resourceType: requestTypes.vcpus, amount: sum("cpu", "m") });
      expect(asked).toContainEqual({ resourceType: requestTypes.memory, amount: sum("memory", "Mi") });
      for (const it of shares) {
        const { cpu, memory } = it?.limits ?? {};
        expect(it?.requests).toMatchObject({ cpu, memory });
        expect(Number.parseInt(String(cpu), 10) * Number.parseInt(String(memory), 10)).toBeGreaterThan(0);
      }
      expect(JSON.stringify(built)).not.toContain("gpu");
    },
  );
  fc.assert(property, run.parameters);
});

describe("S-13 nothing runs whose container", () => {
  const limits = { cpu: "1", memory: "1Gi" };
  const at = "spec.runtime.sandbox.containers[1].resources";
  it.each<[string, SandboxContainer["resources"], string]>([
    [
      "has a limit of 0",
      { limits: { ...limits, cpu: "0" } },
      `${at}.limits[cpu]: Invalid value: "0": must be a quantity above 0, and at most 1P`,
    ],
    [
      "has one limit without the other",
      { limits: { cpu: "1" } },
      `${at}.limits[memory]: Required value: a container has limits for cpu and memory, or none`,
    ],
    [
      "has requests alone",
      { requests: { cpu: "1m" } },
      `${at}.limits[cpu]: Required value: a container has limits for cpu and memory, or none`,
    ],
    [
      "requests less than its limit",
      { limits, requests: { cpu: "1m" } },
      `${at}.requests[cpu]: Invalid value: "1m": must be equal to the limit, or absent`,
    ],
    [
      "asks for what no claim counts",
      { limits: { ...limits, "nvidia.com/gpu": "1" } },
      `${at}.limits[nvidia.com/gpu]: Forbidden: only cpu and memory can be limited`,
    ],
    [
      "requests what no claim counts",
      { limits, requests: { "nvidia.com/gpu": "1" } },
      `${at}.requests[nvidia.com/gpu]: Invalid value: "1": must be equal to the limit, or absent`,
    ],
    [
      "has a limit that JSON does not keep",
      { limits: { ...limits, memory: "1E" } },
      `${at}.limits[memory]: Invalid value: "1E": must be a quantity above 0, and at most 1P`,
    ],
  ])("%s", (_, resources, fault) => {
    expect(faultOf(withResources({ limits }, resources))).toBe(fault);
  });

  it.each<[string, SandboxContainer["resources"]]>([
    ["names nothing", {}],
    ["has empty lists, as programs in Go write them", { limits: {}, requests: {} }],
    ["requests its limits in other words", { limits, requests: { cpu: "1000m", memory: "1024Mi" } }],
  ])("but what does that %s", (_, resources) => {
    expect(faultOf(withResources({ limits }, resources))).toBeUndefined();
  });
});

it("A7 an instance type that the catalog does not have is named", () => {
  expect(faultOf({ resources: { instanceType: "other" } })).toBe(
    "The catalog of this cell has no instance type other. Choose another type.",
  );
});
