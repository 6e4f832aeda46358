/** The decision table of README.md, row by row: as long as that is. */
import { describe, expect, it } from "vitest";
import { NEW_YEAR } from "../node/testing/labels.ts";
import { decideGate } from "./decide.ts";
import type { SignalReading } from "./gate.ts";
import { parseState, stringifyState } from "./state.ts";
import {
  type CaseInit,
  caseOf,
  holds,
  noPod,
  notReady,
  reading,
  tell,
  unknown,
} from "./testing/gate-case.ts";

const decide = (init: CaseInit): string => {
  const it = caseOf(init);
  return tell(it, decideGate(it));
};
const seconds = NEW_YEAR / 1000;
const LET_GO = `Open Released: released/Released completed=${seconds}`;
const held = { state: "held", why: "Gated" } as const;
const released = { state: "released", why: "Released" } as const;
const byHand = { state: "released", why: "ReleasedByHand" } as const;
const timedOut = { state: "released", why: "TimedOut" } as const;
/** A node that Berth holds: the taint stands and is recorded. */
const holding: CaseInit = { standing: "wait", state: held, owns: ["taint", "state"] };
/** A node that Berth has let go. */
const open: CaseInit = { state: released, owns: ["state", "completed"], completed: "1" };
const CONTINUOUS = { mode: "Continuous" } as const;
const OPEN = "released/Released completed=1";
const STAYS = `Open Released: ${OPEN}`;
const HELD = "Held Gated: taint=wait held/Gated";
const LATE = "TimedOut Gated: taint=wait held/Gated";
const AGAIN = "HeldAgain HeldAgain: taint=wait held/HeldAgain completed=1; HeldAgain";
const GONE = "NotSelected GateNotSelected";
const KEPT = `${GONE}; GateNotSelected!; keeps taint/startup.k8s.io/initializing:NoSchedule`;
const lacking = (...readings: readonly SignalReading[]): CaseInit => ({ ...holding, readings });

type Row = readonly [what: string, init: CaseInit, expected: string];
const rows = (table: readonly Row[]): void => {
  it.each(table)("%s", (_, init, expected) => expect(decide(init)).toBe(expected));
};

describe("a node that the gate does not select", () => {
  rows([
    ["without the taint", { selected: false }, GONE],
    ["with ours: it goes", { ...holding, selected: false }, GONE],
    ["with one of somebody else: it stays, and that is said", { selected: false, standing: "wait" }, KEPT],
    [
      "of the control plane, which was told after its creation: what admission has put on goes",
      { selected: false, isSpared: true, standing: "wait" },
      GONE,
    ],
    [
      "of the control plane, with another value: it stays",
      { selected: false, isSpared: true, standing: "other" },
      KEPT,
    ],
  ]);
});

describe("a node with the taint", () => {
  rows([
    ["a signal has no pod", lacking(noPod), `${HELD}; PodMissing`],
    ["N-B8 one of several signals is missing", lacking(holds, notReady, holds), `${HELD}; PodNotReady`],
    ["a signal cannot be read", lacking(holds, unknown), `${HELD}; SignalUnknown`],
    [
      "its DaemonSet cannot come",
      lacking(reading("missing", "DaemonSetBlocked", { noPod: true })),
      `${HELD}; DaemonSetBlocked`,
    ],
    ["nobody knows of it yet", { standing: "wait", readings: [noPod] }, `${HELD}; PodMissing`],
    ["N-P5 its signals hold", holding, LET_GO],
    ["N-P8 the one pod that is needed is ready", lacking(holds), LET_GO],
    ["N-P10 the kubelet has put it on, and the signals hold", { standing: "wait" }, LET_GO],
    [
      "N-B6 its value is of somebody else: replaced while it is held",
      { standing: "other", readings: [noPod] },
      `${HELD}; PodMissing`,
    ],
    ["N-B6 its value is of somebody else, and the signals hold", { standing: "other" }, LET_GO],
    [
      "the signals have not held for long",
      { ...holding, stableForMs: 1_250 },
      `${HELD}; NotStable; again in 3750`,
    ],
    ["the signals have held just long enough", { ...holding, stableForMs: 5_000 }, LET_GO],
    [
      "N-B8 it has not been held for long",
      { ...holding, spec: { minimumHold: "30s" }, heldForMs: 10_000 },
      `${HELD}; MinimumHold; again in 20000`,
    ],
    [
      "neither: the longer wait is said",
      { ...holding, spec: { minimumHold: "2s" }, heldForMs: 0, stableForMs: 0 },
      `${HELD}; NotStable; again in 5000`,
    ],
    [
      "another gate is before it",
      { ...holding, spec: { after: ["first"] }, waitsFor: ["first"], readings: [] },
      `${HELD}; GateBefore`,
    ],
    [
      "its release is not told by the contract's annotation when the key is another",
      { ...holding, spec: { taint: { key: "example.com/startup" } } },
      "Open Released: released/Released",
    ],
  ]);
});

