/** Random rules over few keys, once for the engine and once for the reference. */
import * as fc from "fast-check";
import { folderOf } from "../../node/testing/labels.ts";
import { parseLabelRules } from "../compile.ts";
import type { LabelFormat } from "../config.ts";
import type { LabelOutput, LabelRuleSpec, MatchGroup, MatchTerm, Operator } from "../document.ts";
import { parseLabelFolder } from "../folder.ts";
import { compileRules, type LabelRules, type RuleSet } from "../rules.ts";
import type { ReferenceCase, ReferenceRule, ReferenceRules } from "./reference-rules.ts";

/** Labels that rules set, and labels that only others set. */
export const OWN_KEYS = ["a", "b", "c", "d", "example.com/e", "constructor"] as const;
export const FOREIGN_KEYS = ["x", "y", "valueOf"] as const;
const RESERVED_KEY = "kubernetes.io/reserved";

interface Line {
  readonly terms: readonly MatchTerm[];
  readonly value?: string;
}

type File =
  | { readonly kind: "lines"; readonly keys: readonly string[] }
  | { readonly kind: "selectors"; readonly lines: readonly Line[] }
  | { readonly kind: "faulty" }
  | { readonly kind: "unreadable" };

interface Document {
  readonly name: string;
  readonly match: MatchGroup;
  readonly labels: readonly LabelOutput[];
  readonly overwrite: boolean;
  readonly dryRun: boolean;
  readonly fault: Fault | undefined;
}

/** What is wrong with a document: a pattern that is none, or a label under a domain that is reserved. */
type Fault = "RuleInvalid" | "ReservedLabelKey";

/** All that one installation has been given. */
export interface ModelRules {
  readonly format: LabelFormat;
  readonly files: Readonly<Record<string, File>>;
  readonly config: readonly Document[];
  readonly cluster: readonly Document[];
  /** Which sources have been read completely. */
  readonly complete: Readonly<Record<"folder" | "config" | "cluster", boolean>>;
}

const label = fc.constantFrom(...OWN_KEYS, ...FOREIGN_KEYS, ...FOREIGN_KEYS);
const text = fc.constantFrom("true", "1", "2");
const number = fc.constantFrom("1", "2", "3");

const comparison: fc.Arbitrary<Omit<MatchTerm, "key" | "source">> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({}) },
  { weight: 2, arbitrary: fc.constant({ operator: "DoesNotExist" as const }) },
  fc.record({
    operator: fc.constantFrom("In" as const, "NotIn" as const),
    values: fc.uniqueArray(text, { minLength: 1, maxLength: 2 }),
  }),
  fc.record({
    operator: fc.constantFrom("Gt" as const, "Ge" as const, "Lt" as const, "Le" as const),
    values: fc.tuple(number),
  }),
);
const labelTerm: fc.Arbitrary<MatchTerm> = fc
  .tuple(label, comparison)
  .map(([key, rest]) => Object.assign({ key }, rest));
const otherTerm: fc.Arbitrary<MatchTerm> = fc.constantFrom<MatchTerm>(
  { source: "Annotation", key: "note" },
  { source: "Annotation", key: "note", operator: "Matches", values: ["^v\\d"] },
  { source: "Annotation", key: "berth.dev/marks" },
  { source: "Annotation", key: "berth.dev/marks", operator: "DoesNotExist" },
  { source: "NodeInfo", key: "architecture", operator: "In", values: ["arm64"] },
  { source: "Capacity", key: "cpu", operator: "Ge", values: ["4"] },
  { source: "Condition", key: "Ready", operator: "NotIn", values: ["True"] },
  { source: "Taint", key: "gpu", operator: "DoesNotExist" },
);
const { group } = fc.letrec<{ term: MatchTerm; group: MatchGroup }>((tie) => ({
  term: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    { weight: 5, arbitrary: labelTerm },
    { weight: 1, arbitrary: otherTerm },
    { weight: 1, arbitrary: tie("group") },
  ),
  group: fc.oneof(
    fc.record({ all: fc.array(tie("term"), { minLength: 1, maxLength: 2 }) }),
    fc.record({ any: fc.array(tie("term"), { minLength: 1, maxLength: 2 }) }),
    fc.record({
      all: fc.array(tie("term"), { minLength: 1, maxLength: 2 }),
      any: fc.array(tie("term"), { minLength: 1, maxLength: 2 }),
    }),
  ),
}));

