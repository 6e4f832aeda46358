/** Schema of the fields of `NodeFeatureRule` (Node Feature Discovery, nfd.k8s-sigs.io/v1alpha1) that Berth knows. */
import * as z from "zod";

/** The upstream version, and the two that the OpenShift documentation and operator use. */
export const NFD_API_VERSIONS = [
  "nfd.k8s-sigs.io/v1alpha1",
  "nfd.openshift.io/v1alpha1",
  "nfd.openshift.io/v1",
] as const;
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
  /** This and the next four are outputs that a LabelRule does not have. */
  readonly vars?: unknown;
  readonly varsTemplate?: unknown;
  readonly annotations?: unknown;
  readonly extendedResources?: unknown;
  readonly taints?: unknown;
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

/** A field with null is the same as an absent field, as in the API server. */
function optional<T>(schema: z.ZodType<T>) {
  return schema.nullish().transform((value) => value ?? undefined);
}

const terms = z.array(
  z.strictObject({
    feature: z.string(),
    matchExpressions: optional(z.record(z.string(), expression)),
    matchName: optional(expression),
  }),
);

const rule: z.ZodType<NfdRule> = z.strictObject({
  name: z.string(),
  labels: optional(z.record(z.string(), z.string())),
  labelsTemplate: optional(z.string()),
  vars: z.unknown().optional(),
  varsTemplate: z.unknown().optional(),
  annotations: z.unknown().optional(),
  extendedResources: z.unknown().optional(),
  taints: z.unknown().optional(),
  matchFeatures: optional(terms),
  matchAny: optional(z.array(z.strictObject({ matchFeatures: terms.nullish().transform((it) => it ?? []) }))),
});

export const nodeFeatureRule: z.ZodType<NodeFeatureRule> = z.strictObject({
  apiVersion: z.literal(NFD_API_VERSIONS),
  kind: z.literal(NFD_KIND),
  metadata: z.looseObject({ name: z.string().min(1) }),
  spec: z.strictObject({ rules: z.array(rule) }),
  status: z.unknown().optional(),
});