const late = { timeouts: { noPod: "5m", notReady: "10m" } } as const;
const cordons = { timeouts: { ...late.timeouts, policy: "Cordon" } } as const;
const releases = { timeouts: { ...late.timeouts, policy: "Release" } } as const;
const ours: CaseInit = { owns: ["taint", "state", "cordon"], cordoned: true };
const theirs: CaseInit = { cordoned: true, cordonedBy: "config/other" };
const afterMinutes = (minutes: number, more: CaseInit): CaseInit => ({
  ...holding,
  heldForMs: minutes * 60_000,
  ...more,
});
describe("N-B5 a node that takes too long", () => {
  rows([
    [
      "before any timeout it is looked at again at the next",
      afterMinutes(1, { spec: late, readings: [noPod] }),
      `${HELD}; PodMissing; again in 240000`,
    ],
    [
      "no pod: kept",
      afterMinutes(5, { spec: late, readings: [noPod] }),
      `${LATE}; PodMissing TimedOut!; again in 300000`,
    ],
    [
      "noPod is nothing to a pod that is there",
      afterMinutes(6, { spec: late, readings: [notReady] }),
      `${HELD}; PodNotReady; again in 240000`,
    ],
    [
      "not ready: kept",
      afterMinutes(10, { spec: late, readings: [notReady] }),
      `${LATE}; PodNotReady TimedOut!`,
    ],
    [
      "Release",
      afterMinutes(10, { spec: releases, readings: [notReady] }),
      `Open TimedOut: released/TimedOut completed=${seconds}`,
    ],
    [
      "Cordon",
      afterMinutes(10, { spec: cordons, readings: [notReady] }),
      `${LATE} unschedulable; PodNotReady TimedOut!`,
    ],
    [
      "Cordon, and somebody else has: it stays theirs",
      afterMinutes(10, {
        spec: cordons,
        cordoned: true,
        readings: [notReady],
      }),
      `${LATE}; PodNotReady TimedOut!`,
    ],
    [
      "Cordon, and it has: it stays so while the signals become stable",
      afterMinutes(10, {
        spec: cordons,
        ...ours,
        stableForMs: 1_000,
      }),
      `${HELD} unschedulable; NotStable; again in 4000`,
    ],
    [
      "Cordon, it has, and after a restart nothing is known: it stays so",
      afterMinutes(10, {
        spec: cordons,
        ...ours,
        readings: [unknown],
      }),
      `${HELD} unschedulable; SignalUnknown; again in 30000`,
    ],
    [
      "Cordon together with another gate that has",
      afterMinutes(10, {
        spec: cordons,
        ...theirs,
        readings: [notReady],
      }),
      `${LATE} unschedulable; PodNotReady TimedOut!`,
    ],
    [
      "a gate that has not timed out does not keep the cordon of another",
      afterMinutes(1, {
        spec: { timeouts: { policy: "Cordon" } },
        ...theirs,
        readings: [notReady],
      }),
      `${HELD}; PodNotReady`,
    ],
    [
      "what cannot be read yet puts it off",
      afterMinutes(11, { spec: late, readings: [noPod, unknown], unknownForMs: 10_000 }),
      `${HELD}; PodMissing SignalUnknown; again in 20000`,
    ],
    [
      "but not for ever",
      afterMinutes(11, { spec: late, readings: [noPod, unknown], unknownForMs: 30_000 }),
      `${LATE}; PodMissing SignalUnknown TimedOut!`,
    ],
    [
      "not while it waits for another gate",
      afterMinutes(11, { spec: { ...late, after: ["first"] }, waitsFor: ["first"], readings: [] }),
      `${HELD}; GateBefore`,
    ],
    [
      "all signals hold at last: no timeout",
      afterMinutes(11, { spec: late, stableForMs: 0 }),
      `${HELD}; NotStable; again in 5000`,
    ],
  ]);
});

