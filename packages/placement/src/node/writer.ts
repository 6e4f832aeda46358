import { type ApiError, isApiError, isRefusalOfObject, type Node } from "@berth/kube";
import {
  type Clock,
  earliest,
  type Lister,
  type MetricsRegistry,
  type ObjectKey,
  type Reconcile,
  type ReconcileResult,
  toKeyText,
} from "@berth/runtime";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { reasons } from "../api/reasons.ts";
import { RemovalBreakers, type Times } from "./breaker.ts";
import type { BoundCapability, Contribution, Finding, NodeView, Policy } from "./capability.ts";
import type { Change } from "./change.ts";
import { DeclaredPlaces } from "./declared-places.ts";
import { assessFights, type FightAssessment, nameRival, noteWritten } from "./fights.ts";
import { recordStillHeld, rivalOf } from "./managers.ts";
import { type MarkId, ownValue } from "./mark.ts";
import {
  assessRefusals,
  awaitNewer,
  awaitWritten,
  createMemory,
  type NodeMemory,
  noteAccepted,
  noteRefused,
  type RefusalAssessment,
  waitBeforeDeciding,
} from "./memory.ts";
import { mergeContributions } from "./merge.ts";
import type { NodeObserver } from "./observer.ts";
import { buildPatch, type NodePatch } from "./patch.ts";
import { effectiveRecord, type NodePlan, planNode } from "./plan.ts";
import { ownedMarks, recordOf } from "./record.ts";
import { assessRemovals, policyOf } from "./removals.ts";
import { createNodeReport, type EventSink, type NodeReport } from "./report.ts";

/** The requests to the API server that the writer needs. Both reject with `ApiError`. */
export interface NodeApi {
  /**
   * Sends a merge patch with the field manager `berth`. Resolves to the node after the patch; with `versionOnly`, only its
   * resourceVersion is needed of it.
   */
  patch(name: string, patch: NodePatch, signal: AbortSignal, versionOnly: boolean): Promise<Node>;
  /** Reads the present node from the API server, with `managedFields`. */
  read(name: string, signal: AbortSignal): Promise<Node>;
}

export interface NodeWriterOptions {
  readonly nodes: Pick<Lister<Node>, "get">;
  readonly api: NodeApi;
  readonly capabilities: readonly BoundCapability[];
  /** The name of this installation, recorded on every node. Two installations in a cluster need different names. */
  readonly installation: string;
  readonly clock: Clock;
  readonly events?: EventSink;
  readonly metrics?: MetricsRegistry;
  /** Called with the result for each node, for counts over all nodes. */
  readonly observer?: NodeObserver;
  /** Places declared earlier, where Berth may remove recorded taints and cordons. Default: in memory only. */
  readonly places?: DeclaredPlaces;
  /** Shared with the code that reports frozen rules. Default: a new instance. */
  readonly breakers?: RemovalBreakers;
}

/** The wait before Berth checks a taint again that stays because its place is not declared. Milliseconds. */
const UNREAD_RECHECK_MS = 30_000;

/**
 * The only writer of Nodes. It merges the decisions of all capabilities and compares them with the node. Then it sends
 * one merge patch with uid and resourceVersion, or nothing. Callers must make at most one call per key at a time.
 *
 * Guarantees: never decides on a version older than its last write to the node. After a conflict, it decides again on
 * a newer version. A refused change stops no other change. If another writer keeps reverting a place, Berth does not
 * write it for `CONTESTED_MS`. It removes only marks with a record of its own, and values at exclusive places. It
 * throws other failures unchanged, for the retry policy of the controller.
 */
export class NodeWriter {
  readonly #options: NodeWriterOptions;
  readonly #report: NodeReport;
  readonly #breakers: RemovalBreakers;
  readonly #places: DeclaredPlaces;
  readonly #memories = new Map<string, NodeMemory>();

  constructor(options: NodeWriterOptions) {
    this.#options = options;
    this.#breakers = options.breakers ?? new RemovalBreakers();
    this.#places = options.places ?? new DeclaredPlaces(options.clock);
    this.#report = createNodeReport(options.events, options.metrics);
  }

