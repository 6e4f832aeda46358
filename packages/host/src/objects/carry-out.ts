/** Sends the intents of a decision, and handles the API server's answers in the same way for all objects. */
import {
  type ApiError,
  compareResourceVersions,
  isApiError,
  isRefusalOfObject,
  type KubeObject,
  type Patch,
  type Resource,
} from "@berth/kube";
import {
  addFinalizer,
  type Clock,
  type EventInput,
  earliest,
  type ReconcileContext,
  referenceTo,
  removeFinalizer,
} from "@berth/runtime";
import { type Contest, contestOf, noContest, noteGiven } from "./contest.ts";
import { budgetIn, EVICTION } from "./eviction.ts";
import { givenBy, type Intent, type Target, type WriteClient } from "./intent.ts";

/** How long Berth waits for the cache to show its write, ms. The second limit is for a new object. */
const AWAIT_MS = 30_000;
const AWAIT_NEW_MS = 2_000;
/** Delay before Berth tries again on a version conflict, ms, and the number of such tries for one version. */
const BEHIND_MS = 1_000;
const MAX_MISSES = 3;
/** How long Berth does not repeat a change that the server refused or dropped, ms. */
export const REST_MS = 30_000;
/** The same for an eviction that a PodDisruptionBudget forbids, unless the server names a longer time. */
const BUDGET_REST_MS = 10_000;
/** Delay before Berth reports a failure of `LASTING`, ms: shortly after a restart the API server refuses all requests. */
const TELL_DENIED_MS = 10_000;
/** A missing permission may fail one kind of request alone, and so may a webhook that does not work. */
const LASTING: ReadonlySet<string> = new Set(["forbidden", "serverError", "timeout", "tooManyRequests"]);

export interface CarryOutOptions<T extends KubeObject = KubeObject> {
  readonly client: WriteClient;
  readonly clock: Pick<Clock, "monotonic">;
  /** Usually an `EventRecorder`. */
  readonly events?: { record(event: EventInput): void } | undefined;
  /** The `action` of Events, such as `PlacePod`. */
  readonly action: string;
  /** Reason of the warning Event when the server refuses a change. Default `WriteRefused`. */
  readonly refusedAs?: string;
  /** Called after an intent was carried out. @param stored the changed object as the server returned it. */
  done?(object: T, intent: Intent, stored: KubeObject | undefined): void;
  /**
   * Called on each pass while an intent is not sent because it is refused or contested.
   * @param restMs how long Berth does not send it, ms. Absent: the runtime sends it again.
   */
  withheld?(object: T, why: Finding, restMs: number | undefined, intent: Intent): void;
}

/** The object of the decision. */
export interface Subject<T extends KubeObject = KubeObject> {
  readonly resource: Resource<T>;
  readonly object: T;
}

/** A problem that Berth reports to people. */
export interface Finding {
  readonly reason: string;
  readonly message: string;
  /** Berth reports each reason once for each value of `about`. Default: once for each object. */
  readonly about?: string;
}

export interface CarriedOut {
  /** Delay until the next pass, ms. Absent: an event will start it. */
  readonly recheckAfterMs?: number | undefined;
  /** Why a change is not made. */
  readonly problem?: string | undefined;
}

/** The state that Berth keeps for one object. A restart may lose it. Times are monotonic ms. */
interface Memory {
  readonly uid: string | undefined;
  /** The reported findings, as reason and `about`. */
  readonly told: Set<string>;
  /** The last write to each object: the version before it, and the version after it. */
  readonly written: Map<string, { from: string | undefined; to: string | undefined; atMs: number }>;
  /** By object and subresource. */
  readonly places: Map<string, Place>;
}

interface Place extends Contest {
  /** UID of the object that Berth wrote to. A new object with the same name starts afresh. */
  uid: string | undefined;
  /** How many writes on one version met a newer version. */
  misses: number;
  missedAt?: string | undefined;
  /** When it first failed in a way that may last. */
  deniedSince?: number | undefined;
  /** Refused changes by their `gives`. */
  readonly rests: Map<string, Rest>;
}

/** A change that Berth does not send again before `untilMs`. */
interface Rest {
  readonly untilMs: number;
  readonly why?: Finding | undefined;
  /** The version that was outdated. A newer one ends the rest. */
  readonly of?: string | undefined;
}

