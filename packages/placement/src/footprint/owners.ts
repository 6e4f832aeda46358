import {
  isApiError,
  type KubeClient,
  type ObjectMeta,
  type OwnerReference,
  type Pod,
  ResourceDirectory,
} from "@berth/kube";
import {
  type Component,
  type Controller,
  createController,
  type Random,
  type ReconcileContext,
  type ReconcileResult,
  type Running,
} from "@berth/runtime";
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
} from "../node/owner-reference.ts";
import { BoundedMap } from "./bounded-map.ts";
import type { FootprintSight, OwnerIdentity, Watching } from "./footprint-sight.ts";

export interface OwnerResolverOptions extends Pick<Watching, "clock" | "log" | "metrics"> {
  readonly client: Pick<KubeClient, "get" | "read">;
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
const RETRY_CAP_MS = 60_000;
/** How soon a missing right, or kind, is looked for again, ms. */
const UNREAD_MS = 30_000;
/** Kinds of which it is remembered that they cannot be read: more than a server has. */
const MAX_UNREAD = 1_000;

type OwnerKind = Pick<OwnerIdentity, "group" | "kind">;

/** Answers are numbered in their order: `first` is the first one about this owner, `at` the last. */
type Answer = { readonly first: number; readonly at: number } & (
  | { readonly alive: true; readonly resource: string; readonly controller: OwnerReference | undefined }
  | { readonly alive: false; readonly until: number }
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
 * Which controllers a pod has, from the nearest to the farthest: by single reads, as far up as the kinds are that anybody
 * asks for. `owners` answers at once from memory; what it does not know is read, once for all pods that wait for it.
 *
 * An owner counts only when it is there with the uid that the reference names: references can be forged, so one that is
 * wrong says nothing about others. What is known stays so; a new child of an owner has that owner read again. A failed read
 * is repeated with backoff. What may not be read, or is of a kind that is not served, stays unknown where Kubernetes makes
 * pods with it or somebody asks for it, and is tried every half minute, one owner of each kind. Any other counts as gone, and
 * is read again when somebody asks a minute later.
 */
export class OwnerResolver implements Component, Pick<FootprintSight, "owners"> {
  readonly name = "footprint-owners";
  readonly #options: OwnerResolverOptions;
  readonly #directory: ResourceDirectory;
  readonly #controller: Controller<string>;
  /** Kinds that are asked for. */
  #kinds: ReadonlySet<string> = new Set();
  #toTop = false;
  #isWanted = false;
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
  /** Kinds that cannot be read, and until when that is believed, monotonic ms. */
  readonly #unread = new BoundedMap<{ readonly until: number; readonly why: string }>(MAX_UNREAD);

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

  /** A list ends where all of these are found; `toTop`: not before there is no more. At any time. */
  want(kinds: readonly OwnerKind[], toTop = false): void {
    this.#kinds = new Set(kinds.map(kindText));
    this.#toTop = toTop;
    this.#generation++;
    this.#isWanted = toTop || kinds.length > 0;
    if (!this.#isWanted) this.#questions.clear();
    // Nobody would find out that it can be read by now.
    for (const [kind] of this.#unread)
      if (!this.#isWanted || !this.#isNeeded(kind)) this.#unread.delete(kind);
  }

  /** Also `undefined` while nobody wants any. */
  owners(pod: Pod): readonly OwnerIdentity[] | undefined {
    if (!this.#isWanted) return undefined;
    const known = this.#known.get(pod);
    if (known?.generation === this.#generation) return known.found;
    const { found, missing, stale, isFinal } = this.#walk(pod);
    // What is begun goes first: with as many owners as are remembered, none would ever be complete.
    const priority = found.length > 0 ? "high" : "low";
    const asked = missing ?? stale;
    if (asked !== undefined) this.#ask(asked, pod, priority);
    if (isFinal) this.#known.set(pod, { found, generation: this.#generation });
    return missing === undefined ? found : undefined;
  }

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
  whyUnread(kinds: readonly OwnerKind[]): string | undefined {
    const asked = new Set(kinds.map(kindText));
    for (const [kind, { why }] of this.#unread) if (asked.has(kind) || WORKLOADS.has(kind)) return why;
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
    const question = this.#questions.get(key);
    if (question === undefined) return undefined;
    const { named } = question;
    const kind = kindOf(named);
    const { client, clock } = this.#options;
    const waitMs = (this.#unread.get(kind)?.until ?? 0) - clock.monotonic();
    let why: string | undefined;
    try {
      const read =
        waitMs > 0 ? "unread" : await readOwner(named, { client, directory: this.#directory, signal });
      if (signal.aborted) return undefined;
      if (read !== "unserved" && read !== "unread") {
        this.#unread.delete(kind);
        this.#answer(question, read);
        return undefined;
      }
      // Its definition may be on its way, or not known to each API server yet.
      if (read === "unserved") why = `the server does not have ${named.ref.kind} of ${named.ref.apiVersion}`;
    } catch (error) {
      if (!isApiError(error, "forbidden")) throw error;
      why = error.message;
    }
    if (why !== undefined) {
      if (this.#unread.get(kind) === undefined) log.warn("owners of pods cannot be read", { kind, why });
      this.#unread.put(kind, { until: clock.monotonic() + UNREAD_MS, why });
    }
    if (this.#isNeeded(kind)) return { recheckAfterMs: Math.max(waitMs, 0) || UNREAD_MS };
    this.#answer(question, undefined);
    return undefined;
  }

  /** Is it known that owners of this kind are on the way to those that are asked for? */
  #isNeeded(kind: string): boolean {
    return this.#kinds.has(kind) || WORKLOADS.has(kind);
  }

  #answer({ named, waiting }: Question, read: ReadOwner | undefined): void {
    const { key } = named;
    const before = this.#answers.get(key);
    const at = ++this.#answered;
    const order = { first: before?.first ?? at, at };
    const above = read && controllerOf(read.metadata);
    const controller = above === undefined || isNoName(above) ? undefined : above;
    const answer: Answer = read
      ? { ...order, alive: true, resource: read.resource, controller }
      : { ...order, alive: false, until: this.#options.clock.monotonic() + GONE_MS };
    this.#questions.delete(key);
    const bytes = 128 + key.length + (controller === undefined ? 0 : bytesOf(controller));
    const isFuller = this.#answers.put(key, answer, bytes);
    const isMoved = before !== undefined && !isSame(before, answer);
    if (isFuller || isMoved) this.#generation++;
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
}

function isSame(a: Answer, b: Answer): boolean {
  if (!a.alive || !b.alive) return a.alive === b.alive;
  return a.controller?.uid === b.controller?.uid;
}

interface ReadOwner {
  readonly resource: string;
  readonly metadata: ObjectMeta;
}

/**
 * `undefined`: there is no such owner. `unserved`: the server does not have its kind.
 *
 * @throws ApiError when it cannot be read.
 */
async function readOwner(
  { namespace, group, version, ref: { kind, name, uid } }: NamedOwner,
  {
    client,
    directory,
    signal,
  }: {
    readonly client: Pick<KubeClient, "get">;
    readonly directory: ResourceDirectory;
    readonly signal: AbortSignal;
  },
): Promise<ReadOwner | undefined | "unserved"> {
  const resource =
    WORKLOADS.get(kindText({ group, kind })) ?? (await directory.ofKind({ group, version, kind }, signal));
  if (resource === undefined) return "unserved";
  if (resource.namespaced && namespace === "") return undefined;
  try {
    const of = { name, ...(resource.namespaced && { namespace }) };
    const { metadata } = await client.get(resource, of, { signal, metadataOnly: true });
    return metadata?.uid === uid ? { resource: resource.plural, metadata } : undefined;
  } catch (error) {
    // What is no name is the name of nothing.
    if (isApiError(error, "notFound", "invalid")) return undefined;
    throw error;
  }
}
