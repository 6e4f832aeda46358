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

const LOOP = "{{ range .system.osrelease }}a.example/os-{{ .Name }}.x={{ .Value }}\n{{ end }}";
const os = {
  feature: "system.osrelease",
  matchExpressions: { ID: { op: "InRegexp", value: ["^open"] }, "VERSION_ID.major": { op: "Exists" } },
  matchName: { op: "In", value: ["VERSION_ID", "ID"] },
} as const;
const copied = (name: string) => ({
  key: `a.example/os-${name}.x`,
  valueFrom: { key: `feature.node.kubernetes.io/system-os_release.${name}` },
});

it("a loop of a template copies the elements that its condition names, each once", () => {
  expect(convert({ labelsTemplate: `a.example/y=1\n${LOOP}a.example/z`, matchFeatures: [os, gpu] })).toEqual({
    labels: [
      { key: "a.example/y", value: "1" },
      ...["ID", "VERSION_ID.major", "VERSION_ID"].map(copied),
      { key: "a.example/z" },
    ],
    errors: [],
  });
});

it.each<readonly [string, Omit<NfdRule, "name">]>([
  ["an alternative", { labelsTemplate: LOOP, matchFeatures: [os], matchAny: [{ matchFeatures: [os] }] }],
  ["two conditions on its feature", { labelsTemplate: LOOP, matchFeatures: [os, os] }],
  ["no condition on its feature", { labelsTemplate: LOOP, matchFeatures: [gpu] }],
  [
    "its feature in another case, which NFD does not find",
    { labelsTemplate: LOOP, matchFeatures: [{ ...os, feature: "system.osRelease" }] },
  ],
  ...(["DoesNotExist", ""] as const).map((op): [string, Omit<NfdRule, "name">] => [
    `the operator ${JSON.stringify(op)}`,
    { labelsTemplate: LOOP, matchFeatures: [{ ...os, matchExpressions: { VERSION_ID: { op } } }] },
  ]),
  [
    "no element that its condition names",
    {
      labelsTemplate: LOOP,
      matchFeatures: [{ feature: os.feature, matchName: { op: "NotIn", value: ["ID"] } }],
    },
  ],
  ["labels in one line", { labelsTemplate: LOOP.replace("\n", ""), matchFeatures: [os] }],
  ["another action", { labelsTemplate: LOOP.replace(".Value", ".Value | trim"), matchFeatures: [os] }],
])("a loop of a template is left out with %s", (_, rule) => {
  const { labels, errors } = convert({ ...rule, labels: { "a.example/x": "true" } });
  expect(errors.join()).toContain("a LabelRule has no Go templates: {{ range .");
  expect(labels?.map(({ key }) => key) ?? []).not.toContain("a.example/os-ID.x");
});

it("a loop makes no label of a flag, which has no value", () => {
  const labelsTemplate = "{{ range .cpu.cpuid }}a.example/{{ .Name }}={{ .Value }}\n{{ end }}";
  const matchFeatures = [{ feature: "cpu.cpuid", matchExpressions: { AVX2: { op: "Exists" } } }] as const;
  const { labels, errors } = convert({ labelsTemplate, matchFeatures });
  expect(labels).toBeUndefined();
  expect(errors.join()).toContain("not available as a label: the value of cpu.cpuid AVX2");
});
