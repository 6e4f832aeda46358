import type { DaemonSet } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { NodeFootprintSpec } from "../document.ts";
import { footprintOf } from "../testing/footprints.ts";
import { asksFor, wouldHold } from "./workloads.ts";

const WEB: NodeFootprintSpec = {
  workloads: [{ podSelector: { matchLabels: { app: "web" } } }],
  node: { label: { key: "x.test/web" } },
};

describe("a DaemonSet", () => {
  it("asks for the label of its footprint, or does not", () => {
    const footprint = footprintOf(WEB);
    const withSelector = (nodeSelector: Readonly<Record<string, string>>): DaemonSet => ({
      spec: { selector: {}, template: { spec: { containers: [], nodeSelector } } },
    });
    expect(asksFor(withSelector({ "x.test/web": "true" }), footprint)).toBe(true);
    expect(asksFor(withSelector({}), footprint)).toBe(false);
  });
});

describe("an owner", () => {
  it("would get the finalizer while it lives and does not have it", () => {
    const hold = { finalizer: "x.test/hold" };
    const metadata = { name: "pool", uid: "p", resourceVersion: "1" };
    expect(wouldHold(hold, { metadata })).toBe(true);
    expect(wouldHold(hold, { metadata: { ...metadata, finalizers: ["x.test/hold"] } })).toBe(false);
    expect(wouldHold(hold, { metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } })).toBe(
      false,
    );
  });
});
