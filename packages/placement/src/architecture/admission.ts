/**
 * The objects by which the API server asks Berth about new pods, and about DaemonSets whose pods are made anew. Pure: the
 * same policies and options, the same objects.
 */
import {
  type AdmissionEnv,
  type AdmissionRules,
  type AskedWhen,
  daemonSetRule,
  newPods,
  notNamed,
  rollsOut,
  sparedNamespaces,
  toRequirement,
} from "@berth/host";
import type { LabelSelector, MatchCondition, Pod } from "@berth/kube";
import type { AdmissionAnswer, AdmissionRequest } from "@berth/runtime";
import { celText, podTolerations, selectedByAny } from "../node/cel.ts";
import { traceOfAdmission } from "./admission-trace.ts";
import { type ArchitectureAdmission, type ArchitectureAnswer, admitDaemonSet, admitPod } from "./admit.ts";
import { taintKeys } from "./compile.ts";
import { ARCHITECTURE_LABEL } from "./document.ts";
import type { PodAdmission } from "./metrics.ts";
import type { ArchitecturePolicies } from "./policy.ts";

/** What answers are made of, beside policies. */
export interface ArchitectureAnswers
  extends Pick<ArchitectureAdmission, "namespaceLabels" | "ownNamespace" | "sight"> {
  readonly now: () => ArchitectureAdmission["now"];
  /** What became of a pod that was asked about. */
  readonly onPod: (result: PodAdmission) => void;
}

/**
 * Seconds. Berth answers in milliseconds from what it knows, and never waits for a registry: this is how long a pod is
 * held up by a Berth that takes the connection and does not answer.
 */
const TIMEOUT_SECONDS = 5;

/** The most namespaces by which questions are spared; what is left out is decided by Berth itself. */
const MAX_NAMESPACES = 100;

type PolicyList = Pick<ArchitecturePolicies, "policies">;

/**
 * `berth-architecture`. Pods are asked about when they are made; DaemonSets only while a policy counts on taints. Answers from
 * memory, and causes no request: whoever reaches the port may ask about anything. A pod that cannot be asked about may land
 * where it cannot run, while taints still keep it off; with `Fail` none can be made while Berth is away.
 */
export function architectureAdmission(answers: ArchitectureAnswers): AdmissionRules<PolicyList> {
  const { onPod, now, ...known } = answers;
  const answer =
    (admit: typeof admitPod) =>
    ({ policies }: PolicyList, request: AdmissionRequest): AdmissionAnswer => {
      const said = admit({ ...known, policies, now: now() }, request);
      if (request.kind.kind === "Pod") onPod(resultOf(said));
      return said;
    };
  return {
    name: "architecture",
    effect: "mutate",
    reviews: [
      {
        name: "pods",
        path: "/mutate-pod",
        rule: newPods,
        failurePolicy: ({ spec }) => spec.podFailurePolicy ?? "Ignore",
        when: whenPods,
        answer: answer(admitPod),
      },
      {
        name: "daemonsets",
        path: "/mutate-daemonset-architecture",
        rule: daemonSetRule,
        when: whenDaemonSets,
        answer: answer(admitDaemonSet),
      },
    ],
    texts: {
      asked: "Berth is asked about new pods",
      off: (why) =>
        `${why === "homeless" ? "Berth's namespace does not exist: " : ""}the API server does not ask about new pods, so none is narrowed; those that wait for a node get tolerations`,
    },
    passed(pod: Pod, { policies }) {
      const trace = traceOfAdmission({ ...known, policies, now: now() }, pod);
      if (trace !== "missed") return trace && true;
      const { namespace, name } = pod.metadata ?? {};
      return (
        `pod ${namespace}/${name} came without Berth being asked: the log of the API server says why it could not call the ` +
        "webhook. To a Berth outside of the cluster it finds by the url of AdmissionServer"
      );
    },
  };
}

function resultOf(answer: ArchitectureAnswer): PodAdmission {
  if (!answer.allowed) return "refused";
  if (answer.patch.length === 0) return "unchanged";
  const isHeld = answer.patch.some(
    ({ op, path }) => op === "add" && path.startsWith("/spec/schedulingGates"),
  );
  return isHeld ? "held" : "placed";
}

function whenPods(list: PolicyList, env: AdmissionEnv): AskedWhen | undefined {
  if (list.policies.length === 0) return undefined;
  return {
    timeoutSeconds: TIMEOUT_SECONDS,
    namespaceSelector: namespacesOfPods(list, env),
    matchConditions: podConditions(list),
  };
}

/**
 * While a policy counts on taints, pods of every namespace have to tolerate them, opted out or not. Otherwise pods that no
 * policy can govern are not asked about, as far as one selector can say which.
 */
function namespacesOfPods(list: PolicyList, env: AdmissionEnv): LabelSelector {
  const { policies } = list;
  const spared = sparedNamespaces(env);
  if (taintKeys(list).length > 0) return { matchExpressions: [notNamed(spared)] };
  const [first, ...others] = policies;
  const excluded = others.reduce<ReadonlySet<string>>(
    (left, { spec }) => left.intersection(new Set(spec.excludedNamespaces)),
    new Set(first?.spec.excludedNamespaces),
  );
  const only = others.length === 0 ? first?.spec.namespaceSelector : undefined;
  return {
    ...(only?.matchLabels && { matchLabels: only.matchLabels }),
    matchExpressions: [
      notNamed([...spared, ...excluded].slice(0, MAX_NAMESPACES)),
      { key: ARCHITECTURE_LABEL, operator: "NotIn", values: ["ignore"] },
      ...(only?.matchExpressions ?? []).map(toRequirement),
    ],
  };
}

/**
 * A pod with a node, as every mirror of a static pod has it, or of a DaemonSet, which has chosen the node for it, is past
 * what could be decided here.
 */
function podConditions(list: PolicyList): readonly MatchCondition[] {
  const isTainting = taintKeys(list).length > 0;
  return [
    { name: "not-scheduled", expression: 'object.spec.?nodeName.orValue("") == ""' },
    {
      name: "not-of-daemonset",
      expression:
        "!object.metadata.?ownerReferences.orValue([])" +
        '.exists(it, it.?controller.orValue(false) && it.kind == "DaemonSet")',
    },
    ...(isTainting ? [] : selectedByAny(list.policies.map(({ spec }) => spec.podSelector))),
  ];
}

/** Of all namespaces but Berth's own: those that keep the cluster alive are who would be kept off tainted nodes first. */
function whenDaemonSets(list: PolicyList, { namespace }: AdmissionEnv): AskedWhen | undefined {
  const keys = taintKeys(list);
  if (keys.length === 0) return undefined;
  return {
    timeoutSeconds: TIMEOUT_SECONDS,
    ...(namespace !== undefined && { namespaceSelector: { matchExpressions: [notNamed([namespace])] } }),
    matchConditions: [
      rollsOut,
      { name: "not-tolerated", expression: `!(${keys.map(anyValueToleratedCel).join(" && ")})` },
    ],
  };
}

/** Whether the pods of the DaemonSet tolerate the key at every value: then there is nothing to add. */
function anyValueToleratedCel(key: string): string {
  return (
    `${podTolerations}.exists(it, it.?operator.orValue("") == "Exists" && ` +
    `it.?effect.orValue("") in ["", "NoSchedule"] && it.?key.orValue("") in ["", ${celText(key)}])`
  );
}