/** One intent with its target. */
interface Sending<T extends KubeObject = KubeObject> {
  readonly subject: Subject<T>;
  readonly memory: Memory;
  readonly intent: Intent;
  readonly resource: Resource;
  readonly seen: KubeObject | undefined;
  readonly via: Target["via"];
  readonly name: { readonly namespace?: string; readonly name: string };
  readonly context: ReconcileContext;
}

/**
 * - When the object is gone, there is nothing to do.
 * - After a version conflict, or after its own write, Berth waits until the cache shows the newer version.
 * - When validation or admission refuses a change, Berth reports it once and waits 30 s. Other content is sent at once.
 *   The same holds for a new object whose namespace is missing, or whose name stays taken.
 * - When others undo a change three times in ten minutes, Berth waits before the next write. Each next wait is longer.
 *   Berth owns statuses and finalizers, so it restores them each time.
 * - Any other failure rejects after all intents were tried. Berth reports one that lasts once, after ten seconds.
 */
export class CarryOut<T extends KubeObject = KubeObject> {
  readonly #options: CarryOutOptions<T>;
  readonly #memories = new Map<string, Memory>();

  constructor(options: CarryOutOptions<T>) {
    this.#options = options;
  }

  forget(key: string): void {
    this.#memories.delete(key);
  }

  /** The object is as it should be: forgets what only mattered until the cache showed it. */
  settle(key: string): void {
    const { told, places = new Map() } = this.#memories.get(key) ?? {};
    const isPlain = [...places.values()].every(
      ({ rests, writes }: Place) => rests.size + writes.length === 0,
    );
    if (isPlain && !told?.size) this.#memories.delete(key);
  }

  tell(key: string, subject: Subject<T>, findings: readonly Finding[]): void {
    for (const finding of findings) this.#tell(this.#memoryOf(key, subject), subject, finding);
  }

