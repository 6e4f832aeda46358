/** Identifies the content of a template, so that an Instance says which template it was made from. */
import { createHash } from "node:crypto";
import { parseQuantity } from "@berth/runtime";
import type { Instance, InstanceSpec, InstanceTemplate } from "../api/workload.ts";

/** A later way to compute hashes gets another prefix, and knows these hashes as older ones. */
const FORMAT = "v1-";
const HASH_DIGITS = 16;

/** Fields whose default the CRDs fill in. The default equals none: a new default must not roll any Instance. */
const DEFAULTS: ReadonlyMap<string, unknown> = new Map([
  ["protocol", "TCP"],
  ["type", "pd-standard"],
  ["instanceManagementPolicy", "OrderedReady"],
]);

/** `v1-` and 64 bits in hex, from labels, annotations and spec. Equal for equal content by `canonicalJson`. */
export const templateHash: (template: InstanceTemplate) => string = remembered(({ metadata, spec }) => {
  const { labels, annotations } = metadata ?? {};
  const text = canonicalJson({ labels, annotations, spec: withoutOurs(spec) });
  return FORMAT + createHash("sha256").update(text).digest("hex").slice(0, HASH_DIGITS);
});

/** Whether Berth computed the hash, and not another program. */
export function isOwnHash(hash: string): boolean {
  return hash.startsWith(FORMAT);
}

/**
 * Whether the Instance was made from this template. The hash of another program (takeover of a cell) proves nothing:
 * then the content must be equal. An Instance without a hash was not.
 */
export function isCurrent({ metadata, spec }: Instance, template: InstanceTemplate, hash: string): boolean {
  const made = spec?.controller?.templateHash;
  if (spec === undefined || made === undefined || isOwnHash(made)) return made === hash;
  return (
    canonicalJson(withoutOurs(spec)) === canonicalJson(withoutOurs(template.spec)) &&
    hasAll(metadata?.labels, template.metadata?.labels) &&
    hasAll(metadata?.annotations, template.metadata?.annotations)
  );
}

/**
 * Text that is equal for values that mean the same: keys are sorted, quantities are amounts, and an empty value, `null`
 * or a known default equals none. The order of lists matters. Labels and annotations may be empty texts.
 */
export const canonicalJson: (value: object) => string = remembered((value) =>
  JSON.stringify(canonical(value) ?? null),
);

/**
 * With the text of each object, which must not change. A deployment is looked at whenever one of its Instances changes,
 * and its Workload looks at all templates then. A template of a megabyte takes 60 ms.
 */
function remembered<T extends object>(textOf: (value: T) => string): (value: T) => string {
  const texts = new WeakMap<T, string>();
  return (value) => {
    const text = texts.get(value) ?? textOf(value);
    texts.set(value, text);
    return text;
  };
}

function withoutOurs(spec: InstanceSpec): Partial<InstanceSpec> {
  const { controller: _controller, location: _location, ...own } = spec;
  return own;
}

function hasAll(map: Readonly<Record<string, string>> = {}, wanted: Readonly<Record<string, string>> = {}) {
  return Object.entries(wanted).every(([key, value]) => map[key] === value);
}

function canonical(value: unknown, key = ""): unknown {
  if (value === null || value === "" || value === DEFAULTS.get(key)) return undefined;
  if (Array.isArray(value))
    return value.length === 0 ? undefined : value.map((item) => canonical(item) ?? null);
  if (typeof value !== "object") return key === "divisor" ? amount(value) : value;
  const children = new Map<string, unknown>(Object.entries(value));
  const entries = [...children.keys()].toSorted().flatMap((name) => {
    const child = children.get(name);
    const kept = KEPT.get(key)?.(child) ?? canonical(child, name);
    return kept === undefined ? [] : [[name, kept] as const];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** Maps whose keys are names that users choose. */
const KEPT: ReadonlyMap<string, (value: unknown) => unknown> = new Map([
  ["labels", (value) => value],
  ["annotations", (value) => value],
  ["requests", amount],
  ["limits", amount],
]);

/** In units of 10⁻⁹. A text that is no quantity stays as it is. */
function amount(value: unknown): unknown {
  return parseQuantity(String(value))?.toString() ?? value;
}
