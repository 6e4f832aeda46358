/** Makes the pod templates of DaemonSets tolerate the architectures that their images run on. */
import type { Intent, ObjectDecision, ObjectRules } from "@berth/host";
import { type DaemonSet, daemonSets, type PodSpec } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { taintKeys } from "./compile.ts";
import { type DaemonSetDecision, decideDaemonSet } from "./decide-daemonset.ts";
import type { ImageDemand, ImageObservations } from "./image-observations.ts";
import { imageUses } from "./images.ts";
import { nothingOpen, type WorkloadObserver, type WorkloadOutcome } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { lacksFacts } from "./verdict.ts";

export interface DaemonSetRulesOptions {
  /** `undefined` until Berth has read the namespaces. `null` if it has seen none of this name yet: it is new. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | null | undefined;
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly observations: ImageObservations;
  readonly demand: ImageDemand;
  /** Does Berth taint nodes with any of these keys now? Until then a DaemonSet waits longer for its images. */
  readonly isTainting: (keys: readonly string[]) => boolean;
  readonly observer: WorkloadObserver;
  readonly clock: Clock;
  readonly ownNamespace?: string | undefined;
}

/** Kept for one DaemonSet: its images, and since when Berth waits for them. New images restart the wait. */
interface DaemonSetPast {
  images: string;
  heldSince: number | undefined;
}

/**
 * How long a DaemonSet waits for its images while no node is tainted, ms. Berth never removes a toleration that it gave
 * without facts, and without taints the wait does no harm. The limit lets the bootstrap end.
 */
export const BOOTSTRAP_PATIENCE_MS = 600_000;
/** Pause before Berth checks again if policies and namespaces have been read, ms. */
const UNREAD_MS = 1_000;

type Decision = ObjectDecision & { readonly outcome?: WorkloadOutcome };

/**
 * Makes one patch, and so one roll-out, for each verdict that needs more than the template tolerates. The cache must
 * keep metadata, and the template's labels and annotations. It must keep all placement and image fields of the
 * template's `spec`: containers, volumes, tolerations, node selector, operating system, service account, pull secrets.
 */
export function daemonSetRules(
  options: DaemonSetRulesOptions,
): ObjectRules<DaemonSet, DaemonSetPast, Decision> {
  const { observer } = options;
  return {
    resource: daemonSets,
    action: "TolerateArchitectures",
    decide(daemonSet, past) {
      // A DaemonSet that is being deleted may exist for long, but it must not hold up the bootstrap.
      if (daemonSet.metadata?.deletionTimestamp !== undefined) return { outcome: nothingOpen };
      const first = look(daemonSet, past, options);
      if (!("verdict" in first)) return first;
      for (const question of first.wants) options.demand.want(question);
      // Second look: while Berth asks the registry again, an expired failure still counts and is not `unknown`.
      const decision = look(daemonSet, past, options);
      if (!("verdict" in decision)) return decision;
      const { kind, reason, message } = decision.verdict;
      // Slow images are no failure, so they make no finding.
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

/** Without policies or namespace labels it only says when to look again: Berth cannot know the policy. */
function look(
  daemonSet: DaemonSet,
  past: Partial<DaemonSetPast>,
  options: DaemonSetRulesOptions,
): DaemonSetDecision | Decision {
  const { observations, ownNamespace } = options;
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
    observations,
    now,
    namespaceLabels,
    heldSince: isPatient ? undefined : heldSince,
  });
  const isWaitedFor = decision.isConcerned && lacksFacts(decision.verdict);
  past.heldSince = isWaitedFor ? (heldSince ?? now) : undefined;
  return decision;
}

/** Since when Berth waits for these images; `undefined` when they differ from before. */
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
      message: `${what} tolerates ${given} from now on, which rolls out its pods: ${verdict.message}`,
      announce: "Normal",
      gives,
      what,
      contested: `another writer keeps removing ${given} from ${what}: Berth leaves it alone for a while; nodes with these taints get no pod of it`,
    },
  ];
}
