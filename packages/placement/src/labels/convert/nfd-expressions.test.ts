import { describe, expect, it } from "vitest";
import type { MatchTerm, Operator } from "../document.ts";
import { toDeviceConfig } from "./device-options.ts";
import { convertDevice as convertDeviceTerm } from "./nfd-devices.ts";
import { convertExpression, type Problem, seenByNfd } from "./nfd-expressions.ts";
import { labelOfElement } from "./nfd-labels.ts";
import type { NfdExpression } from "./nfd-schema.ts";

const DOMAIN = "feature.node.kubernetes.io";

type Result = readonly MatchTerm[] | Problem;

function convert(feature: string, element: string, op: NfdExpression["op"], ...value: string[]): Result {
  const converted = convertExpression(labelOfElement(feature, element), { op, value });
  return "terms" in converted ? converted.terms : converted.problem;
}

function convertDevice(feature: string, expressions: Record<string, NfdExpression>, fields?: string): Result {
  const devices = toDeviceConfig(fields === undefined ? {} : { deviceLabelFields: [fields] });
  const converted = convertDeviceTerm(feature, expressions, { devices, note: () => undefined });
  return "terms" in converted ? converted.terms : converted.problem;
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
    ..."cpu.cpuid SSE42, cpu.security sgx.epc, cpu.rdt RDTMON, kernel.config KVM, unknown.feature x".split(
      ", ",
    ),
    ..."kernel.loadedmodule nvme, kernel.enabledmodule nvme, memory.numa node_count".split(", "),
    ..."system.osrelease PRETTY_NAME, system.name nodename, system.dmiid sys_vendor".split(", "),
  ])("%s is on none", (asked) => {
    const [feature = "", element = ""] = asked.split(" ");
    expect(convert(feature, element, "Exists")).toEqual({ unavailable: asked });
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

  it("is known by the label of its class and vendor", () => {
    const one = convertDevice("pci.device", { vendor: isOneOf("10de"), class: isOneOf("0302") });
    expect(one).toEqual([{ key: `${DOMAIN}/pci-0302_10de.present` }]);
    const two = convertDevice("pci.device", { vendor: isOneOf("10de", "1002"), class: isOneOf("0300") });
    expect(two).toEqual([
      {
        any: [{ key: `${DOMAIN}/pci-0300_10de.present` }, { key: `${DOMAIN}/pci-0300_1002.present` }],
      },
    ]);
  });

  it("of USB by class, vendor and device", () => {
    const fields = { class: isOneOf("fe"), vendor: isOneOf("1a6e"), device: isOneOf("089a") };
    expect(convertDevice("usb.device", fields)).toEqual([{ key: `${DOMAIN}/usb-fe_1a6e_089a.present` }]);
  });

  it("with virtual functions by a label of its own", () => {
    const fields = {
      class: isOneOf("0300"),
      vendor: isOneOf("8086"),
      sriov_totalvfs: { op: "Exists" },
    } as const;
    expect(convertDevice("pci.device", fields)).toEqual([{ key: `${DOMAIN}/pci-0300_8086.sriov.capable` }]);
    expect(convertDevice("network.device", { sriov_totalvfs: { op: "Gt", value: ["0"] } })).toEqual([
      { key: `${DOMAIN}/network-sriov.capable` },
    ]);
  });

  it.each([
    ["any class", "pci.device", { vendor: isOneOf("10de") }],
    ["any vendor", "pci.device", { class: isOneOf("0300") }],
    ["a class without labels", "pci.device", { class: isOneOf("0200"), vendor: isOneOf("8086") }],
    ["a model", "pci.device", { class: isOneOf("0300"), vendor: isOneOf("10de"), device: isOneOf("1db4") }],
    ["a pattern", "pci.device", { class: { op: "InRegexp", value: ["^03"] }, vendor: isOneOf("10de") }],
    ["a number of virtual functions", "network.device", { sriov_totalvfs: { op: "Gt", value: ["8"] } }],
    ["two things at once", "storage.block", { rotational: isOneOf("0"), dax: isOneOf("1") }],
  ] as const)("asked for by %s is refused", (_what, feature, expressions) => {
    expect(convertDevice(feature, expressions)).toHaveProperty("unavailable");
  });

  it.each([
    ["vendor", "pci.device", { vendor: isOneOf("10de") }, "pci-10de.present"],
    [
      "device,vendor",
      "pci.device",
      { device: isOneOf("2330"), vendor: isOneOf("10de") },
      "pci-10de_2330.present",
    ],
    ["usb=vendor", "usb.device", { vendor: isOneOf("1a6e") }, "usb-1a6e.present"],
    [
      "vendor,subsystem_vendor",
      "pci.device",
      { vendor: isOneOf("1dd8"), subsystem_vendor: isOneOf("1dd8"), sriov_totalvfs: { op: "Exists" } },
      "pci-1dd8_1dd8.sriov.capable",
    ],
  ] as const)(
    "I-13 is known by the fields that NFD is configured with: %s",
    (fields, feature, asked, label) => {
      expect(convertDevice(feature, asked, fields)).toEqual([{ key: `${DOMAIN}/${label}` }]);
    },
  );

  it.each([
    ["vendor", { class: isOneOf("0300"), vendor: isOneOf("10de") }],
    ["class,vendor,device", { class: isOneOf("0300"), vendor: isOneOf("10de") }],
  ] as const)("I-13 is refused when the fields are not those of the rule: %s", (fields, asked) => {
    expect(convertDevice("pci.device", asked, fields)).toEqual({
      unavailable: `pci.device by class and vendor (its labels are by ${fields.split(",").join(" and ")})`,
    });
  });

  it.each(["model", "usb=subsystem_vendor", "net=vendor", "pci=", "a,"])(
    "I-13 refuses fields %s",
    (fields) => {
      expect(() => toDeviceConfig({ deviceLabelFields: [fields] })).toThrow("--device-label-fields");
    },
  );

  it("I-13 is known by more combinations than one group holds", () => {
    const list = Array.from({ length: 40 }, (_, at) => (0x1000 + at).toString(16));
    const [term] = convertDevice(
      "pci.device",
      { vendor: isOneOf(...list) },
      "vendor",
    ) as readonly MatchTerm[];
    expect(term?.any?.map(({ any }) => any?.length)).toEqual([32, 8]);
  });
});
