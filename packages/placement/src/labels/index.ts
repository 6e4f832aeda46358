import type { NodeCapability } from "../node/capability.ts";
import { decideLabels, labelInputs } from "./decide.ts";
import { LABELS, type LabelRules } from "./rules.ts";

export {
  type AssembledRules,
  assembleRules,
  describeWaiting,
  type RuleSources,
  type WaitingRule,
} from "./active-rules.ts";
export type { RuleProblem } from "./checks.ts";
export {
  confirmation,
  confirmedAt,
  type DocumentSet,
  digestOf,
  type LabelRuleDocument,
  type ParsedDocuments,
  parseLabelRules,
} from "./compile.ts";
export {
  defaultLabelOptions,
  type LabelFolderSource,
  type LabelFormat,
  type LabelOptions,
  labelFolderKind,
  labelFormats,
  labelOptionsSchema,
} from "./config.ts";
export { labelFields } from "./facts.ts";
export { type LabelFolder, type ParsedFolder, parseLabelFolder } from "./folder.ts";
export * from "./follow-folder.ts";
export { createLabelMetrics, type LabelMetrics } from "./metrics.ts";
export { createLabelRules, type LabelRuleContext } from "./rule-documents.ts";
export { compileRules, type LabelRules, type RuleSet } from "./rules.ts";

/**
 * Derived labels. Watches: Nodes (labels, and the ownership record). Wakes every node when the rules change.
 * Owns: labels named by rules.
 */
export const labels: NodeCapability<LabelRules> = {
  name: LABELS,
  decide: decideLabels,
  policy: (rules) => rules.policy,
  inputs: labelInputs,
};
export * from "./convert/converted.ts";
export { type DeviceOptions, toDeviceConfig } from "./convert/device-options.ts";
export type { DeviceConfig } from "./convert/nfd-devices.ts";
export { NFD_API_VERSIONS, NFD_KIND, nodeFeatureRule } from "./convert/nfd-schema.ts";
export { convertNodeFeatureRule } from "./convert/node-feature-rule.ts";
export { labelFactsChanged } from "./predicate.ts";
export { createRuleStatusReconciler, type RuleStatusOptions } from "./reconciler.ts";
export { type RuleCounts, RuleTally } from "./tally.ts";
