import type { Selector } from "@berth/host";
import type { NodeSelectorRequirement, NodeSelectorTerm } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  isEmptySelector,
  matchesNodeSelectorTerms,
  matchesSelector,
  selectorFaults,
  selectorText,
} from "./selector.ts";

describe("label selectors", () => {
  const labels = { tier: "web", zone: "a", empty: "" };
  const where = (key: string, operator: string, ...values: string[]) => ({
    matchExpressions: [{ key, operator, ...(values.length === 0 ? {} : { values }) }],
  });
  it.each([
    ["an empty one", {}, true, ""],
    ["a label with its value", { matchLabels: { tier: "web" } }, true, "tier=web"],
    ["a label with another value", { matchLabels: { tier: "db" } }, false, "tier=db"],
    ["a label with the empty value", { matchLabels: { empty: "" } }, true, "empty="],
    ["an absent label with the empty value", { matchLabels: { none: "" } }, false, "none="],
    ["one of several labels", { matchLabels: { zone: "a", tier: "db" } }, false, "tier=db,zone=a"],
    ["In with the value", where("tier", "In", "web", "db"), true, "tier in (db,web)"],
    ["In without the value", where("tier", "In", "db"), false, "tier=db"],
    ["In of an absent label", where("none", "In", "db"), false, "none=db"],
    ["In with the empty value", where("empty", "In", "", "x"), true, "empty in (,x)"],
    ["NotIn with the value", where("tier", "NotIn", "web", "db"), false, "tier notin (db,web)"],
    ["NotIn without the value", where("tier", "NotIn", "db"), true, "tier!=db"],
    ["NotIn of an absent label", where("none", "NotIn", "db"), true, "none!=db"],
    ["Exists of a label", where("empty", "Exists"), true, "empty"],
    ["Exists of an absent label", where("none", "Exists"), false, "none"],
    ["DoesNotExist of a label", where("tier", "DoesNotExist"), false, "!tier"],
    ["DoesNotExist of an absent label", where("none", "DoesNotExist"), true, "!none"],
    [
      "labels and expressions that hold",
      { matchLabels: { tier: "web" }, ...where("zone", "Exists") },
      true,
      "tier=web,zone",
    ],
    [
      "expressions that do not all hold",
      { matchLabels: { tier: "web" }, ...where("zone", "In", "b") },
      false,
      "tier=web,zone=b",
    ],
    ["a label called constructor", where("constructor", "Exists"), false, "constructor"],
  ])("%s", (_, selector, holds, text) => {
    expect(matchesSelector(selector, labels)).toBe(holds);
    expect(selectorText(selector)).toBe(text);
  });

  it.each([
    ["In without values", where("tier", "In")],
    ["NotIn without values", where("tier", "NotIn")],
    ["Exists with values", where("tier", "Exists", "web")],
    ["DoesNotExist with values", where("none", "DoesNotExist", "web")],
    ["an operator that there is not", where("tier", "Gt", "1")],
  ])("holds for nothing where the API server would refuse it: %s", (_, selector) => {
    expect(matchesSelector(selector, labels)).toBe(false);
    expect(selectorText(selector)).toBe("berth.dev/nothing,!berth.dev/nothing");
  });

  it.each([
    ["a key that would end the requirement", { matchLabels: { "a,b": "" } }],
    ["a value that would add one", { matchLabels: { a: "b,c=d" } }],
    ["no key", where("", "Exists")],
  ])("never writes text of another meaning: %s", (_, selector) => {
    expect(selectorText(selector)).toBe("berth.dev/nothing,!berth.dev/nothing");
  });

  it("has its keys checked where it is written: each that no label can have, with its path", () => {
    const matchLabels = { tier: "web", "a b": "x", "/x": "y" };
    expect(selectorFaults({ matchLabels }, ["workloads", 0, "podSelector"])).toMatchObject([
      { path: ["workloads", 0, "podSelector", "matchLabels", "a b"] },
      { path: ["workloads", 0, "podSelector", "matchLabels", "/x"] },
    ]);
    expect(selectorFaults({}, [])).toEqual([]);
  });

  it("is empty only where it asks for nothing", () => {
    expect(isEmptySelector({})).toBe(true);
    expect(isEmptySelector({ matchLabels: {}, matchExpressions: [] })).toBe(true);
    expect(isEmptySelector({ matchLabels: { none: "" } })).toBe(false);
    expect(isEmptySelector(where("none", "DoesNotExist"))).toBe(false);
  });

  it("an object without labels has none", () => {
    expect(matchesSelector({}, undefined)).toBe(true);
    expect(matchesSelector(where("a", "DoesNotExist"), undefined)).toBe(true);
    expect(matchesSelector(where("a", "Exists"), undefined)).toBe(false);
  });

  it("gives one text for one set of requirements, in whatever order they are written", () => {
    const key = fc.constantFrom("a", "b", "c");
    const values = fc.uniqueArray(fc.constantFrom("x", "y", "z"), { minLength: 1 });
    const operator = fc.constantFrom("In" as const, "NotIn" as const);
    const requirement = fc.record({ key, operator, values });
    const selectors = fc.record({
      matchLabels: fc.dictionary(key, fc.constantFrom("x", "y")),
      matchExpressions: fc.array(requirement, { maxLength: 4 }),
    });
    fc.assert(
      fc.property(selectors, ({ matchLabels, matchExpressions }) => {
        const turned: Selector = {
          matchLabels: Object.fromEntries(Object.entries(matchLabels).toReversed()),
          matchExpressions: matchExpressions
            .toReversed()
            .map((one) => ({ key: one.key, operator: one.operator, values: one.values.toReversed() })),
        };
        expect(selectorText(turned)).toBe(selectorText({ matchLabels, matchExpressions }));
      }),
    );
  });
});

