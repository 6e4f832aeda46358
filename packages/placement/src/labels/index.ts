export * from "./active-rules.ts";
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
export * from "./config.ts";
export * from "./convert/converted.ts";
export { type DeviceOptions, toDeviceConfig } from "./convert/device-options.ts";
export type { DeviceConfig } from "./convert/nfd-devices.ts";
export { NFD_API_VERSIONS, NFD_KIND, nodeFeatureRule } from "./convert/nfd-schema.ts";
export { convertNodeFeatureRule } from "./convert/node-feature-rule.ts";
export { labelFactsChanged, labelFields } from "./facts.ts";
export { type LabelFolder, type ParsedFolder, parseLabelFolder } from "./folder.ts";
export * from "./follow-folder.ts";
export * from "./metrics.ts";
export * from "./rule-documents.ts";
export { compileRules, type LabelRules, type RuleSet } from "./rules.ts";
export * from "./tally.ts";
export { wireLabels } from "./wiring.ts";
