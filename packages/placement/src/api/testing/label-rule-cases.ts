/** LabelRules that are right, and wrong in one place each: the same verdict is expected of file and API server. */

const labels = [{ key: "example.com/a" }];
const withTerm = (term: unknown): unknown => ({ match: { all: [term] }, labels });
const withLabel = (label: unknown): unknown => ({ match: {}, labels: [label] });
const nested = (depth: number): unknown =>
  depth === 0 ? { key: "example.com/x" } : { any: [nested(depth - 1)] };
const many = (count: number): readonly unknown[] =>
  Array.from({ length: count }, (_, at) => ({ key: `example.com/x${at}` }));

export const validSpecs: readonly { readonly what: string; readonly spec: unknown }[] = [
  { what: "a rule for every node", spec: { match: {}, labels } },
  {
    what: "every field",
    spec: {
      match: {
        all: [
          { key: "example.com/gpu" },
          { source: "Taint", key: "example.com/gpu:NoSchedule", operator: "In", values: ["a", "b", ""] },
          {
            source: "NodeInfo",
            key: "kubeletVersion",
            operator: "Ge",
            values: ["v1.36"],
            compareAs: "Version",
          },
          { source: "Capacity", key: "memory", operator: "Gt", values: ["16Gi"], compareAs: "Quantity" },
        ],
        any: [
          { source: "Condition", key: "Ready", operator: "In", values: ["True"] },
          {
            all: [{ key: "x", operator: "DoesNotExist" }, { any: [{ source: "Annotation", key: "A.B/x" }] }],
          },
        ],
      },
      labels: [
        { key: "a", value: "" },
        { key: "b.c/d", valueFrom: { key: "kubernetes.io/arch", source: "Label", pattern: "^(a.*)" } },
        { key: "e_f.G", valueTemplate: `\${NodeInfo/architecture}-x`, sanitize: true },
      ],
      overwrite: true,
      dryRun: true,
      removalDelay: "1h30m500ms",
      breaker: { percent: 100, nodes: 0 },
      confirmAbovePercent: 0,
    },
  },
  { what: "groups three deep", spec: withTerm(nested(2)) },
  { what: "32 terms", spec: { match: { all: many(32) }, labels } },
  { what: "16 labels", spec: { match: {}, labels: many(16) } },
  { what: "half a breaker", spec: { match: {}, labels, breaker: { nodes: 3 } } },
  { what: "a pattern that is no RE2, for the status to tell", spec: withTerm(matching("(")) },
  { what: "a key that no label can have, for the status to tell", spec: withTerm({ key: "not a key" }) },
  { what: "512 characters outside the first plane", spec: withTerm(matching("𝔘".repeat(512))) },
  {
    what: "a label with the longest parts",
    spec: withLabel({ key: `${"d".repeat(253)}/${"n".repeat(63)}` }),
  },
  { what: "a label value of 63 characters", spec: withLabel({ key: "k", value: "v".repeat(63) }) },
];

function matching(pattern: string): unknown {
  return { key: "k", operator: "Matches", values: [pattern] };
}

