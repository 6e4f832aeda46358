/**
 * Devices of Node Feature Discovery (NFD). NFD's worker makes labels from some attributes of some devices; which, its
 * configuration says. So a rule for NFD publishes the labels of the devices that a converted rule reads, with the names
 * that the worker would give them.
 */
import type { MatchTerm } from "../document.ts";
import { inGroups } from "./converted.ts";
import type { Converted } from "./nfd-expressions.ts";
import { NFD_DOMAIN, type PublishedFact } from "./nfd-labels.ts";
import type { NfdExpression, NfdRule } from "./nfd-schema.ts";

type Expressions = Readonly<Record<string, NfdExpression>>;

const SOURCES: ReadonlyMap<string, string> = new Map([
  ["pci.device", "pci"],
  ["usb.device", "usb"],
]);

/** Attributes in the order that NFD writes them. Only these sets of them make names that differ from each other. */
const IDENTITIES: ReadonlySet<string> = new Set([
  "class",
  "vendor",
  "class,vendor",
  "vendor,device",
  "class,vendor,device",
]);
const FIELDS = ["class", "vendor", "device"] as const;

/** A rule with more devices is not converted: it would need as many labels. */
const MAX_DEVICES = 256;

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
  /** Records that NFD has to publish this label. */
  readonly publish: (fact: PublishedFact) => void;
}

/** Converts all comparisons of one term. In NFD a single device must meet all of them. */
export function convertDevice(feature: string, expressions: Expressions, work: DeviceWork): Converted {
  const devices = devicesOf(feature, expressions);
  if (devices === undefined) return convertCondition(feature, expressions);
  const terms = devices.map((device): MatchTerm => {
    const suffix = "sriov_totalvfs" in expressions ? "sriov.capable" : "present";
    return { key: publishDevice(device, { suffix, value: "true" }, work) };
  });
  return { terms: terms.length === 1 ? terms : [{ any: inGroups(terms) }] };
}

function convertCondition(feature: string, expressions: Expressions): Converted {
  const asked = Object.entries(expressions).map(
    ([attribute, { op, value = [] }]) => `${feature} ${attribute} ${op} ${value.join()}`,
  );
  const label = asked.length === 1 ? CONDITIONS.get(asked.join()) : undefined;
  if (label !== undefined) return { terms: [{ key: `${NFD_DOMAIN}/${label}` }] };
  const by = Object.entries(expressions).map(([name, { op }]) => (op === "In" ? name : `${name} ${op}`));
  return { problem: { unavailable: `${feature} by ${by.join(" and ")}` } };
}

/** One device that a term names: the start of its label, and the comparisons that find it. */
interface Device {
  readonly name: string;
  readonly feature: string;
  readonly expressions: Expressions;
}

/** @returns a device for each combination of the values; `undefined` when a label cannot name the devices. */
function devicesOf(feature: string, { sriov_totalvfs: virtual, ...identity }: Expressions) {
  const source = SOURCES.get(feature);
  const fields = FIELDS.filter((field) => field in identity);
  const lists = fields.map((field) => identity[field]?.value ?? []);
  const isIdentity = IDENTITIES.has(fields.join()) && Object.values(identity).every(({ op }) => op === "In");
  const isVirtual = virtual === undefined || (source === "pci" && virtual.op === "Exists");
  const count = lists.reduce((product, list) => product * list.length, 1);
  const isHex = lists.flat().every((value) => /^[0-9a-f]+$/.test(value));
  const isNamed = isIdentity && isHex && fields.length === Object.keys(identity).length && isVirtual;
  if (source === undefined || !isNamed || count === 0 || count > MAX_DEVICES) return undefined;
  const combinations = lists.reduce<readonly (readonly string[])[]>(
    (all, list) => all.flatMap((start) => list.map((it) => [...start, it])),
    [[]],
  );
  return combinations.map((values): Device => {
    const one = fields.map((field, at) => [field, { op: "In", value: [values[at] ?? ""] }] as const);
    const expressions = { ...Object.fromEntries(one), ...(virtual && { sriov_totalvfs: virtual }) };
    return { name: `${source}-${values.join("_")}`, feature, expressions };
  });
}

/** The label with the number of the devices that a term finds; `undefined` unless it names one kind of device. */
export function countLabel(feature: string, expressions: Expressions, work: DeviceWork): string | undefined {
  const [device, ...others] = devicesOf(feature, expressions) ?? [];
  if (device === undefined || others.length > 0) return undefined;
  return publishDevice(device, { suffix: "count", value: `{{ len .${feature} }}` }, work);
}

function publishDevice(
  { name, feature, expressions }: Device,
  { suffix, value }: { readonly suffix: string; readonly value: string },
  { publish }: DeviceWork,
): string {
  const label = `${name}.${suffix}`;
  const key = `${NFD_DOMAIN}/${label}`;
  const output: Pick<NfdRule, "labels" | "labelsTemplate"> =
    value === "true" ? { labels: { [label]: value } } : { labelsTemplate: `${label}=${value}` };
  publish({
    key,
    rule: { name: label, ...output, matchFeatures: [{ feature, matchExpressions: expressions }] },
  });
  return key;
}
