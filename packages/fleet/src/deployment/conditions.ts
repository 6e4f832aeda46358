import type { Condition } from "@berth/kube";
import { type DesiredCondition, mergeConditions, withoutConditions } from "@berth/runtime";

/** The value of one condition. */
export type Verdict = Pick<DesiredCondition, "status" | "reason" | "message">;

/** Why something does not run. */
export type Block = Pick<Verdict, "reason" | "message">;

export interface Verdicts {
  /** By type. `undefined`: the condition is removed. */
  readonly of: Readonly<Record<string, Verdict | undefined>>;
  /** Of the object's metadata. */
  readonly generation: number | undefined;
  readonly nowMs: number;
}

/** The conditions with these verdicts; `present` itself when nothing changes. Other types stay. */
export function conditionsWith(
  present: readonly Condition[] | undefined,
  verdicts: Verdicts,
): readonly Condition[] {
  const { of, generation, nowMs } = verdicts;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const gone: string[] = [];
  const desired: DesiredCondition[] = [];
  for (const [type, verdict] of Object.entries(of))
    if (verdict === undefined) gone.push(type);
    else desired.push({ type, ...verdict, ...observed });
  return mergeConditions(withoutConditions(present, gone), desired, nowMs);
}
