/** Plays evictions out as a running Berth would make them, one step after the other. Pure. */
import type { Pod } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import type { BudgetProblem } from "./budgets.ts";
import {
  decideEvictions,
  type EvictionView,
  type LostPod,
  type Placed,
  replicasIn,
  type Standing,
} from "./decide.ts";
import { emptyLedger, type LedgerView, ownerOf, type Rest } from "./ledger.ts";
import type { DeschedulePolicyInForce } from "./policy.ts";

/** What happens to one pod on a wrong node. */
export interface PodForecast {
  /** `namespace/name`. */
  readonly pod: string;
  readonly node: string;
  readonly policy: string;
  /** The policy is in dry run: a running Berth does not do this. */
  readonly dryRun?: true;
  /** `PodDescheduled`: it is evicted. Otherwise why it stays. */
  readonly reason: string;
  readonly message: string;
  /** How long it must be on the wrong node, `5m`. */
  readonly after: string;
  /** From 1. Pods of a later step wait until the replacements of those before are Ready. */
  readonly step?: number;
  /** The node that takes it. Absent where the policy does not ask. */
  readonly to?: string;
}

export interface ForecastView extends Pick<EvictionView, "lost" | "inScope" | "podsOf" | "fit" | "now"> {
  /** Default: none has one. */
  readonly budgetProblem?: BudgetProblem;
}

/**
 * Assumes that each pod stays lost for long enough, and that each replacement becomes Ready where it fits. Policies in dry
 * run are played out after the others, as if they were not, for the pods that stay.
 */
export function forecastEvictions(view: ForecastView): readonly PodForecast[] {
  const [tried, real] = [true, false].map((is) => view.lost.filter((it) => it.policy.spec.dryRun === is));
  const found = play({ ...view, lost: real ?? [] });
  const going = new Set(found.flatMap(({ pod, step }) => (step === undefined ? [] : [pod])));
  const policies = new Map<DeschedulePolicyInForce, DeschedulePolicyInForce>();
  const asIfReal = (lost: LostPod): LostPod => {
    const { policy } = lost;
    const acting = policies.get(policy) ?? { ...policy, spec: { ...policy.spec, dryRun: false } };
    policies.set(policy, acting);
    return Object.assign({}, lost, { policy: acting });
  };
  const left = tried?.filter(({ name }) => !going.has(name)).map(asIfReal) ?? [];
  return [
    ...found,
    ...play({ ...view, lost: left }).map((it) => Object.assign(it, { dryRun: true as const })),
  ];
}

function play(view: ForecastView): readonly PodForecast[] {
  const found: (readonly [Standing, step: number | undefined])[] = [];
  const gone = new Set<Pod>();
  const owners = new Set<string>();
  const placed: Placed[] = [];
  let left: readonly LostPod[] = view.lost;
  const ledger = { ...emptyLedger, restOf: restsOf(view) };
  for (let step = 1; left.length > 0; step += 1) {
    const { standings } = decideEvictions({
      ...view,
      lost: left,
      ledger,
      podsOf: (owner) => view.podsOf(owner).filter((pod) => !gone.has(pod)),
      // Each pod that goes is replaced.
      replicasOf: (owner) => replicasIn(view.podsOf(owner)),
      placed,
      nowMs: 0,
    });
    const going = standings.filter(({ reason }) => reason === reasons.PodDescheduled);
    for (const { lost, target } of going) {
      gone.add(lost.pod);
      owners.add(ownerOf(lost.pod));
      if (target !== undefined) placed.push({ pod: lost.pod, node: target });
    }
    const isLater = ({ lost, reason }: Standing): boolean =>
      going.length > 0 &&
      (reason === reasons.EvictionLimit ||
        (reason === reasons.ReplacementAwaited && owners.has(ownerOf(lost.pod))));
    const settled = standings.filter((one) => !isLater(one));
    found.push(...settled.map((one) => [one, going.includes(one) ? step : undefined] as const));
    left = standings.filter((one) => isLater(one) && !gone.has(one.lost.pod)).map(({ lost }) => lost);
  }
  // A pod may stay under one policy and go under another.
  return found
    .filter(([{ lost }, step]) => step !== undefined || !gone.has(lost.pod))
    .map(([one, step]) => toForecast(one, step));
}

/** What a running Berth learns when it tries to evict the pod: for how long does not matter here. */
function restsOf({ lost, budgetProblem }: ForecastView): LedgerView["restOf"] {
  const rests = new Map<string, Rest>();
  for (const { pod } of lost) {
    const message = budgetProblem?.(pod);
    const forever = { waitMs: Number.POSITIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY };
    if (message !== undefined)
      rests.set(pod.metadata?.uid ?? "", { reason: reasons.DisruptionBudget, message, ...forever });
  }
  return (uid) => rests.get(uid);
}

function toForecast({ lost, reason, message, target }: Standing, step: number | undefined): PodForecast {
  const { pod, name, policy } = lost;
  return {
    pod: name,
    node: pod.spec?.nodeName ?? "",
    policy: policy.rule,
    reason,
    message: reason === reasons.PodDescheduled ? lost.message : `${lost.message}; ${message}`,
    after: policy.spec.for,
    ...(step !== undefined && { step }),
    ...(target !== undefined && { to: target }),
  };
}
