import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { createDocumentStage } from "../api/testing/document-stage.ts";
import { createGateRules, GONE_MS } from "./gone-gates.ts";

const gated = (key: string, more: object = {}): object => ({
  taint: { key },
  signals: { labelsSettled: true },
  ...more,
});

function stage() {
  const clock = createVirtualClock();
  const { rules, forget } = createGateRules(clock);
  const documents = createDocumentStage(rules, gated("example.com/a"));
  const { source } = documents;
  return {
    ...documents,
    clock,
    forgetGone: () => forget() && source.renew(),
    gone: () => (source.inForce?.gone ?? []).map(({ spec: { taint } }) => taint.key),
  };
}

describe("a gate that is gone", () => {
  it("is remembered for a while, and forgotten without anybody looking again", async () => {
    const { clock, setCluster, ofCluster, forgetGone, gone, changes } = stage();
    setCluster(ofCluster("a", gated("example.com/a")), ofCluster("b", gated("example.com/b")));
    setCluster(ofCluster("b", gated("example.com/b")));
    expect(gone()).toEqual(["example.com/a"]);
    const before = changes();
    await clock.advance(GONE_MS - 1);
    forgetGone();
    expect(gone()).toEqual(["example.com/a"]);
    await clock.advance(1);
    forgetGone();
    expect([gone(), changes()]).toEqual([[], before]);
  });

  it("is one that has another taint now, too", () => {
    const { setCluster, ofCluster, gone } = stage();
    setCluster(ofCluster("a", gated("example.com/a")));
    setCluster(ofCluster("a", gated("example.com/other")));
    expect(gone()).toEqual(["example.com/a"]);
  });

  it("is none whose change is not stored", () => {
    const { source, setCluster, ofCluster, gone } = stage();
    setCluster(ofCluster("a", gated("example.com/a")));
    expect(source.remarksOn(ofCluster("a", gated("example.com/other")))).toEqual([]);
    source.refresh();
    expect(gone()).toEqual([]);
  });

  it("is none that has a fault, as long as it is there", () => {
    const { setCluster, ofCluster, gone } = stage();
    setCluster(ofCluster("a", gated("example.com/a")));
    setCluster(ofCluster("a", gated("example.com/a", { mode: "Never" })));
    expect(gone()).toEqual([]);
    setCluster();
    expect(gone()).toEqual(["example.com/a"]);
  });

  it("is none that has moved or was renamed: another has its taint", () => {
    const { source, setCluster, ofCluster, ofFile, gone } = stage();
    source.setConfig([ofFile("a", gated("example.com/a"))]);
    setCluster(ofCluster("a", gated("example.com/a")));
    source.setConfig([]);
    expect(gone()).toEqual([]);
    setCluster(ofCluster("renamed", gated("example.com/a")));
    expect(gone()).toEqual([]);
    setCluster();
    expect(gone()).toEqual(["example.com/a"]);
  });
});