describe("the taint is back on a node that was let go (Karpenter #1772)", () => {
  rows([
    [
      "because its signals held, and they do",
      { ...open, standing: "wait" },
      `Open Released: ${OPEN.replace("1", `${seconds - 600}`)}`,
    ],
    [
      "because its signals held, and they do not",
      { ...open, standing: "wait", readings: [notReady] },
      "Held Gated: taint=wait held/Gated completed=1; PodNotReady",
    ],
    [
      "because its signals held, and they have to be stable anew",
      { ...open, standing: "wait", stableForMs: 0 },
      "Held Gated: taint=wait held/Gated completed=1; NotStable; again in 5000",
    ],
    [
      "by hand",
      { ...open, state: byHand, standing: "wait", readings: [notReady] },
      `Open ReleasedByHand: released/ReleasedByHand completed=${seconds - 600}`,
    ],
    [
      "by a timeout",
      { ...open, state: timedOut, standing: "wait", readings: [notReady] },
      `Open TimedOut: released/TimedOut completed=${seconds - 600}`,
    ],
    [
      "by hand, and the boot was not known then",
      { ...open, state: { ...byHand, boot: "" }, standing: "wait", readings: [notReady] },
      `Open ReleasedByHand: released/ReleasedByHand completed=${seconds - 600}`,
    ],
    [
      "by hand, in an earlier boot",
      { ...open, state: byHand, standing: "wait", readings: [notReady], boot: { id: "boot-2" } },
      "Held Gated: taint=wait held/Gated completed=1; PodNotReady",
    ],
  ]);
});

describe("the taint is gone from a node that is held", () => {
  rows([
    ["Restore", { state: held, owns: ["taint", "state"], readings: [noPod] }, `${HELD}; PodMissing`],
    ["Restore, and the signals hold", { state: held, owns: ["taint", "state"] }, LET_GO],
    [
      "Release",
      { spec: { taintRemoved: "Release" }, state: held, owns: ["taint", "state"], readings: [noPod] },
      `Open ReleasedByHand: released/ReleasedByHand completed=${seconds}`,
    ],
    [
      "Release, but this taint was never there: the gate has another one now, or it was refused",
      { spec: { taintRemoved: "Release" }, state: held, owns: ["state"], readings: [noPod] },
      `${HELD}; PodMissing`,
    ],
  ]);
});

const rebooted = { boot: { id: "boot-2", since: NEW_YEAR - 60_000 } } as const;
describe("a node that was let go", () => {
  rows([
    ["N-P12 by nobody: nothing is written", {}, "Open Released"],
    ["N-P12 by the original: nothing is written", { completed: "1" }, "Open Released"],
    ["by the gate: what it wrote stays", open, STAYS],
    ["once: a signal is lost", { ...open, readings: [notReady] }, STAYS],
    ["continuous: a signal is lost", { ...open, spec: CONTINUOUS, readings: [notReady] }, AGAIN],
    ["continuous: nothing is lost", { ...open, spec: CONTINUOUS }, STAYS],
    [
      "continuous: what cannot be read is not lost",
      { ...open, spec: CONTINUOUS, readings: [unknown] },
      STAYS,
    ],
    [
      "continuous: as many are held again as may be",
      { ...open, spec: CONTINUOUS, readings: [notReady], mayHoldAgain: false },
      `${STAYS}; GateCapReached!; again in 10000`,
    ],
    [
      "continuous: it is not known yet how many are",
      { ...open, spec: CONTINUOUS, readings: [notReady], mayHoldAgain: undefined },
      `${STAYS}; again in 1000`,
    ],
    [
      "continuous, by a timeout: it has not had its signals yet",
      { ...open, state: timedOut, spec: CONTINUOUS, readings: [notReady] },
      "Open TimedOut: released/TimedOut completed=1",
    ],
    [
      "continuous, by a timeout: it has its signals, but not for long",
      { ...open, state: timedOut, spec: CONTINUOUS, stableForMs: 2_000 },
      "Open TimedOut: released/TimedOut completed=1; again in 3000",
    ],
    [
      "continuous, by a timeout: now it has had them",
      { ...open, state: timedOut, spec: CONTINUOUS },
      "Open TimedOut: released/Released completed=1",
    ],
    ["N-B7 it was rebooted: not asked for", { ...open, ...rebooted }, STAYS],
    ["N-B7 it was rebooted", { ...open, ...rebooted, spec: { regateOnReboot: true } }, AGAIN],
    [
      "N-B7 it was rebooted, and let go by hand before",
      { ...open, ...rebooted, state: byHand, spec: { regateOnReboot: true } },
      AGAIN,
    ],
    [
      "N-B7 it was rebooted, and as many are held again as may be",
      { ...open, ...rebooted, spec: { regateOnReboot: true }, mayHoldAgain: false },
      `${STAYS}; GateCapReached!; again in 10000`,
    ],
    ["the node does not say its boot", { ...open, boot: { id: "" }, spec: { regateOnReboot: true } }, STAYS],
    [
      "N-B7 held again, it takes too long",
      {
        ...holding,
        spec: { ...late, regateOnReboot: true },
        state: { state: "held", why: "HeldAgain" },
        readings: [notReady],
      },
      "TimedOutAgain HeldAgain: taint=wait held/HeldAgain; PodNotReady TimedOut!",
    ],
  ]);
});

