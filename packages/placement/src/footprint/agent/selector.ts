/** Where the DaemonSet of an agent asks to run, and the patch that makes it follow its footprint. Pure. */
import type { DaemonSet, JsonPatchOperation, NodeSelectorTerm, PodSpec } from "@berth/kube";
import { escapePointer } from "../../node/json-pointer.ts";
import { ownValue } from "../../node/mark.ts";
import { matchesNodeSelectorTerms } from "../../node/selector.ts";
import type { Footprint } from "../footprint.ts";

type Label = Footprint["label"];

/**
 * Annotation on the DaemonSet of an agent, beside its pod template: what Berth has put into the node selector, as in
 * `ate.dev/atelet=true`. Everything else is of others.
 */
export const SELECTOR_ANNOTATION = "berth.dev/node-selector";

/** What Berth has put into the node selector, as long as it stands there. */
function recordedLabel({ metadata, spec }: DaemonSet): Label | undefined {
  const [key = "", value] = ownValue(metadata?.annotations, SELECTOR_ANNOTATION)?.split("=", 2) ?? [];
  const stands = ownValue(spec?.template.spec?.nodeSelector, key);
  return value !== undefined && stands === value ? { key, value } : undefined;
}

/** Does the agent run only where the label is? */
export function staysAway(spec: Partial<PodSpec> | undefined, { label }: Pick<Footprint, "label">): boolean {
  if (ownValue(spec?.nodeSelector, label.key) === label.value) return true;
  // Terms are alternatives: one that does not ask lets the agent run wherever all else of it holds.
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = required?.nodeSelectorTerms ?? [];
  return terms.length > 0 && terms.every((term) => isEmpty(term) || asksInTerm(term, label));
}

/** It holds for no node (`matchesNodeSelectorTerms`). */
function isEmpty({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): boolean {
  return matchExpressions.length === 0 && matchFields.length === 0;
}

/** Does one requirement hold with the label, and not without? */
function asksInTerm({ matchExpressions = [] }: NodeSelectorTerm, { key, value }: Label): boolean {
  return matchExpressions.some((requirement) => {
    const holds = (labels: Readonly<Record<string, string>>): boolean =>
      matchesNodeSelectorTerms([{ matchExpressions: [requirement] }], { metadata: { labels } });
    return requirement.key === key && holds({ [key]: value }) && !holds({});
  });
}

/**
 * Makes the node selector of the pod template ask for the label. It fails when the DaemonSet is another, or has changed since
 * it was read. What Berth has put there by another key goes. `undefined`: it asks already, and for nothing of ours besides,
 * or what is read is no whole DaemonSet.
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
    // Ours is a key that was not there before, or was ours already: not one whose value alone is corrected.
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

/** Removes what Berth has added, as far as it stands, and the record. `undefined`: there is no record. */
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
