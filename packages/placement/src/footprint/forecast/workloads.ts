/** What footprints would do to objects beside nodes, for `plan`. Pure. */
import type { DaemonSet, KubeObject } from "@berth/kube";
import { addFinalizer } from "@berth/runtime";
import { type AgentTarget, staysAway } from "../agent/selector.ts";
import type { OwnerHold } from "../footprint.ts";

/** Would the hold put its finalizer on this owner? */
export function wouldHold({ finalizer }: Pick<OwnerHold, "finalizer">, owner: KubeObject): boolean {
  return addFinalizer(owner, finalizer) !== undefined;
}

/** Does the DaemonSet go by the label of its footprint? */
export function asksFor({ spec }: DaemonSet, footprint: AgentTarget): boolean {
  return staysAway(spec?.template.spec, footprint);
}
