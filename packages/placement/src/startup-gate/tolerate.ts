/** Finds the taints of startup gates that the pods of a DaemonSet do not tolerate, and adds tolerations. */
import type { DaemonSet, JsonPatchOperation, Taint, Toleration } from "@berth/kube";
import { recordTolerations } from "../node/given-tolerations.ts";
import { tolerates } from "../node/tolerations.ts";
import { GATES, type Gate, type Gates } from "./gate.ts";

export type GateList = Pick<Gates, "gates">;

const TOLERATIONS = "/spec/template/spec/tolerations";

/** Fields in the order that nodetaintshandler sends. */
export function taintOf({ spec: { taint } }: Gate): Taint {
  return { key: taint.key, value: taint.value, effect: taint.effect };
}

/** The toleration that Berth gives. It matches any value of the gate's taint. */
export function tolerationOf({ spec: { taint } }: Gate): Toleration {
  return { key: taint.key, operator: "Exists", effect: taint.effect };
}

/**
 * Tolerations that the pods of the DaemonSet lack, in the order of the gates. Without them the DaemonSet controller
 * creates no pod on a held node. It checks the pod template and not the pods.
 */
export function missingTolerations(daemonSet: DaemonSet, { gates }: GateList): readonly Toleration[] {
  const standing = daemonSet.spec?.template.spec?.tolerations;
  return gates.filter(({ spec }) => !tolerates(standing, spec.taint)).map(tolerationOf);
}

/**
 * JSON patch that adds the missing tolerations to a stored DaemonSet. The patch starts a roll-out. It fails if the
 * DaemonSet has changed since the read, so that it never repeats an addition of another writer.
 *
 * @returns `undefined` when nothing is missing.
 */
export function tolerationPatch(
  daemonSet: DaemonSet,
  gates: GateList,
): readonly JsonPatchOperation[] | undefined {
  const value = daemonSet.metadata?.resourceVersion;
  const additions = additionsTo(daemonSet, gates);
  if (additions.length === 0 || value === undefined) return undefined;
  return [{ op: "test", path: "/metadata/resourceVersion", value }, ...additions];
}

/** Adds the missing tolerations after the existing ones, and records them; empty when none is missing. */
export function additionsTo(daemonSet: DaemonSet, gates: GateList): readonly JsonPatchOperation[] {
  const missing = missingTolerations(daemonSet, gates);
  if (missing.length === 0) return [];
  const standing = daemonSet.spec?.template.spec?.tolerations ?? [];
  const added: readonly JsonPatchOperation[] =
    standing.length === 0
      ? [{ op: "add", path: TOLERATIONS, value: missing }]
      : missing.map((value) => ({ op: "add", path: `${TOLERATIONS}/-`, value }));
  return [...added, ...recordTolerations(GATES, daemonSet.metadata?.annotations, missing)];
}
