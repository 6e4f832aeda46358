export {
  type AssembledRules,
  assembleRules,
  describeWaiting,
  type RuleSources,
  type WaitingRule,
} from "./active-rules.ts";
export { labels } from "./capability.ts";
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
export * from "./convert/converted.ts";
export { type DeviceOptions, toDeviceConfig } from "./convert/device-options.ts";
export type { DeviceConfig } from "./convert/nfd-devices.ts";
export { NFD_API_VERSIONS, NFD_KIND, nodeFeatureRule } from "./convert/nfd-schema.ts";
export { convertNodeFeatureRule } from "./convert/node-feature-rule.ts";
export { labelFields } from "./facts.ts";
export { type LabelFolder, type ParsedFolder, parseLabelFolder } from "./folder.ts";
export * from "./follow-folder.ts";
export { createLabelMetrics, type LabelMetrics } from "./metrics.ts";
export { type GivenRules, labelsOnce } from "./once.ts";
export { labelFactsChanged } from "./predicate.ts";
export { createLabelRules, type LabelRuleContext } from "./rule-documents.ts";
export { compileRules, type LabelRules, type RuleSet } from "./rules.ts";
export { type RuleCounts, RuleTally } from "./tally.ts";
export { derivedLabels, type LabelFlags } from "./wiring.ts";
