/** Descheduling in a one-shot command. */
import { keepFields, labelsIn, type OneShotRun, readObjects, readViews } from "@berth/host";
import { type Node, type Pod, type PodDisruptionBudget, podDisruptionBudgets, pods } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { type DocumentWarning, warn } from "../api/warnings.ts";
import { type BoundCapability, nothingWanted, unreadPolicy } from "../node/capability.ts";
import type { Comparison } from "../node/explain/trace.ts";
import { parseMarkId } from "../node/mark.ts";
import { type LookAt, type NodeOnce, withoutManagers } from "../node/once.ts";
import type { NodePlan } from "../node/plan.ts";
import type { WiredFacts } from "../node/wired.ts";
import { budgetProblem } from "./budgets.ts";
import { type LostPod, replicasIn } from "./decide.ts";
import { declaredKeys, isUnsettled } from "./derived-keys.ts";
import { explainDescheduling } from "./explain.ts";
import { findFit } from "./fit.ts";
import { resourceCheck } from "./fit-resources.ts";
import { forecastEvictions } from "./forecast.ts";
import type { JudgeObservations } from "./judge.ts";
import { LostPods } from "./lost-pods.ts";
import { podFitFields, slimPod } from "./pod-fields.ts";
import { DESCHEDULE, type DeschedulePolicies, type DeschedulePolicyInForce } from "./policy.ts";
import { type DescheduleViews, descheduleReads, groundOf, priorityIn } from "./reads.ts";
import { formatDescheduling, formatEvictions } from "./show.ts";

/** It sets no marks. */
const capability: BoundCapability = {
  name: DESCHEDULE,
  contribute: () => ({ capability: DESCHEDULE, policy: unreadPolicy, decision: nothingWanted }),
  inputs: () => [],
};
const slimNode = keepFields<Node>(podFitFields);

export const descheduleOnce: NodeOnce<DeschedulePolicies> = {
  // Berth leaves nothing on objects.
  clean: () => Promise.resolve({}),
  explain: () => Promise.resolve({ capability }),
  /** Reads all pods that have not ended, and the labels of namespaces. */
  async plan(inForce, at) {
    if (!inForce?.policies.length || at.only !== undefined) return { capability };
    const { policies } = inForce;
    const views = await readViews(descheduleReads, inForce, at);
    const budgets = await readBudgets(at.run);
    const nodes = new Map<string, Node>();
    return {
      capability,
      add: (plan) => void nodes.set(plan.node.metadata?.name ?? "", afterwards(plan)),
      section({ isWhole, now }) {
        if (!isWhole || !views.isRead) return undefined;
        const lost = new LostPods({
          ...observationsOf(at, views),
          policies: () => policies,
          nodeOf: ({ spec }) => nodes.get(spec?.nodeName ?? ""),
          monotonic: () => Number.NEGATIVE_INFINITY,
        });
        const found = [...views.pods.list()];
        for (const pod of found) lost.look(pod);
        const ground = groundOf(views, [...nodes.values()]);
        const inScope = (policy: DeschedulePolicyInForce): number =>
          found.filter((pod) => lost.isAbout(pod, policy)).length;
        const evictions = forecastEvictions({
          lost: lost.all(),
          inScope,
          podsOf: (owner) => views.pods.byIndex("owner", owner),
          fit: (pod, how, placed) => findFit(pod, how, ground, placed),
          budgetProblem: budgetProblem(budgets),
          now,
        });
        return {
          data: { evictions },
          blocks: (style) => (evictions.length === 0 ? [] : [formatEvictions(evictions, style)]),
          warnings: policies.flatMap((policy) => everyPod(policy, inScope(policy), lost.all())),
          isChanging: evictions.some(({ step, dryRun }) => step !== undefined && !dryRun),
        };
      },
    };
  },
  placePod: (_, { pod, run }, on) => compareRoom(pod, on, run),
  async explainPod(inForce, at) {
    if (!inForce?.policies.length) return undefined;
    const { policies } = inForce;
    const { run, pod, nodes } = at;
    const views = await readViews(descheduleReads, inForce, at);
    const budgets = await readBudgets(run, pod.metadata?.namespace);
    if (!views.isRead) return undefined;
    const slim = nodes.map(slimNode);
    const ground = groundOf(views, slim);
    const said = explainDescheduling(
      slimPod(pod),
      slim.find(({ metadata }) => metadata?.name === pod.spec?.nodeName),
      policies,
      {
        observations: observationsOf(at, views),
        fit: (one, how) => findFit(one, how, ground),
        replicasOf: (owner) => replicasIn(views.pods.byIndex("owner", owner)),
        budgetProblem: budgetProblem(budgets),
      },
    );
    return { data: { descheduling: said }, blocks: (style) => formatDescheduling(said, style) };
  },
};

