/** What must never happen to a Workload and its Instances, asked of a whole history. */
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { type KubeObject, type Pod, pods, type Resource } from "@berth/kube";
import { isConditionTrue } from "@berth/runtime";
import type { HistoryEntry } from "@berth/testcluster";
import { labels, ordinalOf } from "../../packages/fleet/src/api/keys.ts";
import { resourceClaims } from "../../packages/fleet/src/api/quota.ts";
import { canonicalJson, templateHash } from "../../packages/fleet/src/deployment/template-hash.ts";
import type { StoryWrite } from "./deschedule-writes.ts";
import { Worlds } from "./worlds.ts";

export interface FleetTrial {
  /** In order, the start included. */
  readonly steps: readonly string[];
  /** The step that is about nothing. */
  readonly rest: string;
  readonly hasQuota: boolean;
  /** What Berth asked for, without the sentinel. */
  readonly writes: readonly StoryWrite[];
  /** Uids of the pods that the kubelet has ended. */
  readonly ended: ReadonlySet<string>;
}

/** One sentence for each thing that must not be. */
export function forbiddenOfFleet(history: readonly HistoryEntry[], trial: FleetTrial): readonly string[] {
  return [
    ...writesAtRest(trial),
    ...deletionsForNothing(history, trial),
    ...changesForNothing(history, trial),
    ...downAtOnce(history),
    ...shownAsDown(history),
    ...gatesWithoutGrant(history, trial),
    ...leftOvers(history),
    ...forcedPods(history, trial),
  ];
}

const saying = ({ name, step }: HistoryEntry, what: string): string => `${name} ${what} (${step})`;

function writesAtRest({ writes, rest }: FleetTrial): readonly string[] {
  return writes
    .filter(({ step, life }) => step === rest && life === 1)
    .map(
      ({ verb, resource, name }) => `${name} was written though nothing had happened: ${verb} ${resource}`,
    );
}

/** The version with which the deletion of an object begins. */
function begins({ type, object, before }: HistoryEntry): boolean {
  if (before?.metadata?.deletionTimestamp !== undefined) return false;
  return type === "DELETED" || object.metadata?.deletionTimestamp !== undefined;
}

/** Instances that their deployment wanted ever since they were made. Who makes one has seen why. */
function deletionsForNothing(history: readonly HistoryEntry[], { steps }: FleetTrial): readonly string[] {
  const worlds = new Worlds(history, steps, (standing) => standing.find(isOf(workloadDeployments))?.object);
  return history.filter(isOf(instances)).flatMap((entry) => {
    if (entry.by !== "controller" || !begins(entry)) return [];
    const isRight = worlds.since(entry).every((deployment) => wants(deployment, entry.object));
    return isRight ? [saying(entry, "was deleted and was right")] : [];
  });
}

/** Whether the deployment wants this very Instance, as far as its template and its ordinal go. */
function wants(deployment: WorkloadDeployment | undefined, instance: Instance): boolean {
  const { spec } = deployment ?? {};
  if (spec === undefined) return false;
  const isOfTemplate = instance.spec?.controller?.templateHash === templateHash(spec.template);
  return isOfTemplate && isCounted(deployment, instance);
}

function isCounted(deployment: WorkloadDeployment | undefined, { metadata }: Instance): boolean {
  if (deployment?.metadata?.deletionTimestamp !== undefined) return false;
  return ordinalOf(metadata?.name ?? "") < (deployment?.spec?.scaleSettings.minReplicas ?? 0);
}

/** Specs of a deployment that, as far as Berth could know, its Workload did not ask for. */
function changesForNothing(history: readonly HistoryEntry[], { steps }: FleetTrial): readonly string[] {
  const worlds = new Worlds(history, steps, (standing) => standing.find(isOf(workloads))?.object.spec);
  return history.filter(isOf(workloadDeployments)).flatMap((entry) => {
    const { before, object } = entry;
    const isSame = before?.metadata?.generation === object.metadata?.generation;
    if (isSame || entry.type === "DELETED" || entry.by !== "controller" || begins(entry)) return [];
    const isAsked = worlds.behind(entry).some((spec) => {
      const wanted = [spec?.template, spec?.placements[0]?.scaleSettings];
      return canonicalJson([object.spec?.template, object.spec?.scaleSettings]) === canonicalJson(wanted);
    });
    return isAsked ? [] : [saying(entry, "was changed to what no Workload asks for")];
  });
}

