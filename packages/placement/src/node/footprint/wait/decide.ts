/** What becomes of the init containers of a Deployment whose pods are to wait for their agent: decided as plain data. */
import type { Container, Deployment, Pod } from "@berth/kube";
import { isSameData } from "@berth/runtime";
import { itemKey } from "../../managed-fields.ts";
import { isSameQuantity } from "../../quantity.ts";
import { field, isRecord } from "../../untrusted-json.ts";
import type { Footprint } from "../footprint.ts";
import { hasGroupLabel } from "../groups.ts";
import { type NeedSight, podNeeds } from "../needs.ts";
import { controllerOf, groupOf } from "../owner-reference.ts";
import type { WantedBy } from "./claimants.ts";
import { appliedContainers, containerNames, type WaitBody, waitBody, waitContainers } from "./wait.ts";

export interface WaitDecision {
  /** To be applied one after the other. Empty: it stands as it should, or cannot be told yet. */
  readonly bodies: readonly WaitBody[];
  /** Containers that are put in or changed, and names of those that are taken off. */
  readonly put: readonly Container[];
  readonly taken: readonly string[];
  /** Containers of ours that nobody in force wants, and that stay as they are. */
  readonly kept: readonly string[];
  /** By whom which containers are wanted; absent where that cannot be told. */
  readonly wantedBy?: WantedBy;
}

export interface WaitView {
  readonly deployment: Deployment;
  /** Whose containers are ours. */
  readonly installation: string;
  readonly footprints: readonly Footprint[];
  readonly sight: NeedSight;
  /** May this container of ours be taken off where none of the footprints wants it? Default: each may. */
  readonly isFree?: (container: string) => boolean;
}

const unknown: WaitDecision = Object.freeze({ bodies: [], put: [], taken: [], kept: [] });

/**
 * Pure and total. What others have put in under one of the names stays as it is, and is not ours; so does everything while
 * it is not known whether the pods need the agent, and a container of ours that somebody may want.
 */
export function decideWait({
  deployment,
  installation,
  footprints,
  sight,
  isFree = () => true,
}: WaitView): WaitDecision {
  const spec = deployment.spec?.template.spec;
  if (spec === undefined || deployment.metadata?.deletionTimestamp !== undefined) return unknown;
  const wanting = whoWants(deployment, footprints, sight);
  if (wanting === undefined) return unknown;
  const applied = appliedContainers(deployment, installation);
  const ours = new Set([...applied].flatMap(([name, fields]) => (isWhole(fields) ? [name] : [])));
  const standing = new Map((spec.initContainers ?? []).map((container) => [container.name, container]));
  const taken = containerNames(spec);
  const wanted = waitContainers(wanting, "ServerSideApply").filter(
    ({ name }) => ours.has(name) || !taken.has(name),
  );
  const put = wanted.filter(
    (container) => !isStanding(container, standing.get(container.name), applied.get(container.name)),
  );
  const names = new Set(wanted.map(({ name }) => name));
  const surplus = [...applied.keys()].filter((name) => !names.has(name));
  const kept = surplus.filter((name) => ours.has(name) && !isFree(name));
  const off = surplus.filter((name) => !kept.includes(name));
  const decided = { kept, wantedBy: wantedBy(wanting) };
  if (put.length === 0 && off.length === 0) return { ...unknown, ...decided };
  const all = [...wanted, ...kept.flatMap((name) => asApplied(standing.get(name), applied.get(name)))];
  const isNew = put.some(({ name }) => !standing.has(name));
  const others = [...standing.keys()].filter((name) => !names.has(name) && !ours.has(name));
  const first = isNew && others.length > 0 ? [waitBody(deployment, all, others)] : [];
  return {
    ...decided,
    bodies: [...first, waitBody(deployment, all)],
    put,
    taken: off.filter((name) => ours.has(name)),
  };
}

/** `undefined` while it is not known of one of them. */
function whoWants(
  deployment: Deployment,
  footprints: readonly Footprint[],
  sight: NeedSight,
): readonly Footprint[] | undefined {
  const wanting: Footprint[] = [];
  for (const footprint of footprints) {
    const answer = isWaiting(deployment, footprint, sight);
    if (answer === undefined) return undefined;
    if (answer) wanting.push(footprint);
  }
  return wanting;
}

function wantedBy(wanting: readonly Footprint[]): WantedBy {
  const rules = new Map<string, Set<string>>();
  for (const { wait, rule } of wanting) {
    if (wait === undefined) continue;
    const { containerName } = wait;
    rules.set(containerName, new Set([...(rules.get(containerName) ?? []), rule]));
  }
  return rules;
}

