import { describe, expect, it } from "vitest";
import type { Reason } from "../api/reasons.ts";
import { decideEvictions, type EvictionView } from "./decide.ts";
import { emptyLedger, type Freeze, type LedgerView } from "./ledger.ts";
import { aPolicy, aView, decided, gpuPod, lostPod, single, singles } from "./testing/lost.ts";

const HOUR = 3_600_000;
const begun =
  (...times: readonly number[]): LedgerView["begunSince"] =>
  (sinceMs) =>
    times.flatMap((atMs, i) =>
      atMs > sinceMs ? [{ uid: `gone${i}`, rule: "config/default", namespace: "default", atMs }] : [],
    );

describe("the breaker", () => {
  const tooMany = (count: number, inScope: number, more: Partial<EvictionView> = {}, spec: object = {}) =>
    decideEvictions(aView(singles(count, { policy: aPolicy(spec) }), { inScope: () => inScope, ...more }))
      .tooMany.length === 1;

  it.each<[string, number, number, object, boolean]>([
    ["D-E1 a tenth is not too many", 10, 100, {}, false],
    ["D-E2 more than a tenth is", 10, 99, {}, true],
    ["D-E3 fewer than 10 never are", 9, 9, {}, false],
    ["D-E4 all may go where the policy says 100 percent", 50, 50, { breaker: { percent: 100 } }, false],
    ["D-E5 a policy may say fewer", 2, 9, { breaker: { pods: 2 } }, true],
    ["D-E6 in a dry run as well", 10, 99, { dryRun: true }, true],
    ["D-E7 those that go within 5 minutes count", 10, 99, { for: "65m" }, true],
    ["D-E8 those that go later do not", 10, 99, { for: "66m" }, false],
  ])("%s", (_, count, inScope, spec, expected) => {
    expect(tooMany(count, inScope, {}, spec)).toBe(expected);
  });

  it("D-E9 freezes all pods of the policy at once, and none of another", () => {
    const lost = [...singles(10), lostPod(single("x"), { policy: aPolicy({}, "other") })];
    const reasons = decided(aView(lost, { inScope: () => 50 }));
    expect(reasons.filter((it) => it.endsWith("EvictionsFrozen"))).toHaveLength(10);
    expect(reasons).toContain("x PodDescheduled");
  });

  it("D-E10 counts evictions of the last 5 minutes, and a pod that is still there once", () => {
    const times = [HOUR - 299_999, HOUR - 10, HOUR - 10, HOUR - 10, HOUR - 10];
    const ledger = { ...emptyLedger, begunSince: begun(...times) };
    expect(tooMany(5, 99, { ledger })).toBe(true);
    expect(tooMany(4, 99, { ledger })).toBe(false);
    const same = {
      ...emptyLedger,
      begunSince: () =>
        singles(5).map(({ pod }) => ({
          uid: pod.metadata?.uid ?? "",
          namespace: "default",
          rule: "",
          atMs: 0,
        })),
    };
    expect(tooMany(5, 9, { ledger: same })).toBe(false);
  });

  it("D-E16 lets all go at 100 percent, however many were evicted before", () => {
    const ledger = { ...emptyLedger, begunSince: begun(HOUR, HOUR, HOUR, HOUR) };
    expect(tooMany(10, 10, { ledger }, { breaker: { percent: 100 } })).toBe(false);
  });

  it("D-E11 does not count pods of an owner that is left alone", () => {
    expect(tooMany(10, 99, { ledger: { ...emptyLedger, isGivenUp: () => true } })).toBe(false);
  });

  const shared = aPolicy();
  const of = (namespace: string, count: number, more: object = {}) =>
    Array.from({ length: count }, (_, at) => {
      const name = `${namespace}-${at}`;
      const pod = gpuPod(name).in(namespace).ownedBy("ReplicaSet", name, name).build();
      return lostPod(pod, { policy: shared, ...more });
    });
  const frozen = (view: EvictionView): readonly string[] =>
    decideEvictions(view).tooMany.map(({ namespace }) => namespace);

  it.each<[string, Readonly<Record<string, number>>, readonly string[]]>([
    ["D-E17 one namespace with more than a tenth is frozen alone", { evil: 11, good: 5 }, ["evil"]],
    ["D-E18 one namespace counts with half of the limit at most", { evil: 90, a: 3, b: 2 }, ["evil"]],
    ["D-E18 … and the others with the rest", { evil: 10, a: 3, b: 3 }, [""]],
    ["D-E19 two namespaces with half of the limit each freeze all", { a: 6, b: 6 }, [""]],
    ["D-E19 … and with less do not", { a: 5, b: 5 }, []],
    ["D-E19 … and with more are frozen by themselves as well", { a: 11, b: 6 }, ["", "a"]],
  ])("%s", (_, counts, expected) => {
    const lost = Object.entries(counts).flatMap(([namespace, count]) => of(namespace, count));
    expect(frozen(aView(lost, { inScope: () => 100 }))).toEqual(expected);
  });

  it("D-E17 evicts pods of other namespaces meanwhile, and says whose pods are too many", () => {
    const { standings } = decideEvictions(
      aView([...of("evil", 11), ...of("good", 1)], { inScope: () => 100 }),
    );
    const said = Map.groupBy(standings, ({ lost: { pod } }) => pod.metadata?.namespace);
    expect(said.get("good")).toMatchObject([{ reason: "PodDescheduled" }]);
    expect(new Set(said.get("evil")?.map(({ reason, message }) => `${reason}: ${message}`))).toEqual(
      new Set(["EvictionsFrozen: too many pods of namespace evil would go at once"]),
    );
  });

  it("D-E17 a single pod freezes its own namespace only, where the policy lets none go", () => {
    const policy = aPolicy({ breaker: { percent: 0, pods: 1 } });
    expect(frozen(aView(of("evil", 1, { policy }), { inScope: () => 100 }))).toEqual(["evil"]);
  });

  it("D-E21 keeps a namespace frozen that had too many, and no other", () => {
    const ledger = {
      ...emptyLedger,
      frozenAt: ({ namespace }: Freeze) => (namespace === "evil" ? HOUR : undefined),
    };
    expect(decided(aView([...of("evil", 1), ...of("good", 1)], { ledger }))).toEqual([
      "evil-0 EvictionsFrozen",
      "good-0 PodDescheduled",
    ]);
  });

  const refused = (reason: Reason): Partial<LedgerView> => ({
    restOf: (uid) =>
      uid.startsWith("held") ? { untilMs: HOUR + 1, waitMs: 10_000, reason, message: "" } : undefined,
  });
  it.each<[string, Reason, readonly string[]]>([
    ["D-E22 does not count pods that a budget holds", "DisruptionBudget", []],
    ["D-E22 counts pods that were refused for another reason", "EvictionRefused", ["held"]],
  ])("%s", (_, reason, expected) => {
    const lost = [...of("held", 11), ...of("good", 1)];
    expect(
      frozen(aView(lost, { inScope: () => 100, ledger: { ...emptyLedger, ...refused(reason) } })),
    ).toEqual(expected);
  });

  it("D-E22 does not count them while Berth asks again either", () => {
    const begunSince = () =>
      of("held", 11).map(({ pod }) => ({
        uid: pod.metadata?.uid ?? "",
        namespace: "held",
        rule: "",
        atMs: HOUR,
      }));
    const ledger = { ...emptyLedger, ...refused("DisruptionBudget"), begunSince };
    expect(frozen(aView(of("good", 1), { inScope: () => 100, ledger }))).toEqual([]);
  });
});
