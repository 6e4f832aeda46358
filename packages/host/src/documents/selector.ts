/** Label selectors of Kubernetes (`metav1.LabelSelector`) for the schemas of all kinds. */
import * as z from "zod";
import { labelKeyPattern, labelValuePattern, text, withRules } from "./schema.ts";

export const selectorOperators = ["In", "NotIn", "Exists", "DoesNotExist"] as const;

/** As in Kubernetes, `NotIn` also holds where the label is absent. */
export interface SelectorRequirement {
  readonly key: string;
  readonly operator: (typeof selectorOperators)[number];
  /** Required for `In` and `NotIn`, not allowed otherwise. */
  readonly values?: readonly string[] | undefined;
}

/** All requirements have to hold. An empty selector matches everything. */
export interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>> | undefined;
  readonly matchExpressions?: readonly SelectorRequirement[] | undefined;
}

const MAX_REQUIREMENTS = 16;
const MAX_VALUES = 32;
const MAX_KEY = 317;

/** A key of a label or taint. */
export const labelKey: z.ZodString = text({ min: 1, max: MAX_KEY }).regex(
  labelKeyPattern,
  "must be a label key: a name of at most 63 characters, with a domain and / before it or without",
);

/** A value of a label or taint. */
export const labelValue: z.ZodString = text({ max: 63 }).regex(
  labelValuePattern,
  "must be a label value: letters, digits, -, _ and ., with a letter or digit at both ends",
);

const requirement: z.ZodType<SelectorRequirement> = withRules<SelectorRequirement>(
  z.strictObject({
    key: labelKey.describe("Of the label."),
    operator: z.enum(selectorOperators).describe("NotIn also holds where the label is absent."),
    values: z
      .array(labelValue)
      .max(MAX_VALUES)
      .readonly()
      .optional()
      .describe("Some for In and NotIn, none otherwise."),
  }),
  [
    {
      cel: '(self.operator in ["In", "NotIn"]) == (has(self.values) && size(self.values) > 0)',
      holds: ({ operator, values = [] }) => (operator === "In" || operator === "NotIn") === values.length > 0,
      message: "In and NotIn need values, Exists and DoesNotExist take none",
    },
  ],
);

/** The compilation checks keys and values of `matchLabels`: a CRD cannot check the keys of a map. */
export const selector: z.ZodType<Selector> = z.strictObject({
  matchLabels: z.record(z.string(), labelValue).optional().describe("Labels with these values."),
  matchExpressions: z
    .array(requirement)
    .max(MAX_REQUIREMENTS)
    .readonly()
    .optional()
    .describe("Conditions on labels, as in node selectors of pods."),
});
