import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { DO_NOT_DISRUPT } from "../api/autoscaler.ts";
import { decideEvictions, type EvictionView, type LostPod, replicasIn } from "./decide.ts";
import { type Eviction, emptyLedger, type LedgerView } from "./ledger.ts";
import {
  anEviction,
  aPolicy,
  aView,
  BUILT_MS,
  decided,
  gpuPod,
  lostPod,
  single,
  singles,
} from "./testing/lost.ts";

const HOUR = 3_600_000;
const inProgress = (...evictions: readonly Eviction[]): LedgerView => ({
  ...emptyLedger,
  inProgress: new Map(evictions.map((it) => [it.owner, it])),
});
const begun =
  (...times: readonly number[]): LedgerView["begunSince"] =>
  (sinceMs) =>
    times.flatMap((atMs, i) =>
      atMs > sinceMs ? [{ uid: `gone${i}`, rule: "config/default", namespace: "default", atMs }] : [],
    );

interface Row {
  readonly reason: string;
  readonly message: string;
  readonly recheckAfterMs?: number;
  readonly spec?: object;
  readonly ledger?: Partial<LedgerView>;
  readonly view?: Partial<EvictionView> & { readonly pods?: readonly Pod[] };
  readonly sinceMs?: number;
}

/** The decision table, in its order. */
const TABLE: readonly Row[] = [
  { reason: "DryRun", message: "the policy is in dry run", spec: { dryRun: true } },
  {
    reason: "EvictionsFrozen",
    message: "too many pods of the policy would go at once",
    recheckAfterMs: 60_000,
    ledger: { frozenAt: () => HOUR - 240_000 },
  },
  {
    reason: "EvictionDelayed",
    message: "the policy waits for 5m",
    recheckAfterMs: 299_000,
    sinceMs: HOUR - 1_000,
  },
  {
    reason: "PodTooYoung",
    message: "it is younger than 2h",
    recheckAfterMs: HOUR,
    spec: { minAge: "2h" },
  },
  {
    reason: "OwnerGivenUp",
    message: "pods of its owner came back to wrong nodes three times",
    ledger: { isGivenUp: () => true },
  },
  {
    reason: "ReplacementAwaited",
    message: "Berth has just started, and other pods of its owner may have been evicted before",
    recheckAfterMs: 1,
    ledger: { quietUntilMs: HOUR + 1 },
  },
  {
    reason: "ReplacementAwaited",
    message: "pod default/b of its owner is not Ready",
    recheckAfterMs: 60_000,
    view: { pods: [gpuPod("b").notReady().build()] },
  },
  {
    reason: "OwnerTooSmall",
    message: "its owner has 1 pod, and the policy asks for 2",
    recheckAfterMs: 60_000,
    spec: { minReplicas: 2 },
  },
  {
    reason: "DisruptionBudget",
    message: "no",
    recheckAfterMs: 7_000,
    ledger: {
      restOf: () => ({ untilMs: HOUR + 7_000, waitMs: 10_000, reason: "DisruptionBudget", message: "no" }),
    },
  },
  {
    reason: "EvictionLimit",
    message: "1 evictions of the cluster are in progress, which is the limit",
    recheckAfterMs: 60_000,
    spec: { limits: { cluster: 1 } },
    ledger: { inProgress: inProgress(anEviction(single("other"))).inProgress },
  },
  {
    reason: "NoOtherNode",
    message: "none",
    recheckAfterMs: 10_000,
    view: { fit: () => ({ reason: "NoOtherNode", message: "none" }) },
  },
  { reason: "PodDescheduled", message: "it is lost; node n9 takes it" },
];

it("evicts a pod of any age without minAge, also where it is not known since when it is lost", () => {
  const pod = gpuPod("a").build();
  const policy = aPolicy({ minAge: "0s", for: "0s" });
  const one = lostPod(pod, { policy, sinceMs: Number.NEGATIVE_INFINITY });
  const view = aView([one], { now: Date.parse(pod.metadata?.creationTimestamp ?? "") });
  expect(decideEvictions(view).standings.map((it) => it.reason)).toEqual(["PodDescheduled"]);
});

it.each([
  ["ten minutes ahead", 10, 5, "PodTooYoung"],
  ["right", 0, 60, "PodTooYoung"],
  ["right", 0, 71, "PodDescheduled"],
])(
  "B15 minAge of an hour by a clock that is %s: %d min, at an age of %d min",
  (_, aheadMin, ageMin, reason) => {
    const pod = gpuPod("a").build();
    const bornMs = Date.parse(pod.metadata?.creationTimestamp ?? "");
    const one = lostPod(pod, { policy: aPolicy({ minAge: "1h", for: "0s" }), sinceMs: HOUR - 1 });
    const view = aView([one], { now: bornMs + (ageMin + aheadMin) * 60_000 });
    expect(decideEvictions(view).standings.map((it) => it.reason)).toEqual([reason]);
  },
);

