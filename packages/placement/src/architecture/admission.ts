/**
 * Builds the webhooks by which the API server asks Berth about new pods, new images of running pods, and DaemonSets that
 * start a roll-out. Pure: the same policies and options give the same objects.
 */
import {
  type AdmissionEnv,
  type AdmissionRules,
  type AdmissionTrace,
  type AskedWhen,
  celText,
  daemonSetRule,
  newPods,
  notNamed,
  rollsOut,
  sparedNamespaces,
  toRequirement,
} from "@berth/host";
import type { LabelSelector, MatchCondition, Pod } from "@berth/kube";
import type { AdmissionAnswer, AdmissionRequest } from "@berth/runtime";
import { podTolerations, selectedByAny } from "../node/cel.ts";
import { traceOfAdmission } from "./admission-trace.ts";
import {
  type ArchitectureAdmission,
  type ArchitectureAnswer,
  admitDaemonSet,
  admitImage,
  admitPod,
  type NodeArchitectures,
} from "./admit.ts";
import { taintKeys } from "./compile.ts";
import { ARCHITECTURE_LABEL } from "./document.ts";
import type { PodAdmission } from "./metrics.ts";
import { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";

/** What Berth needs for an answer, beside the policies. */
export interface ArchitectureAnswers
  extends NodeArchitectures,
    Pick<ArchitectureAdmission, "namespaceLabels" | "ownNamespace" | "observations"> {
  readonly now: () => ArchitectureAdmission["now"];
  /** Called with the result for each pod that the API server asks about. */
  readonly onPod: (result: PodAdmission) => void;
}

/**
 * Seconds. Berth answers from memory in milliseconds and never waits for a registry. The API server waits this long for
 * a Berth that accepts the connection and does not answer.
 */
const TIMEOUT_SECONDS = 5;

/** The same for an answer that is only advice. */
const WARNING_SECONDS = 2;

/** The selector excludes at most this many namespaces. Berth itself decides about the pods of the others. */
const MAX_NAMESPACES = 100;

type PolicyList = Pick<ArchitecturePolicies, "policies">;

/** Its objects in the API server. */
export const architectureReviews: Pick<AdmissionTrace, "name" | "effect"> = {
  name: ARCHITECTURE,
  effect: "mutate",
};

/**
 * `berth-architecture`. The API server asks about new pods, and about DaemonSets only while a policy relies on taints.
 * Answers come from memory and cause no request, because any client that reaches the port may ask. Without an answer, a
 * pod may land where it cannot run, unless a taint keeps it off. With `Fail`, users cannot create pods then.
 */
export function architectureAdmission(answers: ArchitectureAnswers): AdmissionRules<PolicyList> {
  const { onPod, now, ...known } = answers;
  const answer =
    (admit: typeof admitImage) =>
    ({ policies }: PolicyList, request: AdmissionRequest): AdmissionAnswer => {
      const said = admit({ ...known, policies, now: now() }, request);
      if (admit === admitPod) onPod(resultOf(said));
      return said;
    };
  return {
    ...architectureReviews,
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
      {
        name: "images",
        path: "/validate-pod-image",
        rule: { ...newPods, operations: ["UPDATE"] },
        when: whenImages,
        answer: answer(admitImage),
      },
    ],
    texts: {
      asked: "the API server asks Berth about new pods",
      off: "the API server does not ask Berth about new pods, so Berth does not narrow them; pods that wait for a node get tolerations",
    },
    passed(pod: Pod, { policies }) {
      const trace = traceOfAdmission({ ...known, policies, now: now() }, pod);
      if (trace !== "missed") return trace && true;
      const { namespace, name } = pod.metadata ?? {};
      return (
        `pod ${namespace}/${name} was created, and the API server did not ask Berth: its log says why it could not call the ` +
        "webhook. It finds a Berth outside of the cluster by the url of AdmissionServer"
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

function whenImages(list: PolicyList, env: AdmissionEnv): AskedWhen | undefined {
  if (list.policies.length === 0) return undefined;
  const imagesOf = (pod: string): string =>
    `${pod}.spec.containers.map(it, it.?image.orValue("")) + ${pod}.spec.?initContainers.orValue([]).map(it, it.?image.orValue(""))`;
  return {
    timeoutSeconds: WARNING_SECONDS,
    namespaceSelector: { matchExpressions: [notNamed(sparedNamespaces(env))] },
    matchConditions: [
      { name: "scheduled", expression: 'object.spec.?nodeName.orValue("") != ""' },
      { name: "image-changed", expression: `${imagesOf("object")} != ${imagesOf("oldObject")}` },
    ],
  };
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
 * While a policy relies on taints, pods of every namespace have to tolerate them, even opted-out pods. Otherwise the
 * selector excludes pods that no policy can govern, as far as one selector can express that.
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
 * Excludes pods that have a node already; mirror pods of static pods always have one. Excludes pods of DaemonSets,
 * because the DaemonSet controller has chosen their node.
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

/** All namespaces but Berth's own: taints would first keep off the DaemonSets that keep the cluster alive. */
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

/** CEL: do the pods of the DaemonSet tolerate the key with every value? Then Berth has nothing to add. */
function anyValueToleratedCel(key: string): string {
  return (
    `${podTolerations}.exists(it, it.?operator.orValue("") == "Exists" && ` +
    `it.?effect.orValue("") in ["", "NoSchedule"] && it.?key.orValue("") in ["", ${celText(key)}])`
  );
}