  readonly reconcile: Reconcile<ObjectKey> = async (key, { signal }) => {
    const { nodes, clock } = this.#options;
    const node = nodes.get(key);
    if (node === undefined) {
      this.#forget(key);
      return undefined;
    }
    const memory = this.#memoryOf(key, node);
    const waitMs = waitBeforeDeciding(memory, node, clock.monotonic());
    if (waitMs !== undefined) return { recheckAfterMs: waitMs };
    await this.#verifyVanished(node, memory, signal);
    await this.#places.read(signal);
    const pass = this.#decide(node, memory);
    const places = [...pass.policies.values()].flatMap((policy) => policy.places ?? []);
    // Declare before the first write. If this process then dies, the next one may still remove the mark.
    await this.#places.declare(places, signal);
    await this.#nameRivals(node, memory, pass.fights.started, signal);
    this.#report.findings(node, memory, findingsOf(pass, memory));
    if (pass.changes.length === 0) return recheck(pass);
    return this.#send(key, memory, pass, signal);
  };

  /** The number of nodes in memory. */
  get remembered(): number {
    return this.#memories.size;
  }

  #memoryOf(key: ObjectKey, node: Node): NodeMemory {
    const text = toKeyText(key);
    const uid = node.metadata?.uid;
    const known = this.#memories.get(text);
    if (known !== undefined && known.uid === uid) return known;
    if (known !== undefined) this.#forget(key);
    const memory = createMemory(uid);
    this.#memories.set(text, memory);
    return memory;
  }

  /**
   * Reduces a lost record to the marks that Berth still owns, before the plan restores it. Another process of this
   * installation may have removed marks and record correctly. Another writer may then have set one of these marks;
   * `managedFields` shows that.
   */
  async #verifyVanished(node: Node, memory: NodeMemory, signal: AbortSignal): Promise<void> {
    const { record } = memory;
    const { name = "", resourceVersion = "" } = node.metadata ?? {};
    if (record === undefined || memory.verifiedAt === resourceVersion) return;
    if (recordOf(node).state !== "absent") return;
    const live = await this.#options.api.read(name, signal).catch(toApiError);
    if (isApiError(live) && live.failure.kind !== "notFound") throw live;
    const held = isApiError(live) ? undefined : recordStillHeld(record, live);
    if (held === undefined) delete memory.record;
    else memory.record = held;
    memory.verifiedAt = resourceVersion;
  }

  #forget(key: ObjectKey): void {
    this.#breakers.put(key.name, []);
    this.#memories.delete(toKeyText(key));
    this.#options.observer?.gone?.(key.name);
  }

  #decide(node: Node, memory: NodeMemory): Pass {
    const now = this.#options.clock.now();
    const nowMs = this.#options.clock.monotonic();
    const { contributions, owned, policies, plan, removals } = this.#plan(node, memory, { now, nowMs });
    if (plan.patch === undefined && recordOf(node).state === "absent") delete memory.record;
    rememberRecord(memory, node);
    const fights = assessFights(memory.fights, plan.changes, nowMs);
    memory.fights = fights.fights;
    const refusals = assessRefusals(memory, plan.changes, nowMs);
    const { withheld } = removals;
    const outcome = { contributions, owned, changes: plan.changes, withheld };
    this.#options.observer?.decided?.(node.metadata?.name ?? "", outcome);
    const changes = plan.changes.filter(
      ({ id }) => !fights.held.has(id) && !refusals.withheld.has(id) && !withheld.has(id),
    );
    const undeclared = plan.stays.filter(({ reason }) => reason === reasons.PlaceNotDeclared);
    const isDoubted = this.#places.doubt(undeclared.map(({ id }) => id));
    const recheckAfterMs = earliest(
      ...contributions.map(({ decision }) => decision.recheckAfterMs),
      fights.recheckAfterMs,
      refusals.recheckAfterMs,
      removals.recheckAfterMs,
      isDoubted ? UNREAD_RECHECK_MS : undefined,
    );
    return { contributions, plan, changes, policies, fights, refusals, recheckAfterMs };
  }

  /**
   * Plans the node and decides which removals wait. A mark whose removal waits is still an input of other rules.
   * Otherwise a rule for its absence would act before the removal. So the plan is repeated with the staying marks,
   * until no further mark has to stay.
   */
  #plan(node: Node, memory: NodeMemory, times: Times) {
    const { installation, capabilities } = this.#options;
    const owned = ownedMarks(effectiveRecord(node, memory.record), installation);
    const name = node.metadata?.name ?? "";
    const lastRecord = memory.record;
    let staying: ReadonlySet<MarkId> | undefined;
    for (;;) {
      const view: NodeView = staying === undefined ? { node, owned } : { node, owned, staying };
      const contributions = capabilities.map((capability) => capability.contribute(view, times.now));
      const merged = mergeContributions(contributions);
      const declared = this.#places.known;
      const plan = planNode({ node, merged, installation, now: times.now, declared, lastRecord });
      const { policies } = merged;
      const { changes } = plan;
      const about = { node: name, owned, changes, policies, breakers: this.#breakers, ...times };
      const removals = assessRemovals(memory.leaving, about);
      memory.leaving = removals.leaving;
      const before = staying;
      const more = [...removals.withheld.keys()].filter((id) => before?.has(id) !== true);
      if (more.length === 0) return { contributions, owned, policies, plan, removals };
      staying = new Set([...(before ?? []), ...more]);
    }
  }

  /** Sends the changes in one patch. If the API server refuses it, sends them in parts. */
  async #send(
    key: ObjectKey,
    memory: NodeMemory,
    pass: Pass,
    signal: AbortSignal,
  ): Promise<ReconcileResult | undefined> {
    const parts: (readonly Change[])[] = [pass.changes];
    let current = pass;
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      const ids = new Set(part.map(({ id }) => id));
      const changes = current.changes.filter(({ id }) => ids.has(id));
      const { node, base, patch: whole, changes: all } = current.plan;
      const patch = changes.length === all.length ? whole : buildPatch(node, base, changes);
      if (patch === undefined) continue;
      // The rest of the parts is decided on the answer. Otherwise the watch brings the node.
      const versionOnly = parts.length === 0;
      const sent = await this.#options.api.patch(key.name, patch, signal, versionOnly).catch(toApiError);
      if (isApiError(sent)) {
        const next = this.#handleFailure(sent, key, memory, { node, changes });
        if ("result" in next) return next.result;
        parts.unshift(...next.parts);
        continue;
      }
      awaitWritten(memory, sent, this.#options.clock.monotonic());
      this.#accept(memory, patch, changes, current);
      if (parts.length > 0) current = this.#decide(sent, memory);
    }
    // The changes just refused are tried again after their delay, and are reported like other findings.
    const refusals = assessRefusals(memory, current.plan.changes, this.#options.clock.monotonic());
    this.#report.findings(current.plan.node, memory, findingsOf({ ...current, refusals }, memory));
    return recheck({ recheckAfterMs: earliest(pass.recheckAfterMs, refusals.recheckAfterMs) });
  }

  #accept(
    memory: NodeMemory,
    patch: NodePatch,
    changes: readonly Change[],
    { contributions, policies, plan: { node } }: Pass,
  ): void {
    const name = node.metadata?.name ?? "";
    const nowMs = this.#options.clock.monotonic();
    memory.fights = noteWritten(memory.fights, changes, nowMs);
    noteAccepted(memory, changes);
    // A record without marks has no annotation. If it were kept, Berth would restore it.
    const record = patch.metadata.annotations?.[MARKS_ANNOTATION];
    if (record === null) delete memory.record;
    else if (record !== undefined) memory.record = record;
    this.#report.write("written");
    this.#report.written(node, changes);
    this.#options.observer?.written?.(name, changes, contributions);
    for (const change of changes)
      if (policyOf(change, policies) !== undefined) this.#breakers.lost(name, change.rule, nowMs);
  }

  /** @returns the smaller parts to send next, or the result that ends the pass. */
  #handleFailure(
    failure: ApiError,
    key: ObjectKey,
    memory: NodeMemory,
    { node, changes }: Pick<NodePlan, "node" | "changes">,
  ): { readonly parts: ReturnType<typeof splitRefused> } | { readonly result: ReconcileResult | undefined } {
    const { kind } = failure.failure;
    const nowMs = this.#options.clock.monotonic();
    if (kind === "conflict" || kind === "uidMismatch") {
      this.#report.write("conflict");
      awaitNewer(memory, node, nowMs);
      return { result: recheck({ recheckAfterMs: waitBeforeDeciding(memory, node, nowMs) }) };
    }
    if (kind === "notFound") {
      this.#report.write("gone");
      this.#forget(key);
      return { result: undefined };
    }
    // Split only when the API server refuses the object. Without the permission it would refuse every part.
    if (isRefusalOfObject(failure)) {
      this.#report.write("refused");
      const parts = splitRefused(changes);
      if (parts.length === 0) noteRefused(memory, changes, { message: failure.message, nowMs });
      return { parts };
    }
    this.#report.write("failed");
    throw failure;
  }

  /** Reads the node once when a place becomes contested, because caches hold no `managedFields`. */
  async #nameRivals(
    node: Node,
    memory: NodeMemory,
    started: readonly MarkId[],
    signal: AbortSignal,
  ): Promise<void> {
    if (started.length === 0) return;
    const live = await this.#options.api.read(node.metadata?.name ?? "", signal).catch(toApiError);
    if (isApiError(live)) {
      // Berth still does not write the place. Only the name of the other writer is missing.
      if (signal.aborted) throw live;
      return;
    }
    for (const id of started) {
      const rival = rivalOf(live.metadata?.managedFields ?? [], id);
      if (rival !== undefined) memory.fights = nameRival(memory.fights, id, rival);
    }
  }
}