  /** Sends all intents in order, also after a failure. @throws ApiError the first failure. */
  async send(
    key: string,
    subject: Subject<T>,
    intents: readonly Intent[],
    context: ReconcileContext,
  ): Promise<CarriedOut> {
    let result: CarriedOut = {};
    let failure: ApiError | undefined;
    for (const intent of intents) {
      try {
        const memory = this.#memoryOf(key, subject);
        result = both(result, await this.#carryOut({ memory, subject, context }, intent));
      } catch (error) {
        if (!isApiError(error) || error.failure.kind === "aborted") throw error;
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    return result;
  }

  #memoryOf(key: string, { object }: Subject<T>): Memory {
    const { uid } = object.metadata ?? {};
    const known = this.#memories.get(key);
    if (known !== undefined && known.uid === uid) return known;
    const memory: Memory = { uid, told: new Set(), written: new Map(), places: new Map() };
    this.#memories.set(key, memory);
    return memory;
  }

  async #carryOut(
    { subject, memory, context }: Pick<Sending<T>, "subject" | "memory" | "context">,
    intent: Intent,
  ): Promise<CarriedOut> {
    const target: Target = intent.on ?? { resource: subject.resource, seen: subject.object };
    const { resource, seen, via } = target;
    const { namespace, name = "" } = ("body" in intent ? intent.body : seen)?.metadata ?? {};
    const of = { name, ...(namespace !== undefined && { namespace }) };
    const sending: Sending<T> = { subject, memory, context, intent, resource, seen, via, name: of };
    const place = placeOf(sending);
    const now = this.#options.clock.monotonic();
    const behindMs = behindFor(sending, now);
    if (behindMs > 0) return { recheckAfterMs: behindMs };
    const given = givenBy(intent);
    const version = seen?.metadata?.resourceVersion;
    for (const [wish, { untilMs, of: outdated }] of place.rests)
      if (untilMs <= now || (outdated !== undefined && outdated !== version)) place.rests.delete(wish);
    const rest = place.rests.get(given.join());
    if (rest !== undefined) {
      const leftMs = rest.untilMs - now;
      if (rest.why !== undefined) this.#withhold(sending, rest.why, leftMs);
      const resting = { recheckAfterMs: leftMs, problem: rest.why?.message };
      return intent.orElse ? both(resting, await this.#carryOut(sending, intent.orElse)) : resting;
    }
    const contest = isForAll(intent) ? contestOf(place, given, now) : undefined;
    if (contest !== undefined) {
      const {
        what = "it",
        contested = `another writer keeps changing ${what}, so it is left alone for a while`,
      } = intent;
      this.#withhold(sending, { reason: "Contested", message: contested }, contest.leftMs);
      return { recheckAfterMs: contest.leftMs, problem: contested };
    }
    const problem = await intent.unless?.(context.signal);
    if (problem !== undefined) return { recheckAfterMs: REST_MS, problem };
    try {
      return this.#taken(sending, place, await this.#request(sending));
    } catch (error) {
      if (!isApiError(error)) throw error;
      return this.#refused(sending, place, error);
    }
  }

  async #request(sending: Sending<T>): Promise<KubeObject | undefined> {
    const { intent, resource, seen, name, context } = sending;
    const client = sending.via ?? this.#options.client;
    const { signal } = context;
    const { uid, resourceVersion } = seen?.metadata ?? {};
    const version = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    if (intent.do === "apply") {
      const { body, manager: fieldManager } = intent;
      const bound = { ...body, metadata: { ...body.metadata, ...version } };
      return client.apply<KubeObject>(resource, bound, { fieldManager, force: true, signal });
    }
    if (intent.do === "create") return client.create<KubeObject>(resource, intent.body, { signal });
    if (intent.do === "delete") {
      const { propagation, bound } = intent;
      const preconditions = bound === "uid" ? { ...(uid && { uid }) } : version;
      await client.delete(resource, name, {
        ...(propagation && { propagationPolicy: propagation }),
        preconditions,
        signal,
      });
      return undefined;
    }
    if (intent.do === "patch") {
      const { patch, subresource, manager } = intent;
      const options = {
        ...(subresource !== undefined && { subresource }),
        ...(manager !== undefined && { fieldManager: manager }),
      };
      return client.patch(resource, name, bind(patch, version), { ...options, signal });
    }
    if (intent.do === "evict") {
      const eviction = { ...EVICTION, metadata: name, deleteOptions: { preconditions: { uid } } };
      await client.create<KubeObject>(resource, eviction, { subresource: "eviction", signal });
      return undefined;
    }
    const change = intent.do === "addFinalizer" ? addFinalizer : removeFinalizer;
    const patch = change(seen ?? {}, intent.finalizer);
    return patch && client.patch(resource, name, patch, { signal });
  }

  #taken(sending: Sending<T>, place: Place, stored: KubeObject | undefined): CarriedOut {
    const { subject, memory, intent, seen, context, name } = sending;
    const atMs = this.#options.clock.monotonic();
    const given = givenBy(intent);
    const from = seen?.metadata?.resourceVersion;
    const to = stored?.metadata?.resourceVersion;
    memory.written.set(objectOf(sending), { from, to, atMs });
    if (isForAll(intent)) noteGiven(place, given, atMs);
    Object.assign(place, { misses: 0, deniedSince: undefined, uid: stored?.metadata?.uid ?? place.uid });
    // A fallback succeeded, but the refused change is still refused: keep its report.
    if (place.rests.size === 0)
      for (const reason of [this.#refusedAs, "DisruptionBudget", "Contested"]) memory.told.delete(reason);
    const { do: action, reason, message, announce, news = [] } = intent;
    const { plural: resource } = sending.resource;
    context.log.info("object changed", { ...name, resource, action, reason, message });
    if (announce !== undefined) this.#record(subject, announce, { reason, message });
    for (const { type, ...finding } of news) this.#record(subject, type, finding);
    this.#options.done?.(subject.object, intent, stored);
    if (to === undefined || to !== from) return {};
    // Another component, such as an admission webhook, undid the change before the server stored it.
    place.rests.set(given.join(), { untilMs: atMs + REST_MS });
    return { recheckAfterMs: REST_MS };
  }

  async #refused(sending: Sending<T>, place: Place, error: ApiError): Promise<CarriedOut> {
    const { subject, intent, seen, context, name } = sending;
    const { kind } = error.failure;
    const isMissing = kind === "notFound" || kind === "uidMismatch";
    if (isMissing && intent.do !== "create") return {};
    const now = this.#options.clock.monotonic();
    const isOutdated = mayBeOutdated(intent, error);
    const version = seen?.metadata?.resourceVersion;
    if (isOutdated) {
      place.misses = place.missedAt === version ? place.misses + 1 : 1;
      place.missedAt = version;
      if (place.misses <= MAX_MISSES) return { recheckAfterMs: BEHIND_MS };
    }
    const { what = "it", advice } = intent;
    const budget = budgetIn(error);
    const isBudget = budget !== undefined;
    const refusal = budget?.message ?? error.message;
    const outcome = intent.do === "create" ? "is not created" : "stays as it is";
    const problem = `${what} ${outcome}: ${refusal}${advice === undefined ? "" : `; ${advice}`}`;
    const why = { reason: isBudget ? "DisruptionBudget" : this.#refusedAs, message: problem };
    if (!isOutdated && !isMissing && !isRefusalOfObject(error) && !isBudget) {
      if (!LASTING.has(kind)) throw error;
      place.deniedSince ??= now;
      if (now - place.deniedSince >= TELL_DENIED_MS) this.#withhold(sending, why);
      else if (kind === "forbidden") this.#options.withheld?.(subject.object, why, undefined, intent);
      throw error;
    }
    const restMs = isBudget ? Math.max(error.retryAfterMs ?? 0, BUDGET_REST_MS) : REST_MS;
    const outdated = isOutdated ? { of: version } : {};
    place.rests.set(givenBy(intent).join(), { untilMs: now + restMs, why, ...outdated });
    context.log.warn("object cannot be changed", { ...name, error: error.message });
    this.#withhold(sending, why, restMs);
    const resting = { recheckAfterMs: restMs, problem };
    return intent.orElse ? both(resting, await this.#carryOut(sending, intent.orElse)) : resting;
  }

  get #refusedAs(): string {
    return this.#options.refusedAs ?? "WriteRefused";
  }

  #withhold({ subject, memory, intent }: Sending<T>, why: Finding, restMs?: number): void {
    this.#options.withheld?.(subject.object, why, restMs, intent);
    this.#tell(memory, subject, why);
  }

  #tell({ told }: Memory, subject: Subject<T>, finding: Finding): void {
    const { reason, about } = finding;
    const text = about === undefined ? reason : `${reason} ${about}`;
    if (told.has(text)) return;
    told.add(text);
    this.#record(subject, "Warning", finding);
  }

