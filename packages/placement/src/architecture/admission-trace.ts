/** Tells from a new stored pod if the API server asked Berth about it, and which images Berth has to look up. Pure. */
import type { Pod } from "@berth/kube";
import type { ArchitectureAdmission } from "./admit.ts";
import { narrowedTo } from "./affinity.ts";
import { taintKeys } from "./compile.ts";
import { decidePod, isUnscheduled } from "./decide-pod.ts";
import { governing, isHeldFor } from "./govern.ts";
import type { ImageQuestion } from "./image-observations.ts";
import { namesArchitecture } from "./own-architecture.ts";
import { gateIndex, narrow } from "./pod-patch.ts";
import { judge } from "./verdict.ts";

/**
 * `asked`: the pod has our gate, or the affinity that its images need. `missed`: it has neither, though its policy
 * narrows it. `undefined`: the pod would look the same in both cases, or Berth cannot decide.
 *
 * Call this only for a new pod, with policies that have been in force for a while. Later, Berth may have lifted the
 * gate, or the verdict may have changed.
 */
export function traceOfAdmission(context: ArchitectureAdmission, pod: Pod): "asked" | "missed" | undefined {
  const { metadata, spec } = pod;
  const { namespace = "", labels = {}, annotations = {} } = metadata ?? {};
  const namespaceLabels = context.namespaceLabels(namespace);
  if (spec === undefined || namespaceLabels === undefined || !isUnscheduled(pod)) return undefined;
  const policy = governing(context, { namespace, namespaceLabels, labels });
  if (!isHeldFor(policy, { namespace, metadata })) return undefined;
  if (gateIndex(spec) >= 0 || narrowedTo(spec).length > 0) return "asked";
  const { observations, now } = context;
  const verdict = judge({ namespace, annotations, spec, policy }, observations, { now });
  if (verdict.kind === "any") return undefined;
  if (verdict.kind === "fits") return narrow(spec, verdict, []).length === 0 ? "asked" : "missed";
  // Berth may have lost facts that it had when the pod was created.
  return namesArchitecture(spec) ? undefined : "missed";
}

/** Images that Berth looks up for the pod, as `decidePod` wants them. Empty while the namespace labels are unknown. */
export function wantedFor(context: ArchitectureAdmission, pod: Pod): readonly ImageQuestion[] {
  const { namespace = "", labels = {} } = pod.metadata ?? {};
  const namespaceLabels = context.namespaceLabels(namespace);
  if (namespaceLabels === undefined || !isUnscheduled(pod)) return [];
  const keys = taintKeys(context);
  // Without taint keys and without our gate, Berth needs no facts about the pod.
  if (keys.length === 0 && gateIndex(pod.spec) < 0) return [];
  const policy = governing(context, { namespace, namespaceLabels, labels });
  const { observations, now } = context;
  return decidePod({ pod, policy, keys, observations, now }).wants;
}
