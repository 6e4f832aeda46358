import type { ReadAt } from "@berth/host";
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
import { BoundedMap } from "../node/bounded-map.ts";
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
import type { FootprintObservations, OwnerIdentity } from "./footprint-observations.ts";

export interface OwnerResolverOptions extends Pick<ReadAt, "clock" | "log" | "metrics"> {
  readonly client: Pick<KubeClient, "get" | "read">;
  readonly random?: Random;
  /** Maximum owners in memory. Default `MAX_OWNERS`. */
  readonly maxOwners?: number;
  /** Berth now knows the owners of this pod. `node` is `""` for pods without a node. Must not throw. */
  readonly onChange: (node: string, pod: Pod) => void;
  /** An owner has changed that may affect many pods: check every node. Must not throw. */
  readonly onMoved: () => void;
}

/**
 * Maximum owners in memory, half a kilobyte each on average. Beyond it, Berth drops the least recently used owner and
 * reads it again on demand. 30,000 pods that each have a Deployment of their own have 60,000 owners.
 */
export const MAX_OWNERS: number = 200_000;
/** Average size of one owner with its key, bytes. A larger owner displaces others. */
const OWNER_BYTES = 512;
/** Maximum owners that Berth follows above a pod. Kubernetes itself creates three. */
export const MAX_DEPTH = 6;
/** How long Berth does not read a deleted owner again, ms: its uid does not come back, but its kind may. */
export const GONE_MS: number = 60_000;
const MAX_READS = 8;
const RETRY_CAP_MS = 60_000;
/** How often Berth retries after a missing permission or kind, ms. */
const UNREAD_MS = 30_000;
/** Maximum unreadable kinds in memory: more than an API server has. */
const MAX_UNREAD = 1_000;

type OwnerKind = Pick<OwnerIdentity, "group" | "kind">;

/** Berth numbers answers in order: `first` is the first answer about this owner, `at` the last. */
type Answer = { readonly first: number; readonly at: number } & (
  | { readonly alive: true; readonly resource: string; readonly controller: OwnerReference | undefined }
  | { readonly alive: false; readonly until: number }
);

interface Question {
  readonly named: NamedOwner;
  /**
   * Pods that wait for this owner: the last one of each node, by node name. Once its owners are known, Berth checks all
   * pods of the node again. These ask again if necessary.
   */
  readonly waiting: Map<string, Pod>;
}

/**
 * Finds the controllers of a pod by single reads, from the nearest to the farthest, up to the kinds that footprints ask
 * for. `owners` answers at once from memory. Berth reads each unknown owner once for all pods that wait for it.
 *
 * An owner counts only if it exists with the uid in the reference. References can be forged, so a wrong one says
 * nothing about others. Answers stay in memory; a new child of an owner makes Berth read that owner again. Berth
 * repeats failed reads with backoff. An owner of a forbidden or unserved kind stays unknown if the kind is built in or
 * a footprint asks for it. Berth retries it every half minute, one owner of each kind. Any other such owner counts as
 * gone for a minute.
 */
