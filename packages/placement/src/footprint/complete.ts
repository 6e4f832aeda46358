/** From one `NodeFootprint` document to a footprint: explicit field before preset before default. */
import { durationMs, type FoundFault } from "@berth/host";
import type { SecurityContext } from "@berth/kube";
import type { PortWait } from "../api/wait-container.ts";
import { isEmptySelector } from "../node/selector.ts";
import type {
  FootprintGroup,
  FootprintHold,
  FootprintNode,
  FootprintWorkload,
  NodeFootprintSpec,
} from "./document.ts";
import type { Footprint, FootprintDocument, NeedingPods, OwnerHold, PodGrouping } from "./footprint.ts";
import { FINISHED } from "./needs.ts";
import { presets } from "./presets.ts";
import type { FootprintWait } from "./wait/document.ts";

/** The domain of labels and claims that a document with a preset does not name. */
export const FOOTPRINT_DOMAIN = "footprint.berth.dev";

/** `footprint` is absent when there is a fault. */
export interface CompletedFootprint {
  readonly footprint?: Footprint;
  readonly faults: readonly FoundFault[];
}

const DEFAULT_VALUE = "true";
const WAIT_CONTAINER = { name: "wait-for-agent", image: "busybox:1.36" };
/** Leaves 36 of 63 characters for a uid, and one for the separator. */
const MAX_NAME_IN_PREFIX = 63 - 36 - 1;
const MAX_NAME_IN_LABEL = 63;

/**
 * Total. Sections are merged field by field, lists and selectors are replaced whole.
 *
 * @param rule as recorded on nodes: `cluster/<name>`.
 */
export function completeFootprint({ name, spec }: FootprintDocument, rule: string): CompletedFootprint {
  const full = spec.preset === undefined ? spec : merged(presets[spec.preset].spec, spec);
  const faults = faultsOf(spec, full);
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

/** Fields that a document replaces as a whole, like lists: their parts only make sense together. */
const WHOLE = new Set(["resource", "owner", "daemonSet", "excludeSelector", "resources"]);

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

/** Finds required fields that neither preset nor document gives, and fields that contradict each other. */
function faultsOf({ preset }: NodeFootprintSpec, full: NodeFootprintSpec): FoundFault[] {
  const { workloads, group, hold, wait, agent } = full;
  const faults: FoundFault[] = [];
  const report = (message: string, ...path: FoundFault["path"]): void => void faults.push({ path, message });
  const needs = preset === undefined ? undefined : presets[preset].needs;
  const needsText = (field: string): string => `the preset ${preset} cannot know it: give ${field}`;
  if (workloads === undefined) report(needsText(`workloads with ${needs}`), "workloads");
  for (const [at, workload] of (workloads ?? []).entries()) {
    // A workload that selects every pod gets only this fault, not also the one about the preset.
    if (!selectsAnything(workload))
      report("it selects every pod: name labels, resources or drivers", "workloads", at);
    else if (needs !== undefined && !given(workload, needs)) report(needsText(needs), "workloads", at, needs);
  }
  const field = group?.by === "PodLabel" ? "label" : group?.by === "OwnerUID" ? "owner" : undefined;
  if (field !== undefined && group?.[field] === undefined) {
    const but = preset === undefined ? "" : `, and the preset ${preset} does not say it`;
    report(`${group?.by} needs it${but}`, "group", field);
  }
  for (const required of hold === undefined ? [] : (["resource", "finalizer"] as const))
    if (hold?.[required] === undefined)
      report(
        `is required${preset === undefined ? "" : `: the preset ${preset} holds no owner`}`,
        "hold",
        required,
      );
  if (hold !== undefined && group?.by !== "PodLabel" && group?.by !== "OwnerUID")
    report("a hold needs groups that are owners: PodLabel or OwnerUID", "group", "by");
  if (hold?.finalizer !== undefined && !hold.finalizer.includes("/"))
    report("the API server wants a domain before the name", "hold", "finalizer");
  if (hold !== undefined && hold.onDelete !== "Wait" && (hold.ownedResources ?? []).length === 0)
    report("DeleteOwned needs the resources that owners own", "hold", "ownedResources");
  if (wait?.inject !== undefined && wait.inject !== "None" && wait.port === undefined)
    report("has to be given: pods wait for it", "wait", "port");
  if (agent?.nodeSelector === "Manage" && agent.daemonSet === undefined)
    report("Manage needs the DaemonSet", "agent", "daemonSet");
  return faults;
}

function given({ csiDrivers, podSelector }: FootprintWorkload, field: "podSelector" | "csiDrivers"): boolean {
  return field === "csiDrivers" ? (csiDrivers ?? []).length > 0 : !isEmptySelector(podSelector ?? {});
}

function selectsAnything(workload: FootprintWorkload): boolean {
  const { podSelector, namespaceSelector, requests, csiDrivers } = needingPods(workload);
  if (requests.length + csiDrivers.length > 0) return true;
  return !isEmptySelector(podSelector) || !isEmptySelector(namespaceSelector);
}

function needingPods({ ignorePhases, ...given }: FootprintWorkload): NeedingPods {
  return {
    podSelector: given.podSelector ?? {},
    namespaceSelector: given.namespaceSelector ?? {},
    requests: given.requests ?? [],
    csiDrivers: given.csiDrivers ?? [],
    ignorePhases: ignorePhases === undefined ? FINISHED : new Set(ignorePhases),
    terminating: given.terminating ?? "Hold",
  };
}

/** Falls back to `None` when a required field is missing; `faultsOf` reports that. */
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
 * With a preset and named groups, Berth makes claims even when the document does not mention them. Names of objects
 * contain no `_`, so no default prefix is the beginning of another.
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

/** `undefined` when a required field is missing; `faultsOf` reports that. */
function holdOf({ resource, finalizer, ...given }: FootprintHold): OwnerHold | undefined {
  if (resource === undefined || finalizer === undefined) return undefined;
  const { onDelete = "DeleteOwned", ownedResources = [], timeout = "0s" } = given;
  const timeoutMs = durationMs(timeout);
  return { resource, finalizer, onDelete, ownedResources, ...(timeoutMs > 0 && { timeoutMs }) };
}

function waitOf({ inject = "None", container = {}, port }: FootprintWait = {}): {
  readonly wait?: PortWait;
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

/**
 * The shell needs almost nothing, but starting a container does: runc copies itself into its memory
 * (opencontainers/runc#1980). With a tenth of this CPU, the start takes seconds. Requests equal limits, so a
 * `Guaranteed` pod stays `Guaranteed`. It costs nothing extra if the other containers request as much.
 */
const AMOUNTS: Readonly<Record<string, string>> = { cpu: "50m", memory: "32Mi" };

/** Meets Pod Security `restricted`. Every image can run a shell as this user: `nobody`. */
const SECURITY_CONTEXT: SecurityContext = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
  runAsNonRoot: true,
  runAsUser: 65_534,
  seccompProfile: { type: "RuntimeDefault" },
};

/** An empty object sets nothing: a LimitRange, a policy, or the settings of the whole pod then apply. */
export function waitSettings({
  resources,
  securityContext,
}: NonNullable<FootprintWait["container"]>): Pick<PortWait, "resources" | "securityContext"> {
  return {
    ...(resources === undefined && { resources: { requests: AMOUNTS, limits: AMOUNTS } }),
    ...(securityContext === undefined && { securityContext: SECURITY_CONTEXT }),
  };
}