describe("node selector terms", () => {
  const node = aNode("n1").labelled({ tier: "web", gpus: "8", big: "9223372036854775807" }).build();
  const asks = (key: string, operator: string, ...values: string[]): NodeSelectorRequirement =>
    values.length === 0 ? { key, operator } : { key, operator, values };
  const label = (...of: Parameters<typeof asks>): NodeSelectorTerm => ({ matchExpressions: [asks(...of)] });
  const field = (...of: Parameters<typeof asks>): NodeSelectorTerm => ({ matchFields: [asks(...of)] });
  const web = label("tier", "In", "web");
  const db = label("tier", "In", "db");

  it.each<[string, readonly NodeSelectorTerm[] | undefined, boolean]>([
    ["none", undefined, false],
    ["no terms", [], false],
    ["an empty term", [{}], false],
    ["a term with empty lists", [{ matchExpressions: [], matchFields: [] }], false],
    ["a term that holds", [web], true],
    ["a term that does not", [db], false],
    ["one of two terms", [db, web], true],
    ["an empty term beside one that holds", [{}, web], true],
    ["In of several", [label("tier", "In", "db", "web")], true],
    ["NotIn", [label("tier", "NotIn", "web")], false],
    ["NotIn of an absent label", [label("none", "NotIn", "web")], true],
    ["Exists", [label("gpus", "Exists")], true],
    ["DoesNotExist", [label("gpus", "DoesNotExist")], false],
    ["Gt that holds", [label("gpus", "Gt", "7")], true],
    ["Gt of the same number", [label("gpus", "Gt", "8")], false],
    ["Lt that holds", [label("gpus", "Lt", "10")], true],
    ["Lt of the same number", [label("gpus", "Lt", "8")], false],
    ["Gt of a label that is no number", [label("tier", "Gt", "7")], false],
    ["Lt of an absent label", [label("none", "Lt", "7")], false],
    ["Gt with a bound that is no number", [label("gpus", "Gt", "x")], false],
    ["Gt with two bounds", [label("gpus", "Gt", "1", "2")], false],
    ["Gt of 64 bits", [label("big", "Gt", "9223372036854775806")], true],
    ["Lt beyond 64 bits", [label("gpus", "Lt", "9223372036854775808")], false],
    ["NotIn without values", [label("tier", "NotIn")], false],
    ["NotIn with an impossible value", [label("tier", "NotIn", "a b")], false],
    ["DoesNotExist of an impossible key", [label("a b", "DoesNotExist")], false],
    ["an operator that there is not", [label("tier", "Equals", "web")], false],
    ["a term that cannot be read beside one that holds", [label("", "Exists"), web], true],
    ["the name", [field("metadata.name", "In", "n1")], true],
    ["another name", [field("metadata.name", "In", "n2")], false],
    ["not another name", [field("metadata.name", "NotIn", "n2")], true],
    ["not the name", [field("metadata.name", "NotIn", "n1")], false],
    ["two names", [field("metadata.name", "In", "n1", "n2")], false],
    ["an operator that fields do not have", [field("metadata.name", "Exists")], false],
    ["another field", [field("metadata.uid", "In", "u")], false],
    ["labels and name", [{ ...web, ...field("metadata.name", "In", "n1") }], true],
    ["labels, and not the name", [{ ...web, ...field("metadata.name", "In", "n2") }], false],
  ])("%s", (_, terms, holds) => {
    expect(matchesNodeSelectorTerms(terms, node)).toBe(holds);
  });
});
