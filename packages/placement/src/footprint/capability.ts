/** Footprints as a capability of the node writer: label and claims of each node, derived from its pods. */

import type { FieldMask } from "@berth/host";
import { type Node, pathOf } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import {
  type BoundCapability,
  type Finding,
  type NodeDecision,
  type NodeView,
  nothingWanted,
  type RuleOutcome,
  unreadPolicy,
} from "../node/capability.ts";
import type { Note } from "../node/explain/trace.ts";
import { firstOf } from "../node/first-names.ts";
import {
  annotationId,
  labelId,
  type Mark,
  type MarkId,
  markFields,
  standingMarks,
  standingValue,
} from "../node/mark.ts";
import { MAX_RECORD_BYTES } from "../node/record.ts";
import { matchesSelector } from "../node/selector.ts";
import { FOOTPRINT, type Footprint, type Footprints } from "./footprint.ts";
import type { FootprintObservations } from "./footprint-observations.ts";
import { claimId, type NodePast, type NodePasts, type NodeUse, type PodUse, useOf } from "./use.ts";

/** Fields of a Node that footprints read. The conditions show whether the node is lost. */
export const footprintFields: FieldMask = [
  ...markFields,
  "metadata.creationTimestamp",
  "status.conditions[].type",
  "status.conditions[].status",
];

/**
 * Phase of a node for one footprint. `Needed`: a pod needs the agent, and the node has the label. `Pending`: the label
 * is still missing. `Idle`: no pod needs the agent. `Unknown`: Berth has not read enough to decide. `Excluded`: Berth
 * does not change the node. `Foreign`, in addition to another phase: Berth reports marks that no pod needs and Berth
 * did not set. The place of an outcome is the label, and absent when the node lacks it.
 */
export type FootprintPhase = "Needed" | "Pending" | "Idle" | "Unknown" | "Excluded" | "Foreign";

export interface FootprintCapability extends BoundCapability {
  /** Forgets the node of this name. Call it when the node is deleted. */
  gone(name: string): void;
}

export interface FootprintBinding {
  /** The footprints in force; `undefined` until some source has been read. */
  readonly footprints: () => Footprints | undefined;
  readonly observations: FootprintObservations;
}

/**
 * Node footprints. Watches: Nodes, and the pods that may need an agent. Owns: for each footprint its label and the
 * annotations that begin with its claim prefix. Berth reads existing marks back only when it first examines a node, to
 * find the group of pods without an owner. It remembers the group for which each pod counted at the last check.
 */
export function bindFootprints({ footprints: current, observations }: FootprintBinding): FootprintCapability {
  // By node name, until the node is gone: some hundred bytes per pod that counts. A recreated node has other pods.
  const memory = new Map<string, { readonly uid: string | undefined; readonly pasts: NodePasts }>();
  const pastsOf = ({ metadata }: Node): NodePasts => {
    const found = memory.get(metadata?.name ?? "");
    return found !== undefined && found.uid === metadata?.uid ? found.pasts : new Map();
  };
  return {
    name: FOOTPRINT,
    gone: (name) => void memory.delete(name),
    contribute(view) {
      const footprints = current();
      if (footprints === undefined) {
        return { capability: FOOTPRINT, policy: unreadPolicy, decision: nothingWanted };
      }
      const { name = "", uid } = view.node.metadata ?? {};
      const { decision, pasts } = decideFootprints(view, footprints, {
        observations,
        pasts: pastsOf(view.node),
      });
      if (pasts.size === 0) memory.delete(name);
      else memory.set(name, { uid, pasts });
      return { capability: FOOTPRINT, policy: footprints.policy, decision };
    },
    // Not needed here: the footprint section of `explain` lists the pods behind each mark.
    inputs: () => [],
  };
}

interface Around {
  readonly observations: FootprintObservations;
  /** What earlier checks of the node found. Default: this is the first check. */
  readonly pasts?: NodePasts;
}

