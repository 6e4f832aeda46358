import { readFile } from "node:fs/promises";
import path from "node:path";
import { readDocuments } from "@berth/host";
import { describe, expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { documentKinds } from "../kinds.ts";
import { berthWith, type CliResult, itemsOf, testFolder } from "../testing/harness.ts";

const HEAD =
  "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: Site_Rules}\nspec:\n  rules:\n";

const read = (file: string): Promise<string> =>
  readFile(path.join(import.meta.dirname, "testdata", file), "utf8");
const RULES = await read("rules.yaml");
const PUBLISHED = await read("vendors.yaml");
const VALIDATE_RESERVED = (file: string): string =>
  `validate --allow-reserved feature.node.kubernetes.io ${file}`;

/** Converts nfr.yaml with these rules. */
const convert = (words: string, rules: string): Promise<CliResult> =>
  berthWith({ "nfr.yaml": HEAD + rules }, `convert ${words}`);

const namesOf = (items: ReturnType<typeof itemsOf>): readonly string[] =>
  items.map(({ metadata }) => metadata?.name ?? "");

describe("berth convert", () => {
  it("prints LabelRules that pass validate", async () => {
    await using folder = await testFolder({ "nfr.yaml": RULES });
    const { code, stdout, stderr } = await folder.berth("convert nfr.yaml");
    expect([code, stderr]).toEqual([exitCodes.done, ""]);
    expect(stdout).toMatchSnapshot();
    await folder.write("out.yaml", stdout);
    expect((await folder.berth(VALIDATE_RESERVED("out.yaml"))).code).toBe(exitCodes.done);
  });

  it("says what has no equal, each with its place, and prints nothing", async () => {
    const { code, stdout, stderr } = await convert(
      "nfr.yaml",
      `
    - name: a
      labels: {kubernetes.io/os: x, "a b": "true", c: "-"}
      annotations: {x: "1"}
      vars: {x: "1"}
      taints: [{key: t, effect: NoSchedule}]
      extendedResources: {x: "1"}
      matchFeatures: [{feature: kernel.loadedmodule, matchExpressions: {nvme: {op: Exists}}}]
    - name: b
      labelsTemplate: "{{ range .pci.device }}x-{{ .class }}=true{{ end }}"
      matchFeatures: [{feature: rule.matched, matchExpressions: {x: {op: Exists}}}]
    - name: c
      labels: {d: "@system.osrelease.PRETTY_NAME", e: "@cpu.cpuid.AVX", f: "@x"}
      matchFeatures: [{feature: cpu.cpuid}, {feature: cpu.cpuid, matchName: {op: InRegexp, value: ["^AVX"]}}]
`,
    );
    expect([code, stdout]).toEqual([exitCodes.faults, ""]);
    expect(stderr).toMatchInlineSnapshot(`
      "nfr.yaml:13:79: error: NodeFeatureRule Site_Rules, rule "a", not converted: not available as a label: kernel.loadedmodule nvme; vars: a LabelRule has no variables; annotations: a LabelRule sets labels only; extendedResources: a LabelRule sets labels only; taints: a LabelRule sets labels only; label kubernetes.io/os: NFD itself sets no label in this domain; label a b: the name must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\`; label c: the value must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\` (NotConvertible)
      nfr.yaml:16:69: error: NodeFeatureRule Site_Rules, rule "b", not converted: not available as a label: rule.matched x (no converted rule before it in the object sets it); labelsTemplate: a LabelRule has no Go templates: {{ range .pci.device }} (NotConvertible)
      nfr.yaml:19:77: error: NodeFeatureRule Site_Rules, rule "c", not converted: not available as a label: the value of system.osrelease PRETTY_NAME, the value of cpu.cpuid AVX; matchName: a LabelRule looks for labels by name, so only In is converted; label f: @x names no element of a feature (NotConvertible)
      "
    `);
  });

  it("skips on demand, and says in the output what is missing", async () => {
    const { code, stdout, stderr } = await convert(
      "--skip nfr.yaml",
      `
    - {name: one, labels: {a.example/one: "true"}, vars: {v: "1"}, matchFeatures: [{feature: cpu.cpuid, matchExpressions: {AVX: {op: Exists}}}]}
    - {name: "two\\n# three", labels: {two: "true"}, matchFeatures: [{feature: system.name, matchExpressions: {nodename: {op: In, value: [n1]}}}]}
`,
    );
    expect(code).toBe(exitCodes.done);
    expect(stderr.trimEnd().split("\n")).toHaveLength(2);
    expect(stdout).toMatchInlineSnapshot(`
      "# From nfr.yaml:7: NodeFeatureRule Site_Rules, rule "one"
      # Left out:
      #   vars: a LabelRule has no variables
      apiVersion: berth.dev/v1alpha1
      kind: LabelRule
      metadata:
        name: site-rules-one
      spec:
        match:
          all:
            - key: feature.node.kubernetes.io/cpu-cpuid.AVX
        labels:
          - key: a.example/one
      ---
      # Left out, nfr.yaml:8: NodeFeatureRule Site_Rules, rule "two\\n# three":
      #   not available as a label: system.name nodename
      "
    `);
    expect(readDocuments("out", stdout, documentKinds).documents).toHaveLength(1);
  });

  it("tells rules of one name apart, over all files", async () => {
    const rule = `${HEAD}    - {name: x, labels: {a.example/x: "true"}}\n`;
    const files = { "a.yaml": `${rule}---\n${rule}`, "b.yaml": rule };
    const items = itemsOf(await berthWith(files, "convert a.yaml b.yaml -o json"));
    expect(namesOf(items)).toEqual(["site-rules-x", "site-rules-x-2", "site-rules-x-3"]);
  });

  it("reads the list that kubectl prints", async () => {
    const item = { apiVersion: "nfd.k8s-sigs.io/v1alpha1", kind: "NodeFeatureRule", metadata: { name: "n" } };
    const rules = [{ name: "r", labels: { "a.example/r": "true" } }];
    const list = { apiVersion: "v1", kind: "List", items: [{ ...item, spec: { rules } }] };
    const { code, stdout } = await berthWith({ "list.json": JSON.stringify(list) }, "convert list.json");
    expect(code).toBe(exitCodes.done);
    expect(stdout).toContain("name: n-r");
  });

  describe("I-13 rules as vendors publish them", () => {
    async function convertPublished(options: string) {
      await using folder = await testFolder({ "v.yaml": PUBLISHED });
      const converted = await folder.berth(`convert --skip v.yaml -o json${options}`);
      expect(converted.code).toBe(exitCodes.done);
      await folder.write("out.json", converted.stdout);
      expect((await folder.berth(VALIDATE_RESERVED("out.json"))).code).toBe(exitCodes.done);
      const items = itemsOf(converted);
      return { items, names: namesOf(items).map((it) => it.slice("vendors-".length)), ...converted };
    }

    it.each([
      ["", "display guests"],
      [" --device-label-fields vendor", "vendor guests"],
      [" --device-label-fields pci=vendor,device", "model models confidential guests"],
      [" --device-class-whitelist 02,03", "display nic guests"],
    ])("convert with%s: %s", async (options, expected) => {
      expect((await convertPublished(options)).names.join(" ")).toBe(expected);
    });

    it("become conditions on the labels of NFD", async () => {
      const { items } = await convertPublished(" --device-label-fields vendor,device");
      expect(items[2]?.spec).toEqual({
        match: {
          any: ["sev.snp", "tdx"].map((mode) => ({
            all: [
              { key: `feature.node.kubernetes.io/cpu-security.${mode}.enabled` },
              { key: "feature.node.kubernetes.io/pci-10de_2342.present" },
            ],
          })),
        },
        labels: [{ key: "site.example/confidential" }],
      });
    });

    it("say in one line for each rule which feature is not available as a label", async () => {
      const { stderr } = await convertPublished("");
      const said = stderr.replaceAll(/^v.yaml:\d+:\d+: warning: NodeFeatureRule vendors, /gm, "").trimEnd();
      expect(said).toMatchInlineSnapshot(`
        "rule "model", not converted: not available as a label: pci.device by vendor and device (its labels are by class and vendor) (NotConvertible)
        rule "models", not converted: not available as a label: pci.device by vendor and device (its labels are by class and vendor) (NotConvertible)
        rule "confidential", not converted: not available as a label: pci.device by vendor and device (its labels are by class and vendor) (NotConvertible)
        rule "vendor", not converted: not available as a label: pci.device by vendor (its labels are by class and vendor) (NotConvertible)
        rule "nic", not converted: not available as a label: pci.device of class 0200 (NotConvertible)
        rule "guests", converted in part: extendedResources: a LabelRule sets labels only (NotConvertible)
        rule "capacity", not converted: extendedResources: a LabelRule sets labels only; it sets no label that can be converted (NotConvertible)
        rule "driver", not converted: not available as a label: kernel.loadedmodule xe, kernel.enabledmodule xe (NotConvertible)
        rule "enclave", not converted: not available as a label: cpu.cpuid SGX, cpu.cpuid SGXLC, kernel.config X86_SGX (NotConvertible)
        rule "count", not converted: labelsTemplate: a LabelRule has no Go templates: {{ len .pci.device }}; it sets no label that can be converted (NotConvertible)"
      `);
    });

    it("say what the fields of NFD leave open", async () => {
      const { stderr } = await convertPublished(" --device-label-fields vendor");
      expect(stderr).toContain(
        'rule "vendor": NFD labels pci devices only when their class begins with 03, 0b40, 12 (deviceClassWhitelist)',
      );
      expect(stderr).toContain("(ConvertedWithNote)");
    });
  });

  it("I-13 leaves out what is compared with nothing, with a note", async () => {
    const { stdout, stderr } = await convert(
      "--skip nfr.yaml",
      `
    - {name: all, labels: {a.example/all: "true"}, matchFeatures: []}
    - {name: any, labels: {a.example/any: "true"}, matchFeatures: [{feature: kernel.version, matchExpressions: {}}, {feature: cpu.cpuid, matchExpressions: {AVX: {op: Exists}}}]}
    - {name: device, labels: {a.example/device: "true"}, matchFeatures: [{feature: pci.device, matchExpressions: {}}]}
    - {name: unknown, labels: {a.example/unknown: "true"}, matchFeatures: [{feature: vendor.chips}]}
`,
    );
    expect(stdout).toMatchInlineSnapshot(`
      "# From nfr.yaml:7: NodeFeatureRule Site_Rules, rule "all"
      # Note: matchFeatures is empty: it holds on every node
      apiVersion: berth.dev/v1alpha1
      kind: LabelRule
      metadata:
        name: site-rules-all
      spec:
        match:
          all:
            - source: Annotation
              key: nfd.node.kubernetes.io/feature-labels
        labels:
          - key: a.example/all
      ---
      # From nfr.yaml:8: NodeFeatureRule Site_Rules, rule "any"
      # Note: kernel.version is compared with nothing, which holds wherever NFD discovers it: this condition is left out
      apiVersion: berth.dev/v1alpha1
      kind: LabelRule
      metadata:
        name: site-rules-any
      spec:
        match:
          all:
            - key: feature.node.kubernetes.io/cpu-cpuid.AVX
        labels:
          - key: a.example/any
      ---
      # Left out, nfr.yaml:9: NodeFeatureRule Site_Rules, rule "device":
      #   not available as a label: pci.device without a comparison
      ---
      # Left out, nfr.yaml:10: NodeFeatureRule Site_Rules, rule "unknown":
      #   not available as a label: vendor.chips without a comparison
      "
    `);
    expect(stderr.trimEnd().split("\n")).toHaveLength(4);
  });

  it("I-13 notes that two rules want different values of one label", async () => {
    const one = (name: string, flag: string): string =>
      `    - {name: ${name}, labels: {a.example/size: ${name}}, matchFeatures: [{feature: cpu.cpuid, matchExpressions: {${flag}: {op: Exists}}}]}\n`;
    const { code, stderr } = await convert("nfr.yaml", one("small", "AVX") + one("large", "AVX2"));
    expect(code).toBe(exitCodes.done);
    expect(stderr).toContain('rule "large": the rule "small" sets a.example/size to another value');
  });

  it("I-13 sets no label that the rule reads, as NFD already publishes it", async () => {
    const { code, stderr } = await convert(
      "nfr.yaml --device-label-fields vendor --device-class-whitelist 02",
      `    - {name: nic, labels: {pci-15b3.present: "true"}, matchFeatures: [{feature: pci.device, matchExpressions: {vendor: {op: In, value: ["15b3"]}}}]}\n`,
    );
    expect(code).toBe(exitCodes.faults);
    expect(stderr).toContain("reads the label feature.node.kubernetes.io/pci-15b3.present itself");
  });

  it.each([
    ["kind: Deployment\n", "1:7"],
    [`${HEAD}    - {name: x, lables: {}}\n`, "6:17"],
    [`${HEAD}    - {name: x, matchFeatures: [{feature: f, matchExpressions: {a: {op: Equals}}}]}\n`, "6:73"],
    ["a: [\n", "2:1"],
  ])("refuses what is no NodeFeatureRule: %j", async (text, place) => {
    const { code, stderr } = await berthWith({ "x.yaml": text }, "convert --skip x.yaml");
    expect(stderr).toContain(`x.yaml:${place}: error`);
    expect(code).toBe(exitCodes.faults);
  });

  it("converts a folder of label rules, one rule for each file", async () => {
    const many = Array.from({ length: 40 }, (_, at) => `example.com/d${at}`).join("\n");
    await using folder = await testFolder({
      "labels/accelerators/edgetpu": "example.com/usb\nexample.com/pci\n",
      "labels/accelerators/many": many,
      "labels/Upper_Case/x": "y\n",
      "labels/accelerators/none": "",
    });
    const failed = await folder.berth("convert labels");
    expect([failed.code, failed.stdout]).toEqual([exitCodes.faults, ""]);
    expect(failed.stderr).toContain("labels/accelerators/none: error");
    const converted = await folder.berth("convert --skip labels -o json");
    expect(converted.code).toBe(exitCodes.done);
    const items = itemsOf(converted);
    expect(items).toHaveLength(2);
    expect(items[0]).toEqual({
      apiVersion: "berth.dev/v1alpha1",
      kind: "LabelRule",
      metadata: { name: "accelerators-edgetpu" },
      spec: {
        match: { any: [{ key: "example.com/usb" }, { key: "example.com/pci" }] },
        labels: [{ key: "accelerators/edgetpu" }],
        overwrite: true,
        removalDelay: "0s",
        breaker: { percent: 100, nodes: 10 },
      },
    });
    await folder.write("out.json", converted.stdout);
    expect((await folder.berth("validate out.json")).code).toBe(exitCodes.done);
  });
});
