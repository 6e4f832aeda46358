/** Decides what a Workload needs now. Pure: a running Berth and `berth plan` share it. */
import type { Finding } from "@berth/host";
import type { ObjectMeta } from "@berth/kube";
import { controllerReferenceTo } from "@berth/runtime";
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../api/group.ts";
import { CITY_TOPOLOGY, finalizers, labels } from "../api/keys.ts";
import type { Location } from "../api/networking.ts";
import {
  type DeploymentSpec,
  type Workload,
  type WorkloadDeployment,
  type WorkloadStatus,
  workloads,
} from "../api/workload.ts";
import { canonicalJson } from "../deployment/template-hash.ts";
import type { LocationNamespaces } from "../network/location.ts";
import { describeTaken, type Target, type TargetView, targetsOf } from "./desired.ts";
import { mergePatchOf } from "./merge-patch.ts";
import { workloadStatus } from "./status.ts";

/** What is known of a Workload. All lists behind it have been read. */
export interface WorkloadView extends TargetView {
  /** The deployments in its namespace whose `workloadRef.uid` is its uid. */
  readonly deployments: readonly WorkloadDeployment[];
  /** What its new deployments have from the start. Default: the finalizer of the controller beside this one. */
  readonly born?: Pick<ObjectMeta, "finalizers" | "annotations"> | undefined;
  /** Absent: networking is off, and no Network is looked for. */
  readonly hasNetwork?: ((namespace: string, name: string) => boolean) | undefined;
  /** Wall clock, ms. */
  readonly nowMs: number;
}

export interface DeploymentPatch {
  readonly deployment: WorkloadDeployment;
  /** A merge patch of what differs. */
  readonly body: object;
}

/** Empty: settled. */
export interface WorkloadDecision {
  /**
   * All finalizers that the Workload should have. Sent after the creations: if the Workload goes between them, its
   * deployments have no owner any more, and are collected as garbage.
   */
  readonly finalizers?: readonly string[] | undefined;
  readonly create: readonly WorkloadDeployment[];
  readonly patch: readonly DeploymentPatch[];
  readonly delete: readonly WorkloadDeployment[];
  /** The whole status, when it differs. */
  readonly status?: WorkloadStatus | undefined;
  readonly findings: readonly Finding[];
}

const settled: WorkloadDecision = Object.freeze({ create: [], patch: [], delete: [], findings: [] });

/** The city codes that Locations of these namespaces serve. Default: of all. */
export function citiesOf(
  locations: readonly Location[],
  namespaces?: LocationNamespaces,
): ReadonlySet<string> {
  const counted = locations.filter(({ metadata }) => namespaces?.includes(metadata?.namespace ?? "") ?? true);
  return new Set(counted.flatMap(({ spec }) => spec?.topology?.[CITY_TOPOLOGY] ?? []));
}

/** The city codes that a Workload names. */
export function citiesNamed({ spec }: Workload): readonly string[] {
  return spec?.placements.flatMap(({ cityCodes }) => cityCodes) ?? [];
}

export function decideWorkload(view: WorkloadView): WorkloadDecision {
  const { workload, deployments } = view;
  const { metadata, spec } = workload;
  if (spec === undefined) return settled;
  const listed = metadata?.finalizers ?? [];
  const alive = deployments.filter((it) => it.metadata?.deletionTimestamp === undefined);
  if (metadata?.deletionTimestamp !== undefined) {
    if (!listed.includes(finalizers.workload)) return settled;
    if (deployments.length > 0) return { ...settled, delete: alive };
    return { ...settled, finalizers: listed.filter((it) => it !== finalizers.workload) };
  }
  const specified = { ...workload, spec };
  const targets = targetsOf(view);
  const missingNetworks = missingNetworksOf(view);
  const create = targets.filter((it) => it.is === "create");
  const patch = targets.filter((it) => it.is === "keep").flatMap((target) => patchFor(specified, target));
  // What cannot be created yet is not behind: there is nothing to count.
  const isUnread = targets.some((it) => it.is === "unread");
  const isBehind = isUnread || (missingNetworks.length === 0 && create.length > 0) || patch.length > 0;
  const status = workloadStatus({
    ...view,
    targets,
    missingNetworks,
    isObserved: !isBehind && deployments.every(isObserved),
  });
  const decision: WorkloadDecision = {
    ...settled,
    ...(!listed.includes(finalizers.workload) && { finalizers: [...listed, finalizers.workload] }),
    ...(status !== workload.status && { status }),
    findings: findingsOf(view, targets, missingNetworks),
  };
  if (missingNetworks.length > 0) return decision;
  const wanted = new Set(
    spec.placements.flatMap(({ name, cityCodes }) => cityCodes.map((city) => `${name}/${city}`)),
  );
  return {
    ...decision,
    create: create.map((target) => buildDeployment(view, specified, target)),
    patch,
    delete: alive.filter((it) => !wanted.has(`${it.spec?.placementName ?? ""}/${it.spec?.cityCode ?? ""}`)),
  };
}

