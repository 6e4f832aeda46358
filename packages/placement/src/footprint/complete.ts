/** From one `NodeFootprint` document to a footprint: explicit field before preset before default. */
import { type DocumentFault, durationMs } from "@berth/host";
import { isEmptySelector } from "../node/selector.ts";
import type {
  FootprintGroup,
  FootprintHold,
  FootprintNode,
  FootprintPreset,
  FootprintWorkload,
  NodeFootprintSpec,
} from "./document.ts";
import type {
  AgentWait,
  Footprint,
  FootprintDocument,
  NeedingPods,
  OwnerHold,
  PodGrouping,
} from "./footprint.ts";
import { FINISHED } from "./needs.ts";
import { presets } from "./presets.ts";
import type { FootprintWait } from "./wait/document.ts";
import { waitSettings } from "./wait/settings.ts";

/** The domain of labels and claims that a document with a preset does not name. */
export const FOOTPRINT_DOMAIN = "footprint.berth.dev";

/** What is missing or does not fit together, with the field. */
export type SpecFault = Pick<DocumentFault, "path" | "message">;

export interface CompletedFootprint {
  /** Absent when there is a fault. */
  readonly footprint?: Footprint;
  readonly faults: readonly SpecFault[];
}

const DEFAULT_VALUE = "true";
const WAIT_CONTAINER = { name: "wait-for-agent", image: "busybox:1.36" };
/** What leaves 36 characters of 63 for a uid, and one for the sign between. */
const MAX_NAME_IN_PREFIX = 63 - 36 - 1;
const MAX_NAME_IN_LABEL = 63;

/**
 * Total. Sections are merged field by field, lists and selectors are replaced whole.
 *
 * @param rule as recorded on nodes: `cluster/<name>`.
 */
export function completeFootprint({ name, spec }: FootprintDocument, rule: string): CompletedFootprint {
  const full = withPreset(spec);
  const faults = [...missingFrom(spec, full), ...misfits(full)];
  const workloads = full.workloads?.map(needingPods) ?? [];
  const grouping = groupingOf(full.group);
  const label = labelOf(name, full.node);
  if (label === undefined) faults.push({ path: ["node", "label", "key"], message: tooLong("a label", name) });
  const claims = claimsOf(name, full.node, { ...grouping, hasPreset: spec.preset !== undefined });
  if (claims === "too long")
    faults.push({ path: ["node", "claims", "annotationPrefix"], message: tooLong("claims", name) });
  if (faults.length > 0 || label === undefined || claims === "too long") return { faults };
  const { wait, node, release, agent } = full;
  const hold = full.hold && holdOf(full.hold);
  const footprint: Footprint = {
    rule,
    name,
    workloads,
    grouping,
    label,
    ...(claims && { claims }),
    foreign: node?.foreign ?? "Reclaim",
    ...(node?.excludeSelector && { excludeSelector: node.excludeSelector }),
    releaseDelayMs: durationMs(release?.delay ?? "0s"),
    ...(hold && { hold }),
    ...waitOf(wait),
    ...(agent?.daemonSet && {
      agent: { ...agent.daemonSet, nodeSelector: agent.nodeSelector ?? "Verify" },
    }),
  };
  return { footprint, faults };
}

/** With all that the preset says; `spec` itself without one. */
function withPreset(spec: NodeFootprintSpec): NodeFootprintSpec {
  return spec.preset === undefined ? spec : merged(presets[spec.preset].spec, spec);
}

/** What names one thing, or says one thing of pods and nodes, is replaced whole, as lists are. */
const WHOLE: ReadonlySet<string> = new Set([
  "resource",
  "owner",
  "daemonSet",
  "excludeSelector",
  "resources",
]);

