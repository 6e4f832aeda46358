/**
 * What a converted rule does on a node is what Node Feature Discovery would have done: its own evaluation, written down
 * here from its documentation, against ours, on nodes with the labels that its worker publishes.
 */

import { readYaml } from "@berth/host";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { bindCapability } from "../../node/capability.ts";
import { mergeContributions } from "../../node/merge.ts";
import { labels } from "../capability.ts";
import { parseLabelRules } from "../compile.ts";
import { labelRuleSpec } from "../document.ts";
import { compileRules } from "../rules.ts";
import { toDeviceConfig } from "./device-options.ts";
import { NFD_MARK } from "./nfd-labels.ts";
import type { NfdExpression, NfdRule, NfdTerm } from "./nfd-schema.ts";
import { convertNodeFeatureRule } from "./node-feature-rule.ts";

const DOMAIN = "feature.node.kubernetes.io";

/** What the worker found on a node. An element is absent where it is undefined. */
interface Found {
  readonly flags: readonly string[];
  readonly major: string | undefined;
  readonly id: string | undefined;
  readonly numa: boolean;
  readonly version: string | undefined;
  readonly devices: readonly Device[];
}

type Device = Readonly<Record<"class" | "vendor" | "device", string>>;

/** `deviceLabelFields` that are configured on clusters. */
const fieldLists = [
  ["class", "vendor"],
  ["vendor"],
  ["vendor", "device"],
  ["class", "vendor", "device"],
] as const satisfies readonly (readonly (keyof Device)[])[];
type Fields = (typeof fieldLists)[number];

const found: fc.Arbitrary<Found> = fc.record({
  flags: fc.subarray(["AVX", "AVX2", "AMXTILE"]),
  major: fc.constantFrom("4", "5", "6", "10", undefined),
  id: fc.constantFrom("ubuntu", "rhel", "true", undefined),
  version: fc.constantFrom("9", "22.04", undefined),
  numa: fc.boolean(),
  devices: fc.array(
    fc.record({
      class: fc.constantFrom("0300", "0302"),
      vendor: fc.constantFrom("10de", "1002"),
      device: fc.constantFrom("2330", "74a1"),
    }),
    { maxLength: 2 },
  ),
});

function published(
  { flags, major, id, version, numa, devices }: Found,
  fields: Fields,
): Readonly<Record<string, string>> {
  const entries = [
    ...flags.map((flag) => [`cpu-cpuid.${flag}`, "true"]),
    ...(major === undefined ? [] : [["kernel-version.major", major]]),
    ...(id === undefined ? [] : [["system-os_release.ID", id]]),
    ...(version === undefined ? [] : [["system-os_release.VERSION_ID", version]]),
    ...(numa ? [["memory-numa", "true"]] : []),
    ...devices.map((device) => [`pci-${fields.map((field) => device[field]).join("_")}.present`, "true"]),
  ];
  return Object.fromEntries(entries.map(([name = "", value = ""]) => [`${DOMAIN}/${name}`, value]));
}

const number = fc.constantFrom("3", "5", "6", "9");

const comparison: fc.Arbitrary<NfdExpression> = fc.oneof(
  fc.record({ op: fc.constantFrom("", "Exists", "DoesNotExist", "IsTrue", "IsFalse") }),
  fc.record({
    op: fc.constantFrom("In", "NotIn", "InRegexp"),
    value: fc.array(fc.constantFrom("5", "6", "ubuntu", "rhel", "true"), { minLength: 1, maxLength: 2 }),
  }),
  fc.record({ op: fc.constantFrom("Gt", "Ge", "Lt", "Le"), value: fc.tuple(number) }),
  fc.record({ op: fc.constantFrom("GtLt", "GeLe"), value: fc.constant(["4", "10"]) }),
);

const isNumeric = ({ op }: NfdExpression): boolean => /^(?:G|L)/.test(op);

const elementsOf = (
  feature: string,
  element: fc.Arbitrary<string>,
  expression: fc.Arbitrary<NfdExpression>,
): fc.Arbitrary<NfdTerm> =>
  fc.record({
    feature: fc.constant(feature),
    matchExpressions: fc.dictionary(element, expression, { minKeys: 1, maxKeys: 2 }),
  });

const oneOf = (...all: readonly string[]): fc.Arbitrary<NfdExpression> =>
  fc.record({ op: fc.constant("In" as const), value: fc.subarray([...all], { minLength: 1 }) });

const identity = {
  class: oneOf("0300", "0302"),
  vendor: oneOf("10de", "1002"),
  device: oneOf("2330", "74a1"),
};

const termFor = (fields: Fields): fc.Arbitrary<NfdTerm> =>
  fc.oneof(
    elementsOf(
      "cpu.cpuid",
      fc.constantFrom("AVX", "AVX2", "AMXTILE"),
      fc.record({ op: fc.constantFrom("Exists", "DoesNotExist", "") }),
    ),
    elementsOf("kernel.version", fc.constant("major"), comparison),
    elementsOf(
      "system.osrelease",
      fc.constant("ID"),
      comparison.filter((it) => !isNumeric(it)),
    ),
    elementsOf("system.osrelease", fc.constant("VERSION_ID"), comparison),
    elementsOf(
      "memory.numa",
      fc.constant("is_numa"),
      fc.record({ op: fc.constantFrom("IsTrue", "IsFalse") }),
    ),
    fc.record({
      feature: fc.constant("pci.device"),
      matchExpressions: fc.record(Object.fromEntries(fields.map((field) => [field, identity[field]]))),
    }),
    fc.record({ feature: fc.constant("cpu.cpuid"), matchName: oneOf("AVX", "AMXTILE") }),
  );

