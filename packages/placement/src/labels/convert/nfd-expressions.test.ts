import { describe, expect, it } from "vitest";
import type { MatchTerm, Operator } from "../document.ts";
import { convertDevice as convertDeviceTerm, countLabel } from "./nfd-devices.ts";
import { convertExpression, type Problem, seenByNfd } from "./nfd-expressions.ts";
import { labelOfElement, type PublishedFact } from "./nfd-labels.ts";
import type { NfdExpression } from "./nfd-schema.ts";

const DOMAIN = "feature.node.kubernetes.io";

type Result = readonly MatchTerm[] | Problem;

function convert(feature: string, element: string, op: NfdExpression["op"], ...value: string[]): Result {
  const converted = convertExpression(labelOfElement(feature, element), { op, value });
  return "terms" in converted ? converted.terms : converted.problem;
}

function convertDevice(feature: string, expressions: Record<string, NfdExpression>) {
  const published: PublishedFact[] = [];
  const converted = convertDeviceTerm(feature, expressions, { publish: (fact) => published.push(fact) });
  return { terms: "terms" in converted ? converted.terms : converted.problem, published };
}

describe("a comparison with an element", () => {
  const key = `${DOMAIN}/kernel-version.major`;
  const is = (operator: Operator, ...values: string[]): MatchTerm => ({ key, operator, values });
  it.each([
    ["", [], []],
    ["Exists", [], [{ key }]],
    ["DoesNotExist", [], [{ key, operator: "DoesNotExist" }, seenByNfd]],
    ["In", ["5", "6"], [is("In", "5", "6")]],
    ["NotIn", ["5"], [{ key }, is("NotIn", "5")]],
    ["InRegexp", ["^5"], [is("Matches", "^5")]],
    ["InRegexp", ["^5", "6$"], [is("Matches", "(?:^5)|(?:6$)")]],
    ["Gt", ["4"], [is("Gt", "4")]],
    ["Le", ["-4"], [is("Le", "-4")]],
    ["GtLt", ["4", "7"], [is("Gt", "4"), is("Lt", "7")]],
    ["GeLe", ["4", "7"], [is("Ge", "4"), is("Le", "7")]],
    ["IsTrue", [], [is("In", "true")]],
    ["IsFalse", [], [is("In", "false")]],
  ] as const)("%s %j", (op, value, terms) => {
    expect(convert("kernel.version", "major", op, ...value)).toEqual(terms);
  });

  it("compares versions where it is told to", () => {
    const label = labelOfElement("system.osRelease", "VERSION_ID");
    const version = `${DOMAIN}/system-os_release.VERSION_ID`;
    expect(convertExpression(label, { op: "Ge", value: ["22.04"], type: "version" })).toEqual({
      terms: [{ key: version, operator: "Ge", values: ["22.04"], compareAs: "Version" }],
    });
  });

  it("I-13 compares whole numbers only, as NFD does", () => {
    const version = `${DOMAIN}/system-os_release.VERSION_ID`;
    expect(convert("system.osRelease", "VERSION_ID", "Gt", "9")).toEqual([
      { key: version, operator: "Matches", values: ["^[-+]?[0-9]+$"] },
      { key: version, operator: "Gt", values: ["9"] },
    ]);
  });

  it.each(["In", "NotIn"] as const)("%s a value that no label can hold is refused", (op) => {
    expect(convert("system.dmiid", "sys_vendor", op, "Acme", "Dell Inc.")).toContain('"Dell Inc."');
    expect(convert("system.dmiid", "sys_vendor", op, "Acme")).toBeTypeOf("object");
  });

  it.each([
    ["Exists", ["x"]],
    ["In", []],
    ["Gt", []],
    ["Gt", ["5", "6"]],
    ["GtLt", ["5"]],
    ["Lt", ["5.4"]],
    ["Ge", ["many"]],
  ] as const)("is refused where NFD refuses it: %s %j", (op, value) => {
    expect(convert("kernel.version", "major", op, ...value)).toBeTypeOf("string");
  });
});

