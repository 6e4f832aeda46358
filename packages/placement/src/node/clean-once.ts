/** What a capability takes back in `clean`, beside the marks that nodes record. */
import { eachObject, type OneShotRun, type Undo } from "@berth/host";
import { type DaemonSet, daemonSets, type JsonPatchOperation, type Node } from "@berth/kube";
import type { Unrecorded } from "./clean.ts";
import type { MarkId } from "./mark.ts";
import type { NodePlan } from "./plan.ts";

export interface CleanAt {
  readonly run: OneShotRun;
  /** What this capability has set is to go. Of the others it is only asked what they have declared. */
  readonly isWanted: boolean;
  /** And what the others have set is not. */
  readonly isOnly: boolean;
  /** Documents were given in files. */
  readonly hasConfig: boolean;
  /** Have pods made anew that carry something of the capability. */
  readonly restartPods: boolean;
}

export interface CleaningCapability {
  /** Taints and cordons that its rules may set: records of them are believed. */
  readonly declared?: ReadonlySet<MarkId>;
  /** What stands on nodes and no record tells of. */
  readonly unrecorded?: Unrecorded;
  /** Marks, or keys of marks, that go from this node whoever has set them. */
  readonly keysOn?: (node: Node) => readonly string[];
  /** Of one node after the other, before anything is written. */
  readonly add?: (node: Node, plan: NodePlan) => void;
  readonly templates?: readonly TemplatePart[];
  /** Once all nodes were looked at. Is carried out after the nodes. @param isDone it is, and not only shown. */
  readonly find?: (isDone: boolean) => Promise<readonly Undo[]>;
  /** Is carried out after the nodes, before what `find` has found. */
  readonly work?: CleanWork;
  /** On standard error, below what is shown. */
  readonly remarks?: () => string;
}

/** Work that has a shape of its own. */
export interface CleanWork {
  readonly isEmpty: boolean;
  /** Becomes a part of the data that the command prints. */
  readonly data: Readonly<Record<string, unknown>>;
  format(verb: "will" | "would"): string;
  /** @returns one line for each thing that could not be done, below one that counts them. */
  carryOut(): Promise<readonly string[]>;
}

/** @typeParam T what the documents of the capability make; `undefined` where there is no source of them. */
export interface CleanOnce<T> {
  clean(inForce: T | undefined, at: CleanAt): Promise<CleaningCapability>;
}

/** A part of a DaemonSet that is recorded beside the pod template. */
export interface TemplatePart {
  readonly what: string;
  /** Without it pods on a node go as soon as the node has lost its marks: it is removed before these. */
  readonly isFirst: boolean;
  /** `undefined`: nothing is recorded. */
  readonly remove: (daemonSet: DaemonSet) => readonly JsonPatchOperation[] | undefined;
}

/** DaemonSets to which one of these parts was added. */
export async function findTemplateParts(
  parts: readonly TemplatePart[],
  run: OneShotRun,
): Promise<readonly Undo[]> {
  const found: Undo[] = [];
  if (parts.length === 0) return found;
  const consequence = "what Berth has added to them stays";
  await eachObject({ resource: daemonSets, consequence }, run, (object) => {
    for (const { what, remove } of parts)
      if (remove(object) !== undefined)
        found.push({ resource: daemonSets, object, what, how: { do: "edit", edit: remove } });
  });
  return found;
}
