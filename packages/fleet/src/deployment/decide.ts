/** Decides what a deployment needs now. Pure: a running Berth and `berth plan` share it. */
import type { Finding } from "@berth/host";
import { finalizers, instanceName } from "../api/keys.ts";
import { ownerOf } from "../api/owner.ts";
import type { DeploymentStatus, Instance, WorkloadDeployment } from "../api/workload.ts";
import { boundedCount, buildInstance, desiredCount, ordinalStart, placeLabels } from "./build.ts";
import type { Block, Verdict } from "./conditions.ts";
import { type Action, decideActions } from "./control.ts";
import { deploymentStatus, type NetworkStep, NOT_READ, type StatusView, waitFor } from "./status.ts";
import { isCurrent, templateHash } from "./template-hash.ts";
import { type SizeLimits, sizeProblems, templateSize } from "./template-size.ts";

/** What is known of a deployment. */
export interface DeploymentView {
  readonly deployment: WorkloadDeployment;
  /** The Instances in its namespace that it controls. */
  readonly instances: readonly Instance[];
  /** Any Instance of its namespace, by name. */
  readonly instanceNamed: (name: string) => Instance | undefined;
  readonly network: NetworkStep;
  /** Default none: admission has checked the Workload. */
  readonly limits?: SizeLimits | undefined;
  /** Whether a quota service is configured. */
  readonly hasQuota: boolean;
  /** Why no new claim could be granted now; `""`: not known yet. Asked before a Ready Instance is replaced. Default none. */
  readonly rollHold?: (() => string | undefined) | undefined;
  /** Why the API server refused to create or delete what has this name. It counts while Berth still wants that. */
  readonly refusals?: ReadonlyMap<string, string> | undefined;
  /** See `templateVerdict`. Not asked about a template that is too large: it would read each key. */
  readonly leftOut?: (() => Verdict | undefined) | undefined;
  /** Wall clock, ms. */
  readonly nowMs: number;
}

export interface Relabelling {
  readonly instance: Instance;
  /** Those that differ. */
  readonly labels: Readonly<Record<string, string>>;
}

/** Empty: settled. */
export interface DeploymentDecision {
  /** All finalizers that the deployment should have. Sent first. */
  readonly finalizers?: readonly string[] | undefined;
  readonly create?: Instance | undefined;
  readonly delete?: readonly Instance[] | undefined;
  /** As in an intent. Absent: delete only the version that was seen, as one that became Ready meanwhile must stay. */
  readonly deleteBound?: "uid" | undefined;
  /** Labels to restore. The Instances go on as they are. */
  readonly relabel?: readonly Relabelling[] | undefined;
  /**
   * The whole status, when it differs. It is held back while an Instance is created or deleted: the event of that
   * Instance starts the next decision, and one write then says both. A refusal is written at once.
   */
  readonly status?: DeploymentStatus | undefined;
  /** All steps that are foreseen, in order. The first of them is in this decision. */
  readonly actions: readonly Action[];
  readonly findings: readonly Finding[];
  readonly recheckAfterMs?: number | undefined;
}

/** The most Instances whose labels one decision restores. Their events start the next one. */
const MAX_RELABELLED = 50;
/** The most holders of taken names that a condition names. */
const MAX_NAMED = 5;
/** Until the next look when a roll waits for the quota service, ms. It takes no request. */
const HELD_RECHECK_MS = 2_000;

/** The networks of the template can never be bound as they are. */
const NEVER_BOUND: readonly string[] = ["NetworkChanged", "ForeignNetwork"];

const settled: DeploymentDecision = Object.freeze({ actions: [], findings: [] });

