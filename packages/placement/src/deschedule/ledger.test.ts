import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { type Eviction, EvictionLedger, isReady, ownerOf } from "./ledger.ts";
import { anEviction, gpuPod } from "./testing/lost.ts";

const MINUTE = 60_000;
const pod = gpuPod("a").build();
const ready = (name: string): Pod => gpuPod(name).on("n2").build();
const starting = (name: string): Pod => gpuPod(name).on("n2").notReady().build();
const never = (): boolean => false;
const always = (): boolean => true;

class Story {
  readonly ledger = new EvictionLedger();

  begin(more: Partial<Eviction> = {}): this {
    this.ledger.begin(anEviction(pod, { isAccepted: false, ...more }));
    return this;
  }

  /** One look at the pods of the owner. @returns names of evicted pods without a replacement. */
  look(pods: readonly Pod[], nowMs: number, isLost: (pod: Pod) => boolean = never): readonly string[] {
    const missing = this.ledger.observe(() => pods, isLost, nowMs);
    return missing.map((it) => it.pod.metadata?.name ?? "");
  }

  get isOpen(): boolean {
    return this.ledger.inProgress.size > 0;
  }
}

describe("an eviction in progress", () => {
  it.each<[string, readonly Pod[], boolean]>([
    ["D-D1 lasts while the pod is there", [pod, ready("b")], true],
    ["D-D2 lasts while no other pod has come", [], true],
    ["D-D3 lasts while the replacement is not Ready", [starting("b")], true],
    ["D-D4 ends when the replacement is Ready", [ready("b")], false],
  ])("%s", (_, pods, isOpen) => {
    const story = new Story().begin({ isAccepted: true });
    expect(story.look(pods, MINUTE)).toEqual([]);
    expect(story.isOpen).toBe(isOpen);
  });

  it("D-D5 is not ended by a pod that was there before", () => {
    const story = new Story().begin({ isAccepted: true, known: new Set(["a", "b"]) });
    story.look([ready("b")], MINUTE);
    expect(story.isOpen).toBe(true);
  });

  it("D-D6 ends after 10 minutes without a replacement, which is told and counts as a return", () => {
    const story = new Story().begin({ isAccepted: true, known: new Set(["a", "b"]) });
    expect(story.look([ready("b")], 10 * MINUTE - 1)).toEqual([]);
    expect(story.look([ready("b")], 10 * MINUTE)).toEqual(["a"]);
    for (const _ of [2, 3]) {
      story.begin({ isAccepted: true, known: new Set(["a", "b"]) });
      expect(story.ledger.isGivenUp("default/web")).toBe(false);
      story.look([ready("b")], 10 * MINUTE);
    }
    story.begin({ owner: "default/other" });
    expect(story.ledger.givenUp).toEqual(["default/web"]);
  });

  it("D-D7 ends after 10 minutes with a replacement that is not Ready, which is not told", () => {
    const story = new Story().begin({ isAccepted: true });
    expect(story.look([starting("b")], 10 * MINUTE)).toEqual([]);
    expect(story.isOpen).toBe(false);
  });

  it("D-D8 ends after a minute without an answer, unless the pod is gone", () => {
    const unanswered = new Story().begin();
    expect(unanswered.look([pod], MINUTE - 1)).toEqual([]);
    expect(unanswered.isOpen).toBe(true);
    expect(unanswered.look([pod], MINUTE)).toEqual([]);
    expect(unanswered.isOpen).toBe(false);
    const gone = new Story().begin();
    gone.look([], MINUTE);
    expect(gone.isOpen).toBe(true);
  });

  it("D-D9 of a pod without a controller ends when the pod is gone", () => {
    const bare: Pod = { metadata: { name: "a", namespace: "default", uid: "a" } };
    const story = new Story().begin({ pod: bare, owner: ownerOf(bare), isAccepted: true });
    expect([story.look([], 1), story.isOpen]).toEqual([[], false]);
  });

  it("D-D10 tells when time alone ends it", () => {
    const story = new Story();
    expect(story.ledger.endsInMs(0)).toBe(Number.POSITIVE_INFINITY);
    story.begin();
    expect(story.ledger.endsInMs(1_000)).toBe(MINUTE - 1_000);
    story.ledger.accept("a");
    expect(story.ledger.endsInMs(1_000)).toBe(10 * MINUTE - 1_000);
    story.ledger.freeze([{ rule: "config/default", namespace: "" }], 0);
    expect(story.ledger.endsInMs(1_000)).toBe(5 * MINUTE - 1_000);
  });
});

