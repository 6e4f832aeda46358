import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyLabel, type Condition, type ConditionFault, compileGroup, type Truth } from "./condition.ts";
import { type FactSource, factSources, type MatchGroup, type MatchTerm, type Operator } from "./document.ts";
import { type Fact, type ReadFact, unknown } from "./facts.ts";
import { factsOf, formatFact } from "./testing/facts.ts";

function compile(group: MatchGroup): Condition {
  return compileGroup(group, ({ message }) => {
    throw new Error(message);
  });
}

function truthOf(term: MatchTerm, fact: Fact): Truth {
  return compile({ all: [term] }).test(factsOf({ [`${term.source ?? "Label"}/${term.key}`]: fact }));
}

describe("one comparison", () => {
  it.each<[Operator, readonly string[] | undefined, string | undefined, boolean]>([
    ["Exists", undefined, "", true],
    ["Exists", undefined, undefined, false],
    ["DoesNotExist", undefined, "", false],
    ["DoesNotExist", undefined, undefined, true],
    ["In", ["a", "b"], "b", true],
    ["In", ["a", "b"], "c", false],
    ["In", ["a"], undefined, false],
    ["In", [""], "", true],
    ["In", [""], undefined, false],
    ["NotIn", ["a", "b"], "c", true],
    ["NotIn", ["a", "b"], "a", false],
    ["NotIn", ["a"], undefined, true],
    ["Matches", ["^a"], "ab", true],
    ["Matches", ["^a"], "ba", false],
    ["Matches", [".*"], undefined, false],
    ["DoesNotMatch", ["^a"], "ba", true],
    ["DoesNotMatch", ["^a"], "ab", false],
    ["DoesNotMatch", [".*"], undefined, true],
    ["Gt", ["2"], "3", true],
    ["Gt", ["2"], "2", false],
    ["Ge", ["2"], "2", true],
    ["Ge", ["2"], "1999m", false],
    ["Lt", ["2"], "1", true],
    ["Lt", ["2"], "2", false],
    ["Le", ["16Gi"], "16Gi", true],
    ["Le", ["16Gi"], "17Gi", false],
    ["Gt", ["2"], "many", false],
    ["Le", ["2"], "many", false],
    ["Lt", ["2"], undefined, false],
  ])("%s %j of %j: %s", (operator, values, fact, expected) => {
    expect(truthOf({ key: "k", operator, values }, fact)).toBe(expected);
  });

  it("says Exists of a label where nothing else is said", () => {
    expect(truthOf({ key: "k" }, "x")).toBe(true);
    expect(truthOf({ key: "k" }, undefined)).toBe(false);
  });

  it("compares versions where told so", () => {
    const term: MatchTerm = { source: "NodeInfo", key: "v", operator: "Ge", compareAs: "Version" };
    expect(truthOf({ ...term, values: ["1.9"] }, "v1.10.0")).toBe(true);
    expect(truthOf({ ...term, values: ["1.10"], operator: "Lt" }, "v1.9.9-gke.1")).toBe(true);
  });

  it("cannot be told where the fact cannot, whatever the operator", () => {
    for (const operator of ["Exists", "DoesNotExist", "In", "NotIn", "Gt", "Matches"] as const) {
      const values = operator.endsWith("xist") || operator === "Exists" ? undefined : ["1"];
      expect(truthOf({ key: "k", operator, values }, unknown)).toBeUndefined();
    }
  });

  it("reports with its path what cannot be compared, and never holds then", () => {
    const faults: ConditionFault[] = [];
    const group: MatchGroup = {
      all: [{ key: "a", operator: "Gt", values: ["lots"] }],
      any: [
        { key: "b" },
        { all: [{ key: "c", operator: "Matches", values: ["("] }] },
        { key: "d", operator: "Le", values: ["1Gi"], compareAs: "Version" },
      ],
    };
    const condition = compileGroup(group, (fault) => faults.push(fault));
    expect(faults.map(({ path, message }) => `${path.join(".")}: ${message}`)).toEqual([
      'all.0.values.0: "lots" is not a quantity',
      expect.stringMatching(/^any\.1\.all\.0\.values\.0: not a regular expression/),
      'any.2.values.0: "1Gi" is not a version',
    ]);
    expect(condition.test(factsOf({ "Label/a": "1", "Label/b": "1" }))).toBe(false);
  });
});

describe("groups", () => {
  const [yes, no, maybe]: [MatchTerm, MatchTerm, MatchTerm] = [
    { key: "yes" },
    { key: "no" },
    { key: "maybe" },
  ];
  const read = factsOf({ "Label/yes": "1", "Label/maybe": unknown });

  it.each<[string, MatchGroup, Truth]>([
    ["nothing", {}, true],
    ["all: true", { all: [yes] }, true],
    ["all: true, false", { all: [yes, no] }, false],
    ["all: true, unknown", { all: [yes, maybe] }, undefined],
    ["all: unknown, false", { all: [maybe, no] }, false],
    ["any: false, true", { any: [no, yes] }, true],
    ["any: unknown, true", { any: [maybe, yes] }, true],
    ["any: unknown, false", { any: [maybe, no] }, undefined],
    ["all: true, any: false", { all: [yes], any: [no] }, false],
    ["all: false, any: unknown", { all: [no], any: [maybe] }, false],
    ["any: (all: unknown, true)", { any: [{ all: [maybe, yes] }] }, undefined],
  ])("%s", (_what, group, expected) => {
    expect(compile(group).test(read)).toBe(expected);
  });

  it("name every fact once that they look at", () => {
    const group: MatchGroup = {
      all: [{ key: "a" }, { source: "Annotation", key: "a" }],
      any: [{ key: "a", operator: "DoesNotExist" }, { all: [{ source: "Taint", key: "t" }] }],
    };
    expect(compile(group).reads.map(formatFact)).toEqual(["Label/a", "Annotation/a", "Taint/t"]);
  });
});

