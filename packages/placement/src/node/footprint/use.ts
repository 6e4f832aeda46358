/** Who needs the agent on one node. Pure and total. */
import type { Node, Pod } from "@berth/kube";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { NodeView } from "../capability.ts";
import { annotationId, labelId, type MarkId } from "../mark.ts";
import { FOOTPRINT, type Footprint } from "./footprint.ts";
import type { FootprintSight } from "./footprint-sight.ts";
import { claimKey, groupOf } from "./groups.ts";
import { podNeeds } from "./needs.ts";

/** What one pod that a workload takes, or may take, means for its node. */
export interface PodUse {
  readonly pod: Pod;
  /**
   * `Counts`: it needs the agent, for its group. `Unknown`: that cannot be told yet. `Ownerless`: it has lost its owner,
   * so what stands for it stays. `Refused`: it names a group that it does not belong to, and does not count.
   */
  readonly is: "Counts" | "Unknown" | "Ownerless" | "Refused";
  /** Of those that count; `""` where all pods are one group. */
  readonly group?: string;
  /** Why it is refused, in words. `forged`: it says what is not so. */
  readonly why?: string;
  readonly forged?: boolean;
}

/** What the pods of a node mean together. */
export interface NodeUse {
  /** At least one pod is known to need the agent. */
  readonly needed: boolean;
  /** Of the pods that count, each once. */
  readonly groups: ReadonlySet<string>;
  /** Why there may be more: then nothing that stands is removed. */
  readonly unknown?: Reason;
  readonly refused: readonly PodUse[];
  /** What they stand for stays. */
  readonly ownerless: readonly PodUse[];
}

/** Each pod of the node that matters to the footprint; `undefined` while its pods have not been read. */
export function podUses(
  footprint: Footprint,
  { node, owned }: Pick<NodeView, "node" | "owned">,
  sight: FootprintSight,
): readonly PodUse[] | undefined {
  const pods = sight.pods(footprint, nameOf(node));
  if (pods === undefined) return undefined;
  const uses: PodUse[] = [];
  const isOurs = (id: MarkId): boolean => owned.get(id)?.capability === FOOTPRINT;
  for (const pod of pods) {
    const needs = podNeeds(pod, footprint, sight);
    const use = needs === "no" ? undefined : useOfPod(pod, footprint, { sight, isOurs });
    if (use === undefined) continue;
    if (needs === "yes") uses.push(use);
    // One that is refused will not count whatever is read, and may be none that is to be told of.
    else if (use.is !== "Refused") uses.push({ pod, is: "Unknown" });
  }
  return uses;
}

interface Standing {
  readonly sight: FootprintSight;
  readonly isOurs: (id: MarkId) => boolean;
}

/**
 * A pod whose owner is not there counts only where the node carries its mark as ours: it has had that owner then. Owners
 * go before their pods do, an orphaning deletion leaves pods that still run, and a new owner of the same name may take over
 * what is above them.
 */
function useOfPod(pod: Pod, footprint: Footprint, { sight, isOurs }: Standing): PodUse | undefined {
  const group = groupOf(pod, footprint, sight);
  if (group.is === "none") return undefined;
  if (group.is === "group") return { pod, is: "Counts", group: group.name };
  if (group.is === "unknown") return { pod, is: "Unknown" };
  if (group.is === "refused") return { pod, is: "Refused", why: group.why, forged: true };
  const { claims, label } = footprint;
  const { name, why } = group;
  const mark = name === undefined || claims === undefined ? labelId(label.key) : claimId(claims, name);
  if (isOurs(mark)) return name === undefined ? { pod, is: "Ownerless" } : { pod, is: "Counts", group: name };
  // With a label it says what is not so; without, it only looks like a pod of theirs.
  return { pod, is: "Refused", why, forged: name !== undefined };
}

export function claimId({ annotationPrefix }: NonNullable<Footprint["claims"]>, group: string): MarkId {
  return annotationId(claimKey(annotationPrefix, group));
}

/** All pods of a node together. Their order does not matter. */
export function useOf(
  footprint: Footprint,
  view: Pick<NodeView, "node" | "owned">,
  sight: FootprintSight,
): NodeUse {
  const uses = podUses(footprint, view, sight);
  if (uses === undefined) return unread;
  if (uses.length === 0) return idle;
  const groups = new Set<string>();
  const refused: PodUse[] = [];
  const ownerless: PodUse[] = [];
  let unknown: Reason | undefined;
  for (const use of uses) {
    if (use.is === "Counts") groups.add(use.group ?? "");
    else if (use.is === "Refused") refused.push(use);
    else if (use.is === "Unknown") unknown = reasons.FootprintUnknown;
    else ownerless.push(use);
  }
  if (ownerless.length > 0) unknown ??= reasons.FootprintOwnerless;
  return { needed: groups.size > 0, groups, refused, ownerless, ...(unknown && { unknown }) };
}

const idle: NodeUse = Object.freeze({ needed: false, groups: new Set<string>(), refused: [], ownerless: [] });
const unread: NodeUse = Object.freeze({ ...idle, unknown: reasons.FootprintUnknown });

function nameOf({ metadata }: Node): string {
  return metadata?.name ?? "";
}