interface Pass {
  readonly contributions: readonly Contribution[];
  readonly policies: ReadonlyMap<string, Policy>;
  readonly plan: NodePlan;
  /** The changes of the plan to make now. */
  readonly changes: readonly Change[];
  readonly fights: FightAssessment;
  readonly refusals: RefusalAssessment;
  readonly recheckAfterMs: number | undefined;
}

function toApiError(error: unknown): ApiError {
  if (isApiError(error)) return error;
  throw error;
}

function rememberRecord(memory: NodeMemory, node: Node): void {
  const text = ownValue(node.metadata?.annotations, MARKS_ANNOTATION);
  if (text !== undefined && recordOf(node).state === "read") memory.record = text;
}

function findingsOf(pass: Pass, memory: NodeMemory): readonly Finding[] {
  const contested = [...pass.fights.held.keys()].map((id): Finding => {
    const rival = memory.fights.get(id)?.rival;
    const who = rival === undefined ? "another writer" : `the field manager ${rival}`;
    const message = `${who} keeps reverting it; Berth leaves it alone for five minutes`;
    return { reason: reasons.Contested, severity: "warning", subject: id, message };
  });
  return [...pass.plan.findings, ...pass.refusals.findings, ...contested];
}

function recheck({ recheckAfterMs }: Pick<Pass, "recheckAfterMs">): ReconcileResult | undefined {
  return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
}

/**
 * Splits a refused write, so that one bad mark stops no other: first by capability, then in halves, down to single
 * marks. Empty for a single mark, which is the refused one.
 */
function splitRefused(changes: readonly Change[]): readonly (readonly Change[])[] {
  const byCapability = Map.groupBy(changes, ({ capability }) => capability);
  if (byCapability.size > 1) {
    return [...byCapability].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, part]) => part);
  }
  if (changes.length < 2) return [];
  const half = Math.ceil(changes.length / 2);
  return [changes.slice(0, half), changes.slice(half)];
}
