import { describe, expect, it } from "vitest";
import { startupGateSpec } from "./document.ts";
import { neverOpens } from "./never-opens.ts";

const problemOf = (signals: object, daemonSets?: readonly string[]): string | undefined =>
  neverOpens(
    startupGateSpec.parse({ signals }),
    daemonSets && (({ namespace, name }) => daemonSets.includes(`${namespace}/${name}`)),
  );

const condition = (type: string, status = "True") => ({ conditions: [{ type, status }] });
const agent = (name: string) => ({ daemonSets: [{ namespace: "a", name }] });

describe("a gate", () => {
  it.each([
    ["two conditions", { conditions: [...condition("A").conditions, ...condition("B").conditions] }],
    ["one condition twice", { conditions: [...condition("A").conditions, ...condition("A").conditions] }],
    ["an alternative that may hold", { ...condition("A"), anyOf: [condition("A", "False"), condition("B")] }],
    ["alternatives that differ", { anyOf: [condition("A"), condition("A", "False")] }],
    ["DaemonSets that are not known", agent("x")],
  ])("may open with %s", (_, signals) => {
    expect(problemOf(signals)).toBeUndefined();
  });

  it.each([
    [
      { conditions: [...condition("A").conditions, ...condition("A", "False").conditions] },
      "condition A cannot be both True and False",
    ],
    [
      {
        annotations: [
          { key: "x.dev/a", value: "1" },
          { key: "x.dev/a", value: "2" },
        ],
      },
      "annotation x.dev/a cannot be both 1 and 2",
    ],
    [
      { ...condition("A"), anyOf: [condition("A", "False"), condition("A", "Unknown")] },
      "condition A cannot be both True and False; nor: condition A cannot be both True and Unknown",
    ],
  ])("never opens: %j", (signals, problem) => {
    expect(problemOf(signals)).toBe(problem);
  });

  it("never opens without a DaemonSet that it waits for", () => {
    expect(problemOf(agent("x"), ["a/x"])).toBeUndefined();
    expect(problemOf(agent("x"), ["a/y"])).toBe("there is no DaemonSet a/x");
    expect(problemOf({ anyOf: [agent("x"), agent("y")] }, ["a/y"])).toBeUndefined();
    expect(problemOf({ anyOf: [agent("x"), agent("y")] }, [])).toContain(
      "a/x; nor: there is no DaemonSet a/y",
    );
  });
});
