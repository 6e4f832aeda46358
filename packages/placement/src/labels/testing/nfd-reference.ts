/** What Node Feature Discovery does with a rule, written down from its documentation. */
import type { NfdExpression, NfdRule, NfdTerm } from "../convert/nfd-schema.ts";

const DOMAIN = "feature.node.kubernetes.io";

/** What the worker found on a node. An element is absent where it is undefined. */
export interface Found {
  readonly flags: readonly string[];
  readonly major: string | undefined;
  readonly id: string | undefined;
  readonly numa: boolean;
  readonly version: string | undefined;
  readonly devices: readonly Device[];
}

export type Device = Readonly<Record<"class" | "vendor" | "device", string>>;

/** The labels that its worker publishes. */
export function published(
  { flags, major, id, version, numa, devices }: Found,
  fields: readonly (keyof Device)[],
): Readonly<Record<string, string>> {
  const entries = [
    ...flags.map((flag) => [`cpu-cpuid.${flag}`, "true"]),
    ...(major === undefined ? [] : [["kernel-version.major", major]]),
    ...(id === undefined ? [] : [["system-os_release.ID", id]]),
    ...(version === undefined ? [] : [["system-os_release.VERSION_ID", version]]),
    ...(numa ? [["memory-numa", "true"]] : []),
    ...devices.map((device) => [`pci-${fields.map((field) => device[field]).join("_")}.present`, "true"]),
  ];
  return Object.fromEntries(entries.map(([name = "", value = ""]) => [`${DOMAIN}/${name}`, value]));
}

/** Of an element that is a flag, the value is `undefined` but it is there. */
function holds({ op, value = [] }: NfdExpression, isThere: boolean, text: string | undefined): boolean {
  if (op === "") return true;
  if (op === "Exists" || op === "DoesNotExist") return isThere === (op === "Exists");
  if (!isThere || text === undefined) return false;
  if (op === "In" || op === "NotIn") return value.includes(text) === (op === "In");
  if (op === "InRegexp") return value.some((pattern) => new RegExp(pattern).test(text));
  if (op === "IsTrue" || op === "IsFalse") return text === (op === "IsTrue" ? "true" : "false");
  if (!/^[-+]?\d+$/.test(text)) return false;
  const [actual, low = 0, high = low] = [text, ...value].map(Number);
  if (actual === undefined) return false;
  const within = { Gt: actual > low, Ge: actual >= low, Lt: actual < low, Le: actual <= low };
  if (op === "GtLt") return actual > low && actual < high;
  if (op === "GeLe") return actual >= low && actual <= high;
  return within[op];
}

function termHolds({ feature, matchExpressions, matchName }: NfdTerm, node: Found): boolean {
  if (matchName !== undefined) return node.flags.some((flag) => matchName.value?.includes(flag));
  const all = Object.entries(matchExpressions ?? {});
  if (feature === "pci.device") {
    return node.devices.some((device) =>
      all.every(([field, it]) => holds(it, true, device[field as keyof Device])),
    );
  }
  const values: Readonly<Record<string, string | undefined>> = {
    major: node.major,
    ID: node.id,
    VERSION_ID: node.version,
    is_numa: String(node.numa),
  };
  return all.every(([element, it]) =>
    feature === "cpu.cpuid"
      ? holds(it, node.flags.includes(element), undefined)
      : holds(it, values[element] !== undefined, values[element]),
  );
}

export function nfdMatches({ matchFeatures = [], matchAny }: NfdRule, node: Found): boolean {
  const all = (given: readonly NfdTerm[]): boolean => given.every((it) => termHolds(it, node));
  return all(matchFeatures) && (matchAny?.some((it) => all(it.matchFeatures)) ?? true);
}
