/** Sends what was decided, and makes of the server's answers the same for all objects. */
import {
  type ApiError,
  compareResourceVersions,
  isApiError,
  isRefusalOfObject,
  type KubeClient,
  type KubeObject,
  type Patch,
  type Resource,
} from "@berth/kube";
import {
  addFinalizer,
  type Clock,
  type EventInput,
  type ReconcileContext,
  referenceTo,
  removeFinalizer,
} from "@berth/runtime";
import { type Contest, contestOf, noContest, noteGiven } from "./contest.ts";
import { givenBy, type Intent } from "./intent.ts";

/** How long an answer of the server is believed against an older cache, ms; and where the cache has yet to show a new object. */
const AWAIT_MS = 30_000;
const AWAIT_NEW_MS = 2_000;
/** How soon it is looked again when the server has a newer version, ms, and how often one version is taken for outdated. */
const BEHIND_MS = 1_000;
const MAX_MISSES = 3;
/** What the server refuses, or drops without a word, is not sent again for so long, ms. */
export const REST_MS = 30_000;
/** A missing permission is told of after this, ms: the API server refuses all for a moment after a restart. */
const TELL_DENIED_MS = 10_000;

export interface CarryOutOptions<T extends KubeObject = KubeObject> {
  readonly client: Pick<KubeClient, "patch" | "apply" | "delete">;
  readonly clock: Pick<Clock, "monotonic">;
  /** An `EventRecorder` is one. */
  readonly events?: { record(event: EventInput): void } | undefined;
  /** What Events are about, `PlacePod`. */
  readonly action: string;
  /** Reason of the warning that the server refuses a change. Default `WriteRefused`. */
  readonly refusedAs?: string;
  /** An intent was carried out. @param stored the object that was changed, as it is then. */
  done?(object: T, intent: Intent, stored: KubeObject | undefined): void;
  /** An intent is not sent now, since it is refused or contested. Told on each look. */
  withheld?(object: T, why: Finding): void;
}

/** The object that was decided about. */
export interface Subject<T extends KubeObject = KubeObject> {
  readonly resource: Resource<T>;
  readonly object: T;
}

/** What a person should see. */
export interface Finding {
  readonly reason: string;
  readonly message: string;
  /** Each reason is told once about one of these. Default: once. */
  readonly about?: string;
}

export interface CarriedOut {
  /** When to look again, ms, if no event will say so. */
  readonly recheckAfterMs?: number | undefined;
  /** Why something is not done. */
  readonly problem?: string | undefined;
}

/** What is remembered of one object that was decided about: plain data, which a restart can do without. Monotonic ms. */
interface Memory {
  readonly uid: string | undefined;
  /** What was told of it: reasons, with what they are about. */
  readonly told: Set<string>;
  /** By object: the version that was written last, and the one that came of it. */
  readonly written: Map<string, { from: string | undefined; to: string | undefined; atMs: number }>;
  /** By object and subresource. */
  readonly places: Map<string, Place>;
}

interface Place extends Contest {
  /** The object that was written to: what is made anew begins anew. */
  uid: string | undefined;
  /** How often one version met a newer one. */
  misses: number;
  missedAt?: string | undefined;
  /** Since when the permission is missing. */
  deniedSince?: number | undefined;
  /** What was given when the server refused it: it rests until then. */
  readonly rests: Map<string, { readonly untilMs: number; readonly why?: string | undefined }>;
}

/** One intent on its way. */
interface Sending<T extends KubeObject = KubeObject> {
  readonly subject: Subject<T>;
  readonly memory: Memory;
  readonly intent: Intent;
  readonly resource: Resource;
  readonly seen: KubeObject | undefined;
  readonly name: { readonly namespace?: string; readonly name: string };
  readonly context: ReconcileContext;
}

