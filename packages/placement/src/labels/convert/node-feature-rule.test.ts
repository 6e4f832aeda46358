import { readYaml } from "@berth/host";
import { expect, it } from "vitest";
import { NFD_API_VERSIONS, type NfdRule } from "./nfd-schema.ts";
import { convertNodeFeatureRule } from "./node-feature-rule.ts";

const gpu = { feature: "pci.device", matchExpressions: { vendor: { op: "In", value: ["10de"] } } } as const;
const COUNT = "a.example/count={{ len .pci.device }}";

/** The labels of the converted rule, and what is left out. */
function convert(rule: Omit<NfdRule, "name">) {
  const rules = [{ name: "r", ...rule }];
  const document = { apiVersion: NFD_API_VERSIONS[0], metadata: { name: "n" }, spec: { rules } };
  const [yaml] = readYaml(JSON.stringify(document)).documents;
  if (yaml === undefined) throw new Error("no document");
  const { rules: converted, faults } = convertNodeFeatureRule({ file: "n", document, yaml });
  const errors = faults.filter(({ severity }) => severity === "error");
  return { labels: converted[0]?.spec.labels, errors: errors.map(({ message }) => message) };
}

it("a template may have the number of devices of one kind, beside labels without actions", () => {
  const labelsTemplate = `  ${COUNT}  \n\na.example/gpu\na.example/kind=x\n`;
  expect(convert({ labelsTemplate, matchFeatures: [gpu] })).toEqual({
    labels: [
      { key: "a.example/count", valueFrom: { key: "feature.node.kubernetes.io/pci-10de.count" } },
      { key: "a.example/gpu" },
      { key: "a.example/kind", value: "x" },
    ],
    errors: [],
  });
});

it.each<readonly [string, Omit<NfdRule, "name">]>([
  ["an alternative", { labelsTemplate: COUNT, matchFeatures: [gpu], matchAny: [{ matchFeatures: [gpu] }] }],
  ["two conditions on devices", { labelsTemplate: COUNT, matchFeatures: [gpu, gpu] }],
  [
    "a condition on names",
    { labelsTemplate: COUNT, matchFeatures: [{ ...gpu, matchName: { op: "In", value: ["vendor"] } }] },
  ],
  ["no comparison", { labelsTemplate: COUNT, matchFeatures: [{ feature: "pci.device" }] }],
  ["devices of another source", { labelsTemplate: COUNT.replace("pci", "usb"), matchFeatures: [gpu] }],
  [
    "devices of two kinds",
    {
      labelsTemplate: COUNT,
      matchFeatures: [{ ...gpu, matchExpressions: { vendor: { op: "In", value: ["10de", "1002"] } } }],
    },
  ],
  ["a name that no label can have", { labelsTemplate: COUNT.replace("count", "a b"), matchFeatures: [gpu] }],
])("a template is left out with %s", (_, rule) => {
  const { labels, errors } = convert({ ...rule, labels: { "a.example/x": "true" } });
  expect(errors.join()).toContain("a LabelRule has no Go templates: {{ len .");
  expect(labels?.map(({ key }) => key) ?? []).not.toContain("a.example/count");
});
