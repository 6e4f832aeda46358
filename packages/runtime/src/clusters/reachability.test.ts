import { ApiError, type ApiFailure } from "@berth/kube";
import { describe, expect, it } from "vitest";
import {
  isEdge,
  notProbed,
  type Observation,
  observationOf,
  observe,
  type Reachability,
  type ReachCause,
} from "./reachability.ts";

const WALL_MS = 1_000_000;

/** @param at milliseconds since the beginning, on both clocks. */
function after(steps: readonly Step[], known = {}): Reachability[] {
  const states = [notProbed({ identity: undefined, version: undefined, ...known })];
  for (const [at, seen, lostMs = 0] of steps) {
    const now = { wallMs: WALL_MS + at, monotonicMs: at, lostMs };
    states.push(observe(states.at(-1) as Reachability, seen, now));
  }
  return states.slice(1);
}

type Step = readonly [at: number, seen: Observation, lostMs?: number];

const answered = (version: string, uid = "u"): Observation => ({ is: "answered", uid, version });
const failed = (cause: ReachCause): Observation => ({ is: "failed", cause, message: `it is ${cause}` });
const text = ({ reach }: Reachability): string =>
  reach === undefined ? "unknown" : reach.is === "yes" ? "yes" : reach.cause;

describe("a cluster is", () => {
  it.each<[string, readonly Step[], readonly string[]]>([
    ["reached once it answers", [[0, answered("1")]], ["yes"]],
    ["lost at once if it has never answered", [[0, failed("Silent")]], ["Silent"]],
    [
      "lost 8 s after its last answer, not at the first failure",
      [
        [0, answered("1")],
        [5_000, failed("Refused")],
        [7_999, failed("Refused")],
        [8_000, failed("Silent")],
        [9_000, answered("1")],
      ],
      ["yes", "yes", "yes", "Silent", "yes"],
    ],
    [
      "not silent while this process stands still, but refuses nevertheless",
      [
        [0, failed("Silent"), 1_000],
        [1, answered("1")],
        [9_000, failed("Silent"), 1_000],
        [9_001, failed("Silent"), 999],
        [9_002, answered("1")],
        [18_000, failed("Refused"), 5_000],
      ],
      ["unknown", "yes", "yes", "Silent", "yes", "Refused"],
    ],
    [
      "lost at once by a definite answer",
      [
        [0, answered("1")],
        [1, failed("Unauthorized")],
        [2, answered("1")],
        [3, failed("Tls")],
      ],
      ["yes", "Unauthorized", "yes", "Tls"],
    ],
    [
      "not lost while it asks to slow down",
      [
        [0, answered("1")],
        [5_000, { is: "busy" }],
        [12_000, failed("Silent")],
        [13_000, failed("Silent")],
      ],
      ["yes", "yes", "yes", "Silent"],
    ],
    [
      "not reached by asking to slow down",
      [
        [0, { is: "busy" }],
        [1, failed("Silent")],
        [2, { is: "busy" }],
      ],
      ["Refused", "Silent", "Silent"],
    ],
    [
      "another one when its identity changes, until it is the first again",
      [
        [0, answered("1")],
        [1, answered("9", "other")],
        [2, answered("2")],
      ],
      ["yes", "WrongIdentity", "yes"],
    ],
  ])("%s", (_, steps, expected) => {
    expect(after(steps).map(text)).toEqual(expected);
  });
});

it("`since` is when it last answered, whatever the causes after it, or when it was first asked", () => {
  const states = after([
    [0, answered("1")],
    [5_000, answered("1")],
    [20_000, failed("Silent")],
    [30_000, failed("Refused")],
  ]);
  expect(states.map(({ reach }) => reach)).toEqual([
    { is: "yes", heardMs: WALL_MS },
    { is: "yes", heardMs: WALL_MS + 5_000 },
    { is: "no", since: WALL_MS + 5_000, cause: "Silent", message: "it is Silent" },
    { is: "no", since: WALL_MS + 5_000, cause: "Refused", message: "it is Refused" },
  ]);
  expect(after([[7, failed("Tls")]])[0]?.reach).toMatchObject({ since: WALL_MS + 7 });
});

it("a silent cluster keeps its first message: what is in it would be written anew with each other one", () => {
  const silent = (message: string): Observation => ({ is: "failed", cause: "Silent", message });
  const states = after([
    [0, silent("no answer")],
    [5_000, silent("no connection")],
    [9_000, failed("Refused")],
    [14_000, silent("no connection")],
  ]);
  const messages = ["no answer", "no answer", "it is Refused", "no connection"];
  expect(states.map(({ reach }) => reach?.is === "no" && reach.message)).toEqual(messages);
});

