import type { EventAction, RequestAction } from "./actions.ts";
import type { Conditions } from "./conditions.ts";
import type { Interceptor } from "./interceptor.ts";
import { matchesEvent, matchesRequest, type RequestMatch, type WatchEventMatch } from "./match.ts";

/** How often a rule applies. */
export interface RuleOptions {
  /** Acts on the first so many that fit, then no more. Default: on all. */
  readonly times?: number;
}

/** A rule in force. Dispose to end it; what it already holds stays held. */
export interface Rule extends Disposable {
  /** How many requests or events it has acted on. */
  readonly hits: number;
  /** Resolves once it has acted on so many (default 1). */
  until(hits?: number): Promise<void>;
}

interface Interceptable {
  intercept(interceptor: Interceptor): Disposable;
}

export function createRequestRule(
  proxy: Interceptable,
  conditions: Conditions,
  match: RequestMatch,
  action: RequestAction,
  options: RuleOptions = {},
): Rule {
  const hits = createHits(conditions, options);
  const installed = proxy.intercept({
    request: (request, forward) =>
      matchesRequest(match, request) && hits.take() ? action.request(request, forward) : forward(),
  });
  return toRule(hits, installed);
}

export function createEventRule(
  proxy: Interceptable,
  conditions: Conditions,
  match: WatchEventMatch,
  action: EventAction,
  options: RuleOptions = {},
): Rule {
  const hits = createHits(conditions, options);
  const installed = proxy.intercept({
    event: (event, next) => (matchesEvent(match, event) && hits.take() ? action.event(event, next) : next()),
  });
  return toRule(hits, installed);
}

interface Hits {
  readonly count: number;
  /** Counts one, if the rule still acts. */
  take(): boolean;
  until(count: number): Promise<void>;
  end(): void;
}

function createHits(conditions: Conditions, { times = Number.POSITIVE_INFINITY }: RuleOptions): Hits {
  let count = 0;
  let ended = false;
  return {
    get count() {
      return count;
    },
    take() {
      if (ended || count >= times) return false;
      count += 1;
      conditions.changed();
      return true;
    },
    until: (wanted) => conditions.until(() => count >= wanted),
    end() {
      ended = true;
    },
  };
}

function toRule(hits: Hits, installed: Disposable): Rule {
  return {
    get hits() {
      return hits.count;
    },
    until: (count = 1) => hits.until(count),
    [Symbol.dispose]() {
      hits.end();
      installed[Symbol.dispose]();
    },
  };
}