/**
 * - An object that is gone is done with.
 * - What meets a newer version, or was written on the one that is seen, waits for the newer one.
 * - What validation or admission refuses is told once and rests for 30 s; another content is sent at once.
 * - What others undo three times within ten minutes is left alone for a while, which doubles. A status and a finalizer are
 *   nobody else's, and are put back each time.
 * - Every other failure rejects when all has been tried: a missing permission too, which is told once it lasts.
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

  tell(key: string, subject: Subject<T>, findings: readonly Finding[]): void {
    for (const finding of findings) this.#tell(this.#memoryOf(key, subject), subject, finding);
  }

  /** In order; a failure of one keeps none of the others back. @throws ApiError the first. */
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
    const { resource, seen } = intent.on ?? { resource: subject.resource, seen: subject.object };
    const { namespace, name = "" } = (intent.do === "apply" ? intent.body : seen)?.metadata ?? {};
    const of = { name, ...(namespace !== undefined && { namespace }) };
    const sending: Sending<T> = { subject, memory, context, intent, resource, seen, name: of };
    const place = placeOf(sending);
    const now = this.#options.clock.monotonic();
    const behindMs = behindFor(sending, now);
    if (behindMs > 0) return { recheckAfterMs: behindMs };
    const given = givenBy(intent);
    for (const [wish, { untilMs }] of place.rests) if (untilMs <= now) place.rests.delete(wish);
    const rest = place.rests.get(given.join());
    if (rest !== undefined) {
      if (rest.why !== undefined) this.#withhold(sending, rest.why);
      const resting = { recheckAfterMs: rest.untilMs - now, problem: rest.why };
      return intent.orElse ? both(resting, await this.#carryOut(sending, intent.orElse)) : resting;
    }
    const contest = isForAll(intent) ? contestOf(place, given, now) : undefined;
    if (contest !== undefined) {
      const { what = "it", contested = `somebody keeps changing ${what}: it is left alone for a while` } =
        intent;
      this.#withhold(sending, contested, "Contested");
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
    const { client } = this.#options;
    const { signal } = context;
    const { uid, resourceVersion } = seen?.metadata ?? {};
    const version = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    if (intent.do === "apply") {
      const { body, manager: fieldManager } = intent;
      const bound = { ...body, metadata: { ...body.metadata, ...version } };
      return client.apply<KubeObject>(resource, bound, { fieldManager, force: true, signal });
    }
    if (intent.do === "delete") {
      const { propagation: propagationPolicy } = intent;
      await client.delete(resource, name, { propagationPolicy, preconditions: version, signal });
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
    noteGiven(place, given, atMs);
    Object.assign(place, { misses: 0, deniedSince: undefined, uid: stored?.metadata?.uid ?? place.uid });
    // What replaced a change that is refused ends nothing.
    if (place.rests.size === 0)
      for (const reason of [this.#refusedAs, "Contested"]) memory.told.delete(reason);
    const { do: action, reason, message, announce } = intent;
    const { plural: resource } = sending.resource;
    context.log.info("object changed", { ...name, resource, action, reason, message });
    if (announce !== undefined) this.#record(subject, announce, { reason, message });
    this.#options.done?.(subject.object, intent, stored);
    if (to === undefined || to !== from) return {};
    // Something has undone it before it was stored.
    place.rests.set(given.join(), { untilMs: atMs + REST_MS });
    return { recheckAfterMs: REST_MS };
  }

  async #refused(sending: Sending<T>, place: Place, error: ApiError): Promise<CarriedOut> {
    const { subject, intent, seen, context, name } = sending;
    const { kind } = error.failure;
    if (kind === "notFound" || kind === "uidMismatch") return {};
    const now = this.#options.clock.monotonic();
    const isOutdated = mayBeOutdated(intent, error);
    const version = seen?.metadata?.resourceVersion;
    if (isOutdated) {
      place.misses = place.missedAt === version ? place.misses + 1 : 1;
      place.missedAt = version;
      if (place.misses <= MAX_MISSES) return { recheckAfterMs: BEHIND_MS };
    }
    const { what = "it", advice } = intent;
    const why = `${what} stays as it is: ${error.message}${advice === undefined ? "" : `; ${advice}`}`;
    if (!isOutdated && !isRefusalOfObject(error)) {
      if (kind !== "forbidden") throw error;
      place.deniedSince ??= now;
      if (now - place.deniedSince >= TELL_DENIED_MS) this.#withhold(sending, why);
      else this.#options.withheld?.(subject.object, { reason: this.#refusedAs, message: why });
      throw error;
    }
    place.rests.set(givenBy(intent).join(), { untilMs: now + REST_MS, why });
    context.log.warn("object cannot be changed", { ...name, error: error.message });
    this.#withhold(sending, why);
    const resting = { recheckAfterMs: REST_MS, problem: why };
    return intent.orElse ? both(resting, await this.#carryOut(sending, intent.orElse)) : resting;
  }

  get #refusedAs(): string {
    return this.#options.refusedAs ?? "WriteRefused";
  }

  #withhold({ subject, memory }: Sending<T>, message: string, reason: string = this.#refusedAs): void {
    this.#options.withheld?.(subject.object, { reason, message });
    this.#tell(memory, subject, { reason, message });
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

/** Of two times from now, either of which may be none. */
export function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

function objectOf({ resource, name: { namespace = "", name } }: Sending): string {
  return `${resource.group}/${resource.plural}/${namespace}/${name}`;
}

function placeOf(sending: Sending): Place {
  const { memory, intent, seen } = sending;
  const text = `${objectOf(sending)} ${(intent.do === "patch" && intent.subresource) || ""}`;
  const uid = seen?.metadata?.uid;
  const place: Place = memory.places.get(text) ?? { ...noContest(), uid, misses: 0, rests: new Map() };
  memory.places.set(text, place);
  // Of an object that is new nobody has changed anything.
  if (uid === undefined || place.uid !== uid) Object.assign(place, noContest(), { uid });
  return place;
}

/** How long to wait for the cache to show what was written, ms. */
function behindFor(sending: Sending, nowMs: number): number {
  const written = sending.memory.written.get(objectOf(sending));
  const seen = sending.seen?.metadata?.resourceVersion;
  if (written === undefined || written.from === written.to) return 0;
  const { from, to, atMs } = written;
  if (seen === undefined) return from === undefined ? atMs + AWAIT_NEW_MS - nowMs : 0;
  const isOlder = seen === from || (to !== undefined && (compareResourceVersions(seen, to) ?? 0) < 0);
  return isOlder ? atMs + AWAIT_MS - nowMs : 0;
}

/** Has anybody else a right to what it changes? */
function isForAll(intent: Intent): boolean {
  return intent.do === "apply" || (intent.do === "patch" && intent.subresource === undefined);
}

/** A `test` of a JSON patch that does not hold is answered as invalid, and names no field. */
function mayBeOutdated(intent: Intent, { failure }: ApiError): boolean {
  if (failure.kind !== "invalid") return failure.kind === "conflict";
  const isJson = intent.do === "patch" && intent.patch.type === "json";
  return isJson && failure.causes.every(({ field = "" }) => field === "");
}

function bind(patch: Patch, version: object): Patch {
  if (patch.type === "json") return patch;
  const { metadata } = patch.body as KubeObject;
  return { ...patch, body: { ...patch.body, metadata: { ...metadata, ...version } } };
}
