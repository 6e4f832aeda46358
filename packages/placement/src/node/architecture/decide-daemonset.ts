/** What the pod template of a DaemonSet has to tolerate, and the patch that makes it so. Pure. */
import type { DaemonSet, JsonPatchOperation, PodSpec, Toleration } from "@berth/kube";
import type { Instant } from "../capability.ts";
import { field, textMapField } from "../untrusted-json.ts";
import { type GovernContext, governing } from "./govern.ts";
import type { ImageQuestion, ImageSight } from "./image-sight.ts";
import type { PodVerdict, WorkloadOutcome } from "./pod-view.ts";
import { appendTolerations, missingTolerations, uncoveredKeys } from "./tolerations.ts";
import { judge, wantsOf } from "./verdict.ts";

/** Where the tolerations of a pod template are. */
export const TEMPLATE_TOLERATIONS = "/spec/template/spec/tolerations";

/** Everything by which a DaemonSet is decided. */
export interface DaemonSetView extends GovernContext {
  readonly daemonSet: DaemonSet;
  readonly namespaceLabels: Readonly<Record<string, string>> | undefined;
  /** The keys in force: `taintKeys`. */
  readonly keys: readonly string[];
  readonly sight: ImageSight;
  readonly now: Instant;
  /** Since when its images are waited for; absent: they may be waited for without end. */
  readonly heldSince?: Instant | undefined;
}

export interface DaemonSetDecision {
  readonly verdict: PodVerdict;
  /** What the template lacks. */
  readonly missing: readonly Toleration[];
  /** Adds that, and fails when the DaemonSet has changed since it was read. It starts a roll-out. */
  readonly patch?: readonly JsonPatchOperation[];
  readonly outcome: WorkloadOutcome;
  /** Is there any key in force that it could have to tolerate? */
  readonly isConcerned: boolean;
  /** Images whose facts have to come. */
  readonly wants: readonly ImageQuestion[];
  /** When the verdict changes by itself. */
  readonly recheckAfterMs?: number;
}

/**
 * The DaemonSet controller asks the template, and not the pods, whether a node with a taint gets one: without the
 * toleration there, nodes that come later would stay without network, storage or logs. Its affinity is left alone.
 */
export function decideDaemonSet(view: DaemonSetView): DaemonSetDecision {
  const { daemonSet, namespaceLabels, keys, sight, now, heldSince } = view;
  const { namespace = "", resourceVersion } = daemonSet.metadata ?? {};
  const template: unknown = daemonSet.spec?.template;
  const spec = (field(template, "spec") ?? {}) as PodSpec;
  const metadata = field(template, "metadata");
  const labels = textMapField(metadata, "labels");
  const policy = governing(view, { namespace, namespaceLabels, labels });
  const annotations = textMapField(metadata, "annotations");
  const verdict = judge({ namespace, annotations, spec, policy }, sight, { now, heldSince });
  const isConcerned = keys.length > 0;
  const wants = isConcerned ? wantsOf(verdict) : [];
  const isSettled = verdict.kind === "fits" || verdict.kind === "any";
  // Without all facts nothing is added to what was given when there were some: facts can be lost, and come back.
  const asked = isSettled && wants.length > 0 ? keys.filter((key) => !mentions(spec.tolerations, key)) : keys;
  const missing = missingTolerations(spec.tolerations, asked, verdict);
  const additions = appendTolerations(spec.tolerations, missing, TEMPLATE_TOLERATIONS);
  const hasPatch = additions.length > 0 && resourceVersion !== undefined;
  return {
    verdict,
    missing,
    ...(hasPatch && {
      patch: [{ op: "test", path: "/metadata/resourceVersion", value: resourceVersion }, ...additions],
    }),
    outcome: {
      rule: policy?.rule,
      uncovered: uncoveredKeys(spec.tolerations, asked, verdict),
      phase: isSettled ? "settled" : verdict.kind,
    },
    isConcerned,
    wants,
    ...(isConcerned && recheck(verdict, { maxHoldMs: policy?.maxHoldMs ?? 0, now, heldSince })),
  };
}

function mentions(tolerations: readonly Toleration[] | undefined, key: string): boolean {
  return tolerations?.some((it) => it.key === key) ?? false;
}

interface Hold {
  readonly maxHoldMs: number;
  readonly now: Instant;
  readonly heldSince: Instant | undefined;
}

function recheck(
  verdict: PodVerdict,
  { maxHoldMs, now, heldSince = now }: Hold,
): Pick<DaemonSetDecision, "recheckAfterMs"> {
  if (verdict.kind === "unresolvable" && verdict.retryAt !== undefined) {
    return { recheckAfterMs: Math.max(0, verdict.retryAt - now) };
  }
  const left = heldSince + maxHoldMs - now;
  return verdict.kind === "waiting" && left > 0 ? { recheckAfterMs: left } : {};
}
