/** The groups of pods, and the annotations that name them. Pure and total: labels and owners are untrusted. */
import { createHash } from "node:crypto";
import type { Pod } from "@berth/kube";
import { ownValue } from "../node/mark.ts";
import { annotationKeyProblem } from "../node/validate.ts";
import type { Footprint } from "./footprint.ts";
import type { FootprintSight, OwnerIdentity } from "./footprint-sight.ts";

export type PodGroup =
  /** `""` where all pods are one group. */
  | { readonly is: "group"; readonly name: string }
  /** Its owners have not been read. */
  | { readonly is: "unknown" }
  /** It has no label to group it by, or an empty one: it needs nothing. */
  | { readonly is: "none" }
  /**
   * No owner of the kind that is asked for is there, or not the one that its label names: it never was, or is no more, by
   * an orphaning deletion, because owners go before their pods, or because another owner took over what it left. What its
   * label names, where a label groups; and in words what the pod lacks.
   */
  | { readonly is: "ownerless"; readonly name?: string; readonly why: string }
  /** Its label names what cannot be a claim. */
  | { readonly is: "refused"; readonly why: string };

type Kind = Pick<OwnerIdentity, "group" | "kind">;

export function groupOf(pod: Pod, footprint: Footprint, sight: Pick<FootprintSight, "owners">): PodGroup {
  const { grouping } = footprint;
  if (grouping.by === "PodLabel")
    return labelGroup(pod, { ...grouping, prefix: footprint.claims?.annotationPrefix }, sight);
  if (grouping.by === "OwnerUID") {
    const owners = sight.owners(pod);
    if (owners === undefined) return { is: "unknown" };
    const owner = owners.find((it) => isOf(it, grouping.owner));
    return owner === undefined ? { is: "ownerless", why: NO_OWNER } : named(owner.uid);
  }
  if (grouping.by === "None") return { is: "group", name: "" };
  return named(grouping.by === "Namespace" ? pod.metadata?.namespace : pod.metadata?.uid);
}

/**
 * Can a pod that is to be made be of a group at all, by its own labels? Without one no agent comes for it, and it must not
 * wait for that.
 */
export function hasGroupLabel(pod: Pod, { grouping, claims }: Footprint): boolean {
  if (grouping.by !== "PodLabel") return true;
  return !("is" in labelOf(pod, { ...grouping, prefix: claims?.annotationPrefix }));
}

export function isGroupedByOwner({ grouping }: Footprint): boolean {
  return grouping.by === "OwnerUID" || (grouping.by === "PodLabel" && grouping.verify !== undefined);
}

type LabelGrouping = Extract<Footprint["grouping"], { readonly by: "PodLabel" }> & {
  /** Of claims. */
  readonly prefix: string | undefined;
};

/** What the label names, or why it is no group. */
function labelOf({ metadata }: Pod, { label, prefix }: LabelGrouping): { readonly name: string } | PodGroup {
  const name = ownValue(metadata?.labels, label) ?? "";
  if (name === "") return { is: "none" };
  const problem = prefix === undefined ? undefined : annotationKeyProblem(`${prefix}${name}`);
  if (problem === undefined) return { name };
  return { is: "refused", why: `${label} cannot name a claim: ${problem}` };
}

function labelGroup(pod: Pod, grouping: LabelGrouping, sight: Pick<FootprintSight, "owners">): PodGroup {
  const read = labelOf(pod, grouping);
  if ("is" in read) return read;
  const { name } = read;
  const { label, verify } = grouping;
  if (verify === undefined) return { is: "group", name };
  const owners = sight.owners(pod);
  if (owners === undefined) return { is: "unknown" };
  const owner = owners.find((it) => isOf(it, verify));
  if (owner === undefined) return { is: "ownerless", name, why: NO_OWNER };
  if (owner.uid === name) return { is: "group", name };
  return { is: "ownerless", name, why: `${label} names another ${verify.kind} than its own, ${owner.name}` };
}

const NO_OWNER = "it has no owner of the kind that groups";

function named(name: string | undefined): PodGroup {
  return name === undefined || name === "" ? { is: "none" } : { is: "group", name };
}

function isOf(owner: OwnerIdentity, kind: Kind): boolean {
  return owner.group === kind.group && owner.kind === kind.kind;
}

/** Enough that nobody finds two groups with one claim. */
const HASH_CHARACTERS = 32;

/**
 * The annotation that claims the node for a group. A name that makes no valid key with the prefix (a namespace can be too
 * long) is hashed, the same way at all times; `h.` tells it from a uid.
 */
export function claimKey(prefix: string, group: string): string {
  const key = `${prefix}${group}`;
  if (annotationKeyProblem(key) === undefined) return key;
  return `${prefix}h.${createHash("sha256").update(group).digest("hex").slice(0, HASH_CHARACTERS)}`;
}
