/** The changes that a capability undoes in `clean`, in addition to the marks recorded on nodes. */
import { eachObject, type OneShotRun, type Undo } from "@berth/host";
import { type DaemonSet, daemonSets, type JsonPatchOperation, type Node } from "@berth/kube";
import type { Unrecorded } from "./clean.ts";
import type { MarkId } from "./mark.ts";
import type { NodePlan } from "./plan.ts";

export interface CleanAt {
  readonly run: OneShotRun;
  /** Remove what this capability has set. If false, only its `declared` is used. */
  readonly isWanted: boolean;
  /** Clean this capability and no other. */
  readonly isOnly: boolean;
  /** The user gave documents in files. */
  readonly hasConfig: boolean;
  /** Restart pods that carry something of the capability. */
  readonly restartPods: boolean;
}

export interface CleaningCapability {
  /** Taints and cordons that its rules may set. Berth trusts records of them. */
  readonly declared?: ReadonlySet<MarkId>;
  /** Marks on nodes that have no record. */
  readonly unrecorded?: Unrecorded;
  /** Marks, or keys of marks, to remove from this node even if Berth did not set them. */
  readonly keysOn?: (node: Node) => readonly string[];
  /** Called for each node before any write. */
  readonly add?: (node: Node, plan: NodePlan) => void;
  readonly templates?: readonly TemplatePart[];
  /** Called after all nodes are planned; executed after the nodes. @param isDone false: the command only shows it. */
  readonly find?: (isDone: boolean) => Promise<readonly Undo[]>;
  /** Executed after the nodes, before the results of `find`. */
  readonly work?: CleanWork;
  /** Printed on standard error, after the output. */
  readonly remarks?: () => string;
}

/** Work that does not fit `Undo`. */
export interface CleanWork {
  readonly isEmpty: boolean;
  /** Included in the data that the command prints. */
  readonly data: Readonly<Record<string, unknown>>;
  format(verb: "will" | "would"): string;
  /** @returns a line with the number of failures, then one line for each failure. */
  carryOut(): Promise<readonly string[]>;
}

/** @typeParam T the compiled documents of the capability. `inForce` is `undefined` without a source of documents. */
export interface CleanOnce<T> {
  clean(inForce: T | undefined, at: CleanAt): Promise<CleaningCapability>;
}

/** A part of a DaemonSet that is recorded beside the pod template. */
export interface TemplatePart {
  readonly what: string;
  /** Remove the part before node marks, because the DaemonSet controller would delete pods when these marks go. */
  readonly isFirst: boolean;
  /** `undefined`: the DaemonSet has no record. */
  readonly remove: (daemonSet: DaemonSet) => readonly JsonPatchOperation[] | undefined;
}

/** Finds DaemonSets to which Berth added one of these parts. */
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