const valueOfOutput: fc.Arbitrary<Omit<LabelOutput, "key">> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 2, arbitrary: fc.record({ value: text }) },
  { weight: 1, arbitrary: label.map((key) => ({ valueFrom: { key } })) },
  { weight: 1, arbitrary: label.map((key) => ({ valueTemplate: `v\${Label/${key}}` })) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Omit<LabelOutput, "key">>(
      { valueFrom: { source: "Annotation", key: "note" } },
      { valueFrom: { source: "Annotation", key: "note" }, sanitize: true },
      { valueFrom: { source: "Annotation", key: "note", pattern: "v(\\d)" } },
      { valueTemplate: "${NodeInfo/architecture}-${Annotation/note}" },
    ),
  },
);
const output = fc
  .tuple(fc.constantFrom(...OWN_KEYS), valueOfOutput)
  .map(([key, value]): LabelOutput => Object.assign({ key }, value));
const document: fc.Arbitrary<Document> = fc.record({
  name: fc.constantFrom("one", "two", "three"),
  match: fc.oneof({ weight: 8, arbitrary: group }, { weight: 1, arbitrary: fc.constant({}) }),
  labels: fc.uniqueArray(output, { minLength: 1, maxLength: 2, selector: ({ key }) => key }),
  overwrite: fc.boolean(),
  dryRun: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  fault: fc.oneof(
    { weight: 8, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constantFrom<Fault>("RuleInvalid", "ReservedLabelKey") },
  ),
});
const documents = fc.uniqueArray(document, { maxLength: 3, selector: ({ name }) => name });

const line: fc.Arbitrary<Line> = fc.record(
  { terms: fc.array(labelTerm, { minLength: 1, maxLength: 2 }), value: text },
  { requiredKeys: ["terms"] },
);
const lines: fc.Arbitrary<File> = fc
  .uniqueArray(label, { maxLength: 3 })
  .map((keys) => ({ kind: "lines" as const, keys }));
const unreadable: fc.Arbitrary<File> = fc.constant({ kind: "unreadable" });
const plainFile = fc.oneof({ weight: 6, arbitrary: lines }, { weight: 1, arbitrary: unreadable });
const extendedFile = fc.oneof(
  { weight: 3, arbitrary: lines },
  {
    weight: 4,
    arbitrary: fc.array(line, { maxLength: 3 }).map((lines) => ({ kind: "selectors" as const, lines })),
  },
  { weight: 1, arbitrary: unreadable },
  { weight: 1, arbitrary: fc.constant<File>({ kind: "faulty" }) },
);
const filesOf = (file: fc.Arbitrary<File>) =>
  fc.dictionary(fc.constantFrom(...OWN_KEYS), file, { maxKeys: 4, noNullPrototype: true });
const mostly = fc.oneof(
  { weight: 6, arbitrary: fc.constant(true) },
  { weight: 1, arbitrary: fc.constant(false) },
);

/** Most sets have no cycles, as those leave little in force. */
export const modelRules: fc.Arbitrary<ModelRules> = fc
  .record({
    rules: fc
      .oneof(
        fc.record({ format: fc.constant<LabelFormat>("Plain"), files: filesOf(plainFile) }),
        fc.record({ format: fc.constant<LabelFormat>("Extended"), files: filesOf(extendedFile) }),
      )
      .chain((folder) =>
        fc.record({
          format: fc.constant(folder.format),
          files: fc.constant(folder.files),
          config: documents,
          cluster: documents,
          complete: fc.record({ folder: mostly, config: mostly, cluster: mostly }),
        }),
      ),
    layered: mostly,
  })
  .map(({ rules, layered }) => (layered ? inLayers(rules) : rules));

