import {
  isApiError,
  type KubeClient,
  MISS_MS,
  type OwnerReference,
  type Pod,
  ResourceDirectory,
} from "@berth/kube";
import {
  type Clock,
  type Component,
  type Controller,
  createController,
  type Logger,
  type MetricsRegistry,
  type Random,
  type ReconcileContext,
  type ReconcileResult,
  type Running,
} from "@berth/runtime";
import { BoundedMap } from "./bounded-map.ts";
import type { FootprintSight, OwnerIdentity } from "./footprint-sight.ts";
import {
  bytesOf,
  controllerOf,
  isNoName,
  isWorkload,
  kindOf,
  kindText,
  type NamedOwner,
  toNamedOwner,
  WORKLOADS,
} from "./owner-reference.ts";
import { type ReadOwner, readOwner } from "./read-owner.ts";

export interface OwnerResolverOptions {
  readonly client: Pick<KubeClient, "get" | "read">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  readonly random?: Random;
  /** Owners that are remembered. Default `MAX_OWNERS`. */
  readonly maxOwners?: number;
  /** The owners of this pod on this node are known now; `""` for pods without a node. Must not throw. */
  readonly onChange: (node: string, pod: Pod) => void;
  /** An owner that many may have been decided by is not what it was: everything has to be looked at. Must not throw. */
  readonly onMoved: () => void;
}

/**
 * Owners that are remembered, half a kilobyte each on average. Beyond it the one that was not asked for longest is read again when it
 * is. 30,000 pods that each have a Deployment of their own have 60,000.
 */
export const MAX_OWNERS: number = 200_000;
/** Of one owner on average, its key included. Who has more makes room for it. Bytes. */
const OWNER_BYTES = 512;
/** More owners than this above a pod are not looked for. Kubernetes itself makes three. */
export const MAX_DEPTH = 6;
/** How long an owner that is gone is not looked for again, ms: its uid does not come back, but its kind may. */
export const GONE_MS: number = 60_000;
const MAX_READS = 8;
/** The longest wait after failures, ms. */
const RETRY_CAP_MS = 60_000;
/** How soon a missing right is looked for again, ms. */
const DENIED_MS = 30_000;
/** Kinds whose missing right is looked for though nobody asks for them: references can name any. The oldest makes room. */
const MAX_PROBES = 16;
/** Resources of which it is remembered that they may not be read: more than a server has. */
const MAX_DENIED = 1_000;
/** Before the kind. Keys of owners are JSON or base64. */
const PROBE = "probe ";

/** Answers are numbered in their order: `first` is the first one about this owner, `at` the last. */
type Answer = { readonly first: number; readonly at: number } & (
  | { readonly alive: true; readonly resource: string; readonly controller: OwnerReference | undefined }
  /** `isUnread`: nobody asks for its kind, which could not be read. */
  | { readonly alive: false; readonly until: number; readonly isUnread: boolean }
);

interface Question {
  readonly named: NamedOwner;
  /**
   * Pods whose owners are not known before: the last one of each node, by its name. Once that one's are, all pods of the node
   * are looked at again, and ask anew where they have to.
   */
  readonly waiting: Map<string, Pod>;
}

/**
 * Which controllers a pod has, from the nearest to the farthest: by single reads, of nothing but owners, and as far up as
 * the kinds are that anybody asks for.
 *
 * `owners` answers at once from memory; what it does not know is read, once for all pods that wait for it, and told when
 * the list is complete. An owner counts only when it is there with the uid that the reference names: references can be
 * forged, so one that is wrong says nothing about others. What is known stays so, as a pod's owners hardly change; a new
 * child of an owner has that owner read again. A failed read is repeated with backoff. Without the right to read
 * an owner it stays unknown, which is looked at every half minute, one owner of each resource, and so it does while the
 * server does not have its kind: where Kubernetes makes pods with it or somebody asks for it. Any other that cannot be read ends the list: it stands in a reference that
 * whoever makes pods can write, or above what others ask for. Of these one is tried every half minute, and once it may be
 * read, all that has ended there is looked for again.
 */
