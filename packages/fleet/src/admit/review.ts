/** What the API server asks about the fleet, and the answers. */
import type { Access, AdmissionRules, InForce, ReviewIo, ReviewRules } from "@berth/host";
import type { AdmissionAnswer, AdmissionRequest } from "@berth/runtime";
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../api/group.ts";
import { told, type WorkloadWarning } from "../api/warnings.ts";
import { instances, type Workload, workloadDeployments, workloads } from "../api/workload.ts";
import { sizeLimits } from "../deployment/template-size.ts";
import type { FleetSpec } from "../fleet/document.ts";
import { listed, toCause } from "./fault.ts";
import { Field } from "./field.ts";
import { accessFaults, accessQuestion } from "./network.ts";
import { askedAboutOthers, protect } from "./protect.ts";
import { MAX_FAULTS, validateWorkload } from "./workload.ts";

/** What answers depend on. A new value when `spec` or `self` changes: the host keeps what `when` has said about one. */
export interface FleetInForce extends InForce {
  readonly spec: FleetSpec;
  /** Berth's own username. `undefined`: not known. */
  readonly self: string | undefined;
  /** Is networking on? */
  readonly networking: () => boolean;
  /** City codes that Workloads may name, sorted. `undefined`: any, or they have not been read. */
  readonly cities: () => readonly string[] | undefined;
  /** For the end of a message that refuses a city. */
  readonly cityNote?: ((city: string) => string) | undefined;
  /** City codes that a cell serves now: others are for a warning. `undefined`: it is not known, or there are no cells. */
  readonly served?: (() => ReadonlySet<string> | undefined) | undefined;
}

/** Are Workloads in Berth's own cluster? Cells have no webhooks: their CRDs protect gates and specs. */
export const isAsked = ({ mode, projects }: Pick<FleetSpec, "mode" | "projects">): boolean =>
  mode === "single" || (mode === "management" && projects === "self");

const TIMEOUT_SECONDS = 5;

const scope = { apiGroups: [COMPUTE_GROUP], apiVersions: [COMPUTE_VERSION], scope: "Namespaced" };

/** The original's name and path. It is `alone` for its condition: see `answerWorkload`. */
const workloadReview: ReviewRules<FleetInForce> = {
  name: "vworkload.kb.io",
  path: "/validate-compute-datumapis-com-v1alpha-workload",
  rule: { ...scope, operations: ["CREATE", "UPDATE"], resources: [workloads.plural] },
  alone: true,
  failurePolicy: () => "Fail",
  when: (inForce) =>
    isAsked(inForce.spec)
      ? {
          timeoutSeconds: TIMEOUT_SECONDS,
          // Finalizers and labels of a Workload that is older than a rule can still change.
          matchConditions: [
            {
              name: "spec-changed",
              expression: 'request.operation != "UPDATE" || object.?spec != oldObject.?spec',
            },
          ],
        }
      : undefined,
  answer: answerWorkload,
};

async function answerWorkload(
  { spec, networking, cities, cityNote, served }: FleetInForce,
  { object, oldObject, namespace = "", userInfo }: AdmissionRequest,
  io: ReviewIo,
): Promise<AdmissionAnswer> {
  const { faults, networks } = validateWorkload({
    object,
    old: oldObject,
    namespace,
    cities: cities(),
    cityNote,
    catalog: spec.catalog,
    limits: sizeLimits(spec.template),
    containerResources: spec.featureGates.ContainerResources,
    networking: networking(),
  });
  const isCut = faults.length === MAX_FAULTS;
  if (faults.length > 0)
    return {
      allowed: false,
      causes: faults.map(toCause),
      ...(isCut && { warnings: [`only the first ${MAX_FAULTS} faults of the Workload are shown`] }),
    };
  const access = new Map<string, Access>();
  // One after another, so that one review takes one of the few questions that its user may have open.
  for (const { name } of networks) {
    if (access.has(name)) continue;
    const answer = await io.accessReview(accessQuestion(userInfo, { namespace, name }));
    if (answer.kind === "busy") return { allowed: false, ...TOO_MANY_QUESTIONS };
    access.set(name, answer);
  }
  const refused = networks.flatMap((network) => accessFaults(network, access.get(network.name)));
  if (refused.length > 0) return { allowed: false, causes: refused.map(toCause) };
  const found = told(unservedWarning(object, served?.()), (object as Partial<Workload>).metadata);
  const warnings = found.map(({ code, message }) => `${code}: ${message}`);
  return { allowed: true, ...(warnings.length > 0 && { warnings }) };
}

/** A Workload may come before its cell. */
function unservedWarning(
  object: unknown,
  served: ReadonlySet<string> | undefined,
): readonly WorkloadWarning[] {
  if (served === undefined) return [];
  const placements = new Field("", object).get("spec").get("placements").items();
  const named = placements.flatMap((it) =>
    it
      .get("cityCodes")
      .items()
      .map(({ text }) => text),
  );
  const unserved = new Set(named).difference(served);
  const message = `no cell serves ${listed([...unserved])} yet: nothing runs there until one does`;
  return unserved.size === 0 ? [] : [{ code: "CityWithoutCell", message }];
}

const TOO_MANY_QUESTIONS = {
  message: "too many questions about the use of networks by this user or in this namespace: try again",
  retryAfterSeconds: 1,
};

const protectedReview: ReviewRules<FleetInForce> = {
  name: "managed",
  path: "/validate-compute-datumapis-com-v1alpha-managed",
  rule: {
    ...scope,
    operations: ["CREATE", "UPDATE", "DELETE"],
    resources: [instances, workloadDeployments].flatMap(({ plural }) => [plural, `${plural}/status`]),
  },
  failurePolicy: () => "Fail",
  when: (inForce) => {
    const { self, spec } = inForce;
    if (!isAsked(spec) || self === undefined) return undefined;
    const matchConditions = askedAboutOthers({ self, providers: spec.providers });
    return { timeoutSeconds: TIMEOUT_SECONDS, matchConditions };
  },
  answer: ({ self, spec }, request) => {
    const message = protect(request, { self, providers: spec.providers });
    return message === undefined ? { allowed: true } : { allowed: false, message };
  },
};

export const fleetAdmission: AdmissionRules<FleetInForce> = {
  name: "fleet",
  effect: "validate",
  reviews: [workloadReview, protectedReview],
  texts: {
    asked: "the API server asks Berth about Workloads, deployments and Instances",
    off: "Workloads are not validated, and users can change Instances",
  },
};
