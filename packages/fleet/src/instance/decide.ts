/**
 * Decides about one Instance: quota, network, provider and readiness become one status, and one patch of gates and
 * finalizers. Pure.
 */
import { earliest, findCondition, hasFinalizer, mergeConditions, withoutConditions } from "@berth/runtime";
import { finalizers, gates } from "../api/keys.ts";
import type { Instance, InstanceStatus } from "../api/workload.ts";
import { decidePod } from "../pods/decide.ts";
import { coalesceMs, saysTheSame } from "./due.ts";
import { evaluateQuota, type QuotaResult } from "./quota.ts";
import { isFailure, readiness } from "./ready.ts";
import { decideRelease } from "./release.ts";
import { awaitsQuota, gatesOf } from "./tiers.ts";
import type { Contribution, InstanceDecision, InstanceView, NetworkSeen, News } from "./view.ts";

export function decideInstance(view: InstanceView): InstanceDecision {
  const { instance, provider } = view;
  const isGated = gatesOf(instance).length > 0;
  const pods = provider.is === "pods" ? decidePod({ ...view, ...provider, isGated }) : undefined;
  if (instance.metadata?.deletionTimestamp !== undefined) return decideRelease(view, pods);
  const contribution = pods?.contribution ?? { conditions: [] };
  const quota = evaluateQuota(view);
  const status = nextStatus(view, quota, contribution);
  const waitMs = status && coalesceMs(view, status);
  const due = waitMs === undefined ? status : undefined;
  const news = due === undefined ? [] : [...(quota.news ? [quota.news] : []), ...readyNews(instance, due)];
  const recheckAfterMs = earliest(quota.recheckAfterMs, contribution.recheckAfterMs, waitMs || undefined);
  return {
    ...(due === undefined ? openGates(view, quota) : { status: due }),
    ...(quota.claim && { claim: quota.claim }),
    ...(pods?.pod && { pod: pods.pod }),
    ...(news.length > 0 && { news }),
    ...(recheckAfterMs !== undefined && {
      recheckAfterMs,
      waitsFor: recheckAfterMs === quota.recheckAfterMs ? "The quota service" : "The provider",
    }),
  };
}

/** The status to store. `undefined`: the stored one says the same. */
function nextStatus(
  { instance, network, nowMs }: InstanceView,
  quota: QuotaResult,
  contribution: Contribution,
): InstanceStatus | undefined {
  const stored = instance.status;
  const generation = instance.metadata?.generation ?? 0;
  const given = [
    ...(quota.condition ? [quota.condition] : []),
    ...contribution.conditions.map((condition) => ({ observedGeneration: generation, ...condition })),
  ];
  const conditions = mergeConditions(stored?.conditions, given, nowMs);
  const isGranted = findCondition(conditions, "QuotaGranted")?.status === "True";
  const derived = readiness({
    conditions,
    generation,
    // A gate goes right after this status. To report it as present would need one more status.
    gates: remaining(instance, network, isGranted).map(({ name }) => name),
    networkFailed: network.is === "on" ? network.failed : undefined,
  });
  // One merge from the stored conditions: a type that is both given and derived must not lose its transition time.
  const wanted = new Map([...given, ...derived].map((condition) => [condition.type, condition]));
  const next: InstanceStatus = {
    ...stored,
    ...addressed(stored, contribution.networkIP),
    ...(contribution.observedTemplateHash !== undefined && {
      controller: { ...stored?.controller, observedTemplateHash: contribution.observedTemplateHash },
    }),
    conditions: mergeConditions(stored?.conditions, [...wanted.values()], nowMs),
  };
  if (saysTheSame(next, instance)) return undefined;
  return { ...next, conditions: withoutConditions(next.conditions, ["Running"]) };
}

function addressed(stored: InstanceStatus | undefined, networkIP: string | undefined): InstanceStatus {
  const [first, ...rest] = stored?.networkInterfaces ?? [];
  if (networkIP === undefined || first?.assignments?.networkIP === networkIP) return {};
  return {
    networkInterfaces: [{ ...first, assignments: { ...first?.assignments, networkIP } }, ...rest],
  };
}

/** The gates that nothing opens yet. */
function remaining(
  instance: Instance,
  network: NetworkSeen,
  isGranted: boolean,
): readonly { readonly name: string }[] {
  const isOpen = (name: string): boolean =>
    (name === gates.quota && isGranted) ||
    (name === gates.network && (network.is === "off" || network.isReady));
  return gatesOf(instance).filter(({ name }) => !isOpen(name));
}

/** No status is due, so a grant that Berth sees now is stored. Gate `Quota` needs one for this generation. */
function openGates({ instance, network, quota: seen }: InstanceView, quota: QuotaResult): InstanceDecision {
  const stored = findCondition(instance.status?.conditions, "QuotaGranted");
  const isOfGeneration = stored?.observedGeneration === (instance.metadata?.generation ?? 0);
  const left = remaining(instance, network, isOfGeneration && quota.condition?.status === "True");
  const needsFinalizer =
    seen.is !== "off" &&
    (awaitsQuota(instance) || quota.adopts !== undefined) &&
    !hasFinalizer(instance, finalizers.claim);
  return {
    ...(quota.adopts !== undefined && { adopts: quota.adopts }),
    ...(left.length < gatesOf(instance).length && { gates: left }),
    ...(needsFinalizer && { finalizers: [...(instance.metadata?.finalizers ?? []), finalizers.claim] }),
  };
}

function readyNews({ status: stored }: Instance, next: InstanceStatus): readonly News[] {
  const before = findCondition(stored?.conditions, "Ready");
  const ready = findCondition(next.conditions, "Ready");
  if (ready === undefined || ready.reason === before?.reason) return [];
  if (ready.status === "True") return [{ type: "Normal", reason: "Ready", message: ready.message }];
  return isFailure(ready.reason) ? [{ type: "Warning", reason: ready.reason, message: ready.message }] : [];
}
