import { readFile } from "node:fs/promises";
import path from "node:path";
import { readDocuments } from "@berth/host";
import { nodeFeatureRule } from "@berth/placement";
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
    const { code, stdout } = await folder.berth("convert nfr.yaml");
    expect(code).toBe(exitCodes.done);
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
      vars: {"x y": "1"}
      taints: [{key: t, effect: NoSchedule}]
      extendedResources: {x: "1"}
      matchFeatures: [{feature: vendor.chips, matchExpressions: {nvme: {op: Exists}}}]
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
      "nfr.yaml:13:72: error: NodeFeatureRule Site_Rules, rule "a", not converted: not available as a label: vendor.chips nvme; annotations: a LabelRule sets labels only; keep this part in a NodeFeatureRule; extendedResources: a LabelRule sets labels only; keep this part in a NodeFeatureRule; taints: a LabelRule sets labels only; keep this part in a NodeFeatureRule; label kubernetes.io/os: NFD itself sets no label in this domain; label a b: the name must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\`; label c: the value must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\`; label feature.node.kubernetes.io/vars.x y: the name must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\` (NotConvertible)
      nfr.yaml:16:69: error: NodeFeatureRule Site_Rules, rule "b", not converted: not available as a label: rule.matched x (no converted rule before it in the object sets it); labelsTemplate: a LabelRule has no Go templates: {{ range .pci.device }}; keep this part in a NodeFeatureRule (NotConvertible)
      nfr.yaml:19:77: error: NodeFeatureRule Site_Rules, rule "c", not converted: not available as a label: the value of cpu.cpuid AVX; matchName: a LabelRule looks for labels by name, so only In is converted; label f: @x names no element of a feature (NotConvertible)
      "
    `);
  });

  it("skips on demand, and says in the output what is missing", async () => {
    const { code, stdout, stderr } = await convert(
      "--skip nfr.yaml",
      `
    - {name: one, labels: {a.example/one: "true"}, taints: [{key: t, effect: NoSchedule}], matchFeatures: [{feature: cpu.cpuid, matchExpressions: {AVX: {op: Exists}}}]}
    - {name: "two\\n# three", labels: {two: "true"}, matchFeatures: [{feature: vendor.chips, matchExpressions: {x: {op: In, value: [n1]}}}]}
