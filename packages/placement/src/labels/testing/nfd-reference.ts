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
  readonly modules: readonly string[];
  /** Options of the kernel, with `y` or `m`. */
  readonly options: Readonly<Record<string, string>>;
}

export type Device = Readonly<Record<"class" | "vendor" | "device", string>>;

/** The labels that its worker publishes, when it is not configured. */
export function published({
  flags,
  major,
  id,
  version,
  numa,
  devices,
}: Found): Readonly<Record<string, string>> {
  const entries = [
    ...flags.map((flag) => [`cpu-cpuid.${flag}`, "true"]),
    ...(major === undefined ? [] : [["kernel-version.major", major]]),
    ...(id === undefined ? [] : [["system-os_release.ID", id]]),
    ...(version === undefined ? [] : [["system-os_release.VERSION_ID", version]]),
    ...(numa ? [["memory-numa", "true"]] : []),
    ...devices.map((device) => [`pci-${device.class}_${device.vendor}.present`, "true"]),
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
  if (feature === "pci.device") return devicesOf(matchExpressions, node).length > 0;
  const all = Object.entries(matchExpressions ?? {});
  const values: Readonly<Record<string, string | undefined>> = {
    major: node.major,
    ID: node.id,
    VERSION_ID: node.version,
    is_numa: String(node.numa),
    ...node.options,
  };
  const flags = { "cpu.cpuid": node.flags, "kernel.loadedmodule": node.modules }[feature];
  return all.every(([element, it]) =>
    flags === undefined
      ? holds(it, values[element] !== undefined, values[element])
      : holds(it, flags.includes(element), undefined),
  );
}

/** One device has to meet all comparisons. */
function devicesOf(expressions: NfdTerm["matchExpressions"], { devices }: Found): readonly Device[] {
  return devices.filter((device) =>
    Object.entries(expressions ?? {}).every(([field, it]) => holds(it, true, device[field as keyof Device])),
  );
}

export function nfdMatches({ matchFeatures = [], matchAny }: NfdRule, node: Found): boolean {
  const all = (given: readonly NfdTerm[]): boolean => given.every((it) => termHolds(it, node));
  return all(matchFeatures) && (matchAny?.some((it) => all(it.matchFeatures)) ?? true);
}

/** The labels that these rules set: fixed values, `@kernel.config.X`, and `name={{ len .pci.device }}`. */
export function labelsByRules(rules: readonly NfdRule[], node: Found): Readonly<Record<string, string>> {
  const entries = rules
    .filter((rule) => nfdMatches(rule, node))
    .flatMap(({ labels = {}, labelsTemplate, matchFeatures: [term] = [] }) => {
      const [count] = labelsTemplate?.split("=") ?? [];
      if (count !== undefined) return [[count, String(devicesOf(term?.matchExpressions, node).length)]];
      return Object.entries(labels).map(([name, value]) => {
        return [name, value.startsWith("@") ? node.options[value.split(".").at(-1) ?? ""] : value];
      });
    });
  return Object.fromEntries(entries.map(([name = "", value = ""]) => [`${DOMAIN}/${name}`, value]));
}
