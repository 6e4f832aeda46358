import type { Verb } from "@berth/kube";
import type { ObservedEvent, ObservedRequest } from "./interceptor.ts";

/** Which requests a rule is about. Every field given must fit; an empty match fits every request. */
export interface RequestMatch {
  readonly verb?: Verb | readonly Verb[];
  /** Plural, with or without the group: `nodes`, `deployments`, `leases.coordination.k8s.io`. */
  readonly resource?: string;
  /** Absent: the object and all its subresources. `""`: only the object itself. */
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
  /** A string fits when the header contains it. */
  readonly userAgent?: string | RegExp;
  /** Tested against path and query as they were sent. */
  readonly path?: RegExp;
}

/** Which events of watches a rule is about: of the watches that fit, the events that fit. */
export interface WatchEventMatch extends RequestMatch {
  readonly type?: WatchEventType | readonly WatchEventType[];
  /** `metadata.name` of the object in the event; `name` is about the watch request. */
  readonly objectName?: string;
}

/** The types of events as they appear on the wire. */
export type WatchEventType = "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";

export function matchesRequest(match: RequestMatch, request: ObservedRequest): boolean {
  return (
    fitsAny(match.verb, request.verb) &&
    fitsAny(match.resource, request.resource, `${request.resource}.${request.group}`) &&
    fitsAny(match.subresource, request.subresource) &&
    fitsAny(match.namespace, request.namespace) &&
    fitsAny(match.name, request.name) &&
    fitsText(match.userAgent, request.userAgent) &&
    fitsText(match.path, request.path)
  );
}

export function matchesEvent(match: WatchEventMatch, event: ObservedEvent): boolean {
  return (
    fitsAny(match.type, event.type) &&
    fitsAny(match.objectName, event.objectName) &&
    matchesRequest(match, event.request)
  );
}

function fitsAny(wanted: string | readonly string[] | undefined, ...values: readonly string[]): boolean {
  if (wanted === undefined) return true;
  return values.some((value) => (typeof wanted === "string" ? wanted === value : wanted.includes(value)));
}

function fitsText(wanted: string | RegExp | undefined, value: string): boolean {
  if (wanted === undefined) return true;
  // `search` does not move `lastIndex`, so a pattern with the g flag does not skip every other request.
  return typeof wanted === "string" ? value.includes(wanted) : value.search(wanted) >= 0;
}
