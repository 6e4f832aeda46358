/**
 * Devices of Node Feature Discovery. Its worker makes one label for each device of some classes, from some attributes of
 * the device. A rule that asks for exactly these attributes, each with In, is converted to a condition on these labels.
 */
import type { MatchTerm } from "../document.ts";
import { inGroups } from "./converted.ts";
import type { Converted } from "./nfd-expressions.ts";
import { NFD_DOMAIN } from "./nfd-labels.ts";
import type { NfdExpression } from "./nfd-schema.ts";

type Expressions = Readonly<Record<string, NfdExpression>>;

/** `deviceLabelFields` and `deviceClassWhitelist` of one source of NFD's worker. */
interface DeviceLabels {
  /** Attributes in the label, in the order that NFD puts them in, whatever the order of the configuration. */
  readonly fields: readonly string[];
  /** Devices have labels when their class begins with one of these. */
  readonly classes: readonly string[];
}

export type DeviceSource = "pci" | "usb";
export type DeviceConfig = Readonly<Record<DeviceSource, DeviceLabels>>;

/** What the worker does unless it is configured otherwise. */
export const DEVICE_DEFAULTS: DeviceConfig = {
  pci: { fields: ["class", "vendor"], classes: ["03", "0b40", "12"] },
  usb: { fields: ["class", "vendor", "device"], classes: ["0e", "ef", "fe", "ff"] },
};

/** All attributes that can be in a label, in the order in which they are. */
export const DEVICE_FIELDS: Readonly<Record<DeviceSource, readonly string[]>> = {
  pci: ["class", "vendor", "device", "subsystem_vendor", "subsystem_device"],
  usb: ["class", "vendor", "device", "serial"],
};

const SOURCES: ReadonlyMap<string, DeviceSource> = new Map([
  ["pci.device", "pci"],
  ["usb.device", "usb"],
]);

/** Labels that stand for a single comparison: feature, attribute, operator, values. */
const CONDITIONS: ReadonlyMap<string, string> = new Map([
  ["network.device sriov_totalvfs Gt 0", "network-sriov.capable"],
  ["network.device sriov_numvfs Gt 0", "network-sriov.configured"],
  ["storage.block rotational In 0", "storage-nonrotationaldisk"],
]);

export function isDeviceFeature(feature: string): boolean {
  return SOURCES.has(feature) || feature === "network.device" || feature === "storage.block";
}

export interface DeviceWork {
  readonly devices: DeviceConfig;
  readonly note: (text: string) => void;
}

/** All comparisons of one term: one device has to meet them together. */
export function convertDevice(feature: string, expressions: Expressions, work: DeviceWork): Converted {
  const source = SOURCES.get(feature);
  return source === undefined
    ? convertCondition(feature, expressions)
    : convertIdentity(source, expressions, work);
}

function convertCondition(feature: string, expressions: Expressions): Converted {
  const asked = Object.entries(expressions).map(
    ([attribute, { op, value = [] }]) => `${feature} ${attribute} ${op} ${value.join()}`,
  );
  const label = asked.length === 1 ? CONDITIONS.get(asked.join()) : undefined;
  if (label !== undefined) return { terms: [{ key: `${NFD_DOMAIN}/${label}` }] };
  return { problem: unavailable(feature, expressions) };
}

function unavailable(feature: string, expressions: Expressions): { readonly unavailable: string } {
  const asked = Object.entries(expressions).map(([name, { op }]) => (op === "In" ? name : `${name} ${op}`));
  return { unavailable: `${feature} by ${asked.join(" and ")}` };
}

function convertIdentity(
  source: DeviceSource,
  expressions: Expressions,
  { devices, note }: DeviceWork,
): Converted {
  const { fields, classes } = devices[source];
  const { sriov_totalvfs: virtual, ...identity } = expressions;
  const isVirtual = source === "pci" && virtual?.op === "Exists";
  const isIdentity =
    fields.every((field) => identity[field]?.op === "In") &&
    Object.keys(identity).every((field) => fields.includes(field));
  if (!isIdentity || (virtual !== undefined && !isVirtual)) {
    const { unavailable: asked } = unavailable(`${source}.device`, expressions);
    return { problem: { unavailable: `${asked} (its labels are by ${fields.join(" and ")})` } };
  }
  const unlabelled = identity["class"]?.value?.find((it) => !classes.some((known) => it.startsWith(known)));
  if (unlabelled !== undefined)
    return { problem: { unavailable: `${source}.device of class ${unlabelled}` } };
  if (identity["class"] === undefined) {
    note(
      `NFD labels ${source} devices only when their class begins with ${classes.join(", ")} (deviceClassWhitelist); the rule also means other classes`,
    );
  }
  const names = fields.reduce<readonly string[]>(
    (all, field) => {
      const list = identity[field]?.value ?? [];
      return all.flatMap((start) => list.map((it) => (start === "" ? it : `${start}_${it}`)));
    },
    [""],
  );
  const suffix = isVirtual ? "sriov.capable" : "present";
  const terms = names.map((name): MatchTerm => ({ key: `${NFD_DOMAIN}/${source}-${name}.${suffix}` }));
  return { terms: terms.length === 1 ? terms : [{ any: inGroups(terms) }] };
}
