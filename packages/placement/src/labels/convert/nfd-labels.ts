/**
 * Which label of the node says the same as an element of a feature of Node Feature Discovery, with the labels that its
 * worker publishes unless it is configured otherwise. Source: its documentation, "Feature labels" and "Customization
 * guide" (available features), and `GetLabels` of its sources. What is not here is on no label.
 */

/** Domain of NFD's own labels, and of labels of rules that name none. */
export const NFD_DOMAIN = "feature.node.kubernetes.io";

/** On every node that nfd-master has labelled: the sign that a label that is not there is known not to be. */
export const NFD_MARK = "nfd.node.kubernetes.io/feature-labels";

/** How a label stands for an element. */
export type ElementLabel =
  /** The label is there when the element is, with its value, which is always a whole number where it says so. */
  | { readonly kind: "value"; readonly key: string; readonly whole?: boolean }
  /** The label is there when the flag is; a flag has no value. */
  | { readonly kind: "flag"; readonly key: string }
  /** The label is `true` when the element has this value. */
  | { readonly kind: "equals"; readonly key: string; readonly value: string }
  /** No label says it. */
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

/** `sources.cpu.cpuid.attributeBlacklist`: flags that are published by no label. */
const UNPUBLISHED_FLAGS: ReadonlySet<string> = new Set(
  "AVX10 BMI1 BMI2 CLMUL CMOV CX16 ERMS F16C HTT LZCNT MMX MMXEXT NX POPCNT RDRAND RDSEED RDTSCP SGX SGXLC SSE SSE2 SSE3 SSE4 SSE42 SSSE3 TDX_GUEST".split(
    " ",
  ),
);

const SECURITY =
  "sgx.enabled se.enabled tdx.enabled tdx.protected sev.enabled sev.es.enabled sev.snp.enabled".split(" ");

/** `sources.kernel.configOpts`. */
const KERNEL_OPTIONS: ReadonlySet<string> = new Set(["NO_HZ", "NO_HZ_IDLE", "NO_HZ_FULL", "PREEMPT"]);

type Lookup = (element: string) => ElementLabel | undefined;

/** One of them is no flag and has a value. */
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

/** NFD discovers it, and publishes no label of it. */
const unpublished: Lookup = () => undefined;

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
  ["kernel.enabledmodule", unpublished],
  ["kernel.loadedmodule", unpublished],
  ["memory.nv", unpublished],
  ["system.dmiid", unpublished],
  ["system.name", unpublished],
]);

/** Does NFD discover this feature on every node? */
export function isDiscovered(feature: string): boolean {
  return FEATURES.has(feature.toLowerCase());
}

/** `cpu.cpuid` with `AVX512F` is on `feature.node.kubernetes.io/cpu-cpuid.AVX512F`. Names of features ignore case. */
export function labelOfElement(feature: string, element: string): ElementLabel {
  const found = FEATURES.get(feature.toLowerCase())?.(element);
  return found ?? { kind: "none", element: `${feature} ${element}` };
}
