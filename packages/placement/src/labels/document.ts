/** `LabelRule`, `berth.dev/v1alpha1`: derives labels from facts of a node. One schema for CRD, files, types, docs. */

import { duration, labelKeyValidations, labelValueValidations, text, withRules } from "@berth/host";
import * as z from "zod";
import { annotationKeyProblem, labelKeyProblem, labelValueProblem } from "../node/validate.ts";

/** With this annotation a person confirms a rule that waits; see `confirmation` for its format. */
export const CONFIRMED_ANNOTATION = "berth.dev/confirmed";

/** The parts of a Node from which a rule can read facts. */
export const factSources = [
  "Label",
  "Annotation",
  "NodeInfo",
  "Capacity",
  "Allocatable",
  "Condition",
  "Taint",
] as const;
export type FactSource = (typeof factSources)[number];

export const operators = [
  "In",
  "NotIn",
  "Exists",
  "DoesNotExist",
  "Gt",
  "Ge",
  "Lt",
  "Le",
  "Matches",
  "DoesNotMatch",
] as const;
export type Operator = (typeof operators)[number];

/**
 * One comparison of one fact. As in node selectors, `NotIn` and `DoesNotMatch` also hold where the fact is absent.
 * Fields and defaults, here and below, are as the schema describes them.
 */
export interface MatchExpression {
  readonly source?: FactSource | undefined;
  readonly key: string;
  readonly operator?: Operator | undefined;
  readonly values?: readonly string[] | undefined;
  readonly compareAs?: "Quantity" | "Version" | undefined;
}

/** All of `all` and, if `any` is given, at least one of `any` must hold. An empty group always holds. */
export interface MatchGroup {
  readonly all?: readonly MatchTerm[] | undefined;
  readonly any?: readonly MatchTerm[] | undefined;
}

/** An expression or a group. Groups nest at most three deep because a CRD schema cannot be recursive. */
export type MatchTerm = {
  readonly [K in keyof MatchExpression]?: MatchExpression[K] | undefined;
} & MatchGroup;

const MAX_TERMS = 32;
const MAX_VALUES = 64;
const MAX_OUTPUTS = 16;
const MAX_KEY = 317;
const MAX_TEXT = 253;
const MAX_PATTERN = 512;

const source = z
  .enum(factSources)
  .optional()
  .describe(
    "Where the fact is read: Label, Annotation, NodeInfo (status.nodeInfo), Capacity, Allocatable, Condition (its status) or Taint (its value). Default Label.",
  );
const factKey = text({ min: 1, max: MAX_KEY }).describe(
  "Key of the label, annotation or taint (also key:Effect), name of the resource, type of the condition, or field of nodeInfo.",
);

const expressionFields = {
  source,
  key: factKey.optional(),
  operator: z.enum(operators).optional().describe("Default Exists. Matches: a regular expression (RE2)."),
  values: z
    .array(text({ max: MAX_PATTERN }))
    .max(MAX_VALUES)
    .readonly()
    .optional()
    .describe("Several for In and NotIn, one for Gt, Ge, Lt, Le, Matches and DoesNotMatch, else none."),
  compareAs: z
    .enum(["Quantity", "Version"])
    .optional()
    .describe("How Gt, Ge, Lt and Le compare: 500m, 16Gi; or v1.36.3. Default Quantity."),
} as const;

const celOperator = 'has(self.operator) ? self.operator : "Exists"';
const celCount = "has(self.values) ? size(self.values) : 0";

const groupRules = [
  {
    cel: "has(self.key) != (has(self.all) || has(self.any))",
    holds: ({ key, all, any }: MatchTerm) => (key !== undefined) !== ((all ?? any) !== undefined),
    message: "must be either an expression with a key or a group with all or any",
  },
  {
    cel: "has(self.key) || !(has(self.source) || has(self.operator) || has(self.values) || has(self.compareAs))",
    holds: ({ key, source: from, operator, values, compareAs }: MatchTerm) =>
      key !== undefined || [from, operator, values, compareAs].every((it) => it === undefined),
    message: "a group has no source, operator, values or compareAs",
  },
];

const operatorRules = [
  takes(["In", "NotIn"], "> 0", (values) => values > 0, "In and NotIn need values"),
  takes(
    ["Gt", "Ge", "Lt", "Le", "Matches", "DoesNotMatch"],
    "== 1",
    (values) => values === 1,
    "Gt, Ge, Lt, Le, Matches and DoesNotMatch need exactly one value",
  ),
  takes(
    ["Exists", "DoesNotExist"],
    "== 0",
    (values) => values === 0,
    "Exists and DoesNotExist take no values",
  ),
];

function takes(of: readonly Operator[], cel: string, holds: (values: number) => boolean, message: string) {
  return {
    cel: `!((${celOperator}) in [${of.map((it) => `"${it}"`).join(", ")}]) || (${celCount}) ${cel}`,
    holds: ({ operator = "Exists", values = [] }: MatchTerm) =>
      !of.includes(operator) || holds(values.length),
    message,
  };
}

