/** What the API server asks about new pods that are to wait for an agent, and the answers. */
import {
  type AdmissionEnv,
  type AdmissionRules,
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
import type { Footprints } from "../footprint.ts";
import type { NeedSight } from "../needs.ts";
import { admitWait } from "./admit.ts";

export interface WaitAnswers {
  readonly sight: NeedSight;
  readonly log: Logger;
}

type WaitingFor = Pick<Footprints, "footprints"> & InForce;

/** How long a pod is held up when Berth does not answer. Seconds. */
const TIMEOUT_SECONDS = 5;

/**
 * `berth-footprint`. Asked about new pods that a footprint with a wait selects, never about those of Berth and of
 * the system, and never waited for: a pod that could not be asked about starts without waiting. Answers from memory, but for a
 * pod that comes with its namespace: nothing could have it wait later, so a namespace that is not among those that are
 * watched is read. While none are watched, or they cannot be read, nothing is asked of the server. No pod is ever refused.
 */
export function waitAdmission({ sight, log }: WaitAnswers): AdmissionRules<WaitingFor> {
  const answer = async (
    { footprints }: WaitingFor,
    request: AdmissionRequest,
    io: ReviewIo,
  ): Promise<AdmissionAnswer> => {
    const { namespace = "" } = request;
    let said = admitWait({ footprints, sight: unseenIsUnknown(sight) }, request);
    if (said.unknown.length > 0 && sight.namespaceLabels(namespace) === null) {
      const labels = await io.namespaceLabels(namespace);
      const seeing = unseenIsUnknown(sight, labels && { namespace, labels });
      said = admitWait({ footprints, sight: seeing }, request);
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
    name: "footprint",
    effect: "mutate",
    reviews: [{ name: "pods", path: "/mutate-pod-footprint", rule: newPods, when, answer }],
    texts: {
      asked: "Berth is asked about new pods",
      off: (why) =>
        `${why === "homeless" ? "Berth's namespace does not exist" : "admission is off"}: the API server does not ask about new pods, so they do not wait for the agent`,
    },
  };
}

/** The namespace of a pod that is made is there: one that was not seen is on its way, unless it has been `read`. */
function unseenIsUnknown(
  sight: NeedSight,
  read?: { readonly namespace: string; readonly labels: Readonly<Record<string, string>> },
): NeedSight {
  return {
    driverOfClaim: (namespace, claim) => sight.driverOfClaim(namespace, claim),
    namespaceLabels: (name) =>
      name === read?.namespace ? read.labels : (sight.namespaceLabels(name) ?? undefined),
  };
}

/** Nothing is asked for before all footprints have been read. */
function when({ footprints, policy }: WaitingFor, env: AdmissionEnv): AskedWhen | undefined {
  const workloads = footprints.flatMap(({ wait, workloads: needing }) => (wait === undefined ? [] : needing));
  if (policy.isUndecided === true || workloads.length === 0) return undefined;
  // One selector cannot say "this or that": of several workloads only what is excluded for all of them.
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
