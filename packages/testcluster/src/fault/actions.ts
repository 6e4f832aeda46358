/** What a rule may do to a request or to a watch event. An action is an interceptor without a condition. */
import type { FailureCause } from "@berth/kube";
import type { EventHook, EventReply, ObservedRequest, Reply, RequestHook } from "./interceptor.ts";
import { type StatusOptions, statusObject, statusReply } from "./status.ts";

/** For `proxy.on`. */
export interface RequestAction {
  readonly request: RequestHook;
}

/** For `proxy.onWatchEvent`. */
export interface EventAction {
  readonly event: EventHook;
}

/** How much a cut takes with it; see `Reply`. Default `stream`. */
export interface CutOptions {
  readonly scope?: "stream" | "connection";
}

/** The server never sees the request; the client gets this status with a `metav1.Status` body. */
export function answer(status: number, options: StatusOptions = {}): RequestAction {
  return { request: async (request) => statusReply(status, request, options) };
}

/** 409 with reason Conflict. */
export function conflict(options: Omit<StatusOptions, "reason"> = {}): RequestAction {
  return answer(409, options);
}

/** 422 with these causes: which field, which rule, in words. */
export function invalid(causes: readonly FailureCause[]): RequestAction {
  return answer(422, { causes });
}

/** 429 with `Retry-After`. With `plainText` as priority and fairness sends it, else as an eviction is refused. */
export function tooManyRequests(
  retryAfterSeconds: number,
  options: Pick<StatusOptions, "plainText" | "causes"> = {},
): RequestAction {
  return answer(429, { ...options, retryAfterSeconds });
}

/** 500. */
export function internalError(): RequestAction {
  return answer(500);
}

/** 410 with reason Expired: the resourceVersion or continue token of the request is too old. */
export function expired(): RequestAction {
  return answer(410);
}

/** The server carries the request out, and the client is told that it failed. */
export function answerAfterForwarding(status: number, options: StatusOptions = {}): RequestAction {
  return { request: (request, forward) => after(forward, () => statusReply(status, request, options)) };
}

/** The server never sees the request; the client's stream or connection is reset. */
export function cutBefore({ scope = "stream" }: CutOptions = {}): RequestAction {
  return { request: async () => ({ kind: "cut", scope }) };
}

/** The server carries the request out, and the client's stream or connection is reset without an answer. */
export function cutAfterForwarding({ scope = "stream" }: CutOptions = {}): RequestAction {
  return { request: (_request, forward) => after(forward, () => ({ kind: "cut", scope })) };
}

/**
 * 200 with a body that cannot be read, without asking the server. `text`: a page of HTML, as a captive portal or
 * load balancer sends; `truncated`: JSON that stops in the middle, in a response that is complete for HTTP.
 */
export function garbage(body: "text" | "truncated" = "text"): RequestAction {
  return { request: async (request) => garbageReply(body, request) };
}

/** Requests are forwarded, and events delivered, this much later. Order within a watch is kept: it waits as a whole. */
export function delay(ms: number): RequestAction & EventAction {
  return {
    async request(request, forward) {
      await pause(ms, request.signal);
      return forward();
    },
    async event(event, next) {
      await pause(ms, event.request.signal);
      return next();
    },
  };
}

/** The client never gets the event. The watch goes on, so its cache stays wrong until the next event of the object. */
export function dropEvent(): EventAction {
  return { event: async () => ({ kind: "drop" }) };
}

/**
 * The watch is reset before the event reaches the client, or right after. A client that waits for the event has it
 * before the reset; one that is busy with something else may never see it, for HTTP clients drop what they hold unread
 * of a stream that is reset.
 */
export function cutStream(when: "before" | "after"): EventAction {
  return { event: async () => ({ kind: "cut", when }) };
}

/** In place of the event the client gets an ERROR event with this status (default 410), and the stream ends. */
export function errorEvent(status = 410, options: StatusOptions = {}): EventAction {
  return {
    event: async ({ request }): Promise<EventReply> => ({
      kind: "send",
      event: { type: "ERROR", object: statusObject(status, request, options) },
      end: true,
    }),
  };
}

/** The reply of the fault, unless the server itself failed to answer: then that cut stands. */
async function after(forward: () => Promise<Reply>, fault: () => Reply): Promise<Reply> {
  const reply = await forward();
  return reply.kind === "cut" ? reply : fault();
}

function garbageReply(body: "text" | "truncated", { resource }: ObservedRequest): Reply {
  return body === "text"
    ? {
        kind: "answer",
        status: 200,
        headers: { "content-type": "text/html" },
        body: "<html><body>Please sign in</body></html>\n",
      }
    : {
        kind: "answer",
        status: 200,
        headers: { "content-type": "application/json" },
        body: `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"kind":"${resource}","met`,
      };
}

/** Resolves after `ms`, or as soon as no caller waits any more. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
