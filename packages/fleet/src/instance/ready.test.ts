import { describe, expect, it } from "vitest";
import { REFERENCED_DATA, readiness } from "./ready.ts";
import { condition, saying } from "./testing/views.ts";

const failed = condition("Ready=False/NetworkFailedToCreate: no addresses");

/** What readiness sets, in words. Conditions are those of the table without `QuotaGranted=`, `Programmed=` and so on. */
function ready(
  [gates, quota, programmed, available]: readonly string[],
  more: readonly string[] = [],
  networkFailed = false,
): readonly string[] {
  const texts = [
    ...more,
    ...(quota ? [`QuotaGranted=${quota}`] : []),
    ...(programmed ? [`Programmed=${programmed}`] : []),
    ...(available ? [`Available=${available}`] : []),
  ];
  return readiness({
    conditions: texts.map((text) => condition(text)),
    generation: 1,
    gates: gates ? gates.split(",") : [],
    ...(networkFailed && { networkFailed: failed }),
  }).map(saying);
}

const T = "True/QuotaAvailable";
const PENDING = "Unknown/Pending";

describe("8.3 Ready", () => {
  it.each([
    ["", "", "", "", "False/PendingProgramming: Instance has not been programmed"],
    [
      "Network",
      "Unknown/PendingEvaluation",
      "",
      "",
      "False/SchedulingGatesPresent: Scheduling gates present: Network",
    ],
    [
      "Network,Quota",
      "Unknown/PendingEvaluation",
      "",
      "",
      "False/SchedulingGatesPresent: Scheduling gates present: Network, Quota",
    ],
    [
      "Network,ReferencedData",
      T,
      "",
      "",
      `False/SchedulingGatesPresent: Scheduling gates present: Network, ReferencedData. ${REFERENCED_DATA}`,
    ],
    ["", T, "False/TestReason: m", "", "False/TestReason: m"],
    ["", T, PENDING, "Unknown/ImageUnavailable: m", "Unknown/ImageUnavailable: m"],
    ["", T, PENDING, "Unknown/Provisioning: m", "Unknown/Provisioning: m"],
    ["", T, "False/ImageUnavailable: m", "Unknown/Provisioning", "False/ImageUnavailable: m"],
    ["", T, "Unknown/Custom: m", PENDING, "Unknown/Custom: m"],
    ["", T, "True/Programmed", "", "False/Pending: Instance is not available"],
    ["", T, "True/Programmed", PENDING, "False/Pending: Instance is not available"],
    ["", T, "True/Programmed", "False/Stopped: m", "False/Stopped: m"],
    ["", T, "True/Programmed", "Unknown/InstanceCrashing: m", "Unknown/InstanceCrashing: m"],
    ["", T, "True/Programmed", "True/Available", "True/Available: Instance is ready"],
  ])(
    "8.3 gates %j, quota %j, Programmed %j, Available %j: %s",
    (gates, quota, programmed, available, expected) => {
      expect(ready([gates, quota, programmed, available])).toEqual([`Ready=${expected}`]);
    },
  );

  it("8.3 with a failed NetworkBinding is what the binding says", () => {
    const expected = ["Ready=False/NetworkFailedToCreate: no addresses"];
    expect(ready(["Network", "Unknown/PendingEvaluation"], [], true)).toEqual(expected);
  });

  it("8.3 quota denied: Programmed, Available and Ready are False/PendingQuota", () => {
    expect(
      ready(["Network,Quota", "False/QuotaExceeded: m", "Unknown/Pending", "Unknown/Pending"], [], true),
    ).toEqual([
      "Programmed=False/PendingQuota: m",
      "Available=False/PendingQuota: m",
      "Ready=False/PendingQuota: m",
    ]);
  });

  it("8.3 R19 is not left True when Programmed drops", () => {
    const row = ["", T, "False/PendingProgramming: m", "True/Available"];
    expect(ready(row, ["Ready=True/Available: Instance is ready"])).toEqual([
      "Ready=False/PendingProgramming: m",
    ]);
  });

  it("8.3 H12 quota granted after a denial: nothing says PendingQuota any more", () => {
    expect(
      ready(["", T, "False/PendingQuota: m", "False/PendingQuota: m"], ["Ready=False/PendingQuota: m"]),
    ).toEqual([
      "Programmed=Unknown/Pending: Waiting for the provider",
      "Available=Unknown/Pending: Waiting for the provider",
      "Ready=False/PendingProgramming: Instance has not been programmed",
    ]);
  });

  it("8.3 item 1: a denial after gate Quota is gone takes nothing from what runs", () => {
    const runs = ["True/Programmed", "True/Available"];
    expect(ready(["", "False/QuotaExceeded: m", ...runs])).toEqual([
      "Ready=True/Available: Instance is ready",
    ]);
    expect(ready(["Network", "False/QuotaExceeded: m", ...runs])).toEqual([
      "Ready=False/SchedulingGatesPresent: Scheduling gates present: Network",
    ]);
  });
});

it("R7 the leftover condition Running says nothing, and Available does", () => {
  const leftover = ["Running=True/Running"];
  expect(ready(["", T, "True/Programmed"], leftover)).toEqual([
    "Ready=False/Pending: Instance is not available",
  ]);
  expect(ready(["", T, "", ""], ["Running=False/Stopped: m"])).toEqual([
    "Ready=False/PendingProgramming: Instance has not been programmed",
  ]);
  expect(ready(["", T, "True/Programmed", "True/Available"], ["Running=False/Stopped"])).toEqual([
    "Ready=True/Available: Instance is ready",
  ]);
});

describe("R12 the reason that blocks most is shown", () => {
  it.each([
    ["Unknown/Pending", "Unknown/ImageUnavailable: pull failed", "Unknown/ImageUnavailable: pull failed"],
    ["Unknown/ImageUnavailable: m", "Unknown/Provisioning: n", "Unknown/ImageUnavailable: m"],
    ["Unknown/Custom: m", "Unknown/Starting: n", "Unknown/Custom: m"],
    ["Unknown/Custom: m", "Unknown/Provisioning: n", "Unknown/Provisioning: n"],
    ["False/InstanceCrashing: m", "False/ImageUnavailable: n", "False/ImageUnavailable: n"],
    ["False/Custom: m", "False/Pending: n", "False/Custom: m"],
    ["Unknown/Pending", "Unknown/Starting: n", "Unknown/Starting: n"],
    ["False/constructor: m", "Unknown/Provisioning: n", "Unknown/Provisioning: n"],
    ["Odd/Custom: m", "Unknown/Starting: n", "Unknown/Custom: m"],
  ])("Programmed %s, Available %s: %s", (programmed, available, expected) => {
    expect(ready(["", T, programmed, available])).toEqual([`Ready=${expected}`]);
  });

  it("of equal ones the first type counts, in any order", () => {
    const others = ["B=False/Second: n", "A=False/First: m"];
    expect(ready(["", T, PENDING, PENDING], others)).toEqual(["Ready=False/First: m"]);
    expect(ready(["", T, PENDING, PENDING], others.toReversed())).toEqual(["Ready=False/First: m"]);
  });

  it("conditions of others compete as well, but True ones do not", () => {
    const others = ["ReferencedDataReady=False/AwaitingPropagation: m", "Other=True/ImageUnavailable"];
    expect(ready(["", T, PENDING, PENDING], others)).toEqual(["Ready=False/AwaitingPropagation: m"]);
  });
});
