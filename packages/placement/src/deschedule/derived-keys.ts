/** The labels that rules of Berth write, and those that they are about to write. */
import type { Node } from "@berth/kube";
import type { Contribution, Instant } from "../node/capability.ts";
import { labelId, standingValue } from "../node/mark.ts";
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