describe("pods that come back to wrong nodes", () => {
  it("D-D11 three make Berth leave the owner, each counted once however often it is seen", () => {
    const story = new Story();
    for (const name of ["b", "c", "d"]) {
      expect(story.ledger.isGivenUp("default/web")).toBe(false);
      story.begin({ isAccepted: true });
      for (const nowMs of [1, 2, 3])
        story.look([pod, starting(name)], nowMs, ({ metadata }) => metadata?.name === name);
      story.look([ready(name)], 4, always);
    }
    expect(story.ledger.isGivenUp("default/web")).toBe(true);
  });

  it("D-D12 a node that becomes wrong after the pod was Ready does not count", () => {
    const story = new Story();
    for (const name of ["b", "c", "d"]) {
      story.begin({ isAccepted: true });
      story.look([ready(name)], 1);
      story.look([ready(name)], 2, always);
    }
    expect(story.ledger.isGivenUp("default/web")).toBe(false);
  });

  it("D-R2 count once for each eviction, however many pods its owner has made meanwhile", () => {
    const story = new Story().begin({ isAccepted: true });
    story.look(["b", "c", "d"].map(starting), 1, always);
    expect(story.ledger.isGivenUp("default/web")).toBe(false);
  });

  it("D-D13 stay counted when another policy changes", () => {
    const story = new Story();
    for (const name of ["b", "c", "d"]) {
      story.begin({ isAccepted: true });
      story.look([ready(name)], 1, always);
      story.ledger.forgetPolicies(new Set(["config/default"]));
    }
    expect(story.ledger.isGivenUp("default/web")).toBe(true);
  });

  it.each<[string, (ledger: EvictionLedger) => void]>([
    ["D-D13 begin anew when their policy changes", (ledger) => ledger.forgetPolicies(new Set())],
    [
      "D-D14 begin anew when the owner has no pod any more",
      (ledger) => void ledger.observe(() => [], never, 9),
    ],
  ])("%s", (_, forget) => {
    const story = new Story();
    for (const name of ["b", "c", "d"]) {
      story.begin({ isAccepted: true });
      story.look([ready(name)], 1, always);
    }
    expect(story.ledger.isGivenUp("default/web")).toBe(true);
    forget(story.ledger);
    expect(story.ledger.isGivenUp("default/web")).toBe(false);
  });
});

describe("what the server refuses", () => {
  const refuse = (
    story: Story,
    reason: "DisruptionBudget" | "EvictionRefused",
    waitMs: number,
  ): number | undefined => {
    story.begin();
    story.ledger.refuse("a", { reason, message: "no" }, waitMs, 0);
    return story.ledger.restOf("a")?.untilMs;
  };

  it("D-D15 a budget rests for 10 s, doubling to 5 minutes, or as long as the server asks", () => {
    const story = new Story();
    expect(Array.from({ length: 7 }, () => refuse(story, "DisruptionBudget", 1_000))).toEqual(
      [10, 20, 40, 80, 160, 300, 300].map((seconds) => seconds * 1_000),
    );
    expect(refuse(story, "DisruptionBudget", 10 * MINUTE)).toBe(10 * MINUTE);
  });

  it("D-D16 any other refusal rests for as long as it is said", () => {
    const story = new Story();
    expect([1, 2, 3].map(() => refuse(story, "EvictionRefused", 30_000))).toEqual([30_000, 30_000, 30_000]);
  });

  it("D-D17 takes no room, and is forgotten once evicted or 5 minutes after the rest", () => {
    const story = new Story();
    refuse(story, "DisruptionBudget", 0);
    expect([story.isOpen, story.ledger.begunSince(-1)]).toEqual([false, []]);
    story.look([pod], 10_000 + 5 * MINUTE - 1);
    expect(story.ledger.restOf("a")).toBeDefined();
    story.look([pod], 10_000 + 5 * MINUTE);
    expect(story.ledger.restOf("a")).toBeUndefined();
    refuse(story, "DisruptionBudget", 0);
    story.begin().ledger.accept("a");
    expect(story.ledger.restOf("a")).toBeUndefined();
  });

  it("D-D18 is ignored after the server has accepted it", () => {
    const story = new Story().begin();
    story.ledger.accept("a");
    story.ledger.refuse("a", { reason: "EvictionRefused", message: "no" }, 1, 0);
    expect([story.isOpen, story.ledger.restOf("a")]).toEqual([true, undefined]);
  });

  it("D-D19 a changed policy withdraws what was not sent, and no more", () => {
    const story = new Story().begin();
    story.ledger.forgetPolicies(new Set());
    expect(story.isOpen).toBe(false);
    story.begin({ isAccepted: true }).ledger.forgetPolicies(new Set());
    expect(story.isOpen).toBe(true);
  });

  it("D-D19 a changed policy does not forget what was sent: it may have happened", () => {
    const story = new Story().begin();
    story.ledger.send("a");
    story.ledger.forgetPolicies(new Set());
    expect([story.isOpen, story.ledger.begunSince(-1)]).toMatchObject([true, [{ uid: "a" }]]);
    story.ledger.refuse("a", { reason: "EvictionRefused", message: "no" }, 1, 0);
    expect(story.isOpen).toBe(false);
  });

  it("D-D19 another policy that changes withdraws nothing", () => {
    const story = new Story().begin();
    story.ledger.forgetPolicies(new Set(["config/default"]));
    expect(story.isOpen).toBe(true);
  });
});