export class OwnerResolver implements Component, Pick<FootprintSight, "owners"> {
  readonly name = "footprint-owners";
  readonly #options: OwnerResolverOptions;
  readonly #directory: ResourceDirectory;
  readonly #controller: Controller<string>;
  /** Kinds that are asked for. */
  #kinds: ReadonlySet<string> = new Set();
  /** All owners are asked for, whatever their kinds. */
  #toTop = false;
  /** In order of use, the longest ago first. */
  readonly #answers: BoundedMap<Answer>;
  readonly #questions: BoundedMap<Question>;
  /** Questions were forgotten for want of room: whoever asked has to ask again. */
  #forgotten = false;
  #answered = 0;
  /** Of pods whose owners are all known, until one of these is not what it was: holds look at all pods of a namespace. */
  readonly #known = new WeakMap<
    Pod,
    { readonly found: readonly OwnerIdentity[]; readonly generation: number }
  >();
  #generation = 0;
  /** Resources that may not be read, until when that is believed, monotonic ms. */
  readonly #denied = new Map<string, { readonly until: number; readonly why: string }>();
  /** By kind, one owner of each that may not be read and that nobody asks for. */
  readonly #probes = new Map<string, NamedOwner>();
  /** Kinds that are needed, and that the server does not have: of those that are asked for, and of its own. */
  readonly #unserved = new Map<string, string>();

