import { ApiError, describeRequest, type RequestInfo } from "@berth/kube";

/**
 * A failure of several requests. The client's guard has logged it, so the receiver does not. `retryAfterMs` is the time
 * until the next attempt when the guard decides that.
 */
export class SharedFailure extends ApiError {
  /** Marks a failure of several requests. */
  readonly isShared = true;

  /** @param notSent a request that was held back because of this failure of another request. */
  constructor(
    failure: ApiError,
    retryAfterMs: number | undefined = failure.retryAfterMs,
    notSent?: RequestInfo,
  ) {
    super(failure.failure, notSent ?? failure.request, {
      cause: failure.cause,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
    // One message for one request, sent or not: conditions contain it, and must not change with each attempt.
    const isSame = notSent === undefined || describeRequest(notSent) === describeRequest(failure.request);
    this.message = isSame
      ? failure.message
      : `${describeRequest(notSent)}: not sent, because the server refuses such requests: ${failure.message}`;
  }
}

/** Whether the guard of the client has logged it. */
export function isShared(error: unknown): error is SharedFailure {
  return error instanceof SharedFailure;
}
