/** Label selectors as Kubernetes has them (`metav1.LabelSelector`), for the schemas of our kinds. */
import * as z from "zod";
import { labelKeyProblem, labelValueProblem } from "../node/validate.ts";
import { labelKeyValidations, labelValueValidations, text, withRules } from "./schema.ts";

export const selectorOperators = ["In", "NotIn", "Exists", "DoesNotExist"] as const;

/** As in Kubernetes, `NotIn` also holds where the label is absent. */
export interface SelectorRequirement {
  readonly key: string;
  readonly operator: (typeof selectorOperators)[number];
  /** Some for `In` and `NotIn`, none otherwise. */
  readonly values?: readonly string[] | undefined;
}

/** All of it has to hold. Empty: everything. */
export interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>> | undefined;
  readonly matchExpressions?: readonly SelectorRequirement[] | undefined;
}

const MAX_REQUIREMENTS = 16;
const MAX_VALUES = 32;
const MAX_KEY = 317;

/** A key of a label or taint. */
export function labelKey(): z.ZodType<string> {
  return text({ min: 1, max: MAX_KEY })
    .superRefine((key, context) => report(context, labelKeyProblem(key)))
    .meta({ "x-kubernetes-validations": labelKeyValidations });
}

/** A value of a label or taint. */
export function labelValue(): z.ZodType<string> {
  return text({ max: 63 })
    .superRefine((value, context) => report(context, labelValueProblem(value)))
    .meta({ "x-kubernetes-validations": labelValueValidations });
}

function report(context: z.core.$RefinementCtx<string>, problem: string | undefined): void {
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
}

function requirement(): z.ZodType<SelectorRequirement> {
  return withRules<SelectorRequirement>(
    z.strictObject({
      key: labelKey(),
      operator: z.enum(selectorOperators),
      values: z.array(labelValue()).max(MAX_VALUES).readonly().optional(),
    }),
    [
      {
        cel: '(self.operator in ["In", "NotIn"]) == (has(self.values) && size(self.values) > 0)',
        holds: ({ operator, values = [] }) =>
          (operator === "In" || operator === "NotIn") === values.length > 0,
        message: "In and NotIn need values, Exists and DoesNotExist take none",
      },
    ],
  );
}

/** Keys and values of `matchLabels` are checked when the document is taken up: a CRD cannot check the keys of a map. */
export function selector(): z.ZodType<Selector> {
  return z.strictObject({
    matchLabels: z.record(z.string(), labelValue()).optional().describe("Labels with these values."),
    matchExpressions: z
      .array(requirement())
      .max(MAX_REQUIREMENTS)
      .readonly()
      .optional()
      .describe("Conditions on labels, as in node selectors of pods."),
  });
}