export const invalidSpecs: readonly {
  readonly what: string;
  readonly spec: unknown;
  /** As the API server writes it. */
  readonly field: string;
}[] = [
  { what: "no match", spec: { labels }, field: "spec.match" },
  { what: "no labels", spec: { match: {} }, field: "spec.labels" },
  { what: "an empty list of labels", spec: { match: {}, labels: [] }, field: "spec.labels" },
  { what: "17 labels", spec: { match: {}, labels: many(17) }, field: "spec.labels" },
  { what: "an unknown field", spec: { match: {}, labels, colour: "red" }, field: "spec.colour" },
  {
    what: "an unknown field deep inside",
    spec: withTerm({ key: "a", op: "In" }),
    field: "spec.match.all[0].op",
  },
  { what: "a text for a flag", spec: { match: {}, labels, dryRun: "yes" }, field: "spec.dryRun" },
  { what: "an empty group", spec: { match: { any: [] }, labels }, field: "spec.match.any" },
  { what: "33 terms", spec: { match: { all: many(33) }, labels }, field: "spec.match.all" },
  { what: "an empty term", spec: withTerm({}), field: "spec.match.all[0]" },
  { what: "a term that is both", spec: withTerm({ key: "a", any: many(1) }), field: "spec.match.all[0]" },
  {
    what: "a group with an operator",
    spec: withTerm({ operator: "In", all: many(1) }),
    field: "spec.match.all[0]",
  },
  {
    what: "groups four deep",
    spec: withTerm(nested(3)),
    field: "spec.match.all[0].any[0].any[0].any",
  },
  {
    what: "an unknown source",
    spec: withTerm({ key: "a", source: "Spec" }),
    field: "spec.match.all[0].source",
  },
  {
    what: "an unknown operator",
    spec: withTerm({ key: "a", operator: "Eq" }),
    field: "spec.match.all[0].operator",
  },
  { what: "an empty key", spec: withTerm({ key: "" }), field: "spec.match.all[0].key" },
  {
    what: "a key of 318 characters",
    spec: withTerm({ key: "k".repeat(318) }),
    field: "spec.match.all[0].key",
  },
  { what: "In without values", spec: withTerm({ key: "a", operator: "In" }), field: "spec.match.all[0]" },
  {
    what: "NotIn with an empty list",
    spec: withTerm({ key: "a", operator: "NotIn", values: [] }),
    field: "spec.match.all[0]",
  },
  {
    what: "Gt with two values",
    spec: withTerm({ key: "a", operator: "Gt", values: ["1", "2"] }),
    field: "spec.match.all[0]",
  },
  {
    what: "Matches without a value",
    spec: withTerm({ key: "a", operator: "Matches" }),
    field: "spec.match.all[0]",
  },
  {
    what: "values without an operator",
    spec: withTerm({ key: "a", values: ["1"] }),
    field: "spec.match.all[0]",
  },
  {
    what: "a number as value",
    spec: withTerm({ key: "a", operator: "In", values: [1] }),
    field: "spec.match.all[0].values[0]",
  },
  {
    what: "a value of 513 characters",
    spec: withTerm(matching("x".repeat(513))),
    field: "spec.match.all[0].values[0]",
  },
  { what: "a label without a key", spec: withLabel({ value: "x" }), field: "spec.labels[0].key" },
  { what: "a label key with a space", spec: withLabel({ key: "a b" }), field: "spec.labels[0].key" },
  { what: "a label key with two slashes", spec: withLabel({ key: "a/b/c" }), field: "spec.labels[0].key" },
  {
    what: "a label key in an upper-case domain",
    spec: withLabel({ key: "A/b" }),
    field: "spec.labels[0].key",
  },
  {
    what: "a label name of 64 characters",
    spec: withLabel({ key: "n".repeat(64) }),
    field: "spec.labels[0].key",
  },
  {
    what: "a label domain of 254 characters",
    spec: withLabel({ key: `${"d".repeat(254)}/n` }),
    field: "spec.labels[0].key",
  },
  {
    what: "a label key that ends in a line break",
    spec: withLabel({ key: "a\n" }),
    field: "spec.labels[0].key",
  },
  {
    what: "a label value that ends in a dash",
    spec: withLabel({ key: "a", value: "x-" }),
    field: "spec.labels[0].value",
  },
  {
    what: "a label value of 64 characters",
    spec: withLabel({ key: "a", value: "x".repeat(64) }),
    field: "spec.labels[0].value",
  },
  {
    what: "two values for a label",
    spec: withLabel({ key: "a", value: "x", valueTemplate: "y" }),
    field: "spec.labels[0]",
  },
  {
    what: "valueFrom without a key",
    spec: withLabel({ key: "a", valueFrom: {} }),
    field: "spec.labels[0].valueFrom.key",
  },
  { what: "one label twice", spec: { match: {}, labels: [...labels, ...labels] }, field: "spec.labels" },
  {
    what: "a duration without a unit",
    spec: { match: {}, labels, removalDelay: "60" },
    field: "spec.removalDelay",
  },
  {
    what: "a negative duration",
    spec: { match: {}, labels, removalDelay: "-1s" },
    field: "spec.removalDelay",
  },
  {
    what: "a share above 100",
    spec: { match: {}, labels, breaker: { percent: 101 } },
    field: "spec.breaker.percent",
  },
  { what: "half a node", spec: { match: {}, labels, breaker: { nodes: 0.5 } }, field: "spec.breaker.nodes" },
  {
    what: "a negative share",
    spec: { match: {}, labels, confirmAbovePercent: -1 },
    field: "spec.confirmAbovePercent",
  },
];
