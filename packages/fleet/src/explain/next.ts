/** When Berth looks at an object next, and why then. Pure. */
import { formatAge } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { findCondition, fromTime } from "@berth/runtime";
import { gates } from "../api/keys.ts";
import type { Action } from "../deployment/control.ts";
import type { DeploymentDecision } from "../deployment/decide.ts";
import { awaitsQuota, hasGate, lookEveryMs, tierMs } from "../instance/tiers.ts";
import type { InstanceDecision, InstanceView } from "../instance/view.ts";

export interface Next {
  /** What the decision asks for now. A running Berth does it at once. */
  readonly now: readonly string[];
  /** A change of one of these brings the next look. */
  readonly onChangeOf: readonly string[];
  /** The latest next look without a change, in ms from now. Absent: only a change brings one. */
  readonly withinMs?: number;
  /** Why then. */
  readonly because?: string;
}

export function nextOfInstance(view: InstanceView, decision: InstanceDecision): Next {
  const { recheckAfterMs } = decision;
  const because = recheckAfterMs === undefined ? undefined : becauseOf(view, recheckAfterMs);
  return {
    now: stepsOf(view, decision),
    onChangeOf: watchedBy(view, decision),
    ...(recheckAfterMs !== undefined && { withinMs: recheckAfterMs }),
    ...(because !== undefined && { because }),
  };
}

function stepsOf(
  { instance }: InstanceView,
  { status, gates, finalizers, claim, pod }: InstanceDecision,
): readonly string[] {
  const [stored, ready] = [instance.status, status].map((it) => findCondition(it?.conditions, "Ready"));
  const isNews = stored?.status !== ready?.status || stored?.reason !== ready?.reason;
  return [
    ...(claim ? [`${claim.do} its ResourceClaim`] : []),
    ...(ready && isNews ? [`report Ready ${ready.status}, ${ready.reason}`] : []),
    ...(gates ? ["open a scheduling gate"] : []),
    ...(finalizers ? ["change its finalizers"] : []),
    ...(pod ? [`${pod.do} its pod`] : []),
  ];
}

function watchedBy(
  { instance, quota, provider }: InstanceView,
  { waitsFor }: InstanceDecision,
): readonly string[] {
  if (instance.metadata?.deletionTimestamp !== undefined) return waitsFor === undefined ? [] : [waitsFor];
  const watched = [
    ...(hasGate(instance, gates.network) ? ["its network"] : []),
    ...(awaitsQuota(instance) && quota.is !== "off" ? ["its claim"] : []),
  ];
  if (watched.length > 0) return watched;
  return [provider.is === "pods" ? "its pod" : "the conditions that its provider writes"];
}

function becauseOf({ instance, nowMs }: InstanceView, recheckAfterMs: number): string {
  const tier = tierOf(instance, nowMs);
  if (instance.metadata?.deletionTimestamp !== undefined)
    return `the claim of an Instance that ends is looked at every ${tier} at this age`;
  if (awaitsQuota(instance)) return `an Instance that waits for quota is looked at every ${tier} at this age`;
  return recheckAfterMs === lookEveryMs(instance, nowMs)
    ? "the claim of an Instance that may run is looked at seldom"
    : "the state of its pod counts from then on";
}

/** `15s`: how often a claim that something waits for is looked at, at the age of the Instance. */
function tierOf({ metadata }: KubeObject, nowMs: number): string {
  const since = fromTime(metadata?.deletionTimestamp ?? metadata?.creationTimestamp) ?? nowMs;
  return formatAge(tierMs(nowMs - since));
}

/** @param name of the deployment. */
export function nextOfDeployment(name: string, { actions, recheckAfterMs }: DeploymentDecision): Next {
  const [action] = actions;
  return {
    now: action === undefined || action.do === "wait" ? [] : [actionText(name, action)],
    onChangeOf: [
      action?.do === "wait" ? `Instance ${name}-${action.ordinal}` : "its Workload, Instances or networks",
    ],
    ...(recheckAfterMs !== undefined && {
      withinMs: recheckAfterMs,
      because: "a roll waits for the quota service",
    }),
  };
}

const WAITS: Readonly<Record<Extract<Action, { do: "wait" }>["because"], string>> = {
  deleting: "is gone",
  notReady: "is ready",
  nameTaken: "of another owner is gone",
  refused: "may be created",
};

/** `waits until Instance web-us-dfw-0 is ready`, `create Instance web-us-dfw-1` */
export function actionText(deployment: string, action: Action): string {
  const name = `Instance ${deployment}-${action.ordinal}`;
  return action.do === "wait" ? `waits until ${name} ${WAITS[action.because]}` : `${action.do} ${name}`;
}

/** `on the next change of its pod, and within 15s: …` */
export function nextText({ now, onChangeOf, withinMs, because }: Next): string {
  const change = onChangeOf.length === 0 ? [] : [`on the next change of ${onChangeOf.join(" or ")}`];
  const time =
    withinMs === undefined
      ? []
      : [`within ${formatAge(Math.max(1000, withinMs))}${because === undefined ? "" : `: ${because}`}`];
  const look = [...change, ...time].join(", and ");
  return now.length === 0 ? look : `now, to ${now.join(", ")}; then ${look}`;
}
