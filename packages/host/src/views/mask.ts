import type { KubeObject, Projection } from "@berth/kube";

/**
 * What is kept of an object, as data: paths such as `metadata.labels` and `status.conditions[].type`. A path keeps all
 * that is below it; `[]` is every element of a list. Several masks of one resource merge by listing them together.
 */
export type FieldMask = readonly string[];

/** What a cache, an Event and a guarded write need of every object. */
const IDENTITY: FieldMask = [
  "apiVersion",
  "kind",
  "metadata.name",
  "metadata.namespace",
  "metadata.uid",
  "metadata.resourceVersion",
];

/** Texts that are remembered: this many, and as many again from before. */
const SHARED_TEXTS = 2048;
/** Longer ones are seldom alike, and would let the memory grow. Characters. */
const LONGEST_SHARED = 128;

/** By field, what is kept of it. */
type Fields = { [field: string]: Fields | "all" };

/**
 * Turns masks into the projection that an informer applies to each object as it is decoded: a new object with the
 * fields of any of them, its identity always. Texts that many objects have in common are kept once.
 *
 * @throws TypeError when a path is empty or has an empty part.
 */
export function keepFields<T extends KubeObject>(...masks: readonly FieldMask[]): Projection<T> {
  const wanted: Fields = {};
  for (const path of [IDENTITY, ...masks].flat()) add(wanted, path);
  const texts = new SharedTexts();
  return (object) => select(object, wanted, texts) as T;
}

function add(wanted: Fields, path: string): void {
  const parts = path.split(".").map((part) => part.replace(/\[\]$/, ""));
  const last = parts.pop() ?? "";
  if (parts.includes("") || last === "") throw new TypeError(`"${path}" is no path of a field`);
  let at = wanted;
  for (const part of parts) {
    const below = (at[part] ??= {});
    if (below === "all") return;
    at = below;
  }
  at[last] = "all";
}

function select(value: unknown, wanted: Fields | "all", texts: SharedTexts): unknown {
  if (typeof value === "string") return texts.share(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((element) => select(element, wanted, texts));
  const from = value as Record<string, unknown>;
  // What is kept whole stays as the parser made it, which is smaller than a copy.
  const kept = wanted === "all" ? from : {};
  for (const key in wanted === "all" ? from : wanted) {
    const below = wanted === "all" ? wanted : wanted[key];
    if (below !== undefined && Object.hasOwn(from, key)) kept[key] = select(from[key], below, texts);
  }
  return kept;
}

/** The texts met last: one met again is given as it was first. Bounded: what has not been met for long is forgotten. */
class SharedTexts {
  #recent = new Map<string, string>();
  #before = new Map<string, string>();

  share(text: string): string {
    if (text.length > LONGEST_SHARED) return text;
    const known = this.#recent.get(text);
    if (known !== undefined) return known;
    const shared = this.#before.get(text) ?? text;
    if (this.#recent.size >= SHARED_TEXTS) {
      this.#before = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(shared, shared);
    return shared;
  }
}
