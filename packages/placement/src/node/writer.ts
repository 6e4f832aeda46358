import { type ApiError, isApiError, isRefusalOfObject, type Node } from "@berth/kube";
import {
  type Clock,
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

/** What the writer needs of the API server. Both reject with `ApiError`. */
export interface NodeApi {
  /** A merge patch with the field manager `berth`; answers the node as it is then. */
  patch(name: string, patch: NodePatch, signal: AbortSignal): Promise<Node>;
  /** The node as it is now, `managedFields` included. */
  read(name: string, signal: AbortSignal): Promise<Node>;
}

export interface NodeWriterOptions {
  readonly nodes: Pick<Lister<Node>, "get">;
  readonly api: NodeApi;
  readonly capabilities: readonly BoundCapability[];
  /** Which Berth this is, recorded on every node; two that share a cluster need different names. */
  readonly installation: string;
  readonly clock: Clock;
  readonly events?: EventSink;
  readonly metrics?: MetricsRegistry;
  /** Hears what becomes of each node, for what is counted over all of them. */
  readonly observer?: NodeObserver;
  /** Where recorded taints and cordons may be removed, beside what rules in force declare. Default: in memory alone. */
  readonly places?: DeclaredPlaces;
  /** Shared with whoever reports them; default its own. */
  readonly breakers?: RemovalBreakers;
}

/** How soon to look again at a taint that stays because it is not in the list of declared places as read. Milliseconds. */
const UNREAD_RECHECK_MS = 30_000;

/**
 * The one writer of Nodes. For each node: what all capabilities want, merged, compared with the node, and one guarded
 * merge patch, or nothing.
 *
 * Guarantees: never decides on a version older than its own last write to the node; after a conflict, decides again
 * on a newer version; a change that the server refuses stops no other change; a place that somebody else keeps
 * reverting is left alone for a while; what it removes is recorded as its own. Other failures are thrown as they came,
 * for the controller's retry policy. At most one call per key at a time.
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
    // Before the first mark of a place is written: a process that dies in between leaves no mark that none takes off.
    await this.#places.declare(places, signal);
    await this.#nameRivals(node, memory, pass.fights.started, signal);
    this.#report.findings(node, memory, findingsOf(pass, memory));
    if (pass.changes.length === 0) return recheck(pass);
    return this.#send(key, memory, pass, signal);
  };

  /** Nodes that something is remembered of. */
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
   * A record that vanished since it was seen is written again, but only for what is still ours. Between the two looks
   * another process of this installation may have removed marks and record in order, and somebody else may have set
   * one of them since: then the place is no longer written by us, which `managedFields` tell.
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
    this.#options.observer?.gone(key.name);
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
    this.#options.observer?.decided(node.metadata?.name ?? "", outcome);
    const changes = plan.changes.filter(
      ({ id }) => !fights.held.has(id) && !refusals.withheld.has(id) && !withheld.has(id),
    );
    const undeclared = plan.stays.filter(({ reason }) => reason === reasons.PlaceNotDeclared);
    const isDoubted = this.#places.doubt(undeclared.map(({ id }) => id));
    const recheckAfterMs = earliest([
      ...contributions.map(({ decision }) => decision.recheckAfterMs),
      fights.recheckAfterMs,
      refusals.recheckAfterMs,
      removals.recheckAfterMs,
      isDoubted ? UNREAD_RECHECK_MS : undefined,
    ]);
    return { contributions, plan, changes, policies, fights, refusals, recheckAfterMs };
  }

  /**
   * What should stand, and which removals wait. A mark whose removal waits stands, and so counts as evidence for
   * others: otherwise a rule for its absence would act on a removal that is not made. So it is decided again with what
   * stays, until no more does.
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

  /** Sends what is to be changed: in one patch, and in parts when that is refused. */
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
      const sent = await this.#options.api.patch(key.name, patch, signal).catch(toApiError);
      if (isApiError(sent)) {
        const next = this.#handleFailure(sent, key, memory, { node, changes });
        if ("result" in next) return next.result;
        parts.unshift(...next.parts);
        continue;
      }
      this.#accept(memory, sent, changes, current);
      if (parts.length > 0) current = this.#decide(sent, memory);
    }
    // What was refused just now comes back after its delay, and is reported like any other finding.
    const refusals = assessRefusals(memory, current.plan.changes, this.#options.clock.monotonic());
    this.#report.findings(current.plan.node, memory, findingsOf({ ...current, refusals }, memory));
    return recheck({ recheckAfterMs: earliest([pass.recheckAfterMs, refusals.recheckAfterMs]) });
  }

  #accept(
    memory: NodeMemory,
    answer: Node,
    changes: readonly Change[],
    { contributions, policies }: Pass,
  ): void {
    const name = answer.metadata?.name ?? "";
    const nowMs = this.#options.clock.monotonic();
    awaitWritten(memory, answer, nowMs);
    memory.fights = noteWritten(memory.fights, changes, nowMs);
    noteAccepted(memory, changes);
    // An empty record is no annotation: without this, the one before would be taken for vanished.
    delete memory.record;
    rememberRecord(memory, answer);
    this.#report.write("written");
    this.#report.written(answer, changes);
    this.#options.observer?.written?.(name, changes, contributions);
    for (const change of changes)
      if (policyOf(change, policies) !== undefined) this.#breakers.lost(name, change.rule, nowMs);
  }

  /** @returns how to go on without this part, or how the pass ends. */
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
    // Without the permission no other part is taken either: that is for the client and the controller.
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
      // The place is left alone all the same; only the name of the other writer is missing.
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
  /** Those of the plan that are to be made now. */
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
    const message = `${who} keeps reverting it; it is left alone for five minutes`;
    return { reason: reasons.Contested, severity: "warning", subject: id, message };
  });
  return [...pass.plan.findings, ...pass.refusals.findings, ...contested];
}

function recheck({ recheckAfterMs }: Pick<Pass, "recheckAfterMs">): ReconcileResult | undefined {
  return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const given = times.filter((time) => time !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}

/**
 * Which parts of a refused write to send next, so that one bad mark stops nobody: first each capability alone, then
 * halves of what one capability wants, down to the single mark. Empty: this is the offender and cannot be split.
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