/** A Ready Instance that stays wanted was deleted while another such one had not come back. */
function downAtOnce(history: readonly HistoryEntry[]): readonly string[] {
  const down = new Set<string>();
  let deployment: WorkloadDeployment | undefined;
  return history.flatMap((entry) => {
    if (isOf(workloadDeployments)(entry)) deployment = entry.object;
    for (const name of down) if (!isCounted(deployment, { metadata: { name } })) down.delete(name);
    if (!isOf(instances)(entry)) return [];
    const { name: local, object, before, by } = entry;
    const { name = "" } = object.metadata ?? {};
    if (object.metadata?.deletionTimestamp === undefined && isReady(object)) down.delete(name);
    if (by !== "controller" || !begins(entry) || !isReady(before) || !isCounted(deployment, object))
      return [];
    const others = [...down].filter((one) => one !== name);
    down.add(name);
    return others.length === 0 ? [] : [saying(entry, `${local} was taken down with ${others.join()}`)];
  });
}

/** An Instance was no longer Ready though its pod was, and nothing was going. */
function shownAsDown(history: readonly HistoryEntry[]): readonly string[] {
  const ready = new Map<string, boolean>();
  return history.flatMap((entry) => {
    const { name, object } = entry;
    if (isOf(pods)(entry)) {
      const isGoing = object.metadata?.deletionTimestamp !== undefined || entry.type === "DELETED";
      ready.set(name, !isGoing && isReady(object));
    }
    if (!isOf(instances)(entry) || object.metadata?.deletionTimestamp !== undefined) return [];
    const isLost = isReady(entry.before) && !isReady(object) && ready.get(name) === true;
    return isLost ? [saying(entry, "was shown as down while its pod was Ready")] : [];
  });
}

function gatesWithoutGrant(history: readonly HistoryEntry[], { hasQuota }: FleetTrial): readonly string[] {
  const granted = new Set<string>();
  return history.flatMap((entry) => {
    if (isOf(resourceClaims)(entry) && isConditionTrue(entry.object.status?.conditions, "Granted"))
      granted.add(entry.object.metadata?.labels?.[labels.instanceUid] ?? "");
    if (!hasQuota || !isOf(instances)(entry) || entry.by !== "controller") return [];
    const { object, before } = entry;
    const isOpened = isGated(before) && !isGated(object);
    return isOpened && !granted.has(object.metadata?.uid ?? "")
      ? [saying(entry, "lost its gate without a grant of its own")]
      : [];
  });
}

function isGated(instance: Instance | undefined): boolean {
  return instance?.spec?.controller?.schedulingGates?.some(({ name }) => name === "Quota") === true;
}

/** What an Instance that Berth let go of left behind, and two claims of one Instance. */
function leftOvers(history: readonly HistoryEntry[]): readonly string[] {
  const standing = new Map<string, HistoryEntry>();
  const stripped = new Set<string>();
  return history.flatMap((entry) => {
    const { type, name, resource, object, by } = entry;
    const key = `${resource.plural}/${name}`;
    if (type === "DELETED") standing.delete(key);
    else standing.set(key, entry);
    const { uid = "" } = object.metadata ?? {};
    if (by === "story" && object.metadata?.deletionTimestamp !== undefined) stripped.add(uid);
    const rest = [...standing.values()];
    const claimsOf = (of: string) =>
      rest
        .filter(isOf(resourceClaims))
        .filter((it) => it.object.metadata?.labels?.[labels.instanceUid] === of);
    if (isOf(resourceClaims)(entry) && type === "ADDED") {
      const [owner] = [entry.object.metadata?.labels?.[labels.instanceUid] ?? ""];
      return claimsOf(owner).length > 1 ? [saying(entry, "is the second claim of an Instance")] : [];
    }
    if (!isOf(instances)(entry) || type !== "DELETED" || stripped.has(uid)) return [];
    const podsLeft = rest.filter(isOf(pods)).filter(({ object: pod }) => ownerOf(pod) === uid);
    return [...podsLeft, ...claimsOf(uid)].map((left) =>
      saying(left, `was left behind by ${name}, of kind ${left.resource.kind}`),
    );
  });
}

/** Pods on a node that ended without their kubelet. */
function forcedPods(history: readonly HistoryEntry[], { ended }: FleetTrial): readonly string[] {
  return history
    .filter(isOf(pods))
    .filter(({ type, object }) => type === "DELETED" && object.spec?.nodeName !== undefined)
    .filter(({ object }) => !ended.has(object.metadata?.uid ?? ""))
    .map((entry) => saying(entry, "was deleted by force"));
}

function ownerOf({ metadata }: Pod): string | undefined {
  return metadata?.ownerReferences?.find(({ controller }) => controller)?.uid;
}

function isReady(object: KubeObject | undefined): boolean {
  const { status } = (object ?? {}) as Pick<Instance, "status">;
  return isConditionTrue(status?.conditions, "Ready");
}

function isOf<T extends KubeObject>(resource: Resource<T>) {
  return (
    entry: HistoryEntry,
  ): entry is HistoryEntry & { readonly object: T; readonly before: T | undefined } =>
    entry.resource === resource;
}