describe("an element on a label", () => {
  it.each([
    ["cpu.cpuid", "AVX512F", "cpu-cpuid.AVX512F"],
    ["CPU.CPUID", "AVX10_VERSION", "cpu-cpuid.AVX10_VERSION"],
    ["cpu.security", "sgx.enabled", "cpu-security.sgx.enabled"],
    ["cpu.sst", "bf.enabled", "cpu-power.sst_bf.enabled"],
    ["kernel.version", "full", "kernel-version.full"],
    ["system.osrelease", "VERSION_ID.major", "system-os_release.VERSION_ID.major"],
    ["local.feature", "rack", "rack"],
  ])("%s %s", (feature, element, name) => {
    expect(convert(feature, element, "Exists")).toEqual([{ key: `${DOMAIN}/${name}` }]);
  });

  it("keeps the domain of a local label", () => {
    expect(convert("local.label", "vendor.example/rack", "Exists")).toEqual([{ key: "vendor.example/rack" }]);
  });

  it.each([
    ["cpu.cpuid", "SSE42", "true"],
    ["kernel.loadedmodule", "nvme", "true"],
    ["Kernel.EnabledModule", "nvme", "true"],
    ["kernel.config", "KVM", "@kernel.config.KVM"],
    ["cpu.security", "sgx.epc", "@cpu.security.sgx.epc"],
    ["cpu.rdt", "RDTMON", "@cpu.rdt.RDTMON"],
    ["memory.numa", "node_count", "@memory.numa.node_count"],
    ["system.dmiid", "sys_vendor", "@system.dmiid.sys_vendor"],
  ])("%s %s is on a label of a rule for NFD", (feature, element, value) => {
    const name = `${feature.toLowerCase()}.${element}`;
    expect(labelOfElement(feature, element)).toMatchObject({
      key: `${DOMAIN}/${name}`,
      fact: {
        rule: {
          labels: { [name]: value },
          matchFeatures: [
            { feature: feature.toLowerCase(), matchExpressions: { [element]: { op: "Exists" } } },
          ],
        },
      },
    });
  });

  it.each([
    ["vendor.chips", "x"],
    ["kernel.config", "a b"],
    ["kernel.loadedmodule", "m".repeat(60)],
  ])("%s %s is on none", (feature, element) => {
    expect(convert(feature, element, "Exists")).toEqual({ unavailable: `${feature} ${element}` });
  });

  it.each(["In", "NotIn", "InRegexp", "Gt"] as const)("a flag has no value for %s", (op) => {
    expect(convert("cpu.cpuid", "AVX", op, "1")).toContain("flag");
  });
});

describe("an element whose label tells one value", () => {
  const key = `${DOMAIN}/memory-numa`;
  const on = [{ key, operator: "In", values: ["true"] }];
  const off = [{ key, operator: "NotIn", values: ["true"] }, seenByNfd];
  it.each([
    ["IsTrue", [], on],
    ["In", ["true"], on],
    ["NotIn", ["false"], on],
    ["IsFalse", [], off],
    ["In", ["false"], off],
    ["NotIn", ["true"], off],
  ] as const)("%s %j", (op, value, terms) => {
    expect(convert("memory.numa", "is_numa", op, ...value)).toEqual(terms);
  });

  it.each([
    ["Exists", []],
    ["In", ["true", "false"]],
    ["InRegexp", ["t"]],
  ] as const)("%s %j is refused", (op, value) => {
    expect(convert("memory.numa", "is_numa", op, ...value)).toContain("only tells");
  });

  it("an option of the kernel is there when it is on", () => {
    const preempt = `${DOMAIN}/kernel-config.PREEMPT`;
    const set = [{ key: preempt, operator: "In", values: ["true"] }];
    expect(convert("kernel.config", "PREEMPT", "Exists")).toEqual(set);
    expect(convert("kernel.config", "PREEMPT", "In", "y", "m")).toEqual(set);
    expect(convert("kernel.config", "PREEMPT", "In", "n")).toContain("only tells");
  });
});

