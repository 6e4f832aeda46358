/** Has the DaemonSet of an agent ask for the label of its footprint, once that takes it from no node that needs it. */
import { type DaemonSet, daemonSets, type JsonPatchOperation } from "@berth/kube";
import {
  type Clock,
  type Lister,
  type ObjectKey,
  type Reconcile,
  type ReconcileResult,
  referenceTo,
  toKeyText,
} from "@berth/runtime";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { EventSink } from "../../node/report.ts";
import {
  contestOf,
  createTemplateMemory,
  isStale,
  type Notice,
  TemplateMemories,
  type TemplateMemory,
  tell,
} from "../../node/template-memory.ts";
import { patchTemplate } from "../../node/template-patch.ts";
import type { Footprint } from "../footprint.ts";
import type { ManageProblems } from "./manage-problems.ts";
import { selectorPatch } from "./selector.ts";

/** Numbers of nodes. */
export interface NeededNodes {
  readonly needed: number;
  readonly pending: number;
}

export interface AgentReconcilerOptions {
  /** Has to keep all that says where the pods of a template go. */
  readonly daemonSets: Pick<Lister<DaemonSet>, "get">;
  /** Those in force; `undefined` while some source has not been read. */
  readonly footprints: () => readonly Footprint[] | undefined;
  /**
   * How many nodes need the agent, and how many of them do not carry the label. `undefined` while that is not known of
   * every node: not all have been looked at, or pods that may need it have not been read.
   */
  readonly counts: (footprint: Footprint) => NeededNodes | undefined;
  /** A JSON patch; answers the DaemonSet as it is then. Rejects with `ApiError`. */
  readonly patch: (
    namespace: string,
    name: string,
    patch: readonly JsonPatchOperation[],
    signal: AbortSignal,
  ) => Promise<DaemonSet>;
  /** Is told what is in the way, and that nothing is any more. */
  readonly problems: Pick<ManageProblems, "put">;
  readonly clock: Clock;
  readonly events?: EventSink;
}

/** How soon it is looked again whether every node is labelled, ms. It costs no request; a change may ask sooner. */
const WAITING_MS = 5_000;

/**
 * How long every node has been labelled before the DaemonSet asks for it, ms: its controller has two watches, and one that
 * hears of the new template before it hears of the last label would end the agent of that node.
 */
const SETTLED_MS = 2_000;

/**
 * The second phase of a rollout: the DaemonSet controller takes the agent off every node that does not match at once, so
 * the label has to stand wherever the agent is needed before the DaemonSet asks for it.
 *
 * Guarantees: one patch, which rolls the agent out, and none while a node that needs the agent lacks the label or while
 * that is not known. Somebody who takes the selector away has it put back, three times within ten minutes; then the
 * DaemonSet is left alone for a while (`Contested`). When a footprint goes, the selector stays: without the label the agent runs nowhere until `berth clean` or a person removes it.
 */