/** What we have applied of it, as it stands: an apply of that changes nothing, and makes nothing of others ours. */
function asApplied(standing: Container | undefined, applied: unknown): readonly Container[] {
  if (standing === undefined) return [];
  const ours = ownPart(standing, applied);
  return [{ ...(isRecord(ours) && ours), name: standing.name }];
}

/** By the server's record: fields by `f:`, items of lists by name. That of which it says no more is owned as a whole. */
function ownPart(value: unknown, record: unknown): unknown {
  const owned = isRecord(record) ? Object.entries(record) : [];
  if (Array.isArray(value)) {
    const items = new Map(owned.map(([key, below]) => [itemKey(key, "name"), below]));
    items.delete(undefined);
    if (items.size === 0) return value;
    const ours = value.filter((item) => items.has(field(item, "name")));
    return ours.map((item) => ownPart(item, items.get(field(item, "name"))));
  }
  const fields = owned
    .filter(([key]) => key.startsWith("f:"))
    .map(([key, below]) => [key.slice(2), below] as const);
  if (!isRecord(value) || fields.length === 0) return value;
  const standing = fields.filter(([name]) => field(value, name) !== undefined);
  return Object.fromEntries(standing.map(([name, below]) => [name, ownPart(field(value, name), below)]));
}

/** Do the pods of the Deployment wait by this footprint? `undefined` while that is not known. */
function isWaiting(deployment: Deployment, footprint: Footprint, sight: NeedSight): boolean | undefined {
  if (footprint.wait?.inject !== "ServerSideApply" || !isOwned(deployment, footprint)) return false;
  const { metadata, spec } = deployment.spec?.template ?? {};
  const { namespace = "" } = deployment.metadata ?? {};
  // A template has no phase: it stands for the pods that are going to run.
  const pod: Pod = {
    metadata: { ...metadata, namespace },
    ...(spec && { spec }),
    status: { phase: "Running" },
  };
  if (!hasGroupLabel(pod, footprint)) return false;
  const answer = podNeeds(pod, footprint, sight);
  return answer === "unknown" ? undefined : answer === "yes";
}

/** Made by an owner of the kind that the footprint groups by, or one itself; any, where it knows no kind of owner. */
function isOwned({ metadata }: Deployment, { grouping }: Footprint): boolean {
  const owner =
    grouping.by === "OwnerUID" ? grouping.owner : grouping.by === "PodLabel" ? grouping.verify : undefined;
  if (owner === undefined || (owner.group === "apps" && owner.kind === "Deployment")) return true;
  const controller = controllerOf(metadata ?? {});
  return controller?.kind === owner.kind && groupOf(controller.apiVersion) === owner.group;
}

/** In all that we set; the API server adds defaults. `applied` is what the server's record has of it as ours. */
function isStanding(wanted: Container, standing: Container | undefined, applied: unknown): boolean {
  if (standing === undefined) return false;
  const { image, command, env } = wanted;
  const variables = (standing.env ?? []).map(({ name, valueFrom }) => [name, valueFrom?.fieldRef?.fieldPath]);
  return (
    standing.image === image &&
    isSameData(standing.command, command) &&
    isSameData(
      variables,
      (env ?? []).map(({ name, valueFrom }) => [name, valueFrom?.fieldRef?.fieldPath]),
    ) &&
    hasSettings(wanted, standing) &&
    SETTINGS.every((name) => isGiven(field(applied, `f:${name}`), wanted[name]))
  );
}

const SETTINGS = ["resources", "securityContext"] as const;

/** All that is wanted stands; amounts may be written in another way. */
function hasSettings(wanted: Container, standing: Container): boolean {
  const amounts = (["requests", "limits"] as const).every((list) =>
    Object.entries(wanted.resources?.[list] ?? {}).every(([name, amount]) => {
      const stands = standing.resources?.[list]?.[name];
      return stands !== undefined && isSameQuantity(stands, amount);
    }),
  );
  return amounts && isWithin(wanted.securityContext ?? {}, standing.securityContext);
}

function isWithin(wanted: unknown, standing: unknown): boolean {
  if (!isRecord(wanted)) return isSameData(wanted, standing);
  return Object.keys(wanted).every((key) => isWithin(field(wanted, key), field(standing, key)));
}

/** Is what we have applied wanted still? What is not has to be given up, or it stands for ever. */
function isGiven(applied: unknown, wanted: unknown): boolean {
  const keys = isRecord(applied) ? Object.keys(applied).filter((key) => key.startsWith("f:")) : [];
  return keys.every((key) => {
    const value = field(wanted, key.slice(2));
    return value !== undefined && isGiven(field(applied, key), value);
  });
}

/** And not only named. */
function isWhole(applied: unknown): boolean {
  return isRecord(field(applied, "f:image"));
}