describe("a device", () => {
  const isOneOf = (...value: string[]): NfdExpression => ({ op: "In", value });

  it.each([
    ["class and vendor", "pci.device", { vendor: isOneOf("10de"), class: isOneOf("0302") }, "pci-0302_10de"],
    ["vendor", "pci.device", { vendor: isOneOf("15b3") }, "pci-15b3"],
    ["class", "pci.device", { class: isOneOf("0300") }, "pci-0300"],
    ["model", "pci.device", { device: isOneOf("2330"), vendor: isOneOf("10de") }, "pci-10de_2330"],
    [
      "all three, of USB",
      "usb.device",
      { class: isOneOf("fe"), vendor: isOneOf("1a6e"), device: isOneOf("089a") },
      "usb-fe_1a6e_089a",
    ],
  ] as const)("by %s is on a label of a rule for NFD", (_by, feature, matchExpressions, name) => {
    const label = `${name}.present`;
    const key = `${DOMAIN}/${label}`;
    expect(convertDevice(feature, matchExpressions)).toEqual({
      terms: [{ key }],
      published: [
        {
          key,
          rule: {
            name: label,
            labels: { [label]: "true" },
            matchFeatures: [{ feature, matchExpressions }],
          },
        },
      ],
    });
  });

  it("of several kinds is on a label for each kind", () => {
    const { terms, published } = convertDevice("pci.device", {
      vendor: isOneOf("10de", "1002"),
      class: isOneOf("0300"),
    });
    const keys = ["pci-0300_10de.present", "pci-0300_1002.present"].map((name) => `${DOMAIN}/${name}`);
    expect(terms).toEqual([{ any: keys.map((key) => ({ key })) }]);
    expect(published.map(({ key }) => key)).toEqual(keys);
  });

  it("with virtual functions is on a label of its own", () => {
    const fields = { vendor: isOneOf("8086"), sriov_totalvfs: { op: "Exists" } } as const;
    const { terms, published } = convertDevice("pci.device", fields);
    expect(terms).toEqual([{ key: `${DOMAIN}/pci-8086.sriov.capable` }]);
    expect(published[0]?.rule.matchFeatures).toEqual([{ feature: "pci.device", matchExpressions: fields }]);
    expect(convertDevice("network.device", { sriov_totalvfs: { op: "Gt", value: ["0"] } })).toEqual({
      terms: [{ key: `${DOMAIN}/network-sriov.capable` }],
      published: [],
    });
  });

  const many = (count: number): NfdExpression =>
    isOneOf(...Array.from({ length: count }, (_, at) => (0x1000 + at).toString(16)));

  it.each([
    ["a model of any vendor", "pci.device", { device: isOneOf("2330") }],
    [
      "class and model, which may look like class and vendor",
      "pci.device",
      { class: isOneOf("0300"), device: isOneOf("2330") },
    ],
    ["another attribute", "pci.device", { vendor: isOneOf("1dd8"), subsystem_vendor: isOneOf("1dd8") }],
    ["a pattern", "pci.device", { class: { op: "InRegexp", value: ["^03"] }, vendor: isOneOf("10de") }],
    ["a text that is no number", "pci.device", { vendor: isOneOf("{{ }}") }],
    ["a text that ends like a number", "pci.device", { vendor: isOneOf("10de", "x10de") }],
    ["a text that begins like a number", "pci.device", { vendor: isOneOf("10dex") }],
    ["all vendors but one", "pci.device", { vendor: { op: "NotIn", value: ["10de"] } }],
    [
      "one vendor and no class",
      "pci.device",
      { vendor: isOneOf("10de"), class: { op: "NotIn", value: ["0300"] } },
    ],
    ["virtual functions of USB", "usb.device", { vendor: isOneOf("10de"), sriov_totalvfs: { op: "Exists" } }],
    ["a vendor, of the network", "network.device", { vendor: isOneOf("10de") }],
    ["no value", "pci.device", { vendor: isOneOf() }],
    ["too many models", "pci.device", { vendor: many(2), device: many(129) }],
    ["a number of virtual functions", "network.device", { sriov_totalvfs: { op: "Gt", value: ["8"] } }],
    [
      "virtual functions that it has not",
      "pci.device",
      { vendor: isOneOf("8086"), sriov_totalvfs: { op: "DoesNotExist" } },
    ],
    ["two things at once", "storage.block", { rotational: isOneOf("0"), dax: isOneOf("1") }],
  ] as const)("asked for by %s is refused", (_what, feature, expressions) => {
    const { terms, published } = convertDevice(feature, expressions);
    expect(terms).toHaveProperty("unavailable");
    expect(published).toEqual([]);
  });

  it("I-13 is known by more combinations than one group holds", () => {
    const { terms } = convertDevice("pci.device", { vendor: many(40) });
    const [term] = terms as readonly MatchTerm[];
    expect(term?.any?.map(({ any }) => any?.length)).toEqual([32, 8]);
  });

  it("is converted up to 256 of them", () => {
    const { published } = convertDevice("pci.device", { vendor: many(2), device: many(128) });
    expect(published).toHaveLength(256);
  });

  it("says which comparisons no label shows", () => {
    const asked = { vendor: isOneOf("10de"), class: { op: "InRegexp", value: ["^03"] } } as const;
    expect(convertDevice("pci.device", asked).terms).toEqual({
      unavailable: "pci.device by vendor and class InRegexp",
    });
  });

  it("has its number on a label, when it is of one kind", () => {
    const published: PublishedFact[] = [];
    const publish = (fact: PublishedFact): unknown => published.push(fact);
    const key = `${DOMAIN}/pci-10de.count`;
    expect(countLabel("pci.device", { vendor: isOneOf("10de") }, { publish })).toBe(key);
    expect(published[0]?.rule.labelsTemplate).toBe("pci-10de.count={{ len .pci.device }}");
    expect(countLabel("pci.device", { vendor: isOneOf("10de", "1002") }, { publish })).toBeUndefined();
    expect(published).toHaveLength(1);
  });
});
