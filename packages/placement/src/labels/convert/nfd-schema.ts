/** Schema of the fields of `NodeFeatureRule` (Node Feature Discovery, nfd.k8s-sigs.io/v1alpha1) that Berth knows. */
import * as z from "zod";
import { absentOr } from "../../node/untrusted-json.ts";

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

const expression = z.strictObject({
  op: z.enum(operators),
  value: z.array(z.string()).readonly().optional(),
  type: z.literal("version").optional(),
});

/** Comparisons with the elements of one feature. */
const term = z.strictObject({
  feature: z.string(),
  matchExpressions: absentOr(z.record(z.string(), expression)),
  matchName: absentOr(expression),
});
const terms = z.array(term).readonly();

const rule = z.strictObject({
  name: z.string(),
  labels: absentOr(z.record(z.string(), z.string())),
  labelsTemplate: absentOr(z.string()),
  vars: absentOr(z.record(z.string(), z.string())),
  // A LabelRule does not have these outputs.
  varsTemplate: z.unknown().optional(),
  annotations: z.unknown().optional(),
  extendedResources: z.unknown().optional(),
  taints: z.unknown().optional(),
  matchFeatures: absentOr(terms),
  matchAny: absentOr(z.array(z.strictObject({ matchFeatures: terms.nullish().transform((it) => it ?? []) }))),
});

export const nodeFeatureRule = z.strictObject({
  apiVersion: z.literal(NFD_API_VERSIONS),
  kind: z.literal(NFD_KIND),
  metadata: z.looseObject({ name: z.string().min(1) }),
  spec: z.strictObject({ rules: z.array(rule) }),
  status: z.unknown().optional(),
});

export type NfdExpression = z.infer<typeof expression>;
export type NfdTerm = z.infer<typeof term>;
export type NfdRule = z.infer<typeof rule>;
export type NodeFeatureRule = Pick<z.infer<typeof nodeFeatureRule>, "apiVersion" | "metadata" | "spec">;
