import { describe, expect, it } from "vitest";
import { instanceName, ordinalOf } from "../api/keys.ts";
import type { Instance } from "../api/workload.ts";
import { type Control, decideActions } from "./control.ts";
import { aDeployment, anInstance, type State } from "./testing/fixtures.ts";

const deployment = aDeployment();
const NAME = "w-us-dfw";

interface Options {
  readonly start?: number;
  readonly isHeld?: boolean;
  readonly keepsOutdated?: boolean;
  readonly createsNone?: boolean;
  readonly taken?: readonly string[];
  readonly others?: readonly Instance[];
}

/** `R x 1000:No`: the states of ordinals 0 and 1000; `x` is absent. */
function control(desired: number, states: string, options: Options = {}): Control {
  const { start = 0, isHeld = false, taken = [], others = [], ...bounds } = options;
  const instances = states.split(" ").flatMap((text, at) => {
    const [state = "", ordinal = at] = text.split(":").toReversed();
    return state === "x" ? [] : anInstance(deployment, Number(ordinal), state as State);
  });
  return decideActions({
    deployment: NAME,
    instances: [...others, ...instances],
    start,
    desired,
    isCurrent: ({ spec }) => spec?.controller?.templateHash !== "v1-0000000000000000",
    isDeleting: ({ metadata }) => metadata?.deletionTimestamp !== undefined,
    isTaken: (name) => taken.includes(name),
    isHeld: () => isHeld,
    ...bounds,
  });
}

function show({ actions }: Control): string {
  const names = { create: "Create", wait: "Wait", delete: "Delete" };
  return actions
    .map((it, at) => {
      const because = it.do === "wait" ? ` ${it.because}` : "";
      return `${at === 0 ? "*" : ""}${names[it.do]}${it.ordinal}${because}`;
    })
    .join(", ");
}

describe("the order of actions", () => {
  it.each([
    [2, "x x", "*Create0, Create1"],
    [3, "R N x", "*Wait1 notReady, Create2"],
    [3, "R D x", "*Wait1 deleting, Create2"],
    [1, "R R", "*Delete1"],
    [2, "Ro Ro", "*Delete1, Delete0"],
    [2, "Ro D", "*Wait1 deleting, Delete0"],
    [2, "Ro x", "*Create1, Delete0"],
    [2, "Ro N", "*Wait1 notReady, Delete0"],
    [2, "R No", "*Delete1"],
    [2, "No No", "*Delete1, Delete0"],
    [1, "N R R", "*Delete2, Delete1"],
    [3, "R x R", "*Create1"],
    [0, "R R", "*Delete1, Delete0"],
  ])("8.2 %i wanted of %s: %s", (desired, states, actions) => {
    expect(show(control(desired, states))).toBe(actions);
  });

  it("8.2 an Instance whose name has no ordinal is ignored", () => {
    const stranger = { metadata: { name: `${NAME}-foo` } };
    const result = control(2, "R R", { others: [stranger] });
    expect(show(result)).toBe("");
    expect(result.ignored).toEqual([stranger]);
  });

  it("8.2 a second Instance of one ordinal is ignored, as its name is not that of the deployment", () => {
    const twin = { ...anInstance(aDeployment({ name: "other" }), 1, "No") };
    const result = control(2, "R R", { others: [twin] });
    expect(show(result)).toBe("");
    expect(result.ignored).toEqual([twin]);
  });

  it.each([
    ["my-instance-0", 0],
    ["my-instance-foo", -1],
    ["myinstance", -1],
    ["a-007", -1],
  ])("8.2 the ordinal of %s is %i", (name, ordinal) => {
    expect(ordinalOf(name)).toBe(ordinal);
  });

  it.each([
    [1, "R R D", "*Wait2 deleting, Delete1"],
    [2, "No Ro", "*Delete0, Delete1"],
    [3, "Ro Ro D", "*Wait2 deleting, Delete1, Delete0"],
    [2, "N Ro", "*Wait0 notReady, Delete1"],
  ])("8.2 (more rows) %i wanted of %s: %s", (desired, states, actions) => {
    expect(show(control(desired, states))).toBe(actions);
  });

  it.each([
    [3, "1000:R 0:R", "*Create1001, Create1002, Delete0"],
    [2, "1000:R 1001:N 0:R", "*Wait1001 notReady, Delete0"],
    [1, "1000:R 0:D 1:R", "*Wait0 deleting, Delete1"],
  ])("8.2 (more rows) start 1000, %i wanted of %s: %s", (desired, states, actions) => {
    expect(show(control(desired, states, { start: 1000 }))).toBe(actions);
  });

  it.each([
    [
      "2 of 1000 serve until those of 0 are Ready",
      2,
      "0:R 1000:R 1001:R",
      "*Create1, Delete1001, Delete1000",
    ],
    ["an ordinal below all others is created while a higher one goes", 2, "x D", "*Create0"],
    ["a replacement of a not Ready one waits for another that goes", 2, "No D", "*Wait1 deleting, Delete0"],
    ["a not Ready old one goes before a higher one is created", 2, "No x", "*Delete0, Create1"],
    ["a lower ordinal is created before a higher one is replaced", 3, "R x No", "*Create1, Delete2"],
    ["one that starts holds no replacement of one that does not", 2, "No N", "*Delete0"],
    ["those of another start serve while one starts", 2, "R N 1000:R", "*Wait1 notReady, Delete1000"],
    ["a surplus Instance that goes holds no roll", 1, "Ro D", "*Delete0"],
    ["nothing follows at rest", 2, "R R", ""],
    ["the last Instance that starts holds nothing", 2, "R N", ""],
  ])("%s", (_, desired, states, actions) => {
    expect(show(control(desired, states))).toBe(actions);
  });

  it("a name of another owner is waited for, and holds what comes after it", () => {
    const { actions } = control(3, "R x x", { taken: [instanceName(NAME, 1)] });
    expect(actions).toEqual([
      { do: "wait", ordinal: 1, because: "nameTaken" },
      { do: "create", ordinal: 2 },
    ]);
  });

  it("H24 without the quota service, Ready Instances are not replaced, and others are", () => {
    const held = control(3, "Ro Ro No", { isHeld: true });
    expect(show(held)).toBe("*Delete2");
    expect(held.held.map(({ metadata }) => metadata?.name)).toEqual([`${NAME}-1`, `${NAME}-0`]);
    expect(show(control(1, "R Ro Ro", { isHeld: true }))).toBe("*Delete2, Delete1");
  });

  it("nothing is created or replaced for a template that can never start, and what is Ready is held", () => {
    expect(show(control(2, "x Ro", { createsNone: true }))).toBe("*Wait0 refused, Delete1");
    const kept = control(2, "Ro No R", { keepsOutdated: true, isHeld: true });
    expect([show(kept), kept.held.length]).toEqual(["*Delete2", 1]);
  });

  it("A9 scales down from the highest, also while the lowest is not Ready (H5)", () => {
    expect(show(control(1, "R R R R"))).toBe("*Delete3, Delete2, Delete1");
    expect(show(control(1, "N R R"))).toBe("*Delete2, Delete1");
  });
});
