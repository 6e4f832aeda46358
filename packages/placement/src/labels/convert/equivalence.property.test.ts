/**
 * What a converted rule does on a node is what Node Feature Discovery would have done: its own evaluation, written down
 * here from its documentation, against ours, on nodes with the labels that its worker publishes.
 */

import { readYaml } from "@berth/host";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { labelsOf, settle } from "../../node/testing/labels.ts";
import { type Device, type Found, nfdMatches, published } from "../testing/nfd-reference.ts";
import { rulesOf } from "../testing/rule-set.ts";
import { toDeviceConfig } from "./device-options.ts";
import { NFD_MARK } from "./nfd-labels.ts";
import type { NfdExpression, NfdRule, NfdTerm } from "./nfd-schema.ts";
import { convertNodeFeatureRule } from "./node-feature-rule.ts";

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

/** Does the converted rule label a node with these labels? */
function berthMatches(given: NfdRule, fields: Fields, nodeLabels: Readonly<Record<string, string>>): boolean {
  const document = { metadata: { name: "n" }, spec: { rules: [given] } };
  const [yaml] = readYaml(JSON.stringify(document)).documents;
  if (yaml === undefined) throw new Error("no document");
  const devices = toDeviceConfig({ deviceLabelFields: [fields.join()] });
  const { rules, faults } = convertNodeFeatureRule({ file: "n", document, yaml, devices });
  expect(faults.filter(({ severity }) => severity === "error")).toEqual([]);
  const cluster = Object.fromEntries(rules.map(({ name, spec }) => [name, spec]));
  const converted = rulesOf({ cluster });
  expect(converted.faults).toEqual([]);
  const node = aNode("n")
    .labelled(nodeLabels)
    .annotated({ [NFD_MARK]: "x" })
    .build();
  const seen = { ...node, metadata: { ...node.metadata, uid: "u", resourceVersion: "1" } };
  return Object.hasOwn(labelsOf(settle(seen, converted.labels)), "site.example/r");
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
