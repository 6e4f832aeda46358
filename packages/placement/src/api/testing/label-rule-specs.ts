/** Specs of LabelRules, right and wrong in about equal parts. */
import * as fc from "fast-check";
import { factSources, operators } from "../../labels/document.ts";

const maybe: { requiredKeys: [] } = { requiredKeys: [] };

const word = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("a", "example.com/gpu", "x-1", "true", "16Gi", "v1.36") },
  {
    weight: 1,
    arbitrary: fc.constantFrom("", "-a", "A/b", "a/b/c", "ä", "a\n", "𝔘", "n".repeat(64), "é".repeat(318)),
  },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 80 }) },
);

const source = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom(...factSources) },
  { weight: 1, arbitrary: fc.constant("Spec") },
);

/** An expression whose number of values mostly fits its operator. */
const expression = fc
  .record({ operator: fc.constantFrom(...operators), key: word, off: fc.boolean() })
  .chain(({ operator, key, off }) => {
    const some = ["In", "NotIn"].includes(operator);
    const none = ["Exists", "DoesNotExist"].includes(operator);
    const fits = some ? { minLength: 1, maxLength: 3 } : { minLength: none ? 0 : 1, maxLength: none ? 0 : 1 };
    const values = fc.array(word, off ? { maxLength: 2 } : fits);
    return fc.record(
      {
        key: fc.constant(key),
        operator: fc.constant(operator),
        values,
        source,
        compareAs: fc.constantFrom("Quantity", "Version"),
      },
      { requiredKeys: ["key", "operator", "values"] },
    );
  });

const groupOf = (inner: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof(
    { weight: 8, arbitrary: fc.record({ all: fc.array(inner, { minLength: 1, maxLength: 2 }) }) },
    { weight: 4, arbitrary: fc.record({ any: fc.array(inner, { minLength: 1, maxLength: 2 }) }) },
    { weight: 1, arbitrary: fc.record({ all: fc.array(inner, { maxLength: 2 }), key: word }, maybe) },
  );

const term = fc.oneof(
  { weight: 4, arbitrary: expression },
  { weight: 1, arbitrary: groupOf(expression) },
  { weight: 1, arbitrary: groupOf(groupOf(expression)) },
);

const label = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ key: word, value: word, sanitize: fc.boolean() }, { requiredKeys: ["key"] }),
  },
  {
    weight: 1,
    arbitrary: fc.record(
      { key: word, valueFrom: fc.record({ source, key: word, pattern: word }, { requiredKeys: ["key"] }) },
      { requiredKeys: ["key"] },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record(
      { key: word, value: word, valueTemplate: word, valueFrom: fc.record({ key: word }) },
      maybe,
    ),
  },
);

const share = fc.oneof(
  { weight: 9, arbitrary: fc.integer({ min: 0, max: 100 }) },
  fc.constantFrom(-1, 101, 1.5),
);

export const anySpec: fc.Arbitrary<unknown> = fc.record(
  {
    match: fc.oneof(
      fc.constant({}),
      fc.record({ all: fc.array(term, { minLength: 1, maxLength: 2 }) }),
      fc.record({ any: fc.array(term, { minLength: 1, maxLength: 2 }) }),
    ),
    labels: fc.array(label, { minLength: 1, maxLength: 2 }),
    overwrite: fc.boolean(),
    dryRun: fc.boolean(),
    removalDelay: fc.constantFrom("0s", "90s", "1h30m", "999999h", "1ms"),
    breaker: fc.record({ percent: share, nodes: fc.integer({ min: 0, max: 1_000_000 }) }, maybe),
    confirmAbovePercent: share,
  },
  { requiredKeys: ["match", "labels"] },
);