/** The same rules, reading of our own labels only those that come before the ones they set. */
function inLayers(rules: ModelRules): ModelRules {
  const files = Object.entries(rules.files).map(([path, file]) => {
    const below = belowOf([path]);
    if (file.kind === "lines") return [path, { ...file, keys: [...new Set(file.keys.map(below))] }] as const;
    if (file.kind !== "selectors") return [path, file] as const;
    const lines = file.lines.map((line) => ({
      ...line,
      terms: line.terms.map((it) => termBelow(it, below)),
    }));
    return [path, { ...file, lines }] as const;
  });
  const lower = (document: Document): Document => {
    const below = belowOf(document.labels.map(({ key }) => key));
    return {
      ...document,
      match: groupBelow(document.match, below),
      labels: document.labels.map((it) => outputBelow(it, below)),
    };
  };
  return {
    ...rules,
    files: Object.fromEntries(files),
    config: rules.config.map(lower),
    cluster: rules.cluster.map(lower),
  };
}

type Below = (key: string) => string;

function belowOf(outputs: readonly string[]): Below {
  const keys: readonly string[] = OWN_KEYS;
  const lowest = Math.min(...outputs.map((key) => keys.indexOf(key)));
  return (key) => (keys.indexOf(key) >= lowest ? "x" : key);
}

function groupBelow({ all, any: some }: MatchGroup, below: Below): MatchGroup {
  return {
    ...(all && { all: all.map((it) => termBelow(it, below)) }),
    ...(some && { any: some.map((it) => termBelow(it, below)) }),
  };
}

function termBelow(term: MatchTerm, below: Below): MatchTerm {
  if (term.key === undefined) return groupBelow(term, below);
  return (term.source ?? "Label") === "Label" ? { ...term, key: below(term.key) } : term;
}

function outputBelow(output: LabelOutput, below: Below): LabelOutput {
  const { valueFrom, valueTemplate } = output;
  return {
    ...output,
    ...(valueFrom &&
      (valueFrom.source ?? "Label") === "Label" && {
        valueFrom: { ...valueFrom, key: below(valueFrom.key) },
      }),
    ...(valueTemplate !== undefined && {
      valueTemplate: valueTemplate.replace(
        /\$\{Label\/([^}]*)\}/,
        (_all, key: string) => `\${Label/${below(key)}}`,
      ),
    }),
  };
}

/** For the engine. With `backwards` everything is handed in the other way round. */
export function toEngine(rules: ModelRules, backwards = false): LabelRules {
  const order = <T>(items: readonly T[]): readonly T[] => (backwards ? items.toReversed() : items);
  const options = { allowReserved: [], format: rules.format };
  const files = order(Object.entries(rules.files)).map(([path, file]) => [path, render(file)] as const);
  const folder = parseLabelFolder(folderOf(Object.fromEntries(files), rules.complete.folder), options);
  const sets = (["config", "cluster"] as const).map((source): RuleSet => {
    const documents = order(rules[source]).map((document) => ({
      name: document.name,
      spec: toSpec(document),
    }));
    const { set, faults } = parseLabelRules({ source, complete: rules.complete[source], documents, options });
    const bad = rules[source].flatMap(({ name, fault }) => (fault === undefined ? [] : [`${name} ${fault}`]));
    if (
      faults
        .map(({ name, reason }) => `${name} ${reason}`)
        .sort()
        .join() !== bad.sort().join()
    )
      throw new Error(faults.map(({ message }) => message).join(", "));
    return set;
  });
  return compileRules(order([folder.set, ...sets]));
}

function toSpec({ match, labels, overwrite, dryRun, fault }: Document): LabelRuleSpec {
  const broken: MatchTerm = { key: "x", operator: "Matches", values: ["("] };
  return {
    match: fault === "RuleInvalid" ? { ...match, all: [...(match.all ?? []), broken] } : match,
    labels: fault === "ReservedLabelKey" ? [...labels, { key: RESERVED_KEY }] : labels,
    overwrite,
    dryRun,
    removalDelay: "0s",
    breaker: { percent: 100, nodes: 0 },
  };
}

