/** The node selector of an agent's DaemonSet, and the patch that makes it ask for the label of its footprint. Pure. */
import type { DaemonSet, JsonPatchOperation, NodeSelectorTerm, PodSpec } from "@berth/kube";
import { escapePointer } from "../../node/json-pointer.ts";
import { ownValue } from "../../node/mark.ts";
import { matchesNodeSelectorTerms } from "../../node/selector.ts";
import type { Footprint } from "../footprint.ts";

type Label = Footprint["label"];

/**
 * Annotation on the DaemonSet of an agent, not on its pod template. It records the entry that Berth added to the node
 * selector, such as `ate.dev/atelet=true`. Berth owns no other entry.
 */
export const SELECTOR_ANNOTATION = "berth.dev/node-selector";

/** The label that Berth added to the node selector; `undefined` when it is no longer there. */
function recordedLabel({ metadata, spec }: DaemonSet): Label | undefined {
  const [key = "", value] = ownValue(metadata?.annotations, SELECTOR_ANNOTATION)?.split("=", 2) ?? [];
  const stands = ownValue(spec?.template.spec?.nodeSelector, key);
  return value !== undefined && stands === value ? { key, value } : undefined;
}

/** Does the agent run only where the label is? */
export function staysAway(spec: Partial<PodSpec> | undefined, { label }: Pick<Footprint, "label">): boolean {
  if (ownValue(spec?.nodeSelector, label.key) === label.value) return true;
  // Terms are alternatives: a term that does not ask for the label lets the agent run wherever that term holds.
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = required?.nodeSelectorTerms ?? [];
  return terms.length > 0 && terms.every((term) => isEmpty(term) || asksInTerm(term, label));
}

/** An empty term matches no node (`matchesNodeSelectorTerms`). */
function isEmpty({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): boolean {
  return matchExpressions.length === 0 && matchFields.length === 0;
}

/** Does some requirement hold with the label, and fail without it? */
function asksInTerm({ matchExpressions = [] }: NodeSelectorTerm, { key, value }: Label): boolean {
  return matchExpressions.some((requirement) => {
    const holds = (labels: Readonly<Record<string, string>>): boolean =>
      matchesNodeSelectorTerms([{ matchExpressions: [requirement] }], { metadata: { labels } });
    return requirement.key === key && holds({ [key]: value }) && !holds({});
  });
}

/**
 * Makes the node selector of the pod template ask for the label, and removes an entry that Berth added with another
 * key. The patch fails if the DaemonSet was replaced or changed after Berth read it. `undefined`: the template already
 * asks for the label and has no other entry of Berth, or the DaemonSet lacks required fields.
 */
export function selectorPatch(
  daemonSet: DaemonSet,
  target: Pick<Footprint, "label">,
): readonly JsonPatchOperation[] | undefined {
  const { uid, resourceVersion } = daemonSet.metadata ?? {};
  const spec = daemonSet.spec?.template.spec;
  if (uid === undefined || resourceVersion === undefined || spec === undefined) return undefined;
  const { key, value } = target.label;
  const ours = recordedLabel(daemonSet);
  const former = ours !== undefined && ours.key !== key ? [without(ours.key)] : [];
  const isAsked = staysAway(spec, target);
  if (isAsked && former.length === 0) return undefined;
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
    ...former,
    ...(isAsked ? [] : [added(spec, target)]),
    // Berth records a key as its own only if it adds the key now or did so before, not if it only corrects the value.
    ...(!isAsked && (ownValue(spec.nodeSelector, key) === undefined || ours?.key === key)
      ? // A DaemonSet always has annotations: the API server keeps one there (`DeprecatedTemplateGeneration`, pkg/apis/apps/v1).
        [{ op: "add" as const, path: RECORD, value: `${key}=${value}` }]
      : withoutRecord(daemonSet)),
  ];
}

const SELECTOR = "/spec/template/spec/nodeSelector";
const RECORD = `/metadata/annotations/${escapePointer(SELECTOR_ANNOTATION)}`;

function added(
  { nodeSelector }: PodSpec,
  { label: { key, value } }: Pick<Footprint, "label">,
): JsonPatchOperation {
  return nodeSelector === undefined
    ? { op: "add", path: SELECTOR, value: { [key]: value } }
    : { op: "add", path: `${SELECTOR}/${escapePointer(key)}`, value };
}

/** Removes the entry that Berth added, if it is still there, and the record of it. `undefined`: there is no record. */
export function withoutSelector(daemonSet: DaemonSet): readonly JsonPatchOperation[] | undefined {
  const removed = withoutRecord(daemonSet);
  const ours = recordedLabel(daemonSet);
  return removed.length === 0 ? undefined : [...(ours === undefined ? [] : [without(ours.key)]), ...removed];
}

function withoutRecord({ metadata }: DaemonSet): readonly JsonPatchOperation[] {
  const record = ownValue(metadata?.annotations, SELECTOR_ANNOTATION);
  return record === undefined ? [] : [{ op: "remove", path: RECORD }];
}

function without(key: string): JsonPatchOperation {
  return { op: "remove", path: `${SELECTOR}/${escapePointer(key)}` };
}
