/** Decides what the pod template of a DaemonSet has to tolerate, and makes the patch. Pure. */
import type { DaemonSet, JsonPatchOperation, PodSpec, Toleration } from "@berth/kube";
import type { Instant } from "../node/capability.ts";
import { recordTolerations } from "../node/given-tolerations.ts";
import { field, textMapField } from "../node/untrusted-json.ts";
import type { PodDecision } from "./decide-pod.ts";
import { type GovernContext, governing } from "./govern.ts";
import type { ImageObservations } from "./image-observations.ts";
import { ARCHITECTURE } from "./policy.ts";
import { appendTolerations, coverOf } from "./tolerations.ts";
import { judge, recheckAfter, wantsOf } from "./verdict.ts";

/** Where the tolerations of a pod template are. */
export const TEMPLATE_TOLERATIONS = "/spec/template/spec/tolerations";

/** The input for the decision about a DaemonSet. */
export interface DaemonSetView extends GovernContext {
  readonly daemonSet: DaemonSet;
  readonly namespaceLabels: Readonly<Record<string, string>> | undefined;
  /** The keys in force: `taintKeys`. */
  readonly keys: readonly string[];
  readonly observations: ImageObservations;
  readonly now: Instant;
  /** Since when Berth waits for its images. Absent: it may wait without end. */
  readonly heldSince?: Instant | undefined;
}

export interface DaemonSetDecision
  extends Pick<PodDecision, "verdict" | "outcome" | "wants" | "recheckAfterMs"> {
  /** What the template lacks. */
  readonly missing: readonly Toleration[];
  /** Adds `missing`. Fails if the DaemonSet has changed since Berth read it. Starts a roll-out. */
  readonly patch?: readonly JsonPatchOperation[];
  /** Is there any key in force that it could have to tolerate? */
  readonly isConcerned: boolean;
}

/**
 * The DaemonSet controller checks the tolerations of the template, not of the pods. Without the toleration there, new
 * tainted nodes would stay without network, storage or logs. Berth leaves the affinity alone.
 */
export function decideDaemonSet(view: DaemonSetView): DaemonSetDecision {
  const { daemonSet, namespaceLabels, keys, observations, now, heldSince } = view;
  const { namespace = "", resourceVersion } = daemonSet.metadata ?? {};
  const template: unknown = daemonSet.spec?.template;
  const spec = (field(template, "spec") ?? {}) as PodSpec;
  const metadata = field(template, "metadata");
  const labels = textMapField(metadata, "labels");
  const policy = governing(view, { namespace, namespaceLabels, labels });
  const annotations = textMapField(metadata, "annotations");
  const verdict = judge({ namespace, annotations, spec, policy }, observations, { now, heldSince });
  const isConcerned = keys.length > 0;
  const { missing, uncovered, phase } = coverOf(spec.tolerations, keys, verdict);
  const additions = appendTolerations(spec.tolerations, missing, TEMPLATE_TOLERATIONS);
  const expiresAt = (heldSince ?? now) + (policy?.maxHoldMs ?? 0);
  const recheckAfterMs = isConcerned ? recheckAfter(verdict, { now, expiresAt }) : undefined;
  const hasPatch = additions.length > 0 && resourceVersion !== undefined;
  return {
    verdict,
    missing,
    ...(hasPatch && {
      patch: [
        { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
        ...additions,
        // A stored DaemonSet always has annotations, even if the cache keeps none of them.
        ...recordTolerations(ARCHITECTURE, daemonSet.metadata?.annotations ?? {}, missing),
      ],
    }),
    outcome: { rule: policy?.rule, uncovered, phase },
    isConcerned,
    wants: isConcerned ? wantsOf(verdict) : [],
    ...(recheckAfterMs !== undefined && { recheckAfterMs }),
  };
}