function render(file: File): string | undefined {
  if (file.kind === "unreadable") return undefined;
  if (file.kind === "faulty") return "no selector\n";
  if (file.kind === "lines") return file.keys.join("\n");
  return ["# generated", ...file.lines.map(renderLine)].join("\r\n");
}

const SIGNS: ReadonlyMap<Operator, string> = new Map([
  ["Gt", ">"],
  ["Ge", ">="],
  ["Lt", "<"],
  ["Le", "<="],
]);

function renderLine({ terms, value }: Line): string {
  const selector = terms.map(({ key = "", operator = "Exists", values = [] }) => {
    const [first = ""] = values;
    const all = values.join(", ");
    if (operator === "Exists") return key;
    if (operator === "DoesNotExist") return `!${key}`;
    if (operator === "In") return values.length === 1 ? `${key}=${first}` : `${key} in (${all})`;
    if (operator === "NotIn") return values.length === 1 ? `${key} != ${first}` : `${key} notin(${all})`;
    return `${key} ${SIGNS.get(operator) ?? "?"} ${first}`;
  });
  return `${selector.join(", ")}${value === undefined ? "" : ` => ${value}`}`;
}

/** For the reference. */
export function toReference(rules: ModelRules): ReferenceRules {
  // A folder has no order but that of its paths.
  const files = Object.entries(rules.files).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const filesOfKind = (kind: File["kind"]) =>
    files.filter(([, file]) => file.kind === kind).map(([path]) => path);
  const documents = (["config", "cluster"] as const).flatMap((source) =>
    rules[source].map((document) => ({ source, document })),
  );
  const keysWith = (wrong: Fault): readonly string[] =>
    documents.flatMap(({ document: { fault, dryRun, labels } }) =>
      fault !== wrong || dryRun
        ? []
        : [...labels.map(({ key }) => key), ...(wrong === "ReservedLabelKey" ? [RESERVED_KEY] : [])],
    );
  const sources = (["folder", "config", "cluster"] as const).filter((source) => rules.complete[source]);
  return {
    rules: [
      ...files.flatMap(([path, file]) => fileRule(path, file)),
      ...documents.flatMap(({ source, document }) =>
        document.fault === undefined ? [documentRule(source, document)] : [],
      ),
    ],
    // The last reason for a key counts.
    frozen: new Map([
      ...keysWith("ReservedLabelKey").map((key) => [key, "ReservedLabelKey"] as const),
      ...[...keysWith("RuleInvalid"), ...filesOfKind("faulty")].map((key) => [key, "RuleInvalid"] as const),
      ...filesOfKind("unreadable").map((key) => [key, "RuleUnreadable"] as const),
    ]),
    invalid: new Map([
      ...filesOfKind("faulty").map((path) => [`folder/${path}`, "RuleInvalid"] as const),
      ...documents.flatMap(({ source, document: { name, fault } }) =>
        fault === undefined ? [] : [[`${source}/${name}`, fault] as const],
      ),
    ]),
    sourcesRead: new Set(sources),
  };
}

function fileRule(path: string, file: File): readonly ReferenceRule[] {
  if (file.kind === "unreadable" || file.kind === "faulty") return [];
  const lines: readonly Line[] =
    file.kind === "selectors" ? file.lines : file.keys.map((key) => ({ terms: [{ key }] }));
  const each = lines.map(
    ({ terms, value }): ReferenceCase => ({
      match: { all: terms },
      output: value === undefined ? {} : { value },
    }),
  );
  const plain = lines.every(
    ({ terms, value }) => value === undefined && terms.length === 1 && terms[0]?.operator === undefined,
  );
  // One question with several answers, where the order of lines matters nothing.
  const any = lines.flatMap(({ terms }) => terms);
  const cases = plain && any.length > 0 ? [{ match: { any }, output: {} }] : each;
  return [{ name: `folder/${path}`, outputs: [{ key: path, cases }], overwrite: true, dryRun: false, plain }];
}

function documentRule(source: string, { name, match, labels, overwrite, dryRun }: Document): ReferenceRule {
  const outputs = labels.map(({ key, ...output }) => ({ key, cases: [{ match, output }] }));
  return { name: `${source}/${name}`, outputs, overwrite, dryRun, plain: false };
}
