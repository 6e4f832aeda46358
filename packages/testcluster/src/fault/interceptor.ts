/**
 * The primitive under every rule of the HTTP proxy: a chain of interceptors around the forwarding of a request,
 * and a second one around the delivery of each watch event.
 */
import type { Readable } from "node:stream";
import type { RequestTarget } from "./request-target.ts";

/** A request as the proxy got it. Never holds a credential or a body. */
export interface ObservedRequest extends RequestTarget {
  /** 1, 2, 3 … in the order in which the proxy got the requests. */
  readonly sequence: number;
  /** `""` when none was sent. */
  readonly userAgent: string;
  /** Monotonic time of arrival, ms (`performance.now`). */
  readonly at: number;
  /** Aborts when no client waits for the answer any more: the client is gone, or it was answered. */
  readonly signal: AbortSignal;
}

/** What the client will get. */
export type Reply =
  /** The server's answer; its body is streamed. */
  | {
      readonly kind: "forwarded";
      readonly status: number;
      readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
      readonly body: Readable;
    }
  /** An answer that the server did not give. */
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    }
  /**
   * None. `stream`: RST_STREAM (INTERNAL_ERROR) for HTTP/2, which leaves the other requests of the connection alone;
   * HTTP/1.1 has no such thing, there it is the connection. `connection`: RST of TCP.
   */
  | { readonly kind: "cut"; readonly scope: "stream" | "connection"; readonly cause?: Error };

/**
 * Hands the request on: to the next interceptor, in the end to the server. Resolves when the server has begun to
 * answer, so a write has been carried out by then. Never rejects: a request whose client is gone, and one that
 * the server broke off, come back as a cut. Calling it again gives the same reply.
 */
export type Forward = () => Promise<Reply>;

/** An event of a watch, parsed. */
export interface ObservedEvent {
  /** 1, 2, 3 … in the order in which the proxy parsed events, over all watches. */
  readonly sequence: number;
  /** The watch. */
  readonly request: ObservedRequest;
  /** `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`. */
  readonly type: string;
  /** `metadata.name`, or `""`. */
  readonly objectName: string;
  /** The object as the server sent it. Changing it has no effect; answer with `send` for that. */
  readonly object: unknown;
}

/** What becomes of an event. */
export type EventReply =
  | { readonly kind: "pass" }
  | { readonly kind: "drop" }
  /** The stream is reset, before or after this event was handed to the client. */
  | { readonly kind: "cut"; readonly when: "before" | "after" }
  /** Another event in its place; with `end` the stream is ended properly after it. */
  | {
      readonly kind: "send";
      readonly event: { readonly type: string; readonly object: unknown };
      readonly end: boolean;
    };

/** Wraps a request. Without a call of `forward` the server never sees it. May wait: the client waits with it. */
export type RequestHook = (request: ObservedRequest, forward: Forward) => Promise<Reply>;

/** Wraps an event; `next` asks the next interceptor. May wait: the whole watch waits, so order is kept. */
export type EventHook = (event: ObservedEvent, next: () => Promise<EventReply>) => Promise<EventReply>;

/**
 * Sees every request, every watch event, or both. A hook that throws cuts the request or watch, and the first such
 * error is thrown again when the proxy is disposed: it is a mistake in the test.
 */
export interface Interceptor {
  readonly request?: RequestHook;
  readonly event?: EventHook;
}

/** Runs the chain, outermost first, for a request that arrived when these hooks were in place. */
export function runRequestHooks(
  hooks: readonly RequestHook[],
  request: ObservedRequest,
  send: Forward,
): Promise<Reply> {
  let sent: Promise<Reply> | undefined;
  const sendOnce: Forward = () => (sent ??= send());
  return hooks.reduceRight<Forward>((forward, hook) => async () => hook(request, forward), sendOnce)();
}

/** Runs the chain, outermost first; an event that no hook objects to passes. */
export function runEventHooks(hooks: readonly EventHook[], event: ObservedEvent): Promise<EventReply> {
  const pass = async (): Promise<EventReply> => ({ kind: "pass" });
  return hooks.reduceRight<() => Promise<EventReply>>((next, hook) => async () => hook(event, next), pass)();
}
