/** `NodeFeatureRule` of Node Feature Discovery (nfd.k8s-sigs.io/v1alpha1), as far as it is converted or told apart. */
import * as z from "zod";

export const NFD_API_VERSION = "nfd.k8s-sigs.io/v1alpha1";
export const NFD_KIND = "NodeFeatureRule";

const operators = [
  "",
  "In",
  "NotIn",
  "InRegexp",
  "Exists",
  "DoesNotExist",
  "Gt",
  "Ge",
  "Lt",
  "Le",
  "GtLt",
  "GeLe",
  "IsTrue",
  "IsFalse",
] as const;

/** One comparison. */
export interface NfdExpression {
  readonly op: (typeof operators)[number];
  readonly value?: readonly string[] | undefined;
  readonly type?: "version" | undefined;
}

/** Comparisons with the elements of one feature. */
export interface NfdTerm {
  readonly feature: string;
  readonly matchExpressions?: Readonly<Record<string, NfdExpression>> | undefined;
  readonly matchName?: NfdExpression | undefined;
}

type Texts = Readonly<Record<string, string>>;

export interface NfdRule {
  readonly name: string;
  readonly labels?: Texts | undefined;
  readonly labelsTemplate?: string | undefined;
  readonly vars?: Texts | undefined;
  readonly varsTemplate?: string | undefined;
  readonly annotations?: Texts | undefined;
  readonly extendedResources?: Texts | undefined;
  readonly taints?: readonly unknown[] | undefined;
  readonly matchFeatures?: readonly NfdTerm[] | undefined;
  readonly matchAny?: readonly { readonly matchFeatures: readonly NfdTerm[] }[] | undefined;
}

export interface NodeFeatureRule {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly rules: readonly NfdRule[] };
}

const expression: z.ZodType<NfdExpression> = z.strictObject({
  op: z.enum(operators),
  value: z.array(z.string()).optional(),
  type: z.literal("version").optional(),
});

const terms = z.array(
  z.strictObject({
    feature: z.string(),
    matchExpressions: z.record(z.string(), expression).optional(),
    matchName: expression.optional(),
  }),
);

const texts = z.record(z.string(), z.string()).optional();

const rule: z.ZodType<NfdRule> = z.strictObject({
  name: z.string(),
  labels: texts,
  labelsTemplate: z.string().optional(),
  vars: texts,
  varsTemplate: z.string().optional(),
  annotations: texts,
  extendedResources: texts,
  taints: z.array(z.unknown()).optional(),
  matchFeatures: terms.optional(),
  matchAny: z.array(z.strictObject({ matchFeatures: terms })).optional(),
});

export const nodeFeatureRule: z.ZodType<NodeFeatureRule> = z.strictObject({
  apiVersion: z.literal(NFD_API_VERSION),
  kind: z.literal(NFD_KIND),
  metadata: z.looseObject({ name: z.string().min(1) }),
  spec: z.strictObject({ rules: z.array(rule) }),
  status: z.unknown().optional(),
});
