import { applyPatch } from "@berth/host";
import type { DaemonSet, Toleration } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tolerates } from "../node/tolerations.ts";
import { gateList } from "./testing/gate-list.ts";
import { missingTolerations, tolerationPatch } from "./tolerate.ts";

const gates = gateList({
  a: {},
  b: { taint: { key: "example.com/b", effect: "NoExecute" } },
  c: { taint: { key: "example.com/b" } },
});
const ours: readonly Toleration[] = [
  { key: "startup.k8s.io/initializing", operator: "Exists", effect: "NoSchedule" },
  { key: "example.com/b", operator: "Exists", effect: "NoExecute" },
  { key: "example.com/b", operator: "Exists", effect: "NoSchedule" },
];

function daemonSet(tolerations?: readonly Toleration[], resourceVersion = "7"): DaemonSet {
  const spec = { containers: [], ...(tolerations && { tolerations }) };
  return {
    metadata: { name: "ds", resourceVersion, annotations: {} },
    spec: { selector: {}, template: { spec } },
  };
}

describe("the tolerations that a DaemonSet lacks", () => {
  it("are those of all gates that it does not tolerate, in their order", () => {
    expect(missingTolerations(daemonSet(), gates)).toEqual(ours);
    expect(missingTolerations(daemonSet([{ key: "example.com/b", operator: "Exists" }]), gates)).toEqual([
      ours[0],
    ]);
    expect(missingTolerations(daemonSet([{ operator: "Exists" }]), gates)).toEqual([]);
    expect(missingTolerations({}, gates)).toEqual(ours);
  });

  it("are added as a list where there is none, else one by one, and only to the version that was read", () => {
    const test = { op: "test", path: "/metadata/resourceVersion", value: "7" };
    const path = "/spec/template/spec/tolerations";
    const list = { op: "add", path, value: ours };
    const texts = [
      "startup.k8s.io/initializing:NoSchedule",
      "example.com/b:NoExecute",
      "example.com/b:NoSchedule",
    ];
    const record = {
      op: "add",
      path: "/metadata/annotations/berth.dev~1gates-tolerations",
      value: texts.join(","),
    };
    expect(tolerationPatch(daemonSet(), gates)).toEqual([test, list, record]);
    expect(tolerationPatch(daemonSet([]), gates)).toEqual([test, list, record]);
    const other: Toleration = { key: "other", operator: "Exists" };
    expect(tolerationPatch(daemonSet([other]), gates)).toEqual([
      test,
      ...ours.map((value) => ({ op: "add", path: `${path}/-`, value })),
      record,
    ]);
    expect(tolerationPatch(daemonSet(ours), gates)).toBeUndefined();
    expect(tolerationPatch({ spec: { selector: {}, template: {} } }, gates)).toBeUndefined();
  });

  it("are given once, however often they are given (N-B10)", () => {
    const toleration = fc.record<Toleration>(
      {
        key: fc.constantFrom("", "startup.k8s.io/initializing", "example.com/b", "c"),
        operator: fc.constantFrom("", "Exists", "Equal", "Lt"),
        value: fc.constantFrom("", "wait", "x"),
        effect: fc.constantFrom("", "NoSchedule", "NoExecute"),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.option(fc.array(toleration, { maxLength: 5 }), { nil: undefined }), (standing) => {
        const before = daemonSet(standing);
        let after = before;
        for (let run = 0; run < 10; run += 1) {
          after = applyPatch(after, tolerationPatch(after, gates) ?? []) as DaemonSet;
        }
        const tolerations = after.spec?.template.spec?.tolerations ?? [];
        const given = standing ?? [];
        expect(tolerations.slice(0, given.length)).toEqual(given);
        expect(tolerations.slice(given.length)).toEqual(missingTolerations(before, gates));
        for (const { spec } of gates.gates) expect(tolerates(tolerations, spec.taint)).toBe(true);
      }),
    );
  });
});