const fresh: CaseInit = { isFresh: true };
describe("N-P13 a node that came without the taint", () => {
  rows([
    ["idle", { ...fresh, idle: { idle: true } }, HELD],
    ["not looked up yet", fresh, "Open Released; BackfillPending; again in 10000"],
    ["busy", { ...fresh, idle: { idle: false, pod: "default/a" } }, "Open Released; GateMissed!"],
    ["too old", { idle: { idle: true } }, "Open Released"],
    ["let go by the original", { ...fresh, idle: { idle: true }, completed: "1" }, "Open Released"],
    ["an empty completedAt is none", { ...fresh, idle: { idle: true }, completed: "" }, HELD],
    ["gated already", { ...fresh, ...open, idle: { idle: true } }, STAYS],
    [
      "continuous and idle: it is fresh, and the cap is nothing to it",
      { ...fresh, spec: CONTINUOUS, idle: { idle: true }, readings: [noPod], mayHoldAgain: false },
      `${HELD}; PodMissing`,
    ],
    [
      "continuous and busy: as any other that lacks a signal",
      { ...fresh, spec: CONTINUOUS, idle: { idle: false, pod: "default/a" }, readings: [noPod] },
      "HeldAgain HeldAgain: taint=wait held/HeldAgain; HeldAgain",
    ],
  ]);
});

describe("N-B14 a node that goes", () => {
  const going = { isGoing: true };
  rows([
    [
      "is held by its signals, and not late",
      afterMinutes(60, { ...going, spec: releases, readings: [noPod] }),
      `${HELD}; PodMissing`,
    ],
    ["is let go when its signals hold", { ...holding, ...going }, LET_GO],
    ["is not held again", { ...open, ...going, spec: CONTINUOUS, readings: [noPod] }, STAYS],
    ["is not held for the first time", { ...fresh, ...going, idle: { idle: true } }, "Open Released"],
  ]);
});

describe("what is written", () => {
  it("N-P5 the time of the release is whole seconds in digits, and the state's", () => {
    const it = caseOf({ ...holding, stamp: () => NEW_YEAR + 999 });
    const [state, completed] = decideGate(it).marks;
    expect(completed).toMatchObject({ id: "annotation/startup.k8s.io/completedAt", value: `${seconds}` });
    expect(parseState(state?.value)?.at).toBe(NEW_YEAR);
  });

  it("a hold keeps its beginning, and takes the boot down", () => {
    const it = caseOf({ ...holding, readings: [noPod], ...rebooted });
    const text = decideGate(it).marks[1]?.value;
    const boot = { boot: "boot-2", bootAt: NEW_YEAR - 60_000 };
    expect(parseState(text)).toEqual({ ...held, at: NEW_YEAR - 600_000, ...boot });
  });

  it("a release because of a timeout says what was missing, and repeated it says the same", () => {
    const spec = { timeouts: { notReady: "10m", policy: "Release" } } as const;
    const { marks } = decideGate(caseOf({ ...holding, spec, readings: [notReady] }));
    const text = marks[0]?.value;
    const state = parseState(text);
    expect(state?.note).toBe("not ready within 10m; pods init: as it is");
    const again = caseOf({ ...open, standing: "wait", spec, readings: [noPod] });
    const { marks: repeated } = decideGate({ ...again, state, stateText: text });
    expect(repeated[0]?.value).toBe(text);
  });

  it("a state that cannot be read is written anew, and then stays", () => {
    const it = { ...caseOf({ standing: "wait", readings: [noPod] }), stateText: "garbage" };
    const text = decideGate(it).marks[1]?.value;
    expect(text).toBe(stringifyState({ ...held, at: NEW_YEAR, boot: "boot-1" }));
    const next = decideGate({
      ...it,
      state: parseState(text),
      stateText: text,
      stamp: () => NEW_YEAR + 60_000,
    });
    expect(next.marks[1]?.value).toBe(text);
  });
});
