/** The webhook that makes new pods wait for an agent: what the API server asks, and the answers. */
import {
  type AdmissionEnv,
  type AdmissionRules,
  type AdmissionTrace,
  type AskedWhen,
  type InForce,
  newPods,
  notNamed,
  type ReviewIo,
  sparedNamespaces,
  toRequirement,
} from "@berth/host";
import type { AdmissionAnswer, AdmissionRequest, Logger } from "@berth/runtime";
import { selectedByAny } from "../../node/cel.ts";
import { FOOTPRINT, type Footprints } from "../footprint.ts";
import type { NeedObservations } from "../needs.ts";
import { admitWait } from "./admit.ts";

export interface WaitAnswers {
  readonly observations: NeedObservations;
  readonly log: Logger;
}

type WaitingFor = Pick<Footprints, "footprints"> & InForce;

/** How long the API server waits for an answer of Berth. Seconds. */
const TIMEOUT_SECONDS = 5;

/** Its objects in the API server. */
export const waitReviews: Pick<AdmissionTrace, "name" | "effect"> = { name: FOOTPRINT, effect: "mutate" };

/**
 * `berth-footprint`. The API server asks about new pods that a footprint with a wait selects, never about pods of Berth
 * and of the system. If Berth does not answer, the pod starts without waiting. Berth answers from memory, except for a
 * pod in a namespace that Berth has not seen yet. It reads that namespace, because nothing can make the pod wait later.
 * If Berth watches no namespaces, or cannot read them, it sends no request. Berth refuses no pod.
 */
export function waitAdmission({ observations, log }: WaitAnswers): AdmissionRules<WaitingFor> {
  const answer = async (
    { footprints }: WaitingFor,
    request: AdmissionRequest,
    io: ReviewIo,
  ): Promise<AdmissionAnswer> => {
    const { namespace = "" } = request;
    let said = admitWait({ footprints, observations: unseenIsUnknown(observations) }, request);
    if (said.unknown.length > 0 && observations.namespaceLabels(namespace) === null) {
      const labels = await io.namespaceLabels(namespace);
      const seeing = unseenIsUnknown(observations, labels && { namespace, labels });
      said = admitWait({ footprints, observations: seeing }, request);
    }
    const { patch, unknown } = said;
    if (unknown.length > 0)
      log.info("a new pod does not wait for an agent: it is not known yet whether it needs one", {
        namespace: request.namespace,
        footprints: unknown.join(", "),
      });
    return { allowed: true, patch };
  };
  return {
    ...waitReviews,
    reviews: [{ name: "pods", path: "/mutate-pod-footprint", rule: newPods, when, answer }],
    texts: {
      asked: "the API server asks Berth about new pods",
      off: "the API server does not ask Berth about new pods, so they do not wait for the agent",
    },
  };
}

/** The namespace of a new pod exists: if Berth has not seen it, its labels are unknown, unless `read` has them. */
function unseenIsUnknown(
  observations: NeedObservations,
  read?: { readonly namespace: string; readonly labels: Readonly<Record<string, string>> },
): NeedObservations {
  return {
    driverOfClaim: (namespace, claim) => observations.driverOfClaim(namespace, claim),
    namespaceLabels: (name) =>
      name === read?.namespace ? read.labels : (observations.namespaceLabels(name) ?? undefined),
  };
}

/** The API server does not ask until Berth has read all footprints. */
function when({ footprints, policy }: WaitingFor, env: AdmissionEnv): AskedWhen | undefined {
  const workloads = footprints.flatMap(({ wait, workloads: needing }) => (wait === undefined ? [] : needing));
  if (policy.isUndecided === true || workloads.length === 0) return undefined;
  // One selector cannot say "this or that": with several workloads, it contains only the general exclusions.
  const [only, ...others] = workloads;
  const { matchLabels, matchExpressions = [] } = (others.length === 0 && only?.namespaceSelector) || {};
  return {
    timeoutSeconds: TIMEOUT_SECONDS,
    namespaceSelector: {
      ...(matchLabels && { matchLabels }),
      matchExpressions: [notNamed(sparedNamespaces(env)), ...matchExpressions.map(toRequirement)],
    },
    matchConditions: selectedByAny(workloads.map(({ podSelector }) => podSelector)),
  };
}
