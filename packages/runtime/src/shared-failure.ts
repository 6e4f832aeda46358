import { ApiError, describeRequest, type RequestInfo } from "@berth/kube";

/**
 * A failure that concerns more requests than this one. The guard of the client has logged it, so its receiver does
 * not; `retryAfterMs` is the time until the next attempt, when the guard decides that.
 */
export class SharedFailure extends ApiError {
  /** Of several requests. */
  readonly isShared = true;

  /** @param notSent a request that was held back because of this failure of another one. */
  constructor(
    failure: ApiError,
    retryAfterMs: number | undefined = failure.retryAfterMs,
    notSent?: RequestInfo,
  ) {
    super(failure.failure, notSent ?? failure.request, {
      cause: failure.cause,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
    // One message for one request, sent or not: conditions are made of it, and must not change with each attempt.
    const isSame = notSent === undefined || describeRequest(notSent) === describeRequest(failure.request);
    this.message = isSame
      ? failure.message
      : `${describeRequest(notSent)}: not sent, because the server refuses such requests: ${failure.message}`;
  }
}

/** Has the guard of the client logged it? */
export function isShared(error: unknown): error is SharedFailure {
  return error instanceof SharedFailure;
}
