/**
 * Maps an element of a feature of Node Feature Discovery (NFD) to the equivalent node label, for the default
 * configuration of the NFD worker. Source: the NFD documentation, "Feature labels" and "Customization guide" (available
 * features), and `GetLabels` in the NFD code. For an element that NFD discovers and does not publish, it makes a rule for
 * NFD that publishes it.
 */

import { labelKeyProblem } from "../../node/validate.ts";
import type { NfdRule } from "./nfd-schema.ts";

/** Domain of NFD's own labels, and the default domain for labels of its rules. */
export const NFD_DOMAIN = "feature.node.kubernetes.io";

/** nfd-master sets this annotation on every node that it labels. On such a node no label means no feature. */
export const NFD_MARK = "nfd.node.kubernetes.io/feature-labels";

/** A rule for NFD that sets the label `key` from one fact. */
export interface PublishedFact {
  readonly key: string;
  readonly rule: NfdRule;
}

/** How a label shows an element. `fact`: NFD sets the label only with this rule. */
export type ElementLabel =
  /** The label exists when the element does, and has its value. `whole`: the value is always a whole number. */
  | { readonly kind: "value"; readonly key: string; readonly whole?: boolean; readonly fact?: PublishedFact }
  /** The label exists when the flag does. A flag has no value. */
  | { readonly kind: "flag"; readonly key: string; readonly fact?: PublishedFact }
  /** The label is `true` when the element has this value. */
  | { readonly kind: "equals"; readonly key: string; readonly value: string }
  /** No label can show the element. */
  | { readonly kind: "none"; readonly element: string };

const nfd = (name: string): string => `${NFD_DOMAIN}/${name}`;

const values =
  (prefix: string, elements: readonly string[], numbers: readonly string[] = []) =>
  (element: string) => {
    const whole = numbers.includes(element);
    if (!whole && !elements.includes(element)) return undefined;
    return { kind: "value", key: nfd(`${prefix}${element}`), ...(whole && { whole }) } as const;
  };

const whenTrue = (element: string, key: string) => (asked: string) =>
  asked === element ? ({ kind: "equals", key: nfd(key), value: "true" } as const) : undefined;

/** Default of `sources.cpu.cpuid.attributeBlacklist`: flags that NFD publishes as no label. */
const UNPUBLISHED_FLAGS: ReadonlySet<string> = new Set(
  "AVX10 BMI1 BMI2 CLMUL CMOV CX16 ERMS F16C HTT LZCNT MMX MMXEXT NX POPCNT RDRAND RDSEED RDTSCP SGX SGXLC SSE SSE2 SSE3 SSE4 SSE42 SSSE3 TDX_GUEST".split(
    " ",
  ),
);

const SECURITY =
  "sgx.enabled se.enabled tdx.enabled tdx.protected sev.enabled sev.es.enabled sev.snp.enabled".split(" ");

/** Default of `sources.kernel.configOpts`. */
const KERNEL_OPTIONS: ReadonlySet<string> = new Set(["NO_HZ", "NO_HZ_IDLE", "NO_HZ_FULL", "PREEMPT"]);

type Lookup = (element: string) => ElementLabel | undefined;

/** All elements are flags, except AVX10_VERSION, which has a value. */
const cpuFlag: Lookup = (element) => {
  const key = nfd(`cpu-cpuid.${element}`);
  if (element === "AVX10_VERSION") return { kind: "value", key, whole: true };
  return UNPUBLISHED_FLAGS.has(element) ? undefined : { kind: "flag", key };
};

const kernelOption: Lookup = (element) => {
  const key = nfd(`kernel-config.${element}`);
  return KERNEL_OPTIONS.has(element) ? { kind: "equals", key, value: "y" } : undefined;
};

const local: Lookup = (element) => {
  return { kind: "value", key: element.includes("/") ? element : nfd(element) };
};

/** For features that NFD discovers, and publishes as no label. */
const unpublished: Lookup = () => undefined;

/** Features whose elements are there or not. The elements of all others have a value. */
const FLAGS: ReadonlySet<string> = new Set(["cpu.cpuid", "kernel.enabledmodule", "kernel.loadedmodule"]);

/** Labels of facts have the names of the feature and its element, which no label of NFD's worker has. */
function publish(feature: string, element: string): ElementLabel {
  const name = `${feature}.${element}`;
  const key = nfd(name);
  if (labelKeyProblem(key) !== undefined) return { kind: "none", element: `${feature} ${element}` };
  const kind = FLAGS.has(feature) ? "flag" : "value";
  const rule: NfdRule = {
    name: `${feature} ${element}`,
    labels: { [name]: kind === "flag" ? "true" : `@${name}` },
    matchFeatures: [{ feature, matchExpressions: { [element]: { op: "Exists" } } }],
  };
  return { kind, key, fact: { key, rule } };
}

const FEATURES: ReadonlyMap<string, Lookup> = new Map<string, Lookup>([
  ["cpu.cpuid", cpuFlag],
  ["cpu.cstate", values("cpu-cstate.", ["enabled"])],
  ["cpu.pstate", values("cpu-pstate.", ["status", "turbo"])],
  ["cpu.model", values("cpu-model.", ["vendor_id"], ["family", "id"])],
  ["cpu.sst", values("cpu-power.sst_", ["bf.enabled"])],
  ["cpu.topology", whenTrue("hardware_multithreading", "cpu-hardware_multithreading")],
  ["cpu.coprocessor", values("cpu-coprocessor.", ["nx_gzip"])],
  ["cpu.security", values("cpu-security.", SECURITY)],
  ["kernel.version", values("kernel-version.", ["full"], ["major", "minor", "revision"])],
  ["kernel.selinux", whenTrue("enabled", "kernel-selinux.enabled")],
  ["kernel.config", kernelOption],
  ["memory.numa", whenTrue("is_numa", "memory-numa")],
  ["memory.swap", whenTrue("enabled", "memory-swap.enabled")],
  [
    "system.osrelease",
    values("system-os_release.", ["ID", "VERSION_ID"], ["VERSION_ID.major", "VERSION_ID.minor"]),
  ],
  ["local.label", local],
  ["local.feature", local],
  ["cpu.rdt", unpublished],
  // The name of the feature before NFD 0.12.
  ["cpu.sgx", values("cpu-security.sgx.", ["enabled"])],
  ["kernel.enabledmodule", unpublished],
  ["kernel.loadedmodule", unpublished],
  ["system.dmiid", unpublished],
  ["system.name", unpublished],
]);

/** True when NFD discovers this feature on every node. */
export function isDiscovered(feature: string): boolean {
  return FEATURES.has(feature.toLowerCase());
}

/**
 * `cpu.cpuid` with `AVX512F` gives `feature.node.kubernetes.io/cpu-cpuid.AVX512F`. Feature names ignore case, and those of
 * elements do not.
 */
export function labelOfElement(named: string, element: string): ElementLabel {
  const feature = named.toLowerCase();
  const lookup = FEATURES.get(feature);
  if (lookup === undefined) return { kind: "none", element: `${named} ${element}` };
  return lookup(element) ?? publish(feature, element);
}
