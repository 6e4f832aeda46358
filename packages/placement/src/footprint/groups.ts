/** The groups of pods, and the annotations that name them. Pure and total: labels and owners are untrusted. */
import { createHash } from "node:crypto";
import type { Pod } from "@berth/kube";
import { ownValue } from "../node/mark.ts";
import { annotationKeyProblem } from "../node/validate.ts";
import type { Footprint } from "./footprint.ts";
import type { FootprintObservations, OwnerIdentity } from "./footprint-observations.ts";

export type PodGroup =
  /** `name` is `""` when all pods form one group. */
  | { readonly is: "group"; readonly name: string }
  /** Berth has not read its owners. */
  | { readonly is: "unknown" }
  /** The pod lacks the label that groups it, or the label is empty: it does not need the agent. */
  | { readonly is: "none" }
  /**
   * The pod has no owner of the required kind, or its label names another owner. That owner may never have existed. It
   * may also be gone: deleted before its pods, deleted with orphaning, or replaced by another owner. `name`: the value
   * of the label, if a label groups. `why`: what the pod lacks, in words.
   */
  | { readonly is: "ownerless"; readonly name?: string; readonly why: string }
  /** The value of its label cannot be part of a claim. */
  | { readonly is: "refused"; readonly why: string };

type Kind = Pick<OwnerIdentity, "group" | "kind">;

export function groupOf(
  pod: Pod,
  footprint: Footprint,
  observations: Pick<FootprintObservations, "owners">,
): PodGroup {
  const { grouping } = footprint;
  if (grouping.by === "PodLabel")
    return labelGroup(pod, { ...grouping, prefix: footprint.claims?.annotationPrefix }, observations);
  if (grouping.by === "OwnerUID") {
    const owners = observations.owners(pod);
    if (owners === undefined) return { is: "unknown" };
    const owner = owners.find((it) => isOf(it, grouping.owner));
    return owner === undefined ? { is: "ownerless", why: NO_OWNER } : named(owner.uid);
  }
  if (grouping.by === "None") return { is: "group", name: "" };
  return named(grouping.by === "Namespace" ? pod.metadata?.namespace : pod.metadata?.uid);
}

/** Do the labels of a new pod allow a group? Without a group, no agent comes for the pod, so the pod must not wait. */
export function hasGroupLabel(pod: Pod, { grouping, claims }: Footprint): boolean {
  if (grouping.by !== "PodLabel") return true;
  return !("is" in labelOf(pod, { ...grouping, prefix: claims?.annotationPrefix }));
}

export function isGroupedByOwner({ grouping }: Footprint): boolean {
  return grouping.by === "OwnerUID" || (grouping.by === "PodLabel" && grouping.verify !== undefined);
}

type LabelGrouping = Extract<Footprint["grouping"], { readonly by: "PodLabel" }> & {
  /** Prefix of claim annotations. */
  readonly prefix: string | undefined;
};

/** The value of the label, or why it cannot be a group. */
function labelOf({ metadata }: Pod, { label, prefix }: LabelGrouping): { readonly name: string } | PodGroup {
  const name = ownValue(metadata?.labels, label) ?? "";
  if (name === "") return { is: "none" };
  const problem = prefix === undefined ? undefined : annotationKeyProblem(`${prefix}${name}`);
  if (problem === undefined) return { name };
  return { is: "refused", why: `${label} cannot name a claim: ${problem}` };
}

function labelGroup(
  pod: Pod,
  grouping: LabelGrouping,
  observations: Pick<FootprintObservations, "owners">,
): PodGroup {
  const read = labelOf(pod, grouping);
  if ("is" in read) return read;
  const { name } = read;
  const { label, verify } = grouping;
  if (verify === undefined) return { is: "group", name };
  const owners = observations.owners(pod);
  if (owners === undefined) return { is: "unknown" };
  const owner = owners.find((it) => isOf(it, verify));
  if (owner === undefined) return { is: "ownerless", name, why: NO_OWNER };
  if (owner.uid === name) return { is: "group", name };
  return { is: "ownerless", name, why: `${label} names another ${verify.kind} than its own, ${owner.name}` };
}

const NO_OWNER = "it has no owner of the kind that forms groups";

function named(name: string | undefined): PodGroup {
  return name === undefined || name === "" ? { is: "none" } : { is: "group", name };
}

function isOf(owner: OwnerIdentity, kind: Kind): boolean {
  return owner.group === kind.group && owner.kind === kind.kind;
}

/** Enough characters that users cannot construct two groups with one claim. */
const HASH_CHARACTERS = 32;

/**
 * The annotation that claims the node for a group. If prefix and name make no valid key (a namespace can be too long),
 * the key contains a stable hash of the name. `h.` distinguishes this hash from a uid.
 */
export function claimKey(prefix: string, group: string): string {
  const key = `${prefix}${group}`;
  if (annotationKeyProblem(key) === undefined) return key;
  return `${prefix}h.${createHash("sha256").update(group).digest("hex").slice(0, HASH_CHARACTERS)}`;
}
