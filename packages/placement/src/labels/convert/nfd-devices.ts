/**
 * Devices of Node Feature Discovery (NFD). For some device classes the NFD worker sets one label for each device, built
 * from some attributes of the device. Only a rule that compares exactly these attributes, each with In, is converted.
 */
import type { MatchTerm } from "../document.ts";
import { inGroups } from "./converted.ts";
import type { Converted } from "./nfd-expressions.ts";
import { NFD_DOMAIN } from "./nfd-labels.ts";
import type { NfdExpression } from "./nfd-schema.ts";

type Expressions = Readonly<Record<string, NfdExpression>>;

/** `deviceLabelFields` and `deviceClassWhitelist` of one source of NFD's worker. */
interface DeviceLabels {
  /** Attributes in the label. Their order is fixed by NFD, not by its configuration. */
  readonly fields: readonly string[];
  /** NFD labels a device when its class begins with one of these. */
  readonly classes: readonly string[];
}

export type DeviceSource = "pci" | "usb";
export type DeviceConfig = Readonly<Record<DeviceSource, DeviceLabels>>;

/** The defaults of the NFD worker. */
export const DEVICE_DEFAULTS: DeviceConfig = {
  pci: { fields: ["class", "vendor"], classes: ["03", "0b40", "12"] },
  usb: { fields: ["class", "vendor", "device"], classes: ["0e", "ef", "fe", "ff"] },
};

/** All attributes that a label can contain, in the order that NFD writes them. */
export const DEVICE_FIELDS: Readonly<Record<DeviceSource, readonly string[]>> = {
  pci: ["class", "vendor", "device", "subsystem_vendor", "subsystem_device"],
  usb: ["class", "vendor", "device", "serial"],
};

const SOURCES: ReadonlyMap<string, DeviceSource> = new Map([
  ["pci.device", "pci"],
  ["usb.device", "usb"],
]);

/** Labels that are equivalent to one comparison: feature, attribute, operator, values. */
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

/** Converts all comparisons of one term. In NFD a single device must meet all of them. */
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
