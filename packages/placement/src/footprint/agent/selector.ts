/** Where the DaemonSet of an agent asks to run, and the patch that makes it follow its footprint. Pure. */
import type {
  Affinity,
  DaemonSet,
  JsonPatchOperation,
  NodeAffinity,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  PodSpec,
} from "@berth/kube";
import { escapePointer } from "../../node/json-pointer.ts";
import { ownValue } from "../../node/mark.ts";
import { matchesNodeSelectorTerms } from "../../node/selector.ts";
import { IDLE_VALUE } from "../complete.ts";
import type { Footprint } from "../footprint.ts";

/** By which label an agent follows, and how. */
export type AgentTarget = Pick<Footprint, "label" | "placement">;

const SPEC = "/spec/template/spec";

/**
 * Annotation on the DaemonSet of an agent, beside its pod template: what Berth has added there. `ate.dev/atelet=true` is in
 * the node selector; `ate.dev/atelet!=false` in the required node affinity (`Eager`). Everything else is of others.
 */
export const SELECTOR_ANNOTATION = "berth.dev/node-selector";

/** What Berth has put into the node selector, as long as it stands there. */
export function recordedLabel({ metadata, spec }: DaemonSet): Footprint["label"] | undefined {
  const [key = "", value] = ownValue(metadata?.annotations, SELECTOR_ANNOTATION)?.split("=", 2) ?? [];
  const stands = ownValue(spec?.template.spec?.nodeSelector, key);
  return value !== undefined && stands === value ? { key, value } : undefined;
}

/** Does the agent stay away from idle nodes? */
export function staysAway(spec: Partial<PodSpec> | undefined, target: AgentTarget): boolean {
  return asksBySelector(spec, target) || asksByAffinity(spec, target);
}

/**
 * Makes the pod template ask for the label: by its node selector with `Lazy`, by required node affinity with `Eager`. It
 * fails when the DaemonSet is another, or has changed since it was read. Of the node selector it takes away what Berth has put
 * there by another key, and with `Eager` also the label itself, of whatever value where it is ours. `undefined`: it asks
 * already, and for nothing of ours besides, or what is read is no whole DaemonSet.
 */
export function selectorPatch(
  daemonSet: DaemonSet,
  target: AgentTarget,
): readonly JsonPatchOperation[] | undefined {
  const { uid, resourceVersion } = daemonSet.metadata ?? {};
  const spec = daemonSet.spec?.template.spec;
  if (uid === undefined || resourceVersion === undefined || spec === undefined) return undefined;
  const asks =
    target.placement === "Lazy"
      ? lazyChanges(spec, target)
      : eagerChanges(spec, target, recordedLabel(daemonSet));
  const former = formerLabel(daemonSet, target);
  const changes = [...(former === undefined ? [] : [without(former.key)]), ...asks];
  if (changes.length === 0) return undefined;
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
    ...changes,
    ...recordChanges(daemonSet, target, asks.length > 0),
  ];
}

/** What Berth has put into the node selector for a label that is no longer that of the footprint. */
export function formerLabel(daemonSet: DaemonSet, { label }: AgentTarget): Footprint["label"] | undefined {
  const ours = recordedLabel(daemonSet);
  return ours?.key === label.key ? undefined : ours;
}

/**
 * Ours is a key that was not there before, or was ours already: not one whose value alone is corrected. A DaemonSet always
 * has annotations, for the API server itself keeps one there (`DeprecatedTemplateGeneration`, pkg/apis/apps/v1/conversion.go).
 */
function recordChanges(
  daemonSet: DaemonSet,
  { label: { key, value }, placement }: AgentTarget,
  isAdded: boolean,
): readonly JsonPatchOperation[] {
  const before = ownValue(daemonSet.metadata?.annotations, SELECTOR_ANNOTATION);
  const stood = ownValue(daemonSet.spec?.template.spec?.nodeSelector, key);
  const isOurs =
    placement === "Lazy" && isAdded && (stood === undefined || recordedLabel(daemonSet)?.key === key);
  if (isOurs) return [{ op: "add", path: RECORD, value: `${key}=${value}` }];
  const eager = `${key}!=${IDLE_VALUE}`;
  if (placement === "Eager" && isAdded) return [{ op: "add", path: RECORD, value: eager }];
  return before === undefined || before === eager ? [] : [{ op: "remove", path: RECORD }];
}

const RECORD = `/metadata/annotations/${escapePointer(SELECTOR_ANNOTATION)}`;

/** Removes what Berth has added, as far as it stands, and the record. `undefined`: there is no record. */
export function withoutSelector(daemonSet: DaemonSet): readonly JsonPatchOperation[] | undefined {
  const record = ownValue(daemonSet.metadata?.annotations, SELECTOR_ANNOTATION);
  if (record === undefined) return undefined;
  const selected = recordedLabel(daemonSet);
  const [key = "", idle] = record.split("!=", 2);
  return [
    ...(selected === undefined ? [] : [without(selected.key)]),
    ...(idle === undefined ? [] : withoutRequirement(daemonSet.spec?.template.spec?.affinity, key)),
    { op: "remove", path: RECORD },
  ];
}