export function createAgentReconciler(options: AgentReconcilerOptions): Reconcile<ObjectKey> {
  const memories = new TemplateMemories(createTemplateMemory);
  /** Since when so many nodes need it and each is labelled, by `toKeyText`, ms of the monotonic clock. */
  const labelled = new Map<string, { readonly needed: number; readonly sinceMs: number }>();
  return async (key, { signal }) => {
    const daemonSet = options.daemonSets.get(key);
    const { uid, resourceVersion, deletionTimestamp } = daemonSet?.metadata ?? {};
    const footprints = options.footprints()?.filter((footprint) => isManaged(footprint, key));
    if (footprints === undefined) return { recheckAfterMs: WAITING_MS };
    // No two manage one DaemonSet: such documents are refused.
    const [footprint] = footprints;
    const isThere = daemonSet !== undefined && uid !== undefined && deletionTimestamp === undefined;
    if (!isThere || footprint === undefined) {
      memories.forget(key);
      labelled.delete(toKeyText(key));
      if (footprint !== undefined) options.problems.put(footprint, undefined);
      return undefined;
    }
    const memory = memories.of(key, uid);
    const subject: Subject = { daemonSet, key, memory, footprint };
    const patch = selectorPatch(daemonSet, footprint);
    if (patch === undefined || resourceVersion === undefined || isStale(memory, resourceVersion)) {
      labelled.delete(toKeyText(key));
      options.problems.put(footprint, undefined);
      return undefined;
    }
    const counts = options.counts(footprint);
    if (counts?.pending !== 0) {
      labelled.delete(toKeyText(key));
      return { recheckAfterMs: WAITING_MS };
    }
    const now = options.clock.monotonic();
    const before = labelled.get(toKeyText(key));
    // Nodes that were labelled between two looks count from the second.
    const sinceMs = before?.needed === counts.needed ? before.sinceMs : now;
    labelled.set(toKeyText(key), { needed: counts.needed, sinceMs });
    if (now - sinceMs < SETTLED_MS) return { recheckAfterMs: sinceMs + SETTLED_MS - now };
    const contest = contestOf(memory, [footprint.label], now);
    if (contest === undefined) return write({ ...subject, patch, resourceVersion }, options, signal);
    warn(subject, options, reasons.Contested, contestNote(footprint));
    return { recheckAfterMs: contest.leftMs };
  };
}

/** The DaemonSets to look at. */
export function managedAgents(
  footprints: readonly Footprint[],
  cluster: ObjectKey["cluster"],
): readonly ObjectKey[] {
  return footprints.flatMap(({ agent }) =>
    agent?.nodeSelector === "Manage" ? [{ cluster, namespace: agent.namespace, name: agent.name }] : [],
  );
}

interface Subject {
  readonly daemonSet: DaemonSet;
  readonly key: ObjectKey;
  readonly memory: TemplateMemory;
  readonly footprint: Footprint;
}

function isManaged({ agent }: Footprint, { namespace, name }: ObjectKey): boolean {
  return agent?.nodeSelector === "Manage" && agent.namespace === namespace && agent.name === name;
}

interface Write extends Subject {
  readonly patch: readonly JsonPatchOperation[];
  readonly resourceVersion: string;
}

function write(
  subject: Write,
  options: AgentReconcilerOptions,
  signal: AbortSignal,
): Promise<ReconcileResult | undefined> {
  const { key, memory, footprint, patch, resourceVersion } = subject;
  return patchTemplate({
    memory,
    resourceVersion,
    given: [footprint.label],
    send: () => options.patch(key.namespace, key.name, patch, signal),
    clock: options.clock,
    onWritten() {
      options.problems.put(footprint, undefined);
      record(subject, options, {
        reason: reasons.AgentFollows,
        note: followsNote(footprint),
        type: "Normal",
      });
    },
    onRefused: (note) => warn(subject, options, reasons.WriteRefused, refusedNote(footprint, note)),
  });
}

function refusedNote({ label: { key, value } }: Footprint, note: string): string {
  return `${note}; allow Berth to patch it, or have its own manifest ask for ${key}=${value}`;
}

function followsNote({ name, label: { key, value } }: Footprint): string {
  return `its pods run only on nodes with ${key}=${value} from now on, as the footprint ${name} asks: every node that needs them is labelled`;
}

function contestNote({ name, label }: Footprint): string {
  return `somebody keeps taking ${label.key} off its pod template: it is left alone for a while, and runs on nodes that do not need it by the footprint ${name}`;
}

/** By an Event, once until the next write, and by the condition of the footprint. */
function warn(subject: Subject, options: AgentReconcilerOptions, reason: Reason, note: string): void {
  const { namespace, name } = subject.key;
  const problem = { reason, message: `the DaemonSet ${namespace}/${name}: ${note}` };
  options.problems.put(subject.footprint, problem);
  record(subject, options, { reason, note, type: "Warning" });
}

function record({ daemonSet, memory }: Subject, { events }: AgentReconcilerOptions, notice: Notice): void {
  tell(memory, events, { regarding: referenceTo(daemonSets, daemonSet), action: "PlaceAgent", ...notice });
}
