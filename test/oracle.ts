/**
 * What must stand on a node, worked out a second time: from the rule files and the labels that others have set,
 * without a line of the product's own code, in the simplest way there is.
 */
import type { Node } from "@berth/kube";

export type Labels = Readonly<Record<string, string>>;

/** Content by path relative to the rule folder. */
export type RuleFiles = ReadonlyMap<string, string>;

export interface OracleOptions {
  /** Keys under kubernetes.io and k8s.io that rules may write. Default none. */
  readonly allowReserved?: readonly string[];
}

/**
 * The keys that rules set on a node which carries these labels of others: the least fixed point, by trying every rule
 * until nothing is new. Not for a foreign label whose key is itself on a cycle of rules: there the answer is a matter
 * of taste, and a test has to say what it expects.
 */
export function derivedKeys(
  rules: RuleFiles,
  foreign: Labels,
  { allowReserved = [] }: OracleOptions = {},
): ReadonlySet<string> {
  const working = [...rules].filter(
    ([key]) => isLabelKey(key) && (!isReserved(key) || allowReserved.includes(key)),
  );
  const derived = new Set<string>();
  for (let before = -1; before !== derived.size; ) {
    before = derived.size;
    for (const [key, text] of working) {
      const matches = text.split("\n").some((line) => Object.hasOwn(foreign, line) || derived.has(line));
      if (matches) derived.add(key);
    }
  }
  return derived;
}

/** All labels of the node: those of others, and ours over them. */
export function expectedLabels(foreign: Labels, derived: ReadonlySet<string>): Labels {
  return { ...foreign, ...Object.fromEntries([...derived].map((key) => [key, "true"])) };
}

const RECORD = "berth.dev/marks";

/**
 * The labels that the node's ownership record claims, each with the rule that it names.
 * @throws Error when the record is not exactly in the documented form.
 */
export function recordedLabels(node: Node): Readonly<Record<string, string>> {
  const text = node.metadata?.annotations?.[RECORD];
  if (text === undefined) return {};
  const { v, by, marks, ...rest } = JSON.parse(text) as Record<string, unknown>;
  if (v !== 1 || by !== "berth" || Object.keys(rest).length > 0) throw new Error(`the record reads ${text}`);
  const entries = Object.entries(marks as Record<string, Record<string, unknown>>).map(([id, entry]) => {
    const { c, r, since, ...more } = entry;
    const isTime = typeof since === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(since);
    if (c !== "labels" || !isTime || Object.keys(more).length > 0 || !id.startsWith("label/")) {
      throw new Error(`the record has the entry ${id}: ${JSON.stringify(entry)}`);
    }
    return [id.slice("label/".length), String(r)] as const;
  });
  if (entries.length === 0) throw new Error("the record is there and empty");
  return Object.fromEntries(entries);
}

/** The annotations of others. */
export function foreignAnnotations(node: Node): Labels {
  const { [RECORD]: _ours, ...others } = node.metadata?.annotations ?? {};
  return others;
}

/** As in apimachinery: an optional DNS subdomain, `/`, and a name of at most 63 characters. */
function isLabelKey(key: string): boolean {
  const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
  const name = /^([A-Za-z0-9]|[A-Za-z0-9][-A-Za-z0-9_.]{0,61}[A-Za-z0-9])$/;
  const parts = key.split("/");
  if (parts.length === 1) return name.test(key);
  const [prefix = "", rest = ""] = parts;
  return parts.length === 2 && prefix.length <= 253 && subdomain.test(prefix) && name.test(rest);
}

function isReserved(key: string): boolean {
  return /^([^/]+\.)?(kubernetes|k8s)\.io\//.test(key);
}
