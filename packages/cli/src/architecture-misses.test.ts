import type { Pod } from "@berth/kube";
import { architecturePolicySpec, compileArchitecture, reasons } from "@berth/placement";
import { createVirtualClock } from "@berth/runtime";
import { aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createPodMisses } from "./architecture-misses.ts";

const works = { ready: true, reason: reasons.AdmissionByWebhook, message: "asked" };
const spec = architecturePolicySpec.parse({ mode: "Affinity" });
const { policies } = compileArchitecture({
  sources: [{ source: "config", documents: [{ name: "all", spec, annotations: {} }] }],
});

function watching() {
  const clock = createVirtualClock();
  const told: string[] = [];
  let admission: typeof works | undefined = works;
  const misses = createPodMisses({
    context: () => ({
      policies,
      namespaceLabels: () => ({}),
      sight: { look: ({ image }) => ({ state: "unknown", name: image }) },
      now: clock.now(),
    }),
    admission: () => admission,
    onChange: () => told.push(misses.judgement()?.reason ?? "nothing"),
    clock,
  });
  const at = (): string => new Date(clock.now()).toISOString();
  const pod = (gates: readonly { readonly name: string }[] = []): Pod =>
    aPod("p")
      .in("default")
      .image("team/app")
      .with((it) => ({
        ...it,
        metadata: { ...it.metadata, creationTimestamp: at() },
        spec: { containers: [], ...it.spec, schedulingGates: gates },
      }))
      .build();
  return {
    clock,
    misses,
    told,
    missed: () => pod(),
    held: () => pod([{ name: "berth.dev/architecture" }]),
    come: (object: Pod, initial = false) => misses.podChanged({ type: "added", object, initial }),
    fail: () => (admission = undefined),
  };
}

describe("pods that nobody asked about", () => {
  it("are told, until one comes that was asked about", async () => {
    const it = watching();
    await it.clock.advance(10_000);
    it.come(it.missed());
    it.come(it.missed());
    expect(it.misses.judgement()).toMatchObject({ ready: false, reason: "AdmissionFailed" });
    expect(it.misses.judgement()?.message).toMatch(/^pod default\/p came without Berth being asked: /);
    it.come(it.held());
    expect(it.misses.judgement()).toBe(works);
    expect(it.told).toEqual(["AdmissionFailed", "AdmissionByWebhook"]);
  });

  it("are not told while a change of policies is on its way", async () => {
    const it = watching();
    await it.clock.advance(60_000);
    it.misses.changed();
    const early = it.missed();
    await it.clock.advance(9000);
    it.come(it.missed());
    await it.clock.advance(9000);
    it.come(early);
    expect(it.told).toEqual([]);
  });

  it("are as they should be when they were there before", async () => {
    const it = watching();
    await it.clock.advance(10_000);
    it.come(it.missed(), true);
    expect(it.told).toEqual([]);
  });

  it("leave it at what is said of admission that does not work", async () => {
    const it = watching();
    await it.clock.advance(10_000);
    it.fail();
    it.come(it.missed());
    expect(it.misses.judgement()).toBeUndefined();
    expect(it.told).toEqual([]);
  });
});
