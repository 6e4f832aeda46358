/** Makes the pod templates of DaemonSets tolerate the architectures that their images run on. */
import type { Intent, ObjectDecision, ObjectRules } from "@berth/host";
import { type DaemonSet, daemonSets, type PodSpec } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { taintKeys } from "./compile.ts";
import { type DaemonSetDecision, decideDaemonSet } from "./decide-daemonset.ts";
import type { ImageDemand, ImageSight } from "./image-sight.ts";
import { imageUses } from "./images.ts";
import { nothingOpen, type WorkloadObserver, type WorkloadOutcome } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { lacksFacts } from "./verdict.ts";

export interface DaemonSetRulesOptions {
  /** `undefined` while the namespaces have not been read, `null` when none of this name has been told of: it is new. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | null | undefined;
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly sight: ImageSight;
  readonly demand: ImageDemand;
  /** Are nodes tainted with any of these keys, or about to be? Until then images are waited for more patiently. */
  readonly isTainting: (keys: readonly string[]) => boolean;
  readonly observer: WorkloadObserver;
  readonly clock: Clock;
  /** Berth's own namespace. */
  readonly ownNamespace?: string | undefined;
}

/** Of one DaemonSet: its images, and since when they are waited for. Others are waited for anew. */
interface DaemonSetPast {
  images: string;
  heldSince: number | undefined;
}

/**
 * How long a DaemonSet waits for its images while no node is tainted, ms. What is given for want of better knowledge is
 * never taken back, and nothing suffers meanwhile; but a bootstrap has to end some time.
 */
export const BOOTSTRAP_PATIENCE_MS = 600_000;
/** How soon it is looked again whether policies and namespaces have been read, ms. */
const UNREAD_MS = 1_000;

type Decision = ObjectDecision & { readonly outcome?: WorkloadOutcome };

/**
 * One patch, and so one roll-out, for each verdict that asks for more than the template tolerates. Objects have to keep
 * metadata, and of the template its labels and annotations and all of its `spec` that says where a pod runs and what of:
 * containers, volumes, tolerations, node selector, operating system, service account, pull secrets.
 */
export function daemonSetRules(
  options: DaemonSetRulesOptions,
): ObjectRules<DaemonSet, DaemonSetPast, Decision> {
  const { observer } = options;
  return {
    resource: daemonSets,
    action: "TolerateArchitectures",
    decide(daemonSet, past) {
      // One that is being deleted is still there, may be for long, and keeps nobody waiting.
      if (daemonSet.metadata?.deletionTimestamp !== undefined) return { outcome: nothingOpen };
      const first = look(daemonSet, past, options);
      if (!("verdict" in first)) return first;
      for (const question of first.wants) options.demand.want(question);
      // A failure whose time is over counts on while it is asked about again, and not as if nothing were known of it.
      const decision = look(daemonSet, past, options);
      if (!("verdict" in decision)) return decision;
      const { kind, reason, message } = decision.verdict;
      // Of images that are only slow nobody is told.
      const isFailure = decision.isConcerned && (kind === "impossible" || kind === "unresolvable");
      const { outcome, recheckAfterMs } = decision;
      const findings = isFailure ? [{ reason, message, about: past.images ?? "" }] : [];
      return { outcome, recheckAfterMs, findings, intents: intentsOf(decision) };
    },
    decided: ({ metadata: { namespace, name } = {} }, { outcome }) =>
      outcome && observer.decided(`DaemonSet ${namespace}/${name}`, outcome),
    gone: ({ namespace, name }) => observer.gone(`DaemonSet ${namespace}/${name}`),
  };
}

/** When to look again while it cannot be told who governs it: policies of some source, or its namespace, are still to be read. */
function look(
  daemonSet: DaemonSet,
  past: Partial<DaemonSetPast>,
  options: DaemonSetRulesOptions,
): DaemonSetDecision | Decision {
  const { sight, ownNamespace } = options;
  const { namespace = "" } = daemonSet.metadata ?? {};
  const policies = options.policies();
  if (policies === undefined || policies.policy.isUndecided) return { recheckAfterMs: UNREAD_MS };
  const keys = taintKeys(policies);
  const namespaceLabels = options.namespaceLabels(namespace) ?? undefined;
  if (namespaceLabels === undefined && namespace !== ownNamespace) {
    const outcome = { rule: undefined, uncovered: keys, phase: "waiting" } as const;
    return { recheckAfterMs: UNREAD_MS, outcome };
  }
  const now = options.clock.now();
  const heldSince = heldFrom(daemonSet, past);
  const isPatient =
    heldSince !== undefined && now - heldSince < BOOTSTRAP_PATIENCE_MS && !options.isTainting(keys);
  const decision = decideDaemonSet({
    daemonSet,
    policies: policies.policies,
    ownNamespace,
    keys,
    sight,
    now,
    namespaceLabels,
    heldSince: isPatient ? undefined : heldSince,
  });
  const isWaitedFor = decision.isConcerned && lacksFacts(decision.verdict);
  past.heldSince = isWaitedFor ? (heldSince ?? now) : undefined;
  return decision;
}

/** Since when these images are waited for; `undefined` when they are others than before. */
function heldFrom({ metadata, spec }: DaemonSet, past: Partial<DaemonSetPast>): number | undefined {
  const template = (spec?.template.spec ?? { containers: [] }) satisfies PodSpec;
  const uses = imageUses(template, metadata?.namespace ?? "");
  const images = uses.map(({ question }) => question.image).join("\n");
  if (images !== past.images) Object.assign(past, { images, heldSince: undefined });
  return past.heldSince;
}

function intentsOf({ patch, missing, verdict }: DaemonSetDecision): readonly Intent[] {
  if (patch === undefined) return [];
  const gives = missing.map(({ key = "", value }) => (value === undefined ? key : `${key}=${value}`));
  const given = gives.join(", ");
  const what = "its pod template";
  return [
    {
      do: "patch",
      patch: { type: "json", body: patch },
      reason: reasons.DaemonSetTolerated,
      message: `${what} tolerates ${given} from now on, which rolls its pods out: ${verdict.message}`,
      announce: "Normal",
      gives,
      what,
      contested: `somebody keeps taking ${given} off ${what}: it is left alone for a while; nodes with these taints get no pod of it`,
    },
  ];
}