`,
    );
    expect(code).toBe(exitCodes.done);
    expect(stderr.trimEnd().split("\n")).toHaveLength(2);
    expect(stdout).toMatchInlineSnapshot(`
      "# From nfr.yaml:7: NodeFeatureRule Site_Rules, rule "one"
      # Left out:
      #   taints: a LabelRule sets labels only; keep this part in a NodeFeatureRule
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
      #   not available as a label: vendor.chips x
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
    async function convertPublished(words: string) {
      await using folder = await testFolder({ "v.yaml": PUBLISHED });
      const converted = await folder.berth(`convert --skip v.yaml -o json ${words}`.trim());
      expect(converted.code).toBe(exitCodes.done);
      return converted;
    }

    it("25 of 31 become LabelRules that pass validate", async () => {
      const converted = await convertPublished("");
      const items = itemsOf(converted);
      expect(namesOf(items)).toHaveLength(25);
      const validated = await berthWith({ "out.json": converted.stdout }, VALIDATE_RESERVED("out.json"));
      expect(validated.code).toBe(exitCodes.done);
      expect(items.find(({ metadata }) => metadata?.name === "intel-devices-qat")?.spec).toEqual({
        match: {
          all: [
            {
              any: ["37c8", "4940", "4942", "4944", "4946"].map((device) => ({
                key: `feature.node.kubernetes.io/pci-0b40_8086_${device}.present`,
              })),
            },
            { key: "feature.node.kubernetes.io/kernel.loadedmodule.intel_qat" },
          ],
          any: [
            { key: "feature.node.kubernetes.io/kernel.loadedmodule.vfio_pci" },
            { key: "feature.node.kubernetes.io/kernel.enabledmodule.vfio-pci" },
          ],
        },
        labels: [{ key: "site.example/qat" }],
      });
    });

    it("of the rest one line for each rule says why, and what to do", async () => {
      const { stderr } = await convertPublished("");
      const said = stderr.split("\n").filter((line) => line.endsWith("(NotConvertible)"));
      expect(
        said.map((line) => line.replace(/^v.yaml:\d+:\d+: warning: NodeFeatureRule /, "")).join("\n"),
      ).toMatchInlineSnapshot(`
        "nvidia, rule "tdx-keys", not converted: extendedResources: a LabelRule sets labels only; keep this part in a NodeFeatureRule; it sets no label that can be converted (NotConvertible)
        nvidia, rule "sev-capacity", not converted: extendedResources: a LabelRule sets labels only; keep this part in a NodeFeatureRule; it sets no label that can be converted (NotConvertible)
        intel-devices, rule "sgx", converted in part: extendedResources: a LabelRule sets labels only; keep this part in a NodeFeatureRule (NotConvertible)
        intel-gpus, rule "fractions", not converted: extendedResources: a LabelRule sets labels only; keep this part in a NodeFeatureRule; it sets no label that can be converted (NotConvertible)
        intel-gpus, rule "device-ids", not converted: labelsTemplate: a LabelRule has no Go templates: {{ range .pci.device }}; keep this part in a NodeFeatureRule; it sets no label that can be converted (NotConvertible)
        intel-gpus, rule "count-300", not converted: labelsTemplate: a LabelRule has no Go templates: {{ (index .pci.device 0).device }}; keep this part in a NodeFeatureRule; it sets no label that can be converted (NotConvertible)
        intel-gpus, rule "count-380", not converted: labelsTemplate: a LabelRule has no Go templates: {{ (index .pci.device 0).device }}; keep this part in a NodeFeatureRule; it sets no label that can be converted (NotConvertible)"
      `);
    });

    it("read labels that NFD publishes with the rules of --features, each beside its original", async () => {
      const converted = await convertPublished("--features");
      expect(converted.stderr).toContain(
        'rule "dsa": it reads labels that NFD publishes with the NodeFeatureRule intel-devices-features, which `berth convert --features` prints',
      );
      const items = itemsOf(converted);
      expect(items.map(({ metadata }) => metadata)).toEqual([
        { name: "nvidia-features" },
        { name: "intel-devices-features" },
        { name: "intel-gpus-features" },
        { name: "intel-openshift-features", namespace: "openshift-nfd" },
      ]);
      const rules = items.map((item) => nodeFeatureRule.parse(item).spec.rules.map(({ name }) => name));
      expect(rules[0]).toEqual(
        ["2339", "2331", "2330", "2324", "2322"].map((device) => `pci-10de_${device}.present`),
      );
    });

    it("have their rules of --features converted to nothing, as NFD publishes these labels", async () => {
      const { stdout } = await convertPublished("--features");
      const again = await berthWith({ "f.json": stdout }, "convert --skip -o json f.json");
      expect(itemsOf(again)).toEqual([]);
    });
  });

  it("prints --features as YAML, and nothing when the rules read what NFD publishes", async () => {
    const rule = (feature: string, element: string): string =>
      `    - {name: x, labels: {a.example/x: "true"}, matchFeatures: [{feature: ${feature}, matchExpressions: {${element}: {op: Exists}}}]}\n`;
    const none = await convert("--features nfr.yaml", rule("cpu.cpuid", "AVX"));
    expect([none.code, none.stdout, none.stderr]).toEqual([exitCodes.done, "", ""]);
    expect(
      (await convert("--features nfr.yaml", rule("kernel.loadedmodule", "xe"))).stdout,
    ).toMatchInlineSnapshot(`
      "apiVersion: nfd.k8s-sigs.io/v1alpha1
      kind: NodeFeatureRule
      metadata:
        name: site-rules-features
      spec:
        rules:
          - name: kernel.loadedmodule xe
            labels:
              kernel.loadedmodule.xe: "true"
            matchFeatures:
              - feature: kernel.loadedmodule
                matchExpressions:
                  xe:
                    op: Exists
      "
    `);
  });

  it("prints --features of what is converted, and says what is not", async () => {
    const rules = `
    - {name: whole, labels: {a.example/x: "true"}, matchFeatures: [{feature: kernel.loadedmodule, matchExpressions: {xe: {op: Exists}}}]}
    - {name: none, labels: {a.example/y: "true"}, matchFeatures: [{feature: vendor.chips, matchExpressions: {x: {op: Exists}}}]}
`;
    const { code, stdout, stderr } = await convert("--features nfr.yaml", rules);
    expect(code).toBe(exitCodes.faults);
    expect(stdout).toContain("kernel.loadedmodule xe");
    expect(stderr).toContain('rule "none", not converted: not available as a label: vendor.chips x');
    const unread = await berthWith(
      { "x.yaml": `${HEAD}${rules}---\nkind: Pod\n` },
      "convert --features x.yaml",
    );
    expect([unread.code, unread.stdout]).toEqual([exitCodes.faults, ""]);
  });

  it("reads variables of earlier rules as labels", async () => {
    const { code, stdout } = await convert(
      "nfr.yaml -o json",
      `
    - {name: one, vars: {tier: gold}, matchFeatures: [{feature: cpu.cpuid, matchExpressions: {AVX: {op: Exists}}}]}
    - {name: two, labels: {a.example/gold: "true"}, matchFeatures: [{feature: rule.matched, matchExpressions: {tier: {op: In, value: [gold]}}}]}
`,
    );
    expect(code).toBe(exitCodes.done);
    const key = "feature.node.kubernetes.io/vars.tier";
    expect(itemsOf({ stdout } as CliResult).map(({ spec }) => spec)).toEqual([
      {
        match: { all: [{ key: "feature.node.kubernetes.io/cpu-cpuid.AVX" }] },
        labels: [{ key, value: "gold" }],
      },
      {
        match: { all: [{ key, operator: "In", values: ["gold"] }] },
        labels: [{ key: "a.example/gold" }],
      },
    ]);
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
      "nfr.yaml",
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
    const keys = (length: number) => Array.from({ length }, (_, at) => `example.com/d${at}`).join("\n");
    await using folder = await testFolder({
      "labels/accelerators/edgetpu": "example.com/usb\nexample.com/pci\n",
      "labels/accelerators/many": keys(40),
      "labels/accelerators/too-many": keys(32_769),
      "labels/Upper_Case/x": "y\n",
      "labels/accelerators/none": "",
    });
    const failed = await folder.berth("convert labels");
    expect([failed.code, failed.stdout]).toEqual([exitCodes.faults, ""]);
    expect(failed.stderr).toContain("labels/accelerators/none: error: the file names no label key");
    expect(failed.stderr).toContain("names 32769 label keys, and a LabelRule holds 32768: split the file");
    expect(failed.stderr.split("\n")).toHaveLength(4);
    const { stdout } = await folder.berth("convert --skip labels");
    expect(stdout).toContain("# Left out, labels/accelerators/none:\n#   the file names no label key");
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
