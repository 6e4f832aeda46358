/** The labels that rules of Berth write, and those that they are about to write. */
import type { Node } from "@berth/kube";
import { isSameData } from "@berth/runtime";
import type { Contribution, Instant, Policy } from "../node/capability.ts";
import { labelId, standingValue } from "../node/mark.ts";
import type { NodeObserver, NodeOutcome } from "../node/observer.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import type { WiredFacts } from "../node/wired.ts";

const LABEL = "label/";

/** Keys of labels that these capabilities declare. */
export function declaredKeys(contributions: readonly Contribution[]): ReadonlySet<string> {
  const ids = contributions.flatMap(({ policy }) => [...policy.declared.ids]);
  return new Set(ids.filter((id) => id.startsWith(LABEL)).map((id) => id.slice(LABEL.length)));
}

/** True when a rule is about to write another value than stands, or cannot decide now about this label. */
export function isUnsettled(
  node: Node,
  key: string,
  facts: readonly WiredFacts[],
  { installation, now }: { readonly installation: string; readonly now: Instant },
): boolean {
  const id = labelId(key);
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  return facts.some(({ capability, known }) => {
    if (!known()) return true;
    const { marks, keep } = capability.contribute(view, now).decision;
    const standing = standingValue(node, id);
    const isForeign = standing !== undefined && !view.owned.has(id);
    return (
      keep.has(id) ||
      marks.some((it) => it.id === id && it.value !== standing && !(isForeign && it.foreign === "leave"))
    );
  });
}

/** Follows the keys that rules for labels write. The node writer tells of each change of these rules. */
export class DerivedKeys implements NodeObserver {
  readonly #facts: () => readonly WiredFacts[];
  readonly #onChange: () => void;
  readonly #declaring = new Map<string, Policy>();
  #keys: ReadonlySet<string> | undefined;

  constructor(facts: () => readonly WiredFacts[], onChange: () => void) {
    this.#facts = facts;
    this.#onChange = onChange;
  }

  /** `undefined` until all rules are known. */
  get keys(): ReadonlySet<string> | undefined {
    return this.#facts().every(({ known }) => known()) ? this.#keys : undefined;
  }

  decided(_: string, { contributions }: Pick<NodeOutcome, "contributions">): void {
    const names = new Set(this.#facts().map(({ capability: { name } }) => name));
    const declared = contributions.filter(({ capability }) => names.has(capability));
    if (declared.every(({ capability, policy }) => this.#declaring.get(capability) === policy)) return;
    for (const { capability, policy } of declared) this.#declaring.set(capability, policy);
    this.#keys = declaredKeys(declared);
    this.#onChange();
  }
}

/** The keys of the labels that differ. `undefined` when taints differ, or the node is being deleted. */
export function changedKeys(a: Node, b: Node): ReadonlySet<string> | undefined {
  const isMore =
    !isSameData(a.spec?.taints, b.spec?.taints) ||
    a.metadata?.deletionTimestamp !== b.metadata?.deletionTimestamp;
  if (isMore) return undefined;
  const [before, after] = [a.metadata?.labels ?? {}, b.metadata?.labels ?? {}];
  return new Set(Object.keys({ ...before, ...after }).filter((key) => before[key] !== after[key]));
}