const ruleFor = (fields: Fields): fc.Arbitrary<NfdRule> => {
  const terms = fc.array(termFor(fields), { minLength: 1, maxLength: 3 });
  return fc.record(
    {
      name: fc.constant("r"),
      labels: fc.constant({ "site.example/r": "true" }),
      matchFeatures: terms,
      matchAny: fc.array(fc.record({ matchFeatures: terms }), { minLength: 1, maxLength: 2 }),
    },
    { requiredKeys: ["name", "labels"] },
  );
};

const configured = fc
  .constantFrom(...fieldLists)
  .chain((fields) => fc.record({ fields: fc.constant(fields), given: ruleFor(fields) }));

/** Of an element that is a flag, the value is `undefined` but it is there. */
function holds({ op, value = [] }: NfdExpression, isThere: boolean, text: string | undefined): boolean {
  if (op === "") return true;
  if (op === "Exists" || op === "DoesNotExist") return isThere === (op === "Exists");
  if (!isThere || text === undefined) return false;
  if (op === "In" || op === "NotIn") return value.includes(text) === (op === "In");
  if (op === "InRegexp") return value.some((pattern) => new RegExp(pattern).test(text));
  if (op === "IsTrue" || op === "IsFalse") return text === (op === "IsTrue" ? "true" : "false");
  if (!/^[-+]?\d+$/.test(text)) return false;
  const [actual, low = 0, high = low] = [text, ...value].map(Number);
  if (actual === undefined) return false;
  const within = { Gt: actual > low, Ge: actual >= low, Lt: actual < low, Le: actual <= low };
  if (op === "GtLt") return actual > low && actual < high;
  if (op === "GeLe") return actual >= low && actual <= high;
  return within[op];
}

function termHolds({ feature, matchExpressions, matchName }: NfdTerm, node: Found): boolean {
  if (matchName !== undefined) return node.flags.some((flag) => matchName.value?.includes(flag));
  const all = Object.entries(matchExpressions ?? {});
  if (feature === "pci.device") {
    return node.devices.some((device) =>
      all.every(([field, it]) => holds(it, true, device[field as keyof Device])),
    );
  }
  const values: Readonly<Record<string, string | undefined>> = {
    major: node.major,
    ID: node.id,
    VERSION_ID: node.version,
    is_numa: String(node.numa),
  };
  return all.every(([element, it]) =>
    feature === "cpu.cpuid"
      ? holds(it, node.flags.includes(element), undefined)
      : holds(it, values[element] !== undefined, values[element]),
  );
}

function nfdMatches({ matchFeatures = [], matchAny }: NfdRule, node: Found): boolean {
  const all = (given: readonly NfdTerm[]): boolean => given.every((it) => termHolds(it, node));
  return all(matchFeatures) && (matchAny?.some((it) => all(it.matchFeatures)) ?? true);
}

/** Does the converted rule label a node with these labels? */
function berthMatches(given: NfdRule, fields: Fields, nodeLabels: Readonly<Record<string, string>>): boolean {
  const document = { metadata: { name: "n" }, spec: { rules: [given] } };
  const [yaml] = readYaml(JSON.stringify(document)).documents;
  if (yaml === undefined) throw new Error("no document");
  const devices = toDeviceConfig({ deviceLabelFields: [fields.join()] });
  const { rules, faults } = convertNodeFeatureRule({ file: "n", document, yaml, devices });
  expect(faults.filter(({ severity }) => severity === "error")).toEqual([]);
  const documents = rules.map(({ name, spec }) => ({ name, spec: labelRuleSpec.parse(spec) }));
  const options = { allowReserved: [] };
  const parsed = parseLabelRules({ source: "config", complete: true, documents, options });
  expect(parsed.faults).toEqual([]);
  const compiled = compileRules([parsed.set]);
  const capability = bindCapability(labels, { config: () => compiled, observe: (view) => view });
  const node = aNode("n")
    .labelled(nodeLabels)
    .annotated({ [NFD_MARK]: "x" })
    .build();
  const { wanted } = mergeContributions([capability.contribute({ node, owned: new Map() }, 0)]);
  return [...wanted.keys()].includes("label/site.example/r");
}

it("I-13 a converted rule labels the nodes that Node Feature Discovery would label", () => {
  const seen = { yes: 0, no: 0 };
  fc.assert(
    fc.property(configured, found, ({ given, fields }, node) => {
      const expected = nfdMatches(given, node);
      seen[expected ? "yes" : "no"]++;
      expect(berthMatches(given, fields, published(node, fields))).toBe(expected);
    }),
    { numRuns: 1000 },
  );
  expect(seen.yes).toBeGreaterThan(50);
  expect(seen.no).toBeGreaterThan(50);
});
