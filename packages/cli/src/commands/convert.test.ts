import { describe, expect, it } from "vitest";
import { readDocuments } from "../config/documents.ts";
import { exitCodes } from "../exit-codes.ts";
import { cli, testFolder } from "../testing/harness.ts";

const HEAD =
  "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: Site_Rules}\nspec:\n  rules:\n";

const RULES = `${HEAD}
    - name: "fast vectors"
      labels:
        vectors: "true"
        site.example/family: "@cpu.model.family"
        site.example/tier: gold
      matchFeatures:
        - feature: cpu.cpuid
          matchExpressions:
            AVX512F: {op: Exists}
            AMXTILE: {op: DoesNotExist}
        - feature: kernel.version
          matchExpressions:
            major: {op: Ge, value: ["6"]}
    - name: accelerator
      labelsTemplate: |
        site.example/accelerator
        site.example/kind=gpu
      matchFeatures:
        - feature: rule.matched
          matchExpressions: {vectors: {op: IsTrue}}
      matchAny:
        - matchFeatures:
            - feature: pci.device
              matchExpressions:
                class: {op: In, value: ["0300", "0302"]}
                vendor: {op: In, value: ["10de"]}
        - matchFeatures:
            - feature: cpu.cpuid
              matchName: {op: In, value: [AMXTILE, AMXINT8]}
            - feature: system.osrelease
              matchExpressions: {ID: {op: NotIn, value: [windows]}}
    - name: every node
      labels: {seen: "true"}
`;