  #record({ resource, object }: Subject<T>, type: "Normal" | "Warning", { reason, message }: Finding): void {
    const { events, action } = this.#options;
    events?.record({ regarding: referenceTo(resource, object), reason, note: message, type, action });
  }
}

function both(a: CarriedOut, b: CarriedOut): CarriedOut {
  const recheckAfterMs = earliest(a.recheckAfterMs, b.recheckAfterMs);
  return { recheckAfterMs, problem: a.problem ?? b.problem };
}

function objectOf({ via, resource, name: { namespace = "", name } }: Sending): string {
  return `${via?.server ?? ""} ${resource.group}/${resource.plural}/${namespace}/${name}`;
}

function placeOf(sending: Sending): Place {
  const { memory, intent, seen } = sending;
  const text = `${objectOf(sending)} ${(intent.do === "patch" && intent.subresource) || ""}`;
  const uid = seen?.metadata?.uid;
  const place: Place = memory.places.get(text) ?? { ...noContest(), uid, misses: 0, rests: new Map() };
  memory.places.set(text, place);
  // No other client has changed a new object yet.
  if (uid === undefined || place.uid !== uid) Object.assign(place, noContest(), { uid });
  return place;
}

/** How long to wait for the cache to show Berth's last write, ms. */
function behindFor(sending: Sending, nowMs: number): number {
  const written = sending.memory.written.get(objectOf(sending));
  const seen = sending.seen?.metadata?.resourceVersion;
  if (written === undefined || written.from === written.to) return 0;
  const { from, to, atMs } = written;
  if (seen === undefined) return from === undefined ? atMs + AWAIT_NEW_MS - nowMs : 0;
  const isOlder = seen === from || (to !== undefined && (compareResourceVersions(seen, to) ?? 0) < 0);
  return isOlder ? atMs + AWAIT_MS - nowMs : 0;
}

/** May other clients also write what this intent changes? */
function isForAll(intent: Intent): boolean {
  return intent.do === "apply" || (intent.do === "patch" && intent.subresource === undefined);
}

/** When a `test` in a JSON patch fails, the server answers `invalid` and names no field. */
function mayBeOutdated(intent: Intent, { failure }: ApiError): boolean {
  if (failure.kind !== "invalid") return failure.kind === "conflict" || failure.kind === "alreadyExists";
  const isJson = intent.do === "patch" && intent.patch.type === "json";
  return isJson && failure.causes.every(({ field = "" }) => field === "");
}

function bind(patch: Patch, version: object): Patch {
  if (patch.type === "json") return patch;
  const { metadata } = patch.body as KubeObject;
  return { ...patch, body: { ...patch.body, metadata: { ...metadata, ...version } } };
}
