/** Converts a folder of label rules to equivalent LabelRules, one for each file. */
import path from "node:path";
import { hasErrors } from "@berth/host";
import {
  type Conversion,
  type ConvertedRule,
  convertReasons,
  inGroups,
  type LabelFolderSource,
  labelRuleSpec,
  MAX_TERMS_OF_RULE,
  type MatchTerm,
  readLabelFolder,
  toObjectName,
} from "@berth/placement";

/**
 * Like the rule in the folder, a LabelRule matches when any line matches, overwrites, and removes at once. Files
 * without a valid rule are faults. So are files without a line, which remove a label from every node.
 */
export async function convertRuleFolder(source: LabelFolderSource): Promise<Conversion> {
  const { parsed, faults } = await readLabelFolder(source);
  const errors = faults.filter(({ severity }) => severity === "error");
  const rules: ConvertedRule[] = [];
  for (const { outputs, plain } of hasErrors(errors) && !parsed.set.complete ? [] : parsed.set.rules) {
    const [output] = outputs;
    if (output === undefined || plain === undefined) continue;
    const { key } = output;
    const file = path.join(source.shown, key);
    const spec = toSpec(key, [...plain.keys()]);
    const message = problemOf(spec, plain.size);
    if (message === undefined)
      rules.push({ name: toObjectName(key), from: file, spec, leftOut: [], notes: [] });
    else errors.push({ file, severity: "error", reason: convertReasons.NotConvertible, message });
  }
  const dropped = errors.map(({ file, message }) => ({ from: file, why: [message] }));
  return { rules, dropped, faults: errors };
}

function problemOf(spec: ConvertedRule["spec"], keys: number): string | undefined {
  if (keys === 0)
    return "the file names no label key: a LabelRule cannot match no node, deleting it does the same";
  if (keys > MAX_TERMS_OF_RULE)
    return `the file names ${keys} label keys, and a LabelRule holds ${MAX_TERMS_OF_RULE}: split the file`;
  const fault = labelRuleSpec.safeParse(spec).error?.issues[0];
  return fault && `the LabelRule is not valid: ${fault.message}`;
}

function toSpec(key: string, inputs: readonly string[]): ConvertedRule["spec"] {
  return {
    match: { any: inGroups(inputs.map((input): MatchTerm => ({ key: input }))) },
    labels: [{ key }],
    overwrite: true,
    removalDelay: "0s",
    breaker: { percent: 100, nodes: 10 },
  };
}