export function decideDeployment(view: DeploymentView): DeploymentDecision {
  const { deployment, instances } = view;
  const { metadata, spec } = deployment;
  if (spec === undefined) return settled;
  const hash = templateHash(spec.template);
  const current = new Set(instances.filter((instance) => isCurrent(instance, spec.template, hash)));
  const isOfTemplate = (instance: Instance): boolean => current.has(instance);
  const tooLarge = tooLargeOf(view);
  const leftOut = tooLarge === undefined ? view.leftOut?.() : undefined;
  /** @param changing names of the Instances that this decision creates or deletes. */
  const statusWhile = (
    changing: readonly string[],
    found: Pick<StatusView, "hold" | "refused" | "taken"> = {},
  ): Pick<DeploymentDecision, "status"> => {
    const [refusal] = changing.flatMap((name) => view.refusals?.get(name) ?? []);
    const status = deploymentStatus({ ...view, isCurrent: isOfTemplate, refusal, leftOut, ...found });
    return status === deployment.status || (changing.length > 0 && refusal === undefined) ? {} : { status };
  };
  const isGoing = (instance: Instance): boolean => instance.metadata?.deletionTimestamp !== undefined;
  const listed = metadata?.finalizers ?? [];
  if (metadata?.deletionTimestamp !== undefined) {
    if (!listed.includes(finalizers.workload)) return settled;
    if (instances.length === 0)
      return { ...settled, finalizers: listed.filter((it) => it !== finalizers.workload) };
    const remaining = instances.filter((instance) => !isGoing(instance));
    const deletion = { delete: remaining, deleteBound: "uid" } as const;
    const names = remaining.map((it) => it.metadata?.name ?? "");
    return { ...settled, ...(names.length > 0 && deletion), ...statusWhile(names) };
  }
  const start = ordinalStart(deployment);
  const refused = tooLarge ?? waitFor(view.network, NEVER_BOUND);
  const unread = waitFor(view.network, NOT_READ);
  // A change of the template or of a network is an event, and an answer of the quota service is none.
  const lasting = refused?.message ?? networkHold(view.network);
  let hold: string | undefined;
  const { name = "" } = metadata ?? {};
  const { actions, ignored, held, taken } = decideActions({
    deployment: name,
    instances: start === undefined ? [] : instances,
    start: start ?? 0,
    desired: start === undefined ? 0 : desiredCount(deployment),
    isCurrent: isOfTemplate,
    isDeleting: isGoing,
    isTaken: (taken) => view.instanceNamed(taken) !== undefined,
    isHeld: () => (hold = lasting ?? view.rollHold?.()) !== undefined,
    keepsOutdated: (refused ?? unread) !== undefined,
    createsNone: tooLarge !== undefined,
  });
  const [action] = actions;
  const relabel = relabelled(view, action?.do === "delete" ? action.instance : undefined);
  const holders = taken.map((one) => ({ name: one, message: describeHolder(one, view.instanceNamed(one)) }));
  return {
    ...(!listed.includes(finalizers.workload) && { finalizers: [...listed, finalizers.workload] }),
    ...(action?.do === "create" && { create: instanceFor(view, hash, action.ordinal) }),
    ...(action?.do === "delete" && { delete: [action.instance] }),
    ...(relabel.length > 0 && { relabel }),
    ...statusWhile(action === undefined || action.do === "wait" ? [] : [instanceName(name, action.ordinal)], {
      hold,
      refused,
      taken: named(holders.map(({ message }) => message)),
    }),
    actions,
    findings: [
      ...findingsOf(view, start, ignored),
      ...[refused ?? unread].filter((it) => it !== undefined),
      ...holders.map((it) => ({ reason: "InstanceNameTaken", about: it.name, message: it.message })),
    ],
    ...(held.length > 0 && lasting === undefined && { recheckAfterMs: HELD_RECHECK_MS }),
  };
}

/** Why a new Instance would wait for its networks. */
function networkHold(network: NetworkStep): string | undefined {
  if (network.is !== "waiting") return undefined;
  return network.message ?? "its networks are not ready";
}

/** Each Instance, its Pod and each cache would have a copy of the template. */
function tooLargeOf({ deployment, limits }: DeploymentView): Block | undefined {
  if (limits === undefined) return undefined;
  const size = templateSize(deployment.spec?.template);
  const problems = sizeProblems(size, desiredCount(deployment), limits);
  return problems.length === 0 ? undefined : { reason: "TemplateTooLarge", message: problems.join("; ") };
}

function relabelled({ deployment, instances }: DeploymentView, going?: Instance): readonly Relabelling[] {
  const wanted = Object.entries(placeLabels(deployment));
  return instances
    .filter((it) => it !== going && it.metadata?.deletionTimestamp === undefined)
    .flatMap((instance): readonly Relabelling[] => {
      const differing = wanted.filter(([key, value]) => instance.metadata?.labels?.[key] !== value);
      return differing.length === 0 ? [] : [{ instance, labels: Object.fromEntries(differing) }];
    })
    .slice(0, MAX_RELABELLED);
}

function describeHolder(name: string, holder: Instance | undefined): string {
  const owner = ownerOf(holder ?? {});
  const of =
    owner === undefined ? "has no controller" : `is of ${owner.kind} ${owner.name} (uid ${owner.uid})`;
  return `Instance ${name} exists and ${of}: Berth waits until it is deleted`;
}

function named(messages: readonly string[]): readonly string[] {
  const more = messages.length - MAX_NAMED;
  return more > 0 ? [...messages.slice(0, MAX_NAMED), `and ${more} more`] : messages;
}

function instanceFor(
  { deployment, network, hasQuota }: DeploymentView,
  hash: string,
  ordinal: number,
): Instance {
  const found = network.is === "off" ? undefined : network.location;
  return buildInstance(deployment, {
    ordinal,
    templateHash: hash,
    location: found ?? deployment.status?.location,
    hasNetwork: network.is !== "off",
    hasQuota,
  });
}

function findingsOf(
  { deployment }: DeploymentView,
  start: number | undefined,
  ignored: readonly Instance[],
): readonly Finding[] {
  const { name: deploymentName = "" } = deployment.metadata ?? {};
  const { minReplicas = 0 } = deployment.spec?.scaleSettings ?? {};
  const desired = boundedCount(deployment);
  return [
    ...(start === undefined
      ? [
          {
            reason: "OrdinalStartInvalid",
            message:
              "annotation berth.dev/ordinal-start is no ordinal: Berth leaves the Instances alone until it is corrected",
          },
        ]
      : []),
    ...(desired !== minReplicas
      ? [
          {
            reason: "ReplicasOutOfRange",
            message: `minReplicas ${minReplicas} is not from 0 to 1000: Berth runs ${desired}`,
          },
        ]
      : []),
    ...ignored.map(({ metadata: { name = "" } = {} }) => ({
      reason: "InstanceIgnored",
      about: name,
      message: `Instance ${name} is not ${deploymentName}-<ordinal>: Berth leaves it alone; delete it if it is not needed`,
    })),
  ];
}