/** Often it names a label that no node has. One pod says nothing. */
function everyPod(
  policy: DeschedulePolicyInForce,
  inScope: number,
  lost: readonly LostPod[],
): readonly DocumentWarning[] {
  const wrong = lost.filter((it) => it.policy === policy).length;
  const message = `all ${inScope} pods that ${policy.rule} is about are on nodes that it finds wrong`;
  return warn(policy, reasons.EveryPodViolates, inScope > 1 && wrong === inScope ? message : undefined);
}

/** Room beside the pods that are on the node, as the scheduler counts it. */
async function compareRoom(pod: Pod, on: Node, run: OneShotRun): Promise<readonly Comparison[]> {
  const scope = { fieldSelector: `spec.nodeName=${on.metadata?.name}` };
  const what = "the node has room for it";
  const beside = await readObjects({ name: "pods-beside", resource: pods, scope, project: slimPod }, run);
  if (beside === undefined) return [{ what, value: "pods cannot be read", holds: "unknown" }];
  const isThere = (it: Pod): boolean =>
    it.metadata?.uid !== pod.metadata?.uid && !["Succeeded", "Failed"].includes(it.status?.phase ?? "");
  const counting = resourceCheck(pod)(on, beside.filter(isThere));
  for (;;) {
    const { done, value } = counting.next();
    if (done !== true) continue;
    return [{ what, ...(typeof value === "string" && { value }), holds: value === undefined }];
  }
}

type At = Pick<LookAt, "run" | "owned" | "facts">;

/** @param namespace `undefined`: of all. */
async function readBudgets(run: OneShotRun, namespace?: string): Promise<readonly PodDisruptionBudget[]> {
  const scope = namespace === undefined ? {} : { namespace };
  const consequence = "pods that budgets keep are shown as if they went";
  const read = { name: "disruption-budgets", resource: podDisruptionBudgets, scope, consequence };
  return (await readObjects({ ...read, project: withoutManagers }, run)) ?? [];
}

function observationsOf(
  { facts, run: { installation, clock } }: At,
  views: DescheduleViews,
): JudgeObservations {
  const now = clock.now();
  const wired = facts.map(
    ({ capability: of, isGiven }): WiredFacts => ({ capability: of, known: () => isGiven }),
  );
  const empty = { node: {}, owned: new Map() };
  const keys = declaredKeys(facts.map(({ capability: of }) => of.contribute(empty, now)));
  const isGiven = facts.every((it) => it.isGiven);
  return {
    namespaceLabels: labelsIn(views.namespaces),
    priorityOf: priorityIn(views),
    derivedKeys: () => (isGiven ? keys : undefined),
    isUnsettled: (node, key) => isUnsettled(node, key, wired, { installation, now }),
  };
}

/** The node with the labels and taints of the plan. */
function afterwards({ node, changes }: NodePlan): Node {
  const { metadata, spec, ...rest } = slimNode(node);
  const labels = { ...metadata?.labels };
  let taints = spec?.taints ?? [];
  for (const { id, action, after } of changes) {
    const place = parseMarkId(id);
    if (action === "adopt" || action === "record" || place === undefined) continue;
    if (place.kind === "label") {
      if (after === undefined) delete labels[place.key];
      else labels[place.key] = after;
    } else if (place.kind === "taint") {
      const { key, effect } = place;
      taints = taints.filter((it) => it.key !== key || it.effect !== effect);
      if (after !== undefined) taints = [...taints, { key, effect, value: after }];
    }
  }
  return { ...rest, metadata: { ...metadata, labels }, spec: { ...spec, taints } };
}
