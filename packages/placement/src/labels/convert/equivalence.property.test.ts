/**
 * What a converted rule does on a node is what Node Feature Discovery would have done: its own evaluation, written down
 * here from its documentation, against ours, on nodes with the labels that its worker publishes.
 */

import { readYaml } from "@berth/host";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { labelsOf, settle } from "../../node/testing/labels.ts";
import { type Found, labelsByRules, nfdMatches, published } from "../testing/nfd-reference.ts";
import { rulesOf } from "../testing/rule-set.ts";
import { NFD_MARK } from "./nfd-labels.ts";
import {
  NFD_API_VERSIONS,
  type NfdExpression,
  type NfdRule,
  type NfdTerm,
  nodeFeatureRule,
} from "./nfd-schema.ts";
import { convertNodeFeatureRule } from "./node-feature-rule.ts";

/** Sets of attributes by which vendors name devices. */
const fieldLists = [
  ["class", "vendor"],
  ["vendor"],
  ["vendor", "device"],
  ["class", "vendor", "device"],
] as const;

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
  modules: fc.subarray(["idxd", "xe"]),
  options: fc.constantFrom<Found["options"][]>({}, { X86_SGX: "y" }, { X86_SGX: "m", KVM: "y" }),
});

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

const deviceBy = (fields: (typeof fieldLists)[number]): fc.Arbitrary<NfdTerm> =>
  fc.record({
    feature: fc.constant("pci.device"),
    matchExpressions: fc.record(Object.fromEntries(fields.map((field) => [field, identity[field]]))),
  });

const term: fc.Arbitrary<NfdTerm> = fc.oneof(
  elementsOf(
    "cpu.cpuid",
    fc.constantFrom("AVX", "AVX2", "AMXTILE"),
    fc.record({ op: fc.constantFrom("Exists", "DoesNotExist", "") }),
  ),
  elementsOf(
    "kernel.loadedmodule",
    fc.constantFrom("idxd", "xe"),
    fc.record({ op: fc.constantFrom("Exists", "DoesNotExist") }),
  ),
  elementsOf(
    "kernel.config",
    fc.constantFrom("X86_SGX", "KVM"),
    fc.oneof(
      fc.record({ op: fc.constantFrom("Exists", "DoesNotExist") }),
      fc.record({ op: fc.constantFrom("In", "NotIn"), value: fc.constant(["y"]) }),
    ),
  ),
  elementsOf("kernel.version", fc.constant("major"), comparison),
  elementsOf(
    "system.osrelease",
    fc.constant("ID"),
    comparison.filter((it) => !isNumeric(it)),
  ),
  elementsOf("system.osrelease", fc.constant("VERSION_ID"), comparison),
  elementsOf("memory.numa", fc.constant("is_numa"), fc.record({ op: fc.constantFrom("IsTrue", "IsFalse") })),
  fc.constantFrom(...fieldLists).chain(deviceBy),
  fc.record({ feature: fc.constant("cpu.cpuid"), matchName: oneOf("AVX", "AMXTILE") }),
);

const terms = fc.array(term, { minLength: 1, maxLength: 3 });
const rule: fc.Arbitrary<NfdRule> = fc.record(
  {
    name: fc.constant("r"),
    labels: fc.constant({ "site.example/r": "true" }),
    matchFeatures: terms,
    matchAny: fc.array(fc.record({ matchFeatures: terms }), { minLength: 1, maxLength: 2 }),
  },
  { requiredKeys: ["name", "labels"] },
);

/** The labels of Berth on a node that NFD labels: as its worker does, and with the rules that the conversion prints. */
function labelsByBerth(given: NfdRule, found: Found): Readonly<Record<string, string>> {
  const document = { apiVersion: NFD_API_VERSIONS[0], metadata: { name: "n" }, spec: { rules: [given] } };
  const [yaml] = readYaml(JSON.stringify(document)).documents;
  if (yaml === undefined) throw new Error("no document");
  const { rules, faults, features = [] } = convertNodeFeatureRule({ file: "n", document, yaml });
  expect(faults.filter(({ severity }) => severity === "error")).toEqual([]);
  const cluster = Object.fromEntries(rules.map(({ name, spec }) => [name, spec]));
  const converted = rulesOf({ cluster });
  expect(converted.faults).toEqual([]);
  const parsed = features.map((it) => nodeFeatureRule.parse(it));
  const facts = parsed.flatMap(({ spec }) => spec.rules);
  const node = aNode("n")
    .labelled({ ...published(found), ...labelsByRules(facts, found) })
    .annotated({ [NFD_MARK]: "x" })
    .build();
  const seen = { ...node, metadata: { ...node.metadata, uid: "u", resourceVersion: "1" } };
  return labelsOf(settle(seen, converted.labels));
}

it("I-13 a converted rule labels the nodes that Node Feature Discovery would label", () => {
  const seen = { yes: 0, no: 0 };
  fc.assert(
    fc.property(rule, found, (given, node) => {
      const expected = nfdMatches(given, node);
      seen[expected ? "yes" : "no"]++;
      expect(Object.hasOwn(labelsByBerth(given, node), "site.example/r")).toBe(expected);
    }),
    { numRuns: 1000 },
  );
  expect(seen.yes).toBeGreaterThan(50);
  expect(seen.no).toBeGreaterThan(50);
});

it("a label with the number of devices has the number that Node Feature Discovery would give it", () => {
  const template = { name: "r", labelsTemplate: "site.example/count={{ len .pci.device }}" };
  const counted = deviceBy(["vendor", "device"]).filter(({ matchExpressions = {} }) =>
    Object.values(matchExpressions).every(({ value }) => value?.length === 1),
  );
  fc.assert(
    fc.property(counted, found, (device, node) => {
      const given = { ...template, matchFeatures: [device] };
      const expected = Object.values(labelsByRules([given], node))[0];
      expect(labelsByBerth(given, node)["site.example/count"]).toBe(expected);
    }),
  );
});
