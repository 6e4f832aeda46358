import type { KubeEvent, KubeObject, ObjectReference, Resource } from "@berth/kube";
import { apiVersionOf } from "@berth/kube";
import { DeadlineHeap, type HeapItem } from "./deadline-heap.ts";
import { toMicroTime } from "./micro-time.ts";

/** What happened, as the reconciler reports it. */
export interface EventInput {
  /** The object it is about; `referenceTo` makes one. */
  readonly regarding: ObjectReference;
  /** PascalCase constant, at most 128 bytes. */
  readonly reason: string;
  /** For people. Cut to 1024 bytes. */
  readonly note: string;
  readonly type: "Normal" | "Warning";
  /** The action done or tried, PascalCase, at most 128 bytes. */
  readonly action: string;
  /** A second object that is involved. */
  readonly related?: ObjectReference;
}

/** Equal events since the first: one Event object, first without `series`, then with a count of 2 and more. */
export interface EventSeries extends HeapItem {
  readonly key: string;
  readonly event: KubeEvent;
  count: number;
  /** How many of them the server has; 0 before the Event is created. */
  sentCount: number;
  /** Wall time of the last one, ms since the epoch. */
  lastObservedMs: number;
  /** The same, monotonic. */
  lastSeenAtMs: number;
  /** Failed attempts at the current write. */
  tries: number;
  /** Time until the next update, ms; doubles with every update. */
  updateAfterMs: number;
}

export type RecordOutcome = "new" | "counted" | "limited" | "overflow" | "invalid";

/** `burst` and `refill` are those of the spam filter in client-go's tools/record (25, and 1 every 5 minutes). */
export const EVENT_LIMITS = {
  burstPerObject: 25,
  refillMs: 300_000,
  /** Series and objects remembered: `maxLruCacheEntries` of client-go. */
  maxRemembered: 4096,
  /** Events not created yet: `maxQueuedEvents` of client-go. */
  maxPending: 1000,
  /** A series ends after this long without another event: `finishTime` of client-go's tools/events. */
  seriesGapMs: 360_000,
  /** The first update of a series waits this long, each later one twice as long up to the last. */
  firstUpdateMs: 10_000,
  lastUpdateMs: 300_000,
  /** Limits of the API: `NoteLengthLimit` and its neighbours in pkg/apis/core/validation/events.go, in bytes. */
  noteBytes: 1024,
  reasonBytes: 128,
} as const;

export interface EventBookOptions {
  readonly reportingController: string;
  readonly reportingInstance: string;
  /** Makes Event names unique; in [0, 1). */
  readonly random: () => number;
}

/** Decides which events are written and when. Pure apart from its own memory, which is bounded. */
export class EventBook {
  readonly #options: EventBookOptions;
  /** Both in order of last use, so that the oldest are forgotten first. */
  readonly #series = new Map<string, EventSeries>();
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();
  readonly #due = new DeadlineHeap<EventSeries>();
  #uncreated = 0;

  constructor(options: EventBookOptions) {
    this.#options = options;
  }

  /** Series that wait to be written. */
  get pending(): number {
    return this.#due.size;
  }

  /** The series to be written next; it is due at `dueAt`, monotonic. */
  next(): EventSeries | undefined {
    return this.#due.peek();
  }