it("a pod is Ready by its condition Ready alone", () => {
  const of = (...conditions: { readonly type: string; readonly status: "True" | "False" }[]): Pod => ({
    status: { conditions },
  });
  const other = { type: "Initialized", status: "True" } as const;
  expect([{}, { status: {} }, of(other, { type: "Ready", status: "False" })].map(isReady)).toEqual([
    false,
    false,
    false,
  ]);
  expect(isReady(of(other, { type: "Ready", status: "True" }))).toBe(true);
});

describe("what the breaker reads", () => {
  it("D-D13 begins anew for a policy that has changed, and stays for the others; what has gone counts on", () => {
    const story = new Story();
    for (const rule of ["x", "y"]) {
      story.begin({ pod: gpuPod(rule).build(), owner: rule, rule, isAccepted: true });
      story.ledger.freeze([{ rule, namespace: "a" }], 0);
    }
    story.ledger.forgetPolicies(new Set(["x"]));
    expect(["x", "y"].map((rule) => story.ledger.frozen(rule))).toEqual([["a"], []]);
    expect(story.ledger.begunSince(-1).map(({ uid }) => uid)).toEqual(["x", "y"]);
  });

  it("D-E12 evictions of a policy that began within the window, oldest first", () => {
    const story = new Story();
    for (const [name, atMs, rule] of [
      ["a", 0, "x"],
      ["b", 10, "y"],
      ["c", 5 * MINUTE, "x"],
    ] as const)
      story.begin({ pod: gpuPod(name).build(), owner: name, atMs, rule });
    const { ledger } = story;
    expect(ledger.begunSince(0).map(({ uid }) => uid)).toEqual(["b", "c"]);
    expect(ledger.begunSince(0, "x").map(({ uid }) => uid)).toEqual(["c"]);
    expect(ledger.begunSince(10).map(({ uid }) => uid)).toEqual(["c"]);
    // Those before the window are forgotten.
    expect(ledger.begunSince(-1).map(({ uid }) => uid)).toEqual(["b", "c"]);
    expect([ledger.withdraw("b"), ledger.withdraw("nobody")]).toEqual([true, false]);
    ledger.accept("nobody");
    ledger.refuse("nobody", { reason: "DisruptionBudget", message: "no" }, 1, 1);
    expect(ledger.restOf("nobody")).toBeUndefined();
    expect(ledger.begunSince(-1).map(({ uid }) => uid)).toEqual(["c"]);
  });

  it("D-E13 stays frozen for 5 minutes after too many were lost", () => {
    const { ledger } = new Story();
    const x = { rule: "x", namespace: "a" };
    ledger.freeze([x], 0);
    ledger.freeze([], 5 * MINUTE - 1);
    expect(ledger.frozenAt(x)).toBe(0);
    ledger.freeze([x], MINUTE);
    ledger.freeze([], 5 * MINUTE);
    expect(ledger.frozenAt(x)).toBe(MINUTE);
    ledger.freeze([], 6 * MINUTE);
    expect(ledger.frozenAt(x)).toBeUndefined();
  });

  it("D-E21 freezes and lets go namespaces one by one", () => {
    const { ledger } = new Story();
    ledger.freeze([{ rule: "x", namespace: "a" }], 0);
    ledger.freeze([{ rule: "x", namespace: "b" }], MINUTE);
    expect([ledger.frozen("x"), ledger.frozen("y")]).toEqual([["a", "b"], []]);
    expect(ledger.frozenAt({ rule: "x", namespace: "" })).toBeUndefined();
    ledger.freeze([], 5 * MINUTE);
    expect(ledger.frozen("x")).toEqual(["b"]);
    expect(ledger.endsInMs(5 * MINUTE)).toBe(MINUTE);
    ledger.freeze([], 6 * MINUTE);
    expect(ledger.endsInMs(6 * MINUTE)).toBe(Number.POSITIVE_INFINITY);
  });
});
