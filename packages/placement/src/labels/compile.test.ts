import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { confirmation, confirmationOf, digestOf, parseLabelRules } from "./compile.ts";
import { CONFIRMED_ANNOTATION, type LabelRuleSpec, type MatchTerm } from "./document.ts";
import { rulesOf, type SpecInit, specOf } from "./testing/rule-set.ts";

const faultsOf = (spec: SpecInit): readonly string[] =>
  rulesOf({ cluster: { r: spec } }).faults.map(({ path, reason }) => `${path.join(".")} ${reason}`);

const labels: SpecInit["labels"] = [{ key: "out" }];

const where = (term: MatchTerm): SpecInit => ({ match: { all: [term] }, labels });
const gives = (...outputs: SpecInit["labels"]): SpecInit => ({ labels: outputs });
const KEY = "match.all.0.key RuleInvalid";
const VALUE = "match.all.0.values.0 RuleInvalid";
const deep: SpecInit = { match: { any: [{ all: [{ key: "ok" }, { any: [{ key: "-" }] }] }] }, labels };

describe("faults of a document", () => {
  it.each<[string, SpecInit, readonly string[]]>([
    ["none", { labels }, []],
    ["a key that no label can have", where({ key: "a/b/c" }), [KEY]],
    ["a key deep in a group", deep, ["match.any.0.all.1.any.0.key RuleInvalid"]],
    ["a key of a taint", where({ source: "Taint", key: "a b:NoSchedule" }), [KEY]],
    ["a taint with its effect", where({ source: "Taint", key: "a:NoSchedule" }), []],
    ["an annotation in upper case", where({ source: "Annotation", key: "Example.com/A" }), []],
    ["a pattern that is none", where({ key: "a", operator: "Matches", values: ["("] }), [VALUE]],
    ["a number that is none", where({ key: "a", operator: "Gt", values: ["many"] }), [VALUE]],
    ["a source", gives({ key: "a", valueFrom: { key: "-" } }), ["labels.0.valueFrom.key RuleInvalid"]],
    [
      "a pattern of a value",
      gives({ key: "b" }, { key: "a", valueFrom: { key: "k", pattern: "[" } }),
      ["labels.1.valueFrom.pattern RuleInvalid"],
    ],
    ["a template", gives({ key: "a", valueTemplate: "${No/k}" }), ["labels.0.valueTemplate RuleInvalid"]],
    ["a reserved label", gives({ key: "node-role.kubernetes.io/a" }), ["labels.0.key ReservedLabelKey"]],
    [
      "all at once",
      { ...where({ key: "-" }), ...gives({ key: "k8s.io/a" }, { key: "a", valueTemplate: "${" }) },
      [KEY, "labels.0.key ReservedLabelKey", "labels.1.valueTemplate RuleInvalid"],
    ],
  ])("%s", (_what, spec, expected) => {
    expect(faultsOf(spec)).toEqual(expected);
  });

  it("put it out of force, and no other", () => {
    const { rules } = rulesOf({
      cluster: { bad: { match: { all: [{ key: "-" }] }, labels }, good: { labels } },
    });
    expect(rules.count).toBe(1);
    expect([...rules.withheld]).toEqual([["cluster/bad", "RuleInvalid"]]);
  });

  it("leave a reserved label be written that is allowed", () => {
    const options = { allowReserved: ["node-role.kubernetes.io"] };
    const documents = [{ name: "r", spec: specOf(gives({ key: "node-role.kubernetes.io/edge" })) }];
    const parsed = parseLabelRules({ source: "config", complete: true, documents, options });
    expect(parsed.faults).toEqual([]);
  });
});

describe("the digest of a document", () => {
  const json = fc.object({
    maxDepth: 3,
    values: [fc.string(), fc.integer(), fc.boolean(), fc.constant(null)],
  });

  it("is the same for equal content, whatever the order of keys", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(digestOf(turned(value) as LabelRuleSpec)).toBe(digestOf(value as unknown as LabelRuleSpec));
      }),
    );
  });

  it("differs for different content", () => {
    const specs = [
      specOf({ labels }),
      specOf({ labels, overwrite: true }),
      specOf({ labels: [{ key: "out", value: "true" }] }),
      specOf({ labels: [{ key: "out" }, { key: "b" }] }),
      specOf({ labels: [{ key: "b" }, { key: "out" }] }),
      specOf({ labels, match: { all: [{ key: "a" }] } }),
      specOf({ labels, match: { any: [{ key: "a" }] } }),
      specOf({ labels, removalDelay: "61s" }),
    ];
    expect(new Set(specs.map(digestOf)).size).toBe(specs.length);
    for (const spec of specs) expect(digestOf(spec)).toMatch(/^[0-9a-f]{16}$/);
  });

  it("takes a field that is not there for one without a value", () => {
    const spec = specOf({ labels });
    expect(digestOf({ ...spec, confirmAbovePercent: undefined })).toBe(digestOf(spec));
  });
});

/** The same value with the keys of all objects the other way round. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, it]) => [key, turned(it)] as const),
  );
}

describe("a confirmation", () => {
  const spec = specOf({ labels });
  const now = Date.UTC(2026, 0, 2, 3, 4, 5);

  it("names the digest and the moment", () => {
    const text = confirmation(spec, now);
    expect(text).toBe(`${digestOf(spec)}@2026-01-02T03:04:05Z`);
    expect(confirmationOf({ [CONFIRMED_ANNOTATION]: text })).toEqual({ digest: digestOf(spec), at: now });
  });

  it.each([
    undefined,
    "",
    "yes",
    "0123456789abcdef",
    "0123456789abcdef@",
    "0123456789abcdef@never",
    "0123456789ABCDEF@2026-01-02T03:04:05Z",
    "0123456789abcde@2026-01-02T03:04:05Z",
    "0123456789abcdef@2026-01-02T03:04:05Z ",
    `0123456789abcdef@${"1".repeat(50)}`,
  ])("%j is none", (text) => {
    expect(confirmationOf(text === undefined ? undefined : { [CONFIRMED_ANNOTATION]: text })).toBeUndefined();
  });

  it("lets removals go on for a while, of this content alone", () => {
    const confirmedAtOf = (confirmed: LabelRuleSpec): number | undefined => {
      const annotations = { [CONFIRMED_ANNOTATION]: confirmation(confirmed, now) };
      const documents = [{ name: "r", spec, annotations }];
      const options = { allowReserved: [] };
      const { set } = parseLabelRules({ source: "cluster", complete: true, documents, options });
      return set.rules[0]?.removal?.confirmedAt;
    };
    expect(confirmedAtOf(spec)).toBe(now);
    expect(confirmedAtOf(specOf({ labels, overwrite: true }))).toBeUndefined();
  });
});

describe("how labels go", () => {
  it.each<[Partial<SpecInit>, object]>([
    [{}, { delayMs: 60_000, breaker: { percent: 10, nodes: 10 } }],
    [{ removalDelay: "1h30m" }, { delayMs: 5_400_000, breaker: { percent: 10, nodes: 10 } }],
    [{ removalDelay: "0s" }, { delayMs: 0, breaker: { percent: 10, nodes: 10 } }],
    [{ removalDelay: "500ms", breaker: { percent: 100, nodes: 10 } }, { delayMs: 500 }],
    [{ breaker: { percent: 0, nodes: 0 } }, { delayMs: 60_000, breaker: { percent: 0, nodes: 0 } }],
  ])("as %j says", (fields, expected) => {
    const { rules } = rulesOf({ cluster: { r: { labels, ...fields } } });
    expect(rules.policy.removals?.get("cluster/r")).toEqual(expected);
  });
});
