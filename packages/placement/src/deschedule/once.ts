/** Descheduling in a one-shot command. */
import { keepFields, listObjects, type OneShotRun } from "@berth/host";
import {
  type Namespace,
  type Node,
  namespaces,
  type Pod,
  type PodDisruptionBudget,
  pathOf,
  podDisruptionBudgets,
  pods,
} from "@berth/kube";
import { type BoundCapability, nothingWanted, unreadPolicy } from "../node/capability.ts";
import { parseMarkId } from "../node/mark.ts";
import type { NodeFacts, NodeOnce } from "../node/once.ts";
import type { NodePlan } from "../node/plan.ts";
import type { WiredFacts } from "../node/wired.ts";
import { budgetProblem } from "./budgets.ts";
import { type LostPod } from "./decide.ts";
import { declaredKeys, isUnsettled } from "./derived-keys.ts";
import { explainDescheduling } from "./explain.ts";
import { findFit, type Ground } from "./fit.ts";
import { EVERYWHERE, forbiddenNamespace } from "./fit-topology.ts";
import { forecastEvictions } from "./forecast.ts";
import { isAbout, type JudgeObservations, judge } from "./judge.ts";
import { ownerOf } from "./ledger.ts";
import { podFitFields, podProjection, slimPod } from "./pod-fields.ts";
import { DESCHEDULE, type DeschedulePolicies } from "./policy.ts";
import { formatDescheduling, formatEvictions } from "./show.ts";
import { RUNNING } from "./watches.ts";

/** It sets no marks. */
const capability: BoundCapability = {
  name: DESCHEDULE,
  contribute: () => ({ capability: DESCHEDULE, policy: unreadPolicy, decision: nothingWanted }),
  inputs: () => [],
};
const UNKNOWN = "which pods would be evicted is unknown";
const slimNode = keepFields<Node>(podFitFields);

export const descheduleOnce: NodeOnce<DeschedulePolicies> = {
  // Berth leaves nothing on objects.
  clean: () => Promise.resolve({}),
  explain: () => Promise.resolve({ capability }),
  /** Reads all pods that have not ended, and the labels of namespaces. */
  async plan(inForce, { run, facts, only }) {
    const { policies = [] } = inForce ?? {};
    if (policies.length === 0 || only !== undefined) return { capability };
    const found = await listObjects(
      { resource: pods, fieldSelector: RUNNING, project: podProjection(), consequence: UNKNOWN },
      run,
    );
    const labels = await readNamespaces(run);
    const budgets = await readBudgets(run);
    const nodes = new Map<string, Node>();
    return {
      capability,
      add: (plan) => void nodes.set(plan.node.metadata?.name ?? "", afterwards(plan)),
      section({ isWhole, now }) {
        if (!isWhole || found === undefined || labels === undefined) return undefined;
        const observations = observationsOf(facts, labels, run);
        const by = (keyOf: (pod: Pod) => string | undefined): ((key: string) => readonly Pod[]) => {
          const groups = Map.groupBy(found, keyOf);
          return (key) => groups.get(key) ?? [];
        };
        const forbidding = by(forbiddenNamespace);
        const ground: Ground = {
          nodes: [...nodes.values()],
          podsOn: by(({ spec }) => spec?.nodeName ?? ""),
          namespaceLabels: (name) => labels.get(name),
          forbidding: (namespace) => [...forbidding(EVERYWHERE), ...forbidding(namespace)],
        };
        const nodeOf = ({ spec }: Pod): Node | undefined => nodes.get(spec?.nodeName ?? "");
        const lost = policies.flatMap((policy) =>
          found.flatMap((pod): readonly LostPod[] => {
            const verdict = judge(pod, nodeOf(pod), policy, observations);
            if (verdict.state !== "lost") return [];
            return [
              {
                pod,
                name: pathOf(pod.metadata),
                policy,
                sinceMs: Number.NEGATIVE_INFINITY,
                message: verdict.message,
              },
            ];
          }),
        );
        const evictions = forecastEvictions({
          lost,
          inScope: (policy) => found.filter((pod) => isAbout(pod, policy, observations)).length,
          podsOf: by(ownerOf),
          fit: (pod, how, placed) => findFit(pod, how, ground, placed),
          budgetProblem: budgetProblem(budgets),
          now,
        });
        return {
          data: { evictions },
          blocks: (style) => (evictions.length === 0 ? [] : [formatEvictions(evictions, style)]),
          isChanging: evictions.some(({ step, dryRun }) => step !== undefined && !dryRun),
        };
      },
    };
  },
  async explainPod(inForce, { run, facts, pod, nodes }) {
    const { policies = [] } = inForce ?? {};
    if (policies.length === 0) return undefined;
    const labels = await readNamespaces(run);
    if (labels === undefined) return undefined;
    const ground: Ground = { nodes, podsOn: () => [], namespaceLabels: (name) => labels.get(name) };
    const node = nodes.find(({ metadata }) => metadata?.name === pod.spec?.nodeName);
    const said = explainDescheduling(slimPod(pod), node, policies, {
      observations: observationsOf(facts, labels, run),
      fit: (one) => findFit(one, "PendingOk", ground),
      budgetProblem: budgetProblem(await readBudgets(run, pod.metadata?.namespace)),
    });
    return { data: { descheduling: said }, blocks: (style) => formatDescheduling(said, style) };
  },
};

async function readNamespaces(
  run: OneShotRun,
): Promise<ReadonlyMap<string, Readonly<Record<string, string>>> | undefined> {
  const found = await listObjects<Namespace>(
    { resource: namespaces, metadataOnly: true, consequence: UNKNOWN },
    run,
  );
  return found && new Map(found.map(({ metadata }) => [metadata?.name ?? "", metadata?.labels ?? {}]));
}

/** @param namespace `undefined`: of all. */
async function readBudgets(run: OneShotRun, namespace?: string): Promise<readonly PodDisruptionBudget[]> {
  const scope = namespace === undefined ? {} : { namespace };
  const consequence = "pods that budgets keep are shown as if they went";
  return (await listObjects({ resource: podDisruptionBudgets, consequence, ...scope }, run)) ?? [];
}

function observationsOf(
  facts: readonly NodeFacts[],
  labels: ReadonlyMap<string, Readonly<Record<string, string>>>,
  { installation, clock }: OneShotRun,
): JudgeObservations {
  const now = clock.now();
  const wired = facts.map(
    ({ capability: of, isGiven }): WiredFacts => ({ capability: of, known: () => isGiven }),
  );
  const empty = { node: {}, owned: new Map() };
  const keys = declaredKeys(facts.map(({ capability: of }) => of.contribute(empty, now)));
  const isGiven = facts.every((it) => it.isGiven);
  return {
    namespaceLabels: (name) => labels.get(name) ?? null,
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