const key = fc.constantFrom("a", "b", "c", "constructor");
const value = fc.constantFrom("", "1", "2", "x");
const expression: fc.Arbitrary<MatchTerm> = fc
  .tuple(
    fc.constantFrom<FactSource | undefined>(undefined, "Label", ...factSources),
    key,
    fc.oneof(
      fc.record({ operator: fc.constantFrom<Operator>("Exists", "DoesNotExist") }),
      fc.record({
        operator: fc.constantFrom<Operator>("In", "NotIn"),
        values: fc.array(value, { minLength: 1, maxLength: 2 }),
      }),
      fc.record({
        operator: fc.constantFrom<Operator>("Gt", "Ge", "Lt", "Le"),
        values: fc.tuple(fc.constantFrom("1", "2")),
        compareAs: fc.constantFrom("Quantity" as const, "Version" as const),
      }),
      fc.record({
        operator: fc.constantFrom<Operator>("Matches", "DoesNotMatch"),
        values: fc.tuple(fc.constantFrom("^1$", "[12]", "")),
      }),
    ),
  )
  .map(([source, key, rest]) => Object.assign(source === undefined ? { key } : { source, key }, rest));
const { group } = fc.letrec<{ term: MatchTerm; group: MatchGroup }>((tie) => ({
  term: fc.oneof({ maxDepth: 3, withCrossShrink: true }, expression, tie("group")),
  group: fc
    .record(
      {
        all: fc.array(tie("term"), { minLength: 1, maxLength: 3 }),
        any: fc.array(tie("term"), { minLength: 1, maxLength: 3 }),
      },
      { requiredKeys: [] },
    )
    .filter(({ all, any }) => all !== undefined || any !== undefined),
}));
const facts = fc.dictionary(
  fc.tuple(fc.constantFrom(...factSources), key).map((it) => it.join("/")),
  fc.oneof({ weight: 5, arbitrary: value }, { weight: 1, arbitrary: fc.constant(unknown) }),
  { noNullPrototype: false },
);

/** What a group means, straight from the words of the API: no triggers, no compiling. */
function meaning({ all = [], any }: MatchGroup, read: ReadFact): Truth {
  const each = (terms: readonly MatchTerm[]): readonly Truth[] =>
    terms.map((term) => (term.key === undefined ? meaning(term, read) : compile({ all: [term] }).test(read)));
  const and = (truths: readonly Truth[]): Truth =>
    truths.includes(false) ? false : truths.includes(undefined) ? undefined : true;
  const or = (truths: readonly Truth[]): Truth =>
    truths.includes(true) ? true : truths.includes(undefined) ? undefined : false;
  return and([...each(all), ...(any === undefined ? [] : [or(each(any))])]);
}

describe("any condition", () => {
  it("is false where none of its triggers stands", () => {
    fc.assert(
      fc.property(group, facts, (group, facts) => {
        const condition = compile(group);
        const { triggers } = condition;
        fc.pre(triggers !== undefined);
        const others = Object.entries(facts).filter(
          ([ref]) => !ref.startsWith("Label/") || !triggers?.has(ref.slice("Label/".length)),
        );
        expect(condition.test(factsOf(Object.fromEntries(others)))).toBe(false);
      }),
      { numRuns: 1000 },
    );
  });

  it("means what its terms mean put together", () => {
    fc.assert(
      fc.property(group, facts, (group, facts) => {
        expect(compile(group).test(factsOf(facts))).toBe(meaning(group, factsOf(facts)));
      }),
      { numRuns: 1000 },
    );
  });

  it("looks at nothing that it does not name", () => {
    fc.assert(
      fc.property(group, facts, (group, facts) => {
        const condition = compile(group);
        const named = new Set(condition.reads.map(formatFact));
        condition.test((source, key) => {
          expect(named).toContain(formatFact({ source, key }));
          return factsOf(facts)(source, key);
        });
      }),
    );
  });

  it("that cannot be told is told by every way of filling in what is not known, and not by one alone", () => {
    fc.assert(
      fc.property(
        group,
        facts,
        fc.infiniteStream(fc.option(value, { nil: undefined })),
        (group, facts, fill) => {
          const condition = compile(group);
          const truth = condition.test(factsOf(facts));
          fc.pre(truth !== undefined);
          const filled = Object.fromEntries(
            Object.entries(facts).map(([ref, fact]) => [ref, fact === unknown ? fill.next().value : fact]),
          );
          expect(condition.test(factsOf(filled))).toBe(truth);
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe("any of some labels", () => {
  it("is what the plain format asks for", () => {
    const condition = anyLabel(["a", "b"]);
    expect(condition.test(factsOf({ "Label/b": "" }))).toBe(true);
    expect(condition.test(factsOf({ "Label/c": "1" }))).toBe(false);
    expect(condition.test(factsOf({ "Label/a": unknown }))).toBeUndefined();
    expect(condition.test(factsOf({ "Label/a": unknown, "Label/b": "1" }))).toBe(true);
    expect(anyLabel([]).test(factsOf({ "Label/a": "1" }))).toBe(false);
  });
});