/** Field by field; what is not given does not count. */
function merged<T extends object>(base: T, given: T): T {
  const all: T = { ...base };
  for (const key of Object.keys(given) as (keyof T & string)[]) {
    const [before, after] = [base[key], given[key]];
    if (after === undefined) continue;
    const isSection = isObject(before) && isObject(after) && !WHOLE.has(key);
    all[key] = isSection ? merged(before, after) : after;
  }
  return all;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a preset does not say, and often cannot know. */
function missingFrom({ preset }: NodeFootprintSpec, full: NodeFootprintSpec): SpecFault[] {
  return [...missingWorkloads(preset, full), ...missingGroup(preset, full), ...missingHold(preset, full)];
}

function missingWorkloads(
  preset: FootprintPreset | undefined,
  { workloads }: NodeFootprintSpec,
): readonly SpecFault[] {
  const needs = preset === undefined ? undefined : presets[preset].needs;
  const message = (field: string): string => `the preset ${preset} cannot know it: give ${field}`;
  if (workloads === undefined) return [{ path: ["workloads"], message: message(`workloads with ${needs}`) }];
  if (needs === undefined) return [];
  // Of one that takes every pod that is said, and not what else it could name.
  return workloads.flatMap((workload, at) =>
    given(workload, needs) || !selectsAnything(workload)
      ? []
      : [{ path: ["workloads", at, needs], message: message(needs) }],
  );
}

function missingGroup(
  preset: FootprintPreset | undefined,
  { group }: NodeFootprintSpec,
): readonly SpecFault[] {
  const field = group?.by === "PodLabel" ? "label" : group?.by === "OwnerUID" ? "owner" : undefined;
  if (group === undefined || field === undefined || group[field] !== undefined) return [];
  const message = `${group.by} needs it${preset === undefined ? "" : `, and the preset ${preset} does not say it`}`;
  return [{ path: ["group", field], message }];
}

function missingHold(preset: FootprintPreset | undefined, { hold }: NodeFootprintSpec): readonly SpecFault[] {
  if (hold === undefined) return [];
  const message = `is required${preset === undefined ? "" : `: the preset ${preset} holds nobody`}`;
  return (["resource", "finalizer"] as const).flatMap((field) =>
    hold[field] === undefined ? [{ path: ["hold", field], message }] : [],
  );
}

function given(workload: FootprintWorkload, field: "podSelector" | "csiDrivers"): boolean {
  if (field === "csiDrivers") return (workload.csiDrivers ?? []).length > 0;
  return !isEmptySelector(workload.podSelector ?? {});
}

/** What does not fit together. */
function misfits({ workloads = [], group, hold, wait, agent }: NodeFootprintSpec): SpecFault[] {
  const faults: SpecFault[] = [];
  for (const [at, workload] of workloads.entries()) {
    if (selectsAnything(workload)) continue;
    faults.push({
      path: ["workloads", at],
      message: "it takes every pod: name labels, resources or drivers",
    });
  }
  if (hold !== undefined && group?.by !== "PodLabel" && group?.by !== "OwnerUID")
    faults.push({
      path: ["group", "by"],
      message: "a hold needs groups that are owners: PodLabel or OwnerUID",
    });
  if (hold?.finalizer !== undefined && !hold.finalizer.includes("/"))
    faults.push({ path: ["hold", "finalizer"], message: "the API server wants a domain before the name" });
  if (hold !== undefined && hold.onDelete !== "Wait" && (hold.ownedResources ?? []).length === 0)
    faults.push({ path: ["hold", "ownedResources"], message: "DeleteOwned has to know what owners own" });
  if (wait?.inject !== undefined && wait.inject !== "None" && wait.port === undefined)
    faults.push({ path: ["wait", "port"], message: "has to be given: pods wait for it" });
  if (agent?.nodeSelector === "Manage" && agent.daemonSet === undefined)
    faults.push({ path: ["agent", "daemonSet"], message: "Manage has to know which" });
  return faults;
}

function selectsAnything({
  podSelector,
  namespaceSelector,
  requests,
  csiDrivers,
}: FootprintWorkload): boolean {
  return (
    !isEmptySelector(podSelector ?? {}) ||
    !isEmptySelector(namespaceSelector ?? {}) ||
    (requests ?? []).length + (csiDrivers ?? []).length > 0
  );
}

function needingPods(workload: FootprintWorkload): NeedingPods {
  return {
    podSelector: workload.podSelector ?? {},
    namespaceSelector: workload.namespaceSelector ?? {},
    requests: workload.requests ?? [],
    csiDrivers: workload.csiDrivers ?? [],
    ignorePhases: workload.ignorePhases === undefined ? FINISHED : new Set(workload.ignorePhases),
    terminating: workload.terminating ?? "Hold",
  };
}

/** The schema has seen to it that what a grouping needs is there; a preset gives it otherwise. */
function groupingOf({ by = "None", label, owner, verifyOwner = true }: FootprintGroup = {}): PodGrouping {
  if (by === "PodLabel" && label !== undefined) {
    return { by, label, ...(owner !== undefined && verifyOwner && { verify: owner }) };
  }
  if (by === "OwnerUID" && owner !== undefined) return { by, owner };
  return by === "Namespace" || by === "Pod" ? { by } : { by: "None" };
}

function labelOf(name: string, node: FootprintNode | undefined): Footprint["label"] | undefined {
  const { key, value = DEFAULT_VALUE } = node?.label ?? {};
  if (key !== undefined) return { key, value };
  return name.length > MAX_NAME_IN_LABEL ? undefined : { key: `${FOOTPRINT_DOMAIN}/${name}`, value };
}

/**
 * With a preset whose groups are named, claims are made where the document says nothing of them. No name of an object has a
 * `_`: the prefix of one is never the beginning of another's.
 */
function claimsOf(
  name: string,
  node: FootprintNode | undefined,
  { by, hasPreset }: { readonly by: PodGrouping["by"]; readonly hasPreset: boolean },
): Footprint["claims"] | undefined | "too long" {
  const { annotationPrefix, value = "" } = node?.claims ?? {};
  if (by === "None") return undefined;
  if (annotationPrefix !== undefined) return { annotationPrefix, value };
  if (!hasPreset && node?.claims === undefined) return undefined;
  if (name.length > MAX_NAME_IN_PREFIX) return "too long";
  return { annotationPrefix: `${FOOTPRINT_DOMAIN}/${name}_`, value };
}

function tooLong(what: string, name: string): string {
  return `has to be given: the name of the document has ${name.length} characters, too many for ${what}`;
}

/** `undefined` where something is missing, which is a fault. */
function holdOf({ resource, finalizer, ...given }: FootprintHold): OwnerHold | undefined {
  if (resource === undefined || finalizer === undefined) return undefined;
  const { onDelete = "DeleteOwned", ownedResources = [], timeout = "0s" } = given;
  const timeoutMs = durationMs(timeout);
  return { resource, finalizer, onDelete, ownedResources, ...(timeoutMs > 0 && { timeoutMs }) };
}

function waitOf({ inject = "None", container = {}, port }: FootprintWait = {}): {
  readonly wait?: AgentWait;
} {
  if (inject === "None" || port === undefined) return {};
  const timeoutSeconds = Math.ceil(durationMs(container.timeout ?? "0s") / 1000);
  const { name, image } = WAIT_CONTAINER;
  return {
    wait: {
      containerName: container.name ?? name,
      image: container.image ?? image,
      ...waitSettings(container),
      ...(timeoutSeconds > 0 && { timeoutSeconds }),
      port,
    },
  };
}