export class OwnerResolver implements Component, Pick<FootprintObservations, "owners"> {
  readonly name = "footprint-owners";
  readonly #options: OwnerResolverOptions;
  readonly #directory: ResourceDirectory;
  readonly #controller: Controller<string>;
  /** Kinds that footprints ask for. */
  #kinds: ReadonlySet<string> = new Set();
  #toTop = false;
  #isWanted = false;
  /** The least recently used first. */
  readonly #answers: BoundedMap<Answer>;
  readonly #questions: BoundedMap<Question>;
  /** True after questions were dropped for lack of space: all nodes have to ask again. */
  #forgotten = false;
  #answered = 0;
  /** Owners of pods whose owners are all known, until one of these changes. Holds check all pods of a namespace. */
  readonly #known = new WeakMap<
    Pod,
    { readonly found: readonly OwnerIdentity[]; readonly generation: number }
  >();
  #generation = 0;
  /** Kinds that Berth cannot read, and until when it does not retry, monotonic ms. */
  readonly #unread = new BoundedMap<{ readonly until: number; readonly why: string }>({
    maxEntries: MAX_UNREAD,
  });

  constructor(options: OwnerResolverOptions) {
    const { client, clock, log, metrics, random } = options;
    this.#options = options;
    const { maxOwners = MAX_OWNERS } = options;
    const bounds = { maxEntries: maxOwners, maxWeight: maxOwners * OWNER_BYTES };
    this.#answers = new BoundedMap(bounds);
    this.#questions = new BoundedMap(bounds);
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

  /** Lists of owners end once all these kinds are found; with `toTop`, at the top owner. Call it at any time. */
  want(kinds: readonly OwnerKind[], toTop = false): void {
    this.#kinds = new Set(kinds.map(kindText));
    this.#toTop = toTop;
    this.#generation++;
    this.#isWanted = toTop || kinds.length > 0;
    if (!this.#isWanted) this.#questions.clear();
    // Berth no longer reads these kinds, so it would never learn that they are readable.
    for (const [kind] of this.#unread)
      if (!this.#isWanted || !this.#isNeeded(kind)) this.#unread.delete(kind);
  }

  /** Also `undefined` while no footprint wants owners. */
  owners(pod: Pod): readonly OwnerIdentity[] | undefined {
    if (!this.#isWanted) return undefined;
    const known = this.#known.get(pod);
    if (known?.generation === this.#generation) return known.found;
    const { found, missing, stale, isFinal } = this.#walk(pod);
    // Started chains go first: otherwise, with a full memory, no chain would ever be complete.
    const priority = found.length > 0 ? "high" : "low";
    const asked = missing ?? stale;
    if (asked !== undefined) this.#ask(asked, pod, priority);
    if (isFinal) this.#known.set(pod, { found, generation: this.#generation });
    return missing === undefined ? found : undefined;
  }

  get size(): number {
    return this.#answers.size;
  }

  /** Number of pods that wait for an unknown owner: at most one for each owner and node. */
  get waiting(): number {
    return Array.from(this.#questions).reduce((sum, [, { waiting }]) => sum + waiting.size, 0);
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#controller.start(signal);
  }

  /** A missing permission is no problem here: it affects some footprints, and `whyUnread` reports it for each. */
  problem(): string | undefined {
    return this.#controller.problem?.();
  }

  /** Why Berth cannot read owners of these kinds, or owners below them. */
  whyUnread(kinds: readonly OwnerKind[]): string | undefined {
    const asked = new Set(kinds.map(kindText));
    for (const [kind, { why }] of this.#unread) if (asked.has(kind) || WORKLOADS.has(kind)) return why;
    return undefined;
  }

  /** The known part of the chain, and the first unknown owner. */
  #walk({ metadata = {} }: Pod): {
    readonly found: readonly OwnerIdentity[];
    readonly missing?: NamedOwner;
    /** An owner that was gone at the last read, a while ago. It counts as gone until Berth reads it again. */
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
      // Compare with first answers only: otherwise Berth would read a ring of owners forever.
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
      if (this.#questions.set(named.key, question, bytes)) this.#forgotten = true;
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
      // Its CRD may be installed soon, or not every API server knows it yet.
      if (read === "unserved") why = `the server does not have ${named.ref.kind} of ${named.ref.apiVersion}`;
    } catch (error) {
      if (!isApiError(error, "forbidden")) throw error;
      why = error.message;
    }
    if (why !== undefined) {
      if (this.#unread.get(kind) === undefined) log.warn("owners of pods cannot be read", { kind, why });
      this.#unread.set(kind, { until: clock.monotonic() + UNREAD_MS, why });
    }
    if (this.#isNeeded(kind)) return { recheckAfterMs: Math.max(waitMs, 0) || UNREAD_MS };
    this.#answer(question, undefined);
    return undefined;
  }

  /** May owners of this kind be, or stand below, owners that footprints ask for? */
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
    const isFuller = this.#answers.set(key, answer, bytes);
    const isMoved = before !== undefined && !isSame(before, answer);
    if (isFuller || isMoved) this.#generation++;
    if (isMoved) this.#options.onMoved();
    this.#tell(waiting.values());
  }

  /** Reports pods whose owners are all known now; the others wait for their next owner. */
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
    // No object has an invalid name.
    if (isApiError(error, "notFound", "invalid")) return undefined;
    throw error;
  }
}