describe("the identity", () => {
  it("is the first one seen, and stays", () => {
    expect(after([[0, answered("1")]])[0]?.identity).toBe("u");
    expect(
      after([
        [0, answered("1")],
        [1, answered("2", "other")],
      ])[1],
    ).toMatchObject({ identity: "u", version: "1" });
  });

  it("that was given refuses the first other one", () => {
    expect(after([[0, answered("1")]], { identity: "pinned" }).map(text)).toEqual(["WrongIdentity"]);
  });
});

describe("a new epoch begins", () => {
  const epochs = (steps: readonly Observation[], known = {}): readonly (readonly number[])[] =>
    after(
      steps.map((seen, at) => [at, seen]),
      known,
    ).map(({ epoch, restores }) => [epoch, restores]);

  it("when the version goes back, as a number", () => {
    expect(epochs([answered("9"), answered("10"), answered("9"), answered("9")])).toEqual([
      [0, 0],
      [0, 0],
      [1, 1],
      [1, 1],
    ]);
    expect(epochs([answered("99")], { version: "100" })).toEqual([[1, 1]]);
    // Above 2^53, where numbers of JavaScript are not exact.
    expect(epochs([answered("9007199254740993"), answered("9007199254740992")])[1]).toEqual([1, 1]);
  });

  it("when the store is behind a watch, and once for it and for the probe that follows", () => {
    expect(epochs([answered("10"), { is: "behind", version: "8" }, answered("9")])).toEqual([
      [0, 0],
      [1, 1],
      [1, 1],
    ]);
    // It was written past the last probe, and not past the watch.
    expect(epochs([answered("10"), { is: "behind", version: "12" }, answered("13")])).toEqual([
      [0, 0],
      [1, 1],
      [1, 1],
    ]);
  });

  it("once for each time that another cluster answers, and not when the cluster is lost", () => {
    expect(
      epochs([
        answered("5"),
        answered("1", "other"),
        answered("2", "other"),
        answered("6"),
        failed("Unauthorized"),
        answered("7"),
      ]),
    ).toEqual([
      [0, 0],
      [1, 0],
      [1, 0],
      [1, 0],
      [1, 0],
      [1, 0],
    ]);
  });
});

it("an edge is a change of the answer, the cause or the epoch, and not each answer", () => {
  const [first, second, lost, still, restored] = after([
    [0, answered("5")],
    [1, answered("6")],
    [2, failed("Unauthorized")],
    [3, failed("Unauthorized")],
    [4, failed("Tls")],
  ]) as [Reachability, Reachability, Reachability, Reachability, Reachability];
  const before = notProbed({ identity: undefined, version: undefined });
  expect(
    [
      [before, first],
      [first, second],
      [second, lost],
      [lost, still],
      [still, restored],
    ].map(([a, b]) => isEdge(a as Reachability, b as Reachability)),
  ).toEqual([true, false, true, false, true]);
  const [high, low] = after([
    [0, answered("5")],
    [1, answered("4")],
  ]) as [Reachability, Reachability];
  expect(isEdge(high, low)).toBe(true);
});

it.each<[ApiFailure, ReachCause | "busy"]>([
  [{ kind: "unreachable", noConnection: true }, "Refused"],
  [{ kind: "unreachable", noConnection: true, silent: true }, "Silent"],
  [{ kind: "unreachable" }, "Refused"],
  [{ kind: "unreachable", tls: true }, "Tls"],
  [{ kind: "timeout", afterMs: 1 }, "Silent"],
  [{ kind: "unauthorized" }, "Unauthorized"],
  [{ kind: "forbidden" }, "Unauthorized"],
  [{ kind: "credential" }, "Unauthorized"],
  [{ kind: "notFound" }, "WrongIdentity"],
  [{ kind: "serverError", status: 500 }, "Refused"],
  [{ kind: "undecodable" }, "Refused"],
  [{ kind: "tooManyRequests", causes: [] }, "busy"],
])("a request that fails with %j makes it %s", (failure, expected) => {
  const seen = observationOf(new ApiError(failure, { verb: "list", resource: "leases" }));
  expect(seen.is === "failed" ? seen.cause : seen.is).toBe(expected);
});
