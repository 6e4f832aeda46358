/** Which taints of startup gates the pods of a DaemonSet tolerate, and what makes them tolerate the others. */
import type { DaemonSet, JsonPatchOperation, Taint, Toleration } from "@berth/kube";
import { recordTolerations } from "../node/given-tolerations.ts";
import { tolerates } from "../node/tolerations.ts";
import { GATES, type Gate, type Gates } from "./gate.ts";

export type GateList = Pick<Gates, "gates">;

const TOLERATIONS = "/spec/template/spec/tolerations";

/** In the order of the fields that nodetaintshandler sends. */
export function taintOf({ spec: { taint } }: Gate): Taint {
  return { key: taint.key, value: taint.value, effect: taint.effect };
}

/** The toleration that Berth gives: for whatever value the taint of the gate has. */
export function tolerationOf({ spec: { taint } }: Gate): Toleration {
  return { key: taint.key, operator: "Exists", effect: taint.effect };
}

/**
 * The tolerations that the pods of the DaemonSet lack, in the order of the gates: while a gate holds a node that they do
 * not tolerate, the DaemonSet controller makes no pod for it. It asks the template and not the pods.
 */
export function missingTolerations(daemonSet: DaemonSet, { gates }: GateList): readonly Toleration[] {
  const standing = daemonSet.spec?.template.spec?.tolerations;
  return gates.filter(({ spec }) => !tolerates(standing, spec.taint)).map(tolerationOf);
}

/**
 * The JSON patch that lets a stored DaemonSet tolerate all gates; applied, it starts a roll-out. It fails when the
 * DaemonSet has changed since it was read, so that it never adds what somebody else has added meanwhile.
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

/** What adds the missing tolerations behind those that stand, and records them; nothing when none is missing. */
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