it.each([
  ["1h", 69, "PodTooYoung"],
  ["1h", 71, "PodDescheduled"],
  ["soon", 0, "PodDescheduled"],
])("D-B43 karpenter.sh/do-not-disrupt: %s, at an age of %d min", (value, ageMin, reason) => {
  const pod = gpuPod("a")
    .annotated({ [DO_NOT_DISRUPT]: value })
    .build();
  const one = lostPod(pod, { policy: aPolicy({ for: "0s" }), sinceMs: HOUR - 1 });
  const view = aView([one], { now: BUILT_MS + ageMin * 60_000 });
  expect(decideEvictions(view).standings.map((it) => it.reason)).toEqual([reason]);
});

describe("the decision table", () => {
  it.each(
    TABLE.map((row, i) => [`D-B${i + 1} ${row.reason}, whatever holds of the rows below`, row, i] as const),
  )("%s", (_, { reason, message, recheckAfterMs }, from) => {
    const rows = TABLE.slice(from);
    const merged = (key: "spec" | "ledger" | "view"): object =>
      Object.assign({}, ...rows.map((row) => row[key]));
    const [sinceMs = 0] = rows.flatMap((row) => row.sinceMs ?? []);
    const one = lostPod(gpuPod("a").build(), { policy: aPolicy(merged("spec")), sinceMs });
    const view = aView([one], { ...merged("view"), ledger: { ...emptyLedger, ...merged("ledger") } });
    const { standings, recheckAfterMs: next } = decideEvictions(view);
    expect(standings).toMatchObject([{ reason, message }]);
    expect(standings[0]?.recheckAfterMs).toBe(recheckAfterMs);
    expect(next).toBe(recheckAfterMs);
  });

  it("D-B11 says which node takes the pod", () => {
    expect(decideEvictions(aView([lostPod(single("a"))])).standings).toMatchObject([
      { target: "n9", message: "it is lost; node n9 takes it" },
    ]);
  });

  it("D-B12 asks for no other node where the policy does not", () => {
    const fit = (): never => expect.unreachable();
    const policy = aPolicy({ requireFit: false });
    expect(decideEvictions(aView([lostPod(single("a"), { policy })], { fit })).standings).toMatchObject([
      { reason: "PodDescheduled", message: "it is lost" },
    ]);
  });
});

it.each<[string, object, string]>([
  ["a node", { node: 1 }, "1 evictions from node n1 are in progress, which is the limit"],
  ["a namespace", { namespace: 1 }, "1 evictions in namespace default are in progress, which is the limit"],
  ["a minute", { perMinute: 1 }, "1 evictions began within the last minute, which is the limit"],
])("says which limit it waits for: of %s", (_, limits, message) => {
  const policy = aPolicy({ limits, breaker: { percent: 100 } });
  expect(decideEvictions(aView(singles(2, { policy }))).standings[1]).toMatchObject({
    message,
    recheckAfterMs: 60_000,
  });
});

it.each([
  [
    "is frozen for five minutes from the moment",
    HOUR - 300_000 + 1,
    {
      reason: "EvictionsFrozen",
      message: "too many pods of namespace default would go at once",
      recheckAfterMs: 1,
    },
  ],
  ["goes on after them", HOUR - 300_000, { reason: "PodDescheduled" }],
])("a namespace by itself %s", (_, atMs, standing) => {
  const frozenAt: LedgerView["frozenAt"] = ({ namespace }) => (namespace === "default" ? atMs : undefined);
  const view = aView([lostPod(single("a"))], { ledger: { ...emptyLedger, frozenAt } });
  expect(decideEvictions(view).standings).toMatchObject([standing]);
});

it.each([
  ["for is over", 0, "PodDescheduled"],
  ["one ms of it is left", 1, "EvictionDelayed"],
])("a pod goes as soon as %s", (_, leftMs, reason) => {
  const policy = aPolicy({ for: "5m" });
  expect(decided(aView([lostPod(single("a"), { policy, sinceMs: HOUR - 300_000 + leftMs })]))).toEqual([
    `a ${reason}`,
  ]);
});

it("a rest that is over holds no pod", () => {
  const restOf = () => ({ untilMs: HOUR, waitMs: 1, reason: "DisruptionBudget", message: "no" }) as const;
  expect(decided(aView([lostPod(single("a"))], { ledger: { ...emptyLedger, restOf } }))).toEqual([
    "a PodDescheduled",
  ]);
});