  constructor(options: OwnerResolverOptions) {
    const { client, clock, log, metrics, random } = options;
    this.#options = options;
    const { maxOwners = MAX_OWNERS } = options;
    this.#answers = new BoundedMap(maxOwners, maxOwners * OWNER_BYTES);
    this.#questions = new BoundedMap(maxOwners, maxOwners * OWNER_BYTES);
    this.#directory = new ResourceDirectory({ client, monotonic: () => clock.monotonic() });
    this.#controller = createController<string>({
      name: this.name,
      reconcile: (key, context) => this.#find(key, context),
      concurrency: MAX_READS,
      queue: { backoff: { capMs: RETRY_CAP_MS } },
      clock,
      log,
      ...(metrics && { metrics }),
      ...(random && { random }),
    });
  }

  /**
   * The kinds that owners are looked for of. A list ends where all of them are found. `toTop`: it never ends before there
   * is no more. At any time.
   */
  want(
    kinds: readonly { readonly group: string; readonly kind: string }[],
    { toTop = false }: { readonly toTop?: boolean } = {},
  ): void {
    this.#kinds = new Set(kinds.map(kindText));
    this.#toTop = toTop;
    this.#generation++;
    if (!this.#isWanted) {
      this.#questions.clear();
      this.#probes.clear();
    }
    // Nobody would find out that it is missing no longer.
    const isFollowed = (kind: string): boolean => this.#isWanted && this.#isNeeded(kind);
    for (const kind of this.#denied.keys())
      if (!isFollowed(kind) && !this.#probes.has(kind)) this.#denied.delete(kind);
    for (const kind of this.#unserved.keys()) if (!isFollowed(kind)) this.#unserved.delete(kind);
  }

  get #isWanted(): boolean {
    return this.#toTop || this.#kinds.size > 0;
  }

  /** Also `undefined` while nobody wants any. */
  owners(pod: Pod): readonly OwnerIdentity[] | undefined {
    if (!this.#isWanted) return undefined;
    const known = this.#known.get(pod);
    if (known?.generation === this.#generation) return known.found;
    const { found, missing, stale, isFinal } = this.#walk(pod);
    // What is begun goes first: with as many owners as are remembered, none would ever be complete.
    const priority = found.length > 0 ? "high" : "low";
    if (stale !== undefined) this.#ask(stale, pod, priority);
    if (isFinal) this.#known.set(pod, { found, generation: this.#generation });
    if (missing === undefined) return found;
    this.#ask(missing, pod, priority);
    return undefined;
  }

  /** Owners remembered. */
  get size(): number {
    return this.#answers.size;
  }

  /** Pods remembered because an owner of theirs is not known: for each owner at most one of each node. */
  get waiting(): number {
    return Array.from(this.#questions).reduce((sum, [, { waiting }]) => sum + waiting.size, 0);
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#controller.start(signal);
  }

  /** A right that is missing is none: it is of some footprints, and `whyUnread` says it of each. */
  problem(): string | undefined {
    return this.#controller.problem?.();
  }

  /** What keeps owners of these kinds, and those on the way to them, from being known. */
  whyUnread(kinds: readonly { readonly group: string; readonly kind: string }[]): string | undefined {
    const asked = new Set(kinds.map(kindText));
    const isAsked = (kind: string): boolean => asked.has(kind) || WORKLOADS.has(kind);
    for (const [kind, { why }] of this.#denied) if (isAsked(kind)) return why;
    for (const [kind, why] of this.#unserved) if (isAsked(kind)) return why;
    return undefined;
  }

  /** As far as it is known, and the first owner that is not. */
  #walk({ metadata = {} }: Pod): {
    readonly found: readonly OwnerIdentity[];
    readonly missing?: NamedOwner;
    /** It was gone when last asked, a while ago, and counts as gone until it is known better. */
    readonly stale?: NamedOwner;
    readonly isFinal: boolean;
  } {
    const found: OwnerIdentity[] = [];
    const unmet = new Set(this.#kinds);
    let child = 0;
    let ref = controllerOf(metadata);
    while (ref !== undefined && (this.#toTop || unmet.size > 0) && found.length < MAX_DEPTH) {
      const { uid, name, kind } = ref;
      if (found.some((owner) => owner.uid === uid)) break;
      if (isNoName(ref)) break;
      const named = toNamedOwner(ref, metadata.namespace ?? "");
      const answer = this.#answers.recall(named.key);
      // First answers only, so that a ring of owners is not read in turn for ever.
      if (answer === undefined || answer.at < child) return { found, missing: named, isFinal: false };
      if (!answer.alive) {
        const isStale = answer.until <= this.#options.clock.monotonic();
        const last = found.pop();
        if (last !== undefined) found.push(isWorkload(ref) ? { ...last, isAbandoned: true } : last);
        return { found, ...(isStale && { stale: named }), isFinal: false };
      }
      found.push({ group: named.group, kind, resource: answer.resource, name, uid });
      unmet.delete(kindText({ group: named.group, kind }));
      child = answer.first;
      ref = answer.controller;
    }
    return { found, isFinal: true };
  }

  #ask(named: NamedOwner, pod: Pod, priority: "high" | "low"): void {
    let question = this.#questions.get(named.key);
    if (question === undefined) {
      question = { named, waiting: new Map() };
      const bytes = named.key.length + bytesOf(named.ref);
      if (this.#questions.put(named.key, question, bytes)) this.#forgotten = true;
      this.#controller.enqueue(named.key, { priority });
    }
    question.waiting.set(pod.spec?.nodeName ?? "", pod);
  }

  async #find(key: string, { signal, log }: ReconcileContext): Promise<ReconcileResult | undefined> {
    if (key.startsWith(PROBE)) return this.#probe(key.slice(PROBE.length), signal);
    const question = this.#questions.get(key);
    if (question === undefined) return undefined;
    const { named } = question;
    const kind = kindOf(named);
    const waitMs = (this.#denied.get(kind)?.until ?? 0) - this.#options.clock.monotonic();
    if (waitMs > 0) return this.#passOver(question, kind, waitMs);
    try {
      const read = await this.#read(named, signal);
      if (signal.aborted) return undefined;
      this.#denied.delete(kind);
      // Its definition may be on its way, or not known to each API server yet.
      if (read === "unserved") {
        const { kind: name, apiVersion } = named.ref;
        if (this.#isNeeded(kind))
          this.#unserved.set(kind, `the server does not have ${name} of ${apiVersion}`);
        return this.#passOver(question, kind, MISS_MS);
      }
      this.#unserved.delete(kind);
      this.#answer(question, read);
      return undefined;
    } catch (error) {
      if (!isApiError(error, "forbidden")) throw error;
      this.#deny(named, error, log);
      return this.#passOver(question, kind, DENIED_MS);
    }
  }

  /** The owner cannot be read. */
  #passOver(question: Question, kind: string, waitMs: number): ReconcileResult | undefined {
    if (this.#isNeeded(kind)) return { recheckAfterMs: waitMs };
    this.#answer(question, undefined, true);
    return undefined;
  }

  /** Is it known that owners of this kind are on the way to those that are asked for? */
  #isNeeded(kind: string): boolean {
    return this.#kinds.has(kind) || WORKLOADS.has(kind);
  }

  #read(named: NamedOwner, signal: AbortSignal): ReturnType<typeof readOwner> {
    return readOwner(named, { client: this.#options.client, directory: this.#directory, signal });
  }

  #answer({ named, waiting }: Question, read: ReadOwner | undefined, isUnread = false): void {
    const { key } = named;
    const before = this.#answers.get(key);
    const at = ++this.#answered;
    const order = { first: before?.first ?? at, at };
    const above = read && controllerOf(read.metadata);
    const controller = above === undefined || isNoName(above) ? undefined : above;
    const until = this.#options.clock.monotonic() + GONE_MS;
    const answer: Answer = read
      ? { ...order, alive: true, resource: read.resource, controller }
      : { ...order, alive: false, until, isUnread };
    this.#questions.delete(key);
    const bytes = 128 + key.length + (controller === undefined ? 0 : bytesOf(controller));
    if (this.#answers.put(key, answer, bytes)) this.#generation++;
    const isMoved = before !== undefined && !isSame(before, answer);
    if (isMoved) this.#generation++;
    if (isMoved) this.#options.onMoved();
    this.#tell(waiting.values());
  }

  /** Those whose owners are all known by now; the others wait for the next. */
  #tell(waiting: Iterable<Pod>): void {
    const known = new Map<string, Pod>();
    for (const pod of waiting) if (this.owners(pod) !== undefined) known.set(pod.spec?.nodeName ?? "", pod);
    for (const [node, pod] of known) this.#options.onChange(node, pod);
    if (this.#questions.size > 0 || !this.#forgotten) return;
    this.#forgotten = false;
    this.#options.onMoved();
  }

  #deny(named: NamedOwner, error: Error, log: Logger): void {
    const kind = kindOf(named);
    if (!this.#denied.has(kind)) {
      log.warn("owners of pods may not be read", { kind, error: error.message });
      makeRoom(this.#denied, MAX_DENIED);
    }
    const until = this.#options.clock.monotonic() + DENIED_MS;
    this.#denied.set(kind, { until, why: error.message });
    if (this.#isNeeded(kind) || this.#probes.has(kind)) return;
    makeRoom(this.#probes, MAX_PROBES);
    this.#probes.set(kind, named);
    this.#controller.enqueue(`${PROBE}${kind}`);
  }

  /** May the kind be read by now? */
  async #probe(kind: string, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    const named = this.#probes.get(kind);
    if (named === undefined) return undefined;
    const waitMs = (this.#denied.get(kind)?.until ?? 0) - this.#options.clock.monotonic();
    if (waitMs > 0) return { recheckAfterMs: waitMs };
    try {
      await this.#read(named, signal);
    } catch (error) {
      if (isApiError(error, "forbidden")) return { recheckAfterMs: DENIED_MS };
      throw error;
    }
    if (signal.aborted) return undefined;
    this.#probes.delete(kind);
    this.#denied.delete(kind);
    for (const [key, answer] of this.#answers)
      if (!answer.alive && answer.isUnread) this.#answers.delete(key);
    this.#options.onMoved();
    return undefined;
  }
}

function isSame(a: Answer, b: Answer): boolean {
  if (!a.alive || !b.alive) return a.alive === b.alive;
  return a.controller?.uid === b.controller?.uid;
}

/** For one more: the oldest go. */
function makeRoom(entries: Map<string, unknown>, most: number): void {
  for (const oldest of entries.keys()) {
    if (entries.size < most) break;
    entries.delete(oldest);
  }
}
