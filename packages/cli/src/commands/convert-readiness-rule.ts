/** Converts a NodeReadinessRule of node-readiness-controller to a StartupGate. */
import { selector, type YamlDocument } from "@berth/host";
import { type Conversion, startupGateSpec, toObjectName } from "@berth/placement";
import * as z from "zod";
import { convertWith } from "./convert-parts.ts";

const status = z.enum(["True", "False", "Unknown"]);

const readinessRule = z.strictObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string().min(1) }),
  spec: z.strictObject({
    conditions: z.array(
      z.strictObject({ type: z.string(), requiredStatus: status, defaultStatus: status.default("Unknown") }),
    ),
    conditionPolicy: z.enum(["allOf", "anyOf"]).default("allOf"),
    taint: z.strictObject({
      key: z.string(),
      value: z.string().default(""),
      effect: z.string(),
      timeAdded: z.unknown().optional(),
    }),
    enforcementMode: z.enum(["bootstrap-only", "continuous"]).default("bootstrap-only"),
    nodeSelector: selector,
    dryRun: z.boolean().optional(),
  }),
  status: z.unknown().optional(),
});

const NOTES = [
  "a gate holds new nodes, and idle ones of at most 5 minutes: older nodes that lack a condition are held only with mode Continuous",
  "the gate releases a node 5 s after its conditions hold (stableFor)",
];

export function convertReadinessRule(file: string, yaml: YamlDocument): Conversion<object> {
  const title = ({ metadata }: z.infer<typeof readinessRule>): string => `NodeReadinessRule ${metadata.name}`;
  return convertWith({ file, yaml, schema: readinessRule, title }, ({ metadata, spec }) => {
    const { conditionPolicy, taint, enforcementMode, nodeSelector, dryRun } = spec;
    const { key, value, effect } = taint;
    // Both count an absent condition without a default as Unknown, or as missing: the same unless Unknown is required.
    const conditions = spec.conditions.map(({ type, requiredStatus, defaultStatus }) => ({
      type,
      ...(requiredStatus !== "True" && { status: requiredStatus }),
      ...((defaultStatus !== "Unknown" || requiredStatus === "Unknown") && { defaultStatus }),
    }));
    const isAny = conditionPolicy === "anyOf" && conditions.length > 1;
    return [
      {
        kind: "StartupGate",
        schema: startupGateSpec,
        name: toObjectName(metadata.name),
        spec: {
          nodeSelector,
          controlPlane: "Include",
          taint: { key, value, effect },
          signals: isAny ? { anyOf: conditions.map((one) => ({ conditions: [one] })) } : { conditions },
          ...(enforcementMode === "continuous" && { mode: "Continuous" }),
          ...(dryRun === true && { dryRun }),
        },
        leftOut: [],
        notes: NOTES,
      },
    ];
  });
}
