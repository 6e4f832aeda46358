import { createConditions } from "./conditions.ts";
import type { EventReply, Interceptor, ObservedEvent, ObservedRequest, Reply } from "./interceptor.ts";

/** An action that keeps requests, or watches at an event, waiting until told otherwise. */
export interface Hold extends Interceptor {
  /** Holds a request before it is forwarded, until it is released. */
  request(request: ObservedRequest, forward: () => Promise<Reply>): Promise<Reply>;
  /** Holds an event of a watch before it is delivered, and all behind it on that watch. */
  event(event: ObservedEvent, next: () => Promise<EventReply>): Promise<EventReply>;
  /** What is held now, in the order of arrival. */
  readonly held: readonly (ObservedRequest | ObservedEvent)[];
  /** Resolves as soon as `count` (default 1) are held at the same time. */
  until(count?: number): Promise<void>;
  /** Lets the one held longest go on; `false` when none is held. */
  releaseNext(): boolean;
  /** Lets all go on, and from now on holds nothing. */
  release(): void;
}

/**
 * Holds until `release`. What is held goes on by itself when its client is gone, or the proxy closes; the request
 * is then not forwarded.
 */
export function hold(): Hold {
  const held = new Map<ObservedRequest | ObservedEvent, () => void>();
  const conditions = createConditions();
  let released = false;

  async function wait(item: ObservedRequest | ObservedEvent, signal: AbortSignal): Promise<void> {
    if (released || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve(), { once: true });
    held.set(item, resolve);
    conditions.changed();
    await promise;
    held.delete(item);
  }

  return {
    async request(request, forward) {
      await wait(request, request.signal);
      return forward();
    },
    async event(event, next) {
      await wait(event, event.request.signal);
      return next();
    },
    get held() {
      return [...held.keys()];
    },
    until: (count = 1) => conditions.until(() => held.size >= count),
    releaseNext() {
      const [first] = held;
      if (!first) return false;
      held.delete(first[0]);
      first[1]();
      return true;
    },
    release() {
      released = true;
      for (const letGo of held.values()) letGo();
    },
  };
}
