import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { decideEvictions, type EvictionView, type LostPod } from "./decide.ts";
import { type ForecastView, forecastEvictions } from "./forecast.ts";
import { aPolicy, aView, gpuPod, lostPod, single, singles } from "./testing/lost.ts";

const wrong = { sinceMs: Number.NEGATIVE_INFINITY };
const web = (...names: readonly string[]): readonly LostPod[] =>
  names.map((name) => lostPod(gpuPod(name).build(), wrong));
const forecast = (view: ForecastView): readonly string[] =>
  forecastEvictions(view).map(({ step, pod, policy, reason }) => `${step ?? "-"} ${pod} ${policy} ${reason}`);

describe("the forecast of evictions", () => {
  it("D-F1 lets one pod of an owner go at each step, and pods of others at once", () => {
    const lost = [...web("a", "b", "c"), lostPod(single("x"), wrong)];
    expect(forecast(aView(lost))).toEqual([
      "1 default/a config/default PodDescheduled",
      "1 default/x config/default PodDescheduled",
      "2 default/b config/default PodDescheduled",
      "3 default/c config/default PodDescheduled",
    ]);
  });

  it("D-F2 keeps each limit at each step", () => {
    const policy = aPolicy({ limits: { cluster: 2 }, breaker: { percent: 100 } });
    const steps = forecastEvictions(aView(singles(5, { ...wrong, policy }))).map(({ step }) => step);
    expect(steps).toEqual([1, 1, 2, 2, 3]);
  });

  it.each<[string, Partial<EvictionView> & { readonly pods?: readonly Pod[] }, object, string]>([
    [
      "D-F3 without another node",
      { fit: () => ({ reason: "NoOtherNode", message: "no" }) },
      {},
      "NoOtherNode",
    ],
    [
      "D-F4 with a pod of its owner that is not Ready",
      { pods: [gpuPod("z").notReady().build()] },
      {},
      "ReplacementAwaited",
    ],
    ["D-F6 with too many", { inScope: () => 2 }, { breaker: { pods: 2 } }, "EvictionsFrozen"],
    ["D-F7 too young", {}, { minAge: "2h" }, "PodTooYoung"],
  ])("%s a pod stays, told once", (_, more, spec, reason) => {
    const lostAs = { ...wrong, policy: aPolicy(spec) };
    const lost = ["a", "b"].map((name) => lostPod(gpuPod(name).build(), lostAs));
    expect(forecast(aView(lost, more))).toEqual([
      `- default/a config/default ${reason}`,
      `- default/b config/default ${reason}`,
    ]);
  });

  it("a pod that a budget keeps stays, counts as none that goes, and leaves the others their turn", () => {
    const policy = aPolicy({ breaker: { pods: 2, percent: 1 } });
    const lost = ["a", "x"].map((name) => lostPod(single(name), { ...wrong, policy }));
    const budgetProblem = ({ metadata }: Pod) => (metadata?.name === "a" ? "web wants 2" : undefined);
    expect(forecastEvictions({ ...aView(lost), budgetProblem })).toMatchObject([
      { pod: "default/a", reason: "DisruptionBudget", message: expect.stringContaining("web wants 2") },
      { pod: "default/x", reason: "PodDescheduled", step: 1 },
    ]);
  });

  it("D-F5 plays a policy in dry run out as if it were not, and says so", () => {
    const lost = ["a", "b"].map((name) =>
      lostPod(gpuPod(name).build(), { ...wrong, policy: aPolicy({ dryRun: true }) }),
    );
    expect(forecastEvictions(aView(lost))).toMatchObject([
      { pod: "default/a", step: 1, dryRun: true },
      { pod: "default/b", step: 2, dryRun: true },
    ]);
  });

  it("D-F8 tells of a pod that goes under one policy only that it goes, whichever step that is", () => {
    const dry = aPolicy({ dryRun: true }, "dry");
    const lost = web("a", "b").flatMap((one) => [{ ...one, policy: dry }, one]);
    expect(forecast(aView(lost))).toEqual([
      "1 default/a config/default PodDescheduled",
      "2 default/b config/default PodDescheduled",
    ]);
  });

  it("D-F9 has each pod on the node that takes it when it looks for the next", () => {
    const rooms = new Map([
      ["n8", 1],
      ["n9", 2],
    ]);
    const fit: EvictionView["fit"] = (_pod, _how, placed) => {
      for (const [node, room] of rooms)
        if (placed.filter((it) => it.node === node).length < room) return { node };
      return { reason: "NoOtherNode", message: "all are full" };
    };
    expect(
      forecastEvictions(aView(web("a", "b", "c", "d"), { fit })).map(({ step, to, message }) => [
        step,
        to,
        message,
      ]),
    ).toEqual([
      [1, "n8", "it is lost"],
      [2, "n9", "it is lost"],
      [3, "n9", "it is lost"],
      [undefined, undefined, "it is lost; all are full"],
    ]);
  });

  it("D-F10 begins with the pods that a running Berth evicts first, in the same order", () => {
    const lost = [...web("a", "b"), ...singles(25, wrong)];
    const { standings } = decideEvictions(aView(lost));
    const running = standings.flatMap((one) => (one.reason === "PodDescheduled" ? [one.lost.name] : []));
    const first = forecastEvictions(aView(lost)).flatMap(({ step, pod }) => (step === 1 ? [pod] : []));
    expect(first).toEqual(running);
    expect(first.length).toBeGreaterThan(1);
  });

  it("D-F30 lets pods go while those of another namespace are too many for the breaker", () => {
    const of = (namespace: string, name: string): LostPod =>
      lostPod(gpuPod(name).in(namespace).ownedBy("ReplicaSet", name, name).build(), { ...wrong, policy });
    const policy = aPolicy();
    const evil = Array.from({ length: 11 }, (_, at) => of("evil", `e${at}`));
    const said = forecast(aView([...evil, of("good", "g")], { inScope: () => 100 }));
    expect(said.filter((it) => it.startsWith("1 "))).toEqual(["1 good/g config/default PodDescheduled"]);
    expect(said.filter((it) => it.endsWith("EvictionsFrozen"))).toHaveLength(11);
  });
});