/** Are its counters about its present spec? */
function isObserved({ metadata, status }: WorkloadDeployment): boolean {
  return status?.observedGeneration === metadata?.generation;
}

/** Networks of the template that do not exist, sorted. An interface without a namespace means the Workload's. */
function missingNetworksOf({ workload: { metadata, spec }, hasNetwork }: WorkloadView): readonly string[] {
  if (hasNetwork === undefined) return [];
  const own = metadata?.namespace ?? "";
  const missing = (spec?.template.spec.networkInterfaces ?? []).flatMap(({ network }) => {
    const namespace = network.namespace || own;
    if (hasNetwork(namespace, network.name)) return [];
    return namespace === own ? network.name : `${namespace}/${network.name}`;
  });
  return [...new Set(missing)].sort();
}

type Specified = Workload & Required<Pick<Workload, "spec">>;

function specFor({ metadata, spec }: Specified, { placement, city }: Target): DeploymentSpec {
  return {
    workloadRef: { name: metadata?.name ?? "", uid: metadata?.uid ?? "" },
    placementName: placement.name,
    cityCode: city,
    template: spec.template,
    scaleSettings: placement.scaleSettings,
  };
}

function buildDeployment(
  { born = { finalizers: [finalizers.workload] } }: WorkloadView,
  workload: Specified,
  target: Target,
): WorkloadDeployment {
  const { namespace, uid = "" } = workload.metadata ?? {};
  const apiVersion = `${COMPUTE_GROUP}/${COMPUTE_VERSION}`;
  return {
    apiVersion,
    kind: "WorkloadDeployment",
    metadata: {
      name: target.name,
      ...(namespace !== undefined && { namespace }),
      labels: { [labels.workloadUid]: uid },
      ...born,
      ownerReferences: [controllerReferenceTo(workloads, workload)],
    },
    spec: specFor(workload, target),
  };
}

/** Only what differs in meaning: values that the server fills in are not fought over. */
function patchFor(workload: Specified, target: Target): readonly DeploymentPatch[] {
  const { existing: deployment } = target;
  if (deployment === undefined) return [];
  const { metadata, spec } = deployment;
  const wanted = specFor(workload, target);
  const fields = (["template", "scaleSettings"] as const).filter(
    (field) => canonicalJson(spec?.[field] ?? {}) !== canonicalJson(wanted[field]),
  );
  const uid = workload.metadata?.uid ?? "";
  const body = {
    ...(metadata?.labels?.[labels.workloadUid] !== uid && {
      metadata: { labels: { [labels.workloadUid]: uid } },
    }),
    ...(fields.length > 0 && {
      spec: Object.fromEntries(fields.map((field) => [field, mergePatchOf(spec?.[field], wanted[field])])),
    }),
  };
  return Object.keys(body).length === 0 ? [] : [{ deployment, body }];
}

function findingsOf(
  { cityNote }: WorkloadView,
  targets: readonly Target[],
  missingNetworks: readonly string[],
): readonly Finding[] {
  return [
    ...targets.flatMap((target) =>
      target.is === "taken"
        ? { reason: "DeploymentNameTaken", about: target.name, message: describeTaken(target) }
        : target.is === "unserved"
          ? {
              reason: "CityUnserved",
              about: target.name,
              message: `no Location serves city "${target.city}" of placement "${target.placement.name}"${cityNote?.(target.city) ?? ""}`,
            }
          : [],
    ),
    ...missingNetworks.map((name) => ({
      reason: "NetworkNotFound",
      about: name,
      message: `Network ${name} does not exist: create it, or correct networkInterfaces of the Workload`,
    })),
  ];
}
