/** What `status` says about one object, from what a running process wrote into it. */
import type { Condition, KubeObject } from "@berth/kube";
import { findCondition } from "@berth/runtime";

export interface Remark {
  /** A sentence without its subject: `holds 2 nodes`. */
  readonly text: string;
  /** The process does not go on here without a person. Default false. */
  readonly needsPerson?: boolean;
  /** The first objects that it is about, by name; never all of them. Default none. */
  readonly names?: readonly string[];
}

/** Any object with a status of conditions. */
export type Remarked = KubeObject & {
  readonly status?: {
    readonly observedGeneration?: number;
    readonly conditions?: readonly Condition[];
  };
};

/** What a kind tells of its objects. */
export interface Shown {
  /** The condition that is True while all is well. Default `Ready`. */
  readonly condition?: string;
  readonly remarks: (object: Remarked) => readonly Remark[];
}

/** How one object is. */
export interface ObjectState {
  /** `unseen`: no process has looked at this version of it. */
  readonly state: "inForce" | "faulty" | "unseen";
  readonly remarks: readonly Remark[];
}

export function stateOf(
  object: Remarked,
  { condition = "Ready", remarks }: Partial<Shown> = {},
): ObjectState {
  const { generation } = object.metadata ?? {};
  const main = conditionOf(object, condition);
  const { observedGeneration: seen = main?.observedGeneration ?? generation } = object.status ?? {};
  if (main === undefined || seen !== generation)
    return {
      state: "unseen",
      remarks: [{ text: "no running process has seen this version", needsPerson: true }],
    };
  const more = remarks?.(object) ?? [];
  return main.status === "True"
    ? { state: "inForce", remarks: more }
    : { state: "faulty", remarks: [toRemark(main), ...more] };
}

/** Any object whose status has conditions. */
export interface Conditioned {
  readonly status?: { readonly conditions?: readonly Condition[] | undefined };
}

export function conditionOf({ status }: Conditioned, type: string): Condition | undefined {
  return findCondition(status?.conditions, type);
}

/** `RuleConflict: another rule wants another value`. A person has to act. */
export function toRemark({ reason, message }: Pick<Condition, "reason" | "message">): Remark {
  return { text: `${reason}: ${message}`, needsPerson: true };
}