/** With the terms, and whatever is above them, that say nothing else. */
function withoutRequirement(affinity: Affinity | undefined, key: string): readonly JsonPatchOperation[] {
  const { nodeAffinity, ...others } = affinity ?? {};
  const { requiredDuringSchedulingIgnoredDuringExecution: required, ...preferred } = nodeAffinity ?? {};
  if (required === undefined) return [];
  const terms = required.nodeSelectorTerms.flatMap((term): readonly NodeSelectorTerm[] => {
    const { matchExpressions = [], ...fields } = term;
    const left = matchExpressions.filter((it) => !isEagerRequirement(it, key));
    if (left.length === matchExpressions.length) return [term];
    const rest = { ...fields, ...(left.length > 0 && { matchExpressions: left }) };
    return isEmpty(rest) ? [] : [rest];
  });
  const path = `${SPEC}/affinity`;
  if (terms.length > 0)
    return [{ op: "replace", path: `${path}/nodeAffinity/${REQUIRED}/nodeSelectorTerms`, value: terms }];
  if (Object.keys(preferred).length > 0) return [{ op: "remove", path: `${path}/nodeAffinity/${REQUIRED}` }];
  return [{ op: "remove", path: Object.keys(others).length > 0 ? `${path}/nodeAffinity` : path }];
}

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";

function isEagerRequirement({ key, operator, values = [] }: NodeSelectorRequirement, asked: string): boolean {
  return key === asked && operator === "NotIn" && values.length === 1 && values[0] === IDLE_VALUE;
}

function without(key: string): JsonPatchOperation {
  return { op: "remove", path: selectorPath(key) };
}

function lazyChanges(spec: PodSpec, target: AgentTarget): readonly JsonPatchOperation[] {
  if (asksBySelector(spec, target) || asksByAffinity(spec, target)) return [];
  const { key, value } = target.label;
  return spec.nodeSelector === undefined
    ? [{ op: "add", path: `${SPEC}/nodeSelector`, value: { [key]: value } }]
    : [{ op: "add", path: selectorPath(key), value }];
}

function eagerChanges(
  spec: PodSpec,
  target: AgentTarget,
  ours: Footprint["label"] | undefined,
): readonly JsonPatchOperation[] {
  const { key } = target.label;
  // Our own from before, of any value, or it would keep the agent from every node that is not known yet, or from all.
  const narrowed = asksBySelector(spec, target) || ours?.key === key ? [without(key)] : [];
  return [...narrowed, ...affinityChanges(spec, target)];
}

function affinityChanges({ affinity }: PodSpec, target: AgentTarget): readonly JsonPatchOperation[] {
  const requirement = { key: target.label.key, operator: "NotIn", values: [IDLE_VALUE] };
  const required = { nodeSelectorTerms: [{ matchExpressions: [requirement] }] };
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: required } satisfies NodeAffinity;
  const path = `${SPEC}/affinity`;
  if (affinity === undefined) return [{ op: "add", path, value: { nodeAffinity } }];
  if (affinity.nodeAffinity === undefined)
    return [{ op: "add", path: `${path}/nodeAffinity`, value: nodeAffinity }];
  const place = `${path}/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution`;
  const stands = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution;
  if (stands === undefined) return [{ op: "add", path: place, value: required }];
  return stands.nodeSelectorTerms.flatMap((term, at): readonly JsonPatchOperation[] => {
    if (isEmpty(term) || asksInTerm(term, target)) return [];
    const list = `${place}/nodeSelectorTerms/${at}/matchExpressions`;
    return term.matchExpressions === undefined
      ? [{ op: "add", path: list, value: [requirement] }]
      : [{ op: "add", path: `${list}/-`, value: requirement }];
  });
}

function asksBySelector(spec: Partial<PodSpec> | undefined, { label }: AgentTarget): boolean {
  return ownValue(spec?.nodeSelector, label.key) === label.value;
}

/** Terms are alternatives: one that does not ask lets the agent run wherever all else of it holds, so each has to. */
function asksByAffinity(spec: Partial<PodSpec> | undefined, target: AgentTarget): boolean {
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = required?.nodeSelectorTerms ?? [];
  return terms.length > 0 && terms.every((term) => isEmpty(term) || asksInTerm(term, target));
}

/** It holds for no node (`matchesNodeSelectorTerms`): whatever was added to it would bring the agent to more of them. */
function isEmpty({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): boolean {
  return matchExpressions.length === 0 && matchFields.length === 0;
}

/** Does one requirement hold on nodes that need the agent, with `Eager` also on those not known yet, and not on idle ones? */
function asksInTerm({ matchExpressions = [] }: NodeSelectorTerm, target: AgentTarget): boolean {
  const { key, value } = target.label;
  return matchExpressions.some(
    (requirement) =>
      requirement.key === key &&
      holds(requirement, { [key]: value }) &&
      (target.placement === "Lazy"
        ? !holds(requirement, {})
        : holds(requirement, {}) && !holds(requirement, { [key]: IDLE_VALUE })),
  );
}

function holds(requirement: NodeSelectorRequirement, labels: Readonly<Record<string, string>>): boolean {
  return matchesNodeSelectorTerms([{ matchExpressions: [requirement] }], { metadata: { labels } });
}

function selectorPath(key: string): string {
  return `${SPEC}/nodeSelector/${escapePointer(key)}`;
}