describe("an owner with few pods", () => {
  const policy = aPolicy({ minReplicas: 2 });
  const going = gpuPod("b").stored({ uid: "b", deletionTimestamp: "2026-01-01T00:00:00Z" }).build();
  it("D-B39 loses none, and those with enough pods do", () => {
    const small = lostPod(single("a"), { policy });
    const large = lostPod(gpuPod("b").build(), { policy });
    expect(decided(aView([small, large], { pods: [gpuPod("c").build()] }))).toEqual([
      "a OwnerTooSmall",
      "b PodDescheduled",
    ]);
  });

  it("D-B40 does not count pods that are being deleted", () => {
    expect(replicasIn([gpuPod("a").build(), going])).toBe(1);
  });

  it("D-B41 is no matter for a pod without a controller", () => {
    const bare = gpuPod("a").with(({ metadata, ...pod }) => ({
      ...pod,
      metadata: { ...metadata, ownerReferences: [] },
    }));
    expect(decided(aView([lostPod(bare.build(), { policy })]))).toEqual(["a PodDescheduled"]);
  });

  it("D-B42 does not count for the breaker", () => {
    expect(decideEvictions(aView(singles(20, { policy }), { inScope: () => 20 })).tooMany).toEqual([]);
  });
});

describe("one pod of an owner at a time", () => {
  const ready = gpuPod("b").on("n2").build();
  it.each<[string, readonly Pod[], string]>([
    ["D-B13 goes while the others are Ready", [ready], "PodDescheduled"],
    ["D-B14 waits for one that is not", [ready, gpuPod("c").notReady().build()], "ReplacementAwaited"],
    ["D-B15 waits for one that has no node", [gpuPod("c").notReady().on("").build()], "ReplacementAwaited"],
    [
      "D-B16 waits for one that is being deleted, Ready as it is",
      [gpuPod("c").stored({ uid: "c", deletionTimestamp: "2026-01-01T00:00:00Z" }).build()],
      "ReplacementAwaited",
    ],
    ["D-B17 does not wait for pods of others", [single("x")], "PodDescheduled"],
    [
      "S-16 nor for one of another namespace that names the uid of its owner",
      [gpuPod("c").in("evil").notReady().build()],
      "PodDescheduled",
    ],
  ])("%s", (_, pods, reason) => {
    expect(decided(aView([lostPod(gpuPod("a").build())], { pods }))).toEqual([`a ${reason}`]);
  });

  it.each<[string, Pod]>([
    ["being deleted", gpuPod("c").stored({ uid: "c", deletionTimestamp: "2026-01-01T00:00:00Z" }).build()],
    ["not Ready", gpuPod("c").notReady().build()],
  ])("says of the other that it is %s", (is, other) => {
    const { standings } = decideEvictions(aView([lostPod(gpuPod("a").build())], { pods: [other] }));
    expect(standings).toMatchObject([{ message: `pod default/c of its owner is ${is}` }]);
  });

  it("D-B18 lets the first go of several that are lost, Ready or not", () => {
    const [a, b] = [gpuPod("a").notReady().build(), gpuPod("b").notReady().build()];
    expect(decided(aView([lostPod(b), lostPod(a)]))).toEqual(["a PodDescheduled", "b ReplacementAwaited"]);
  });

  it("D-B19 waits while an eviction of the owner is in progress, and says nothing of the pod that goes", () => {
    const [a, b] = [gpuPod("a").build(), gpuPod("b").build()];
    const { standings } = decideEvictions(
      aView([lostPod(a), lostPod(b)], { ledger: inProgress(anEviction(a)) }),
    );
    expect(standings).toMatchObject([
      {
        reason: "ReplacementAwaited",
        message: "another pod of its owner was evicted, and its replacement is not Ready",
      },
    ]);
  });

  it("D-B20 takes bare pods for owners of their own", () => {
    const bare = (name: string): Pod =>
      gpuPod(name)
        .stored({ uid: name, ownerReferences: [] } as object)
        .build();
    expect(decided(aView([lostPod(bare("a")), lostPod(bare("b"))]))).toEqual([
      "a PodDescheduled",
      "b PodDescheduled",
    ]);
  });
});