/** The innermost terms: expressions only. */
const expression: z.ZodType<MatchTerm> = withRules<MatchTerm>(z.strictObject(expressionFields), [
  {
    cel: "has(self.key)",
    holds: ({ key }) => key !== undefined,
    message: "an expression needs a key; groups stand at most three deep",
  },
  ...operatorRules,
]);

/** A term whose groups hold terms of this kind. */
function termOf(inner: z.ZodType<MatchTerm>): z.ZodType<MatchTerm> {
  const schema = z.strictObject({ ...expressionFields, ...groupFields(inner) });
  return withRules<MatchTerm>(schema, [...groupRules, ...operatorRules]);
}

function groupFields(term: z.ZodType<MatchTerm>) {
  const terms = z.array(term).min(1).max(MAX_TERMS).readonly().optional();
  return {
    all: terms.describe("All of these have to hold."),
    any: terms.describe("At least one of these has to hold."),
  } as const;
}

const match: z.ZodType<MatchGroup> = z
  .strictObject(groupFields(termOf(termOf(expression))))
  .describe("Which nodes: all of `all` and, if given, one of `any`. {} is every node.");

const refuse =
  (problemOf: (text: string) => string | undefined) =>
  (given: string, context: z.RefinementCtx<string>): void => {
    const message = problemOf(given);
    if (message !== undefined) context.addIssue({ code: "custom", message });
  };

/** One label that a rule sets. At most one of `value`, `valueFrom` and `valueTemplate`. */
const output = withRules(
  z.strictObject({
    key: text({ min: 1, max: MAX_KEY })
      .superRefine(refuse(labelKeyProblem))
      .meta({ "x-kubernetes-validations": labelKeyValidations })
      .describe("The label that is set."),
    value: text({ max: 63 })
      .superRefine(refuse(labelValueProblem))
      .meta({ "x-kubernetes-validations": labelValueValidations })
      .optional()
      .describe('Default "true".'),
    valueFrom: z
      .strictObject({
        source,
        key: factKey,
        pattern: text({ min: 1, max: MAX_PATTERN })
          .optional()
          .describe("Only the first group of this regular expression (RE2), or the whole match without one."),
      })
      .optional()
      .describe("Copies a fact; where it is absent the label is not set."),
    valueTemplate: text({ min: 1, max: MAX_TEXT })
      .optional()
      .describe("Text with ${Source/key} in it; where a fact is absent the label is not set."),
    sanitize: z
      .boolean()
      .optional()
      .describe("Turns what a label value cannot hold into `_`, at most 63 characters. Default false."),
  }),
  [
    {
      cel: "[has(self.value), has(self.valueFrom), has(self.valueTemplate)].filter(it, it).size() <= 1",
      holds: ({ value, valueFrom, valueTemplate }) =>
        [value, valueFrom, valueTemplate].filter((it) => it !== undefined).length <= 1,
      message: "at most one of value, valueFrom and valueTemplate",
    },
  ],
);

export type LabelOutput = Readonly<z.infer<typeof output>>;
export type ValueFrom = NonNullable<LabelOutput["valueFrom"]>;

const percent = z.int().min(0).max(100);

/** Schema of `spec`; parsing fills in the defaults. */
export const labelRuleSpec = withRules(
  z.strictObject({
    match,
    labels: z
      .array(output)
      .min(1)
      .max(MAX_OUTPUTS)
      .readonly()
      .meta({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"] })
      .describe("The labels of a node that matches."),
    overwrite: z
      .boolean()
      .default(false)
      .describe("Replace a value that another writer has set. Otherwise it stays, and Berth reports it."),
    dryRun: z.boolean().default(false).describe("Evaluate the rule and count nodes, and change nothing."),
    removalDelay: duration
      .default("60s")
      .describe("How long a label stays after the node stopped matching: 90s, 5m, 1h30m."),
    breaker: z
      .strictObject({
        percent: percent
          .default(10)
          .describe("Percentage of the nodes that carry its labels; 100 turns the limit off."),
        nodes: z
          .int()
          .min(0)
          .max(1_000_000)
          .default(10)
          .describe("The limit is never below this number of nodes."),
      })
      .readonly()
      .prefault({})
      .describe(
        "Removals freeze when more nodes than this would lose a label at once because inputs vanished.",
      ),
    confirmAbovePercent: percent
      .optional()
      .describe(
        "A new or edited rule that would change more than this percentage of all nodes waits for `berth confirm`.",
      ),
  }),
  [
    {
      cel: "self.labels.all(a, self.labels.exists_one(b, a.key == b.key))",
      holds: ({ labels }) => new Set(labels.map(({ key }) => key)).size === labels.length,
      message: "two labels have the same key",
      field: "labels",
    },
  ],
);

export type LabelRuleSpec = z.infer<typeof labelRuleSpec>;

/** @returns in words why no fact of this source can have the key; `undefined` for a valid key. */
export function factKeyProblem(from: FactSource, key: string): string | undefined {
  if (from === "Label") return labelKeyProblem(key);
  if (from === "Annotation") return annotationKeyProblem(key);
  if (from === "Taint") return labelKeyProblem(key.replace(/:[A-Za-z]+$/, ""));
  return undefined;
}
