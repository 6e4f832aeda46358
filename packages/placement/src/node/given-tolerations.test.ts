import { applyPatch } from "@berth/host";
import type { DaemonSet, Toleration } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { recordTolerations, tolerationsAnnotation, withoutTolerations } from "./given-tolerations.ts";

const own: Toleration = { key: "own", operator: "Exists" };
const gate: Toleration = { key: "example.com/gate", operator: "Exists", effect: "NoExecute" };
const arch: Toleration = { key: "supported-arch", value: "arm64", effect: "NoSchedule" };

function daemonSet(tolerations: readonly Toleration[], annotations = {}): DaemonSet {
  return {
    metadata: { name: "ds", annotations },
    spec: { selector: {}, template: { spec: { containers: [], tolerations } } },
  };
}

const given = (capability: string, from: DaemonSet, ...tolerations: readonly Toleration[]): DaemonSet => {
  const standing = from.spec?.template.spec?.tolerations ?? [];
  const patch = recordTolerations(capability, from.metadata?.annotations, tolerations);
  const { metadata = {} } = applyPatch(from, patch) as DaemonSet;
  return daemonSet([...standing, ...tolerations], metadata.annotations);
};
const cleaned = (from: DaemonSet, capability: string): DaemonSet =>
  applyPatch(from, withoutTolerations(from, capability) ?? []) as DaemonSet;

describe("I-4 tolerations that Berth has given to a DaemonSet", () => {
  it("are recorded with the annotations that there are, once each", () => {
    const first = given("gates", daemonSet([own]), gate);
    const { metadata } = given("gates", first, gate, arch);
    const text = "example.com/gate:NoExecute,supported-arch=arm64:NoSchedule";
    expect(metadata?.annotations).toEqual({ [tolerationsAnnotation("gates")]: text });
    expect(recordTolerations("gates", undefined, [gate])).toMatchObject([{ path: "/metadata/annotations" }]);
    expect(recordTolerations("gates", {}, [])).toEqual([]);
  });

  it("are taken back with the record, by capability, and those of the user stay", () => {
    const before = daemonSet([own], { mine: "1" });
    const after = given("architecture", given("gates", before, gate), arch);
    expect(cleaned(cleaned(after, "gates"), "architecture")).toEqual(before);
    expect(cleaned(after, "gates").spec?.template.spec?.tolerations).toEqual([own, arch]);
  });

  it("are none without a record, and as many as still stand with one", () => {
    expect(withoutTolerations(daemonSet([gate]), "gates")).toBeUndefined();
    const recorded = given("gates", daemonSet([]), gate);
    const edited = { ...recorded, ...daemonSet([own], recorded.metadata?.annotations) };
    expect(cleaned(edited, "gates")).toEqual(daemonSet([own]));
  });
});