describe("limits", () => {
  it.each<[string, object, number]>([
    ["D-B21 of the cluster", { cluster: 2 }, 2],
    ["D-B22 of a node", { node: 3 }, 3],
    ["D-B23 of a namespace", { namespace: 1 }, 1],
    ["D-B24 of a minute", { perMinute: 4 }, 4],
  ])("%s", (_, limits, going) => {
    const policy = aPolicy({ limits: { node: 100, ...limits }, breaker: { percent: 100 } });
    const reasons = decided(aView(singles(6, { policy })));
    expect(reasons.filter((it) => it.endsWith("PodDescheduled"))).toHaveLength(going);
    expect(reasons.filter((it) => it.endsWith("EvictionLimit"))).toHaveLength(6 - going);
  });

  it("D-B25 counts evictions in progress on the same node and in the same namespace only", () => {
    const elsewhere = anEviction(gpuPod("x").on("n2").in("other").ownedBy("ReplicaSet", "x", "x").build());
    const policy = aPolicy({ limits: { node: 1, namespace: 1 } });
    const view = aView([lostPod(single("a"), { policy })], { ledger: inProgress(elsewhere) });
    expect(decided(view)).toEqual(["a PodDescheduled"]);
  });

  it("D-B26 has room again a minute after the oldest eviction", () => {
    const ledger = { ...emptyLedger, begunSince: begun(HOUR - 60_000, HOUR - 50_000, HOUR - 20_000) };
    const policy = aPolicy({ limits: { perMinute: 2 } });
    expect(decideEvictions(aView([lostPod(single("a"), { policy })], { ledger }))).toMatchObject({
      standings: [{ reason: "EvictionLimit" }],
      recheckAfterMs: 10_000,
    });
  });

  it("D-B27 waits for its turn where no more nodes are looked at in this pass", () => {
    const fit = ({ metadata }: Pod) => (metadata?.name === "p1" ? undefined : { node: "n9" });
    expect(decideEvictions(aView(singles(2), { fit }))).toMatchObject({
      standings: [
        { reason: "EvictionLimit", message: expect.stringContaining("is still looking") },
        { reason: "PodDescheduled" },
      ],
      recheckAfterMs: 50,
    });
  });

  it("D-B28 looks once for the replicas of an owner that fit nowhere", () => {
    const looks: (string | undefined)[] = [];
    const fit: EvictionView["fit"] = ({ metadata }) => {
      looks.push(metadata?.name);
      return metadata?.name === "z" ? { node: "n9" } : { reason: "NoOtherNode", message: "none" };
    };
    const lost = [...["a", "b", "c"].map((name) => gpuPod(name).build()), single("z")];
    expect(
      decided(
        aView(
          lost.map((pod) => lostPod(pod)),
          { fit },
        ),
      ),
    ).toEqual(["a NoOtherNode", "b NoOtherNode", "c NoOtherNode", "z PodDescheduled"]);
    expect(looks).toEqual(["a", "z"]);
  });

  it("decides again when the first of several waits is over", () => {
    const lost = [60_000, 120_000, 90_000].map((ms, at) => lostPod(single(`p${at}`), { sinceMs: HOUR - ms }));
    expect(decideEvictions(aView(lost)).recheckAfterMs).toBe(180_000);
  });

  it("D-B29 counts a pod on the node that takes it for the pods after it", () => {
    const placed: string[] = [];
    const fit: EvictionView["fit"] = (_pod, _how, there) => {
      placed.push(there.map(({ pod, node }) => `${pod.metadata?.name} ${node}`).join());
      return { node: "n8" };
    };
    decided(aView(singles(3), { fit, placed: [{ pod: single("x"), node: "n9" }] }));
    expect(placed).toEqual(["x n9", "x n9,p1 n8", "x n9,p1 n8,p2 n8"]);
  });
});

describe("the order", () => {
  const of = (name: string, sinceMs: number, priority?: number): LostPod => {
    const pod = single(name);
    return lostPod(
      { ...pod, spec: { containers: [], ...pod.spec, ...(priority !== undefined && { priority }) } },
      { sinceMs },
    );
  };
  it("D-B30 is low priority, then the longest wait, then the name", () => {
    const lost = [of("a", 9, -1), of("b", 0, 100), of("e", 5), of("d", 5), of("c", 1)];
    expect(decideEvictions(aView(lost)).standings.map(({ lost: { pod } }) => pod.metadata?.name)).toEqual([
      "a",
      "c",
      "d",
      "e",
      "b",
    ]);
  });

  it("D-B31 evicts a pod once, under the first of its policies that wants it", () => {
    const pod = single("a");
    const of = (name: string, spec: object): LostPod => lostPod(pod, { policy: aPolicy(spec, name) });
    const lost = [of("dry", { dryRun: true }), of("soon", {}), of("also", {}), of("late", { for: "2h" })];
    expect(
      decideEvictions(aView(lost)).standings.map(
        ({ lost: { policy }, reason }) => `${policy.name} ${reason}`,
      ),
    ).toEqual(["dry DryRun", "soon PodDescheduled"]);
  });
});