/** Pure and total. Pass the returned `pasts` to the next check of the node. */
export function decideFootprints(
  view: NodeView,
  footprints: Footprints,
  around: Around,
): { readonly decision: NodeDecision; readonly pasts: NodePasts } {
  const draft: Draft = {
    marks: [],
    keep: new Map(),
    findings: [],
    outcomes: [],
    room: { ...CLAIM_ROOM },
    pasts: new Map([...(around.pasts ?? [])].filter(([rule]) => footprints.policy.rules.has(rule))),
  };
  for (const footprint of footprints.footprints) decideOne(draft, footprint, view, around);
  const { recheckAfterMs, room: _, pasts, ...decision } = draft;
  return { decision: recheckAfterMs === undefined ? decision : { ...decision, recheckAfterMs }, pasts };
}

interface Draft {
  readonly marks: Mark[];
  readonly keep: Map<MarkId, Reason>;
  readonly findings: Finding[];
  readonly outcomes: RuleOutcome[];
  /** How many bytes the claims of the node may still take. */
  readonly room: { record: number; annotations: number };
  readonly pasts: Map<string, NodePast>;
  recheckAfterMs?: number;
}

/** Delay before Berth checks refused pods again, ms: a missing permission to read their owner may exist by then. */
const REFUSED_MS = 60_000;

function decideOne(draft: Draft, footprint: Footprint, view: NodeView, around: Around): void {
  const { node, trace } = view;
  const { rule, excludeSelector } = footprint;
  const note = trace?.for(rule, "pods");
  const place = labelId(footprint.label.key);
  const label = standingValue(node, place);
  const outcome = (phase: FootprintPhase): void => {
    draft.outcomes.push({ rule, phase, ...(label !== undefined && { place }) });
  };
  if (excludeSelector !== undefined && matchesSelector(excludeSelector, node.metadata?.labels)) {
    note?.({ what: "excludeSelector does not match the node", holds: false });
    keepStanding(draft, footprint, view, reasons.FootprintNodeExcluded);
    draft.pasts.delete(rule);
    outcome("Excluded");
    return;
  }
  const use = useOf(footprint, view, around.observations, draft.pasts.get(rule));
  noteUse(use, note);
  if (use.past === undefined) draft.pasts.delete(rule);
  else draft.pasts.set(rule, use.past);
  if (use.needed) want(draft, footprint, use.groups);
  for (const id of use.left) draft.keep.set(id, reasons.FootprintOwnerless);
  if (use.unknown !== undefined) {
    keepStanding(draft, footprint, view, use.unknown);
    const message = "Berth does not know yet which pods need the agent, so it changes nothing";
    draft.findings.push({ reason: use.unknown, severity: "info", subject: rule, message });
  } else if (footprint.foreign === "Report") reportForeign(draft, footprint, view);
  if (use.refused.length > 0) {
    draft.recheckAfterMs = REFUSED_MS;
    draft.findings.push(refusedFinding(rule, use.refused));
  }
  if (use.ownerless.length > 0) draft.findings.push(ownerlessFinding(rule, use.ownerless));
  if (use.needed) outcome(label === footprint.label.value ? "Needed" : "Pending");
  else outcome(use.unknown === undefined ? "Idle" : "Unknown");
}

function noteUse({ needed, uses, unknown }: NodeUse, note: Note | undefined): void {
  const parts = uses.map(({ pod, is, why }) => {
    const holds = is === "Unknown" ? "unknown" : is === "Counts" || is === "Ownerless";
    return { what: `pod ${pathOf(pod.metadata)}`, value: why ?? is, holds } as const;
  });
  const holds = needed || (unknown === undefined ? false : "unknown");
  note?.({ what: "a pod on the node needs the agent", holds, parts });
}

/**
 * Maximum claims of one footprint on one node. No node runs more pods, but users can create pods that never run. The
 * claims of such pods must not fill the record, which must also hold the label.
 */
export const MAX_CLAIMS = 256;

/**
 * Maximum size of all claims of a node, bytes. `record`: the labels and the marks of other capabilities need room there
 * too. `annotations`: all annotations of the node, also those of other controllers, share 256 KiB.
 */
const CLAIM_ROOM = { record: MAX_RECORD_BYTES / 2, annotations: MAX_RECORD_BYTES } as const;
/** Bytes of a record entry without id and rule: `"":{"c":"footprint","r":"","since":"2026-01-01T00:00:00Z"},`. */
const ENTRY_BYTES = 64;

