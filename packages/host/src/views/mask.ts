import type { Fields, KubeObject, Projection } from "@berth/kube";

/**
 * Paths of the fields to keep, such as `metadata.labels` and `status.conditions[].type`. A path keeps everything below
 * it. `[]` means every element of a list. Concatenate several masks of one resource to merge them.
 */
export type FieldMask = readonly string[];

/** Fields of every object that caches, Events and guarded writes need. */
const IDENTITY: FieldMask = [
  "apiVersion",
  "kind",
  "metadata.name",
  "metadata.namespace",
  "metadata.uid",
  "metadata.resourceVersion",
];

/** Number of texts in each of the two generations of shared texts. */
const SHARED_TEXTS = 2048;
/** Longer texts seldom repeat and would only take memory. Characters. */
const LONGEST_SHARED = 128;

/** `Fields` that are being collected. */
type Wanted = { [field: string]: Wanted | "all" };

/**
 * Builds the projection that an informer applies to each decoded object: a new object with the fields of any mask, and
 * always its identity. Equal texts of many objects share memory.
 *
 * @throws TypeError when a path is empty or has an empty part.
 */
export function keepFields<T extends KubeObject>(...masks: readonly FieldMask[]): Projection<T> {
  const wanted: Wanted = {};
  for (const path of [IDENTITY, ...masks].flat()) add(wanted, path);
  const texts = new SharedTexts();
  return Object.assign((object: T) => select(object, wanted, texts) as T, { fields: wanted });
}

function add(wanted: Wanted, path: string): void {
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
  // A value that is kept whole stays the parser's object, which is smaller than a copy.
  const kept = wanted === "all" ? from : {};
  for (const key in wanted === "all" ? from : wanted) {
    const below = wanted === "all" ? wanted : wanted[key];
    if (below !== undefined && Object.hasOwn(from, key)) kept[key] = select(from[key], below, texts);
  }
  return kept;
}

/** Returns the first instance of an equal text. Bounded: texts that did not occur for long are forgotten. */
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