  record(input: EventInput, nowMs: number, atMs: number): RecordOutcome {
    const { regarding } = input;
    if (!regarding.name || !regarding.kind || input.reason === "") return "invalid";
    const key = seriesKey(input);
    const known = this.#series.get(key);
    if (known !== undefined && atMs - known.lastSeenAtMs <= EVENT_LIMITS.seriesGapMs) {
      known.count += 1;
      known.lastObservedMs = nowMs;
      known.lastSeenAtMs = atMs;
      remember(this.#series, key, known);
      if (known.heapIndex < 0) this.#schedule(known, atMs + known.updateAfterMs);
      return "counted";
    }
    this.#forgetEnded(atMs);
    if (this.#uncreated >= EVENT_LIMITS.maxPending) return "overflow";
    if (!this.#takeToken(objectKey(input), atMs)) return "limited";
    const series = this.#begin(key, input, nowMs, atMs);
    const forgotten = remember(this.#series, key, series);
    if (forgotten !== undefined) this.drop(forgotten);
    this.#uncreated += 1;
    this.#schedule(series, atMs);
    return "new";
  }

  /** The server now knows of `count` of them. */
  written(series: EventSeries, count: number, atMs: number): void {
    if (series.heapIndex < 0) return;
    if (series.sentCount === 0) this.#uncreated -= 1;
    else series.updateAfterMs = Math.min(series.updateAfterMs * 2, EVENT_LIMITS.lastUpdateMs);
    series.sentCount = count;
    series.tries = 0;
    this.#due.remove(series);
    if (series.count > count) this.#schedule(series, atMs + series.updateAfterMs);
  }

  /** Retries at `atMs`. Does nothing, as `written`, when the series was forgotten during the attempt. */
  postpone(series: EventSeries, atMs: number): void {
    if (series.heapIndex < 0) return;
    series.tries += 1;
    this.#due.remove(series);
    this.#schedule(series, atMs);
  }

  /** Gives the series up: the next equal event begins another. */
  drop(series: EventSeries): void {
    if (series.sentCount === 0 && series.heapIndex >= 0) this.#uncreated -= 1;
    this.#due.remove(series);
    if (this.#series.get(series.key) === series) this.#series.delete(series.key);
  }

  #schedule(series: EventSeries, atMs: number): void {
    series.dueAt = atMs;
    this.#due.push(series);
  }

  #begin(key: string, input: EventInput, nowMs: number, atMs: number): EventSeries {
    return {
      key,
      event: toEvent(input, nowMs, this.#options),
      count: 1,
      sentCount: 0,
      lastObservedMs: nowMs,
      lastSeenAtMs: atMs,
      tries: 0,
      updateAfterMs: EVENT_LIMITS.firstUpdateMs,
      dueAt: atMs,
      heapIndex: -1,
      heapOrder: 0,
    };
  }

  /** Forgets series that are over and written, and objects with all tokens back: the oldest come first. */
  #forgetEnded(atMs: number): void {
    const { seriesGapMs, burstPerObject, refillMs } = EVENT_LIMITS;
    for (const [key, { lastSeenAtMs, heapIndex }] of this.#series) {
      if (heapIndex >= 0 || atMs - lastSeenAtMs <= seriesGapMs) break;
      this.#series.delete(key);
    }
    for (const [key, { tokens, atMs: since }] of this.#buckets) {
      if (tokens + (atMs - since) / refillMs < burstPerObject) break;
      this.#buckets.delete(key);
    }
  }

  #takeToken(key: string, atMs: number): boolean {
    const { burstPerObject, refillMs } = EVENT_LIMITS;
    const known = this.#buckets.get(key) ?? { tokens: burstPerObject, atMs };
    const tokens = Math.min(burstPerObject, known.tokens + (atMs - known.atMs) / refillMs);
    remember(this.#buckets, key, { tokens: tokens >= 1 ? tokens - 1 : tokens, atMs });
    return tokens >= 1;
  }
}

/** A reference to an object as it came from the server, for `regarding` and `related`. */
export function referenceTo<T extends KubeObject>(resource: Resource<T>, object: T): ObjectReference {
  const { name, namespace, uid } = object.metadata ?? {};
  return {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    ...(namespace && { namespace }),
    ...(name && { name }),
    ...(uid && { uid }),
  };
}

/** The series as a patch needs it; `undefined` for a single event (the server refuses a count below 2). */
export function seriesOf(series: EventSeries): KubeEvent["series"] {
  if (series.count < 2) return undefined;
  return { count: series.count, lastObservedTime: toMicroTime(series.lastObservedMs) };
}

function toEvent(input: EventInput, nowMs: number, options: EventBookOptions): KubeEvent {
  const { regarding, related, type } = input;
  const reason = cutBytes(input.reason, EVENT_LIMITS.reasonBytes);
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: {
      name: eventName(regarding.name ?? "", nowMs, options.random),
      // The API accepts events about cluster-scoped objects only in `default` and in kube-system.
      namespace: regarding.namespace || "default",
    },
    eventTime: toMicroTime(nowMs),
    regarding: withNodeUid(regarding),
    ...(related && { related }),
    reason,
    action: cutBytes(input.action, EVENT_LIMITS.reasonBytes) || reason,
    note: cutBytes(input.note, EVENT_LIMITS.noteBytes),
    type,
    reportingController: options.reportingController,
    reportingInstance: options.reportingInstance,
  };
}

/**
 * `kubectl describe node` selects events by name and uid. It tries the uid of the Node, then its name as the uid, as
 * the kubelet writes it. So a reference without a uid gets the name, and kubectl finds the event.
 */
function withNodeUid(regarding: ObjectReference): ObjectReference {
  const isNode = regarding.kind === "Node" && (regarding.apiVersion ?? "v1") === "v1";
  return isNode && !regarding.uid && regarding.name ? { ...regarding, uid: regarding.name } : regarding;
}

/** A DNS subdomain of at most 253 characters, as Event names need; some object names are none (`system:x`). */
function eventName(name: string, nowMs: number, random: () => number): string {
  const parts = name
    .toLowerCase()
    .slice(0, 220)
    .split(/[^a-z0-9-]*\.[^a-z0-9-]*|[^a-z0-9-]+/);
  const base =
    parts
      .map((part) => part.replace(/^-+|-+$/g, ""))
      .filter((part) => part !== "")
      .join(".") || "object";
  const unique = Math.floor(random() * 0x1_0000_0000);
  return `${base}.${Math.floor(nowMs).toString(16)}${unique.toString(16).padStart(8, "0")}`;
}

/** Cuts to at most `maxBytes` of UTF-8, between characters, and marks the cut. */
function cutBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= maxBytes) return text;
  const room = maxBytes - Buffer.byteLength("…");
  return `${new TextDecoder().decode(bytes.subarray(0, room), { stream: true })}…`;
}

function seriesKey({ regarding, related, reason, note, type, action }: EventInput): string {
  return JSON.stringify([refKey(regarding), related && refKey(related), reason, note, type, action]);
}

function objectKey({ regarding, type }: EventInput): string {
  return JSON.stringify([refKey(regarding), type]);
}

function refKey({ apiVersion, kind, namespace, name, uid, fieldPath }: ObjectReference): unknown[] {
  return [apiVersion, kind, namespace, name, uid, fieldPath];
}

/** Makes the entry the most recently used, and returns the entry that was removed for it. */
function remember<V>(map: Map<string, V>, key: string, value: V): V | undefined {
  map.delete(key);
  map.set(key, value);
  if (map.size <= EVENT_LIMITS.maxRemembered) return undefined;
  const oldest = map.entries().next().value;
  if (oldest === undefined) return undefined;
  map.delete(oldest[0]);
  return oldest[1];
}