/** Adds the label and the claims. Berth announces only the label. */
function want(draft: Draft, footprint: Footprint, groups: ReadonlySet<string>): void {
  const { marks, findings, room } = draft;
  const { rule, label, claims, foreign } = footprint;
  const others = foreign === "Reclaim" ? "overwrite" : "leave";
  const common = { rule, reason: reasons.FootprintNeeded, foreign: others } as const;
  marks.push({ ...common, id: labelId(label.key), value: label.value });
  if (claims === undefined) return;
  const ids = [...groups].sort().map((group) => claimId(claims, group));
  const longest = Math.max(0, ...ids.map((id) => id.length));
  const entry = ENTRY_BYTES + rule.length + longest;
  const annotation = longest + Buffer.byteLength(claims.value);
  const most = Math.min(
    MAX_CLAIMS,
    Math.floor(room.record / entry),
    Math.floor(room.annotations / annotation),
  );
  const named = ids.slice(0, most);
  room.record -= named.length * entry;
  room.annotations -= named.length * annotation;
  for (const id of named) marks.push({ ...common, id, value: claims.value, announce: "never" });
  if (groups.size <= most) return;
  const message = `pods of ${groups.size} groups need the agent; the first ${most} by name claim the node`;
  findings.push({ reason: reasons.FootprintClaimsCapped, severity: "warning", subject: rule, message });
}

/** Keeps all existing marks of a footprint, also those that Berth did not set. */
function keepStanding({ keep }: Draft, footprint: Footprint, { node, owned }: NodeView, why: Reason): void {
  for (const id of [...standingMarks(node).map((mark) => mark.id), ...owned.keys()])
    if (isPlaceOf(footprint, id)) keep.set(id, why);
}

function isPlaceOf({ label, claims }: Footprint, id: MarkId): boolean {
  if (id === labelId(label.key)) return true;
  return claims !== undefined && id.startsWith(annotationId(claims.annotationPrefix));
}

/** Maximum number of names in a message. */
const MAX_NAMED = 3;

function reportForeign(draft: Draft, footprint: Footprint, { node, owned }: NodeView): void {
  const wanted = new Set<MarkId>(draft.marks.map(({ id }) => id));
  const foreign = [...standingMarks(node)].flatMap(({ id }) =>
    isPlaceOf(footprint, id) && !owned.has(id) && !wanted.has(id) ? [id] : [],
  );
  if (foreign.length === 0) return;
  const { rule: subject } = footprint;
  const message = `no pod on the node needs ${some(foreign)}, and Berth did not set it`;
  draft.findings.push({ reason: reasons.ForeignFootprintMark, severity: "warning", subject, message });
  draft.outcomes.push({ rule: subject, phase: "Foreign" });
}

/** One finding for all refused pods: a user could create a thousand. It gives the reason for the first pod by name. */
function refusedFinding(rule: string, refused: readonly PodUse[]): Finding {
  const forged = refused.filter((use) => use.forged);
  const told = forged.length > 0 ? forged : refused;
  const names = told.map(({ pod }) => pathOf(pod.metadata));
  const why = told[names.indexOf(firstOf(names, 1)[0] ?? "")]?.why ?? "";
  const message = `${some(names)}: no group that counts, and no agent for it; ${why}`;
  const severity = forged.length > 0 ? "warning" : "info";
  return { reason: reasons.FootprintGroupRefused, severity, subject: rule, message };
}

function some(names: readonly string[]): string {
  const first = firstOf(names, MAX_NAMED).join(", ");
  return names.length > MAX_NAMED ? `${first} and ${names.length - MAX_NAMED} more` : first;
}

function ownerlessFinding(rule: string, ownerless: readonly PodUse[]): Finding {
  const names = some(ownerless.map(({ pod }) => pathOf(pod.metadata)));
  const message = `${names}: lost its owner, and counts for that owner until the pod ends`;
  return { reason: reasons.FootprintOwnerless, severity: "info", subject: rule, message };
}
