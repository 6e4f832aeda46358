/**
 * Devices of Node Feature Discovery. NFD labels a node with the class and vendor of a device (USB: and the device), for
 * some classes; a rule that asks for exactly these, each by name, is told from labels.
 */
import type { MatchTerm } from "@berth/placement";
import type { Converted } from "./nfd-expressions.ts";
import { NFD_DOMAIN } from "./nfd-labels.ts";
import type { NfdExpression } from "./nfd-schema.ts";

type Expressions = Readonly<Record<string, NfdExpression>>;

/** `deviceClassWhitelist` and `deviceLabelFields` of a source, as they are by default. */
interface DeviceLabels {
  readonly prefix: string;
  readonly fields: readonly string[];
  /** Classes that begin with one of these have labels. */
  readonly classes: readonly string[];
}

const DEVICES: ReadonlyMap<string, DeviceLabels> = new Map([
  ["pci.device", { prefix: "pci-", fields: ["class", "vendor"], classes: ["03", "0b40", "12"] }],
  [
    "usb.device",
    { prefix: "usb-", fields: ["class", "vendor", "device"], classes: ["0e", "ef", "fe", "ff"] },
  ],
]);

/** Single comparisons that a label stands for. */
const CONDITIONS: readonly {
  readonly feature: string;
  readonly attribute: string;
  readonly expression: NfdExpression;
  readonly label: string;
}[] = [
  {
    feature: "network.device",
    attribute: "sriov_totalvfs",
    expression: { op: "Gt", value: ["0"] },
    label: "network-sriov.capable",
  },
  {
    feature: "network.device",
    attribute: "sriov_numvfs",
    expression: { op: "Gt", value: ["0"] },
    label: "network-sriov.configured",
  },
  {
    feature: "storage.block",
    attribute: "rotational",
    expression: { op: "In", value: ["0"] },
    label: "storage-nonrotationaldisk",
  },
];

export function isDeviceFeature(feature: string): boolean {
  return DEVICES.has(feature) || CONDITIONS.some((condition) => condition.feature === feature);
}

/** All comparisons of one term: one device has to meet them together. */
export function convertDevice(feature: string, expressions: Expressions): Converted {
  const labels = DEVICES.get(feature);
  return labels === undefined
    ? convertCondition(feature, expressions)
    : convertIdentity(feature, labels, expressions);
}

function convertCondition(feature: string, expressions: Expressions): Converted {
  const given = Object.entries(expressions);
  const [first] = given;
  const found = CONDITIONS.find(
    ({ feature: of, attribute, expression }) =>
      of === feature &&
      given.length === 1 &&
      first?.[0] === attribute &&
      first[1].op === expression.op &&
      first[1].value?.join() === expression.value?.join(),
  );
  if (found !== undefined) return [{ key: `${NFD_DOMAIN}/${found.label}` }];
  const known = CONDITIONS.filter((condition) => condition.feature === feature).map(
    ({ attribute, expression: { op, value } }) => `${attribute} ${op} ${value?.join()}`,
  );
  return `the labels of ${feature} only tell ${known.join(" or ")}`;
}

function convertIdentity(
  feature: string,
  { prefix, fields, classes }: DeviceLabels,
  expressions: Expressions,
): Converted {
  const { sriov_totalvfs: virtual, ...identity } = expressions;
  const isVirtual = feature === "pci.device" && virtual?.op === "Exists";
  const missing = fields.filter((field) => identity[field]?.op !== "In");
  const others = Object.keys(identity).filter((field) => !fields.includes(field));
  if (missing.length > 0 || others.length > 0 || (virtual !== undefined && !isVirtual)) {
    return `the labels of ${feature} tell devices by ${fields.join(" and ")}, each of which has to be given with In, and nothing else`;
  }
  const lists = fields.map((field) => identity[field]?.value ?? []);
  const unlabelled = (lists[0] ?? []).find((it) => !classes.some((known) => it.startsWith(known)));
  if (unlabelled !== undefined) return `NFD publishes no label for devices of class ${unlabelled} by default`;
  const names = lists.reduce<readonly string[]>(
    (all, list) => all.flatMap((start) => list.map((it) => (start === "" ? it : `${start}_${it}`))),
    [""],
  );
  const suffix = isVirtual ? "sriov.capable" : "present";
  const terms = names.map((name): MatchTerm => ({ key: `${NFD_DOMAIN}/${prefix}${name}.${suffix}` }));
  return terms.length === 1 ? terms : [{ any: terms }];
}
