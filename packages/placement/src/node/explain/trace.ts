/** What a decision compared, for people who ask why not. The decision itself notes it while it decides. */

/** One comparison. */
export interface Comparison {
  /** What is asked: `label example.com/gpu in (a, b)`. The same text for every node, so that nodes can be counted by it. */
  readonly what: string;
  /** What the node or pod has there; absent: nothing. */
  readonly value?: string;
  /** `unknown`: it depends on something that was not read. */
  readonly holds: boolean | "unknown";
  /** The comparisons of a group. */
  readonly parts?: readonly Comparison[];
}

export type Note = (comparison: Comparison) => void;

/** Collects the comparisons of one rule. With a trace a decision compares everything, and decides the same. */
export class Trace {
  /** `cluster/gpu` */
  readonly rule: string;
  readonly #found = new Map<string, readonly Comparison[]>();

  constructor(rule: string) {
    this.rule = rule;
  }

  /** Where to note comparisons about this place; `undefined` for another rule. What stood there is forgotten. */
  for(rule: string, place: string): Note | undefined {
    if (rule !== this.rule) return undefined;
    const noted: Comparison[] = [];
    this.#found.set(place, noted);
    return (comparison) => void noted.push(comparison);
  }

  /** By place, in the order of the decision. */
  get found(): readonly { readonly place: string; readonly comparisons: readonly Comparison[] }[] {
    return Array.from(this.#found, ([place, comparisons]) => ({ place, comparisons }));
  }
}

/** The first comparison that does not hold; of an alternative, the alternative itself. */
export function firstFailed(comparisons: readonly Comparison[]): Comparison | undefined {
  for (const it of comparisons) {
    if (it.holds === true) continue;
    return it.what === ALL ? (firstFailed(it.parts ?? []) ?? it) : it;
  }
  return undefined;
}

export const ALL = "all of";
export const ANY = "any of";
