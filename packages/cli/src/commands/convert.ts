import { readFile } from "node:fs/promises";
import {
  configReasons,
  type Fault,
  faultsOfDocument,
  formatFault,
  hasErrors,
  inOrder,
  itemsOf,
  readYaml,
  type YamlDocument,
} from "@berth/host";
import {
  type Conversion,
  type ConvertedRule,
  convertNodeFeatureRule,
  convertReasons,
  isProtectedKey,
  joinConversions,
  labelRuleSpec,
  NFD_API_VERSIONS,
  NFD_KIND,
  nodeFeatureRule,
  reasons,
  withDistinctNames,
} from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import { labelFolderAt, unreadable } from "../config/settings.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { documentKinds } from "../kinds.ts";
import { type DataFormat, printData, toYaml } from "../output/data.ts";
import { convertDeschedulerPolicy } from "./convert-descheduler-policy.ts";
import { convertRuleFolder } from "./convert-folder.ts";
import { convertReadinessRule } from "./convert-readiness-rule.ts";

export interface ConvertOptions {
  /** Files with NodeFeatureRules, NodeReadinessRules or DeschedulerPolicies, or folders of label rules. */
  readonly files: readonly string[];
  readonly allowReserved?: readonly string[];
  /** Prints the rules that can be converted even if others cannot. */
  readonly skip?: boolean;
  /** Prints the NodeFeatureRules that publish what the converted rules read, even if others cannot be converted. */
  readonly features?: boolean;
  readonly output?: DataFormat;
}

/** Faults of a rule that was read. After any other fault the content is not known, so nothing is skipped. */
const SKIPPABLE: ReadonlySet<string> = new Set([
  convertReasons.NotConvertible,
  convertReasons.ConvertedWithNote,
  reasons.InvalidLabelKey,
  reasons.ReservedLabelKey,
]);

/**
 * Prints documents that do the same as the given ones. A part without an equivalent is a fault with its place, and
 * nothing is printed. With `skip` it becomes a comment in the output. `features` are printed in any case: NFD publishes
 * more labels then, which changes nothing by itself.
 */
export async function convert(options: ConvertOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr, folder } = deps;
  const found = await Promise.all(options.files.map((file) => convertOne(file, options, folder)));
  const { rules, dropped, faults, features = [] } = joinConversions(found);
  const isKnown = faults.every(({ reason }) => SKIPPABLE.has(reason));
  const skipped = options.skip === true && isKnown;
  for (const fault of faults.toSorted(inOrder)) {
    stderr.write(`${formatFault(skipped ? { ...fault, severity: "warning" } : fault)}\n`);
  }
  const failed = hasErrors(faults) && !skipped;
  if (failed && !(options.features === true && isKnown)) return exitCodes.faults;
  const named = withDistinctNames(rules);
  if (options.output !== undefined && options.output !== "yaml") {
    const items = options.features === true ? features : named.map(toDocument);
    printData(stdout, { apiVersion: "v1", kind: "List", items }, options.output);
  } else if (options.features === true) {
    stdout.write(features.map(toYaml).join("---\n"));
  } else {
    const notes = dropped.map(({ from, why }) => comment([`Left out, ${from}:`, ...why.map(indent)]));
    stdout.write([...named.map(render), ...notes].join("---\n"));
  }
  return failed ? exitCodes.faults : exitCodes.done;
}

async function convertOne(
  given: string,
  options: ConvertOptions,
  folder: string,
): Promise<Conversion<object>> {
  const source = labelFolderAt(given, options, folder);
  const text = await readFile(source.path, "utf8").catch((error: NodeJS.ErrnoException) => error);
  if (typeof text === "string") return convertText(given, text);
  if (text.code === "EISDIR") return convertRuleFolder(source);
  return { rules: [], dropped: [], faults: [unreadable(given, text)] };
}

function convertText(file: string, text: string): Conversion<object> {
  const { documents, problems } = readYaml(text);
  const faults = problems.map(({ line, column, message }): Fault => {
    return { file, line, column, severity: "error", reason: configReasons.NotYaml, message };
  });
  return joinConversions<object>([
    { rules: [], dropped: [], faults },
    ...documents.flatMap((it) => itemsOf(it, documentKinds)).map((yaml) => convertDocument(file, yaml)),
  ]);
}

/** Kinds that are not of NFD, by `apiVersion kind`. */
const OTHERS: Readonly<Record<string, (file: string, yaml: YamlDocument) => Conversion<object>>> = {
  "readiness.node.x-k8s.io/v1alpha1 NodeReadinessRule": convertReadinessRule,
  "descheduler/v1alpha2 DeschedulerPolicy": convertDeschedulerPolicy,
};

function convertDocument(file: string, yaml: YamlDocument): Conversion<object> {
  const { apiVersion, kind } = Object(yaml.value) as Readonly<Record<string, unknown>>;
  const read = OTHERS[`${String(apiVersion)} ${String(kind)}`];
  if (read !== undefined) return read(file, yaml);
  if (!NFD_API_VERSIONS.some((version) => version === apiVersion) || kind !== NFD_KIND) {
    const others = Object.keys(OTHERS).map((it) => it.split(" ").toReversed().join(" of "));
    const message = `expected a ${NFD_KIND} of ${NFD_API_VERSIONS.join(" or ")}, a ${others.join(", a ")}, or a folder of label rules`;
    const reason = convertReasons.NotARule;
    const fault: Fault = { file, ...yaml.positionOf(["kind"]), severity: "error", reason, message };
    return { rules: [], dropped: [], faults: [fault] };
  }
  const parsed = nodeFeatureRule.safeParse(yaml.value);
  if (parsed.success) return convertNodeFeatureRule({ file, document: parsed.data, yaml });
  const faults = faultsOfDocument(parsed.error, yaml).map((fault) => Object.assign({ file }, fault));
  return { rules: [], dropped: [], faults };
}

function toDocument({ name, kind = "LabelRule", spec }: ConvertedRule<object>): object {
  return { apiVersion: documentKinds.apiVersion, kind, metadata: { name }, spec };
}

function render(rule: ConvertedRule<object>): string {
  const { from, leftOut, notes: given, spec, kind } = rule;
  const { labels } = kind === undefined ? labelRuleSpec.parse(spec) : { labels: [] };
  const reserved = new Set(
    labels
      .map(({ key }) => key)
      .filter(isProtectedKey)
      .map(domainOf),
  );
  const notes = [
    ...[...reserved].map((domain) => `Needs --allow-reserved ${domain}`),
    ...given.map((note) => `Note: ${note}`),
    ...(leftOut.length === 0 ? [] : ["Left out:", ...leftOut.map(indent)]),
  ];
  return comment([`From ${from}`, ...notes]) + toYaml(toDocument(rule));
}

function domainOf(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

function indent(line: string): string {
  return `  ${line}`;
}

/** Makes each line one comment line, even if its text contains line feeds. */
function comment(lines: readonly string[]): string {
  return lines.map((line) => `# ${line.replaceAll(/[\r\n\u0085\u2028\u2029]+/g, " ")}\n`).join("");
}
