/** What a replica sees in a pod that has just been stored: whether Berth was asked about it, and what is to be looked up. Pure. */
import type { Pod } from "@berth/kube";
import type { ArchitectureAdmission } from "./admit.ts";
import { narrowedTo } from "./affinity.ts";
import { taintKeys } from "./compile.ts";
import { decidePod, isUnscheduled } from "./decide-pod.ts";
import { governing, isHeldFor } from "./govern.ts";
import type { ImageQuestion } from "./image-sight.ts";
import { namesArchitecture } from "./own-architecture.ts";
import { gateIndex, narrow } from "./pod-patch.ts";
import { judge } from "./verdict.ts";

/**
 * `asked`: it has our gate, or the affinity that its images need. `missed`: it has neither, though its policy narrows it.
 * `undefined`: it would look the same either way, or cannot be judged.
 *
 * Only of a pod that has just been made, by policies that have been in force for a while: later its gate has been lifted,
 * or its verdict is another one.
 */
export function traceOfAdmission(context: ArchitectureAdmission, pod: Pod): "asked" | "missed" | undefined {
  const { metadata, spec } = pod;
  const { namespace = "", labels = {}, annotations = {} } = metadata ?? {};
  const namespaceLabels = context.namespaceLabels(namespace);
  if (spec === undefined || namespaceLabels === undefined || !isUnscheduled(pod)) return undefined;
  const policy = governing(context, { namespace, namespaceLabels, labels });
  if (!isHeldFor(policy, { namespace, metadata })) return undefined;
  if (gateIndex(spec) >= 0 || narrowedTo(spec).length > 0) return "asked";
  const { sight, now } = context;
  const verdict = judge({ namespace, annotations, spec, policy }, sight, { now });
  if (verdict.kind === "any") return undefined;
  if (verdict.kind === "fits") return narrow(spec, verdict, []).length === 0 ? "asked" : "missed";
  // What was known when it was made may have been forgotten since.
  return namesArchitecture(spec) ? undefined : "missed";
}

/** Images to be looked up for the pod, as its controller wants them; none while it is not known who governs it. */
export function wantedFor(context: ArchitectureAdmission, pod: Pod): readonly ImageQuestion[] {
  const { namespace = "", labels = {} } = pod.metadata ?? {};
  const namespaceLabels = context.namespaceLabels(namespace);
  if (namespaceLabels === undefined || !isUnscheduled(pod)) return [];
  const keys = taintKeys(context);
  // Nothing of ours waits for facts then, whoever governs it.
  if (keys.length === 0 && gateIndex(pod.spec) < 0) return [];
  const policy = governing(context, { namespace, namespaceLabels, labels });
  const { sight, now } = context;
  return decidePod({ pod, policy, keys, sight, now }).wants;
}