describe("berth convert", () => {
  it("prints LabelRules that pass validate", async () => {
    await using folder = await testFolder({ "nfr.yaml": RULES });
    const { code, stdout, stderr } = await cli(["convert", "nfr.yaml"], { folder: folder.path });
    expect([code, stderr]).toEqual([exitCodes.done, ""]);
    expect(stdout).toMatchSnapshot();
    await folder.write("out.yaml", stdout);
    const validated = await cli(["validate", "--allow-reserved", "feature.node.kubernetes.io", "out.yaml"], {
      folder: folder.path,
    });
    expect(validated.code).toBe(exitCodes.done);
  });

  it("says what has no equal, each with its place, and prints nothing", async () => {
    await using folder = await testFolder({
      "nfr.yaml": `${HEAD}
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
    });
    const { code, stdout, stderr } = await cli(["convert", "nfr.yaml"], { folder: folder.path });
    expect([code, stdout]).toEqual([exitCodes.faults, ""]);
    expect(stderr).toMatchInlineSnapshot(`
      "nfr.yaml:8:34: error: spec.rules.0.labels.kubernetes.io/os: NFD itself sets no label in this domain (NotConvertible)
      nfr.yaml:8:44: error: spec.rules.0.labels.a b: the name must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\` (NotConvertible)
      nfr.yaml:8:55: error: spec.rules.0.labels.c: the value must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\` (NotConvertible)
      nfr.yaml:9:20: error: spec.rules.0.annotations: a LabelRule sets labels only (NotConvertible)
      nfr.yaml:10:13: error: spec.rules.0.vars: a LabelRule has no variables (NotConvertible)
      nfr.yaml:11:15: error: spec.rules.0.taints: a LabelRule sets labels only (NotConvertible)
      nfr.yaml:12:26: error: spec.rules.0.extendedResources: a LabelRule sets labels only (NotConvertible)
      nfr.yaml:13:79: error: spec.rules.0.matchFeatures.0.matchExpressions.nvme: NFD publishes no label for kernel.loadedmodule nvme by default (NotConvertible)
      nfr.yaml:15:23: error: spec.rules.1.labelsTemplate: labels that a Go template makes have no equal in a LabelRule (NotConvertible)
      nfr.yaml:16:69: error: spec.rules.1.matchFeatures.0.matchExpressions.x: x is no label of an earlier rule of this object that was converted (NotConvertible)
      nfr.yaml:18:19: error: spec.rules.2.labels.d: NFD publishes no label for system.osrelease PRETTY_NAME by default (NotConvertible)
      nfr.yaml:18:55: error: spec.rules.2.labels.e: the label feature.node.kubernetes.io/cpu-cpuid.AVX does not hold the value of cpu.cpuid AVX (NotConvertible)
      nfr.yaml:18:76: error: spec.rules.2.labels.f: @x names no element of a feature (NotConvertible)
      nfr.yaml:19:23: error: spec.rules.2.matchFeatures.0: cpu.cpuid is compared with nothing (NotConvertible)
      nfr.yaml:19:77: error: spec.rules.2.matchFeatures.1.matchName: a LabelRule looks for labels by name, so only In is converted (NotConvertible)
      "
    `);
  });

  it("skips on demand, and says in the output what is missing", async () => {
    await using folder = await testFolder({
      "nfr.yaml": `${HEAD}
    - {name: one, labels: {a.example/one: "true"}, vars: {v: "1"}, matchFeatures: [{feature: cpu.cpuid, matchExpressions: {AVX: {op: Exists}}}]}
    - {name: "two\\n# three", labels: {two: "true"}, matchFeatures: [{feature: system.name, matchExpressions: {nodename: {op: In, value: [n1]}}}]}
`,
    });
    const { code, stdout, stderr } = await cli(["convert", "--skip", "nfr.yaml"], { folder: folder.path });
    expect(code).toBe(exitCodes.done);
    expect(stderr.trimEnd().split("\n")).toHaveLength(2);
    expect(stdout).toMatchInlineSnapshot(`
      "# From nfr.yaml:7: NodeFeatureRule Site_Rules, rule "one"
      # Left out:
      #   a LabelRule has no variables
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
      #   NFD publishes no label for system.name nodename by default
      "
    `);
    expect(readDocuments("out", stdout).documents).toHaveLength(1);
  });

  it("tells rules of one name apart, over all files", async () => {
    const rule = `${HEAD}    - {name: x, labels: {a.example/x: "true"}}\n`;
    await using folder = await testFolder({ "a.yaml": `${rule}---\n${rule}`, "b.yaml": rule });
    const { stdout } = await cli(["convert", "a.yaml", "b.yaml", "-o", "json"], { folder: folder.path });
    const { items } = JSON.parse(stdout) as {
      readonly items: readonly { readonly metadata: { name: string } }[];
    };
    expect(items.map(({ metadata }) => metadata.name)).toEqual([
      "site-rules-x",
      "site-rules-x-2",
      "site-rules-x-3",
    ]);
  });

  it("reads the list that kubectl prints", async () => {
    const item = { apiVersion: "nfd.k8s-sigs.io/v1alpha1", kind: "NodeFeatureRule", metadata: { name: "n" } };
    const rules = [{ name: "r", labels: { "a.example/r": "true" } }];
    const list = { apiVersion: "v1", kind: "List", items: [{ ...item, spec: { rules } }] };
    await using folder = await testFolder({ "list.json": JSON.stringify(list) });
    const { code, stdout } = await cli(["convert", "list.json"], { folder: folder.path });
    expect(code).toBe(exitCodes.done);
    expect(stdout).toContain("name: n-r");
  });

  it.each([
    ["kind: Deployment\n", "1:7"],
    [`${HEAD}    - {name: x, lables: {}}\n`, "6:17"],
    [`${HEAD}    - {name: x, matchFeatures: [{feature: f, matchExpressions: {a: {op: Equals}}}]}\n`, "6:73"],
    ["a: [\n", "2:1"],
  ])("refuses what is no NodeFeatureRule: %j", async (text, place) => {
    await using folder = await testFolder({ "x.yaml": text });
    const { code, stderr } = await cli(["convert", "--skip", "x.yaml"], { folder: folder.path });
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
    const failed = await cli(["convert", "labels"], { folder: folder.path });
    expect([failed.code, failed.stdout]).toEqual([exitCodes.faults, ""]);
    expect(failed.stderr).toContain("labels/accelerators/none: error");
    const { code, stdout } = await cli(["convert", "--skip", "labels", "-o", "json"], {
      folder: folder.path,
    });
    expect(code).toBe(exitCodes.done);
    const { items } = JSON.parse(stdout) as { readonly items: readonly { readonly spec: object }[] };
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
    await folder.write("out.json", stdout);
    expect((await cli(["validate", "out.json"], { folder: folder.path })).code).toBe(exitCodes.done);
  });
});
