/**
 * Every failure of a request, as one closed union that this package creates. Callers never read HTTP status numbers:
 * they check `failure.kind` and `retry`.
 */

/** The verbs of Kubernetes authorization, so that a refusal can be turned into an RBAC rule. */
export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

/** The request: enough to name the object in a message, never a credential or a body. */
export interface RequestInfo {
  readonly verb: Verb;
  /** `nodes`, `deployments.apps`, or a path such as `/version`. */
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
  /** The path of `KubeClient.under`, for a client that has one. */
  readonly under?: string;
  /** `ConnectOptions.cluster`, for a client that has one. */
  readonly cluster?: string;
}

/** One entry of `Status.details.causes`: which field, which rule, in the server's words. */
export interface FailureCause {
  readonly field?: string;
  readonly reason?: string;
  readonly message?: string;
}

/** The kinds of failure, one for each reaction of a caller. */
export type ApiFailure =
  /** 404 for a named object or an API that is not served. */
  | { readonly kind: "notFound" }
  /** 409 with reason AlreadyExists. */
  | { readonly kind: "alreadyExists" }
  /** 409: the resourceVersion sent is not the current one, or apply found another field manager. */
  | { readonly kind: "conflict"; readonly causes: readonly FailureCause[] }
  /** 422 whose only cause is `metadata.uid`, or 409 to an apply: the object was deleted, or made again under the same name. */
  | { readonly kind: "uidMismatch" }
  /** 422, and 400 for a body the server cannot take. */
  | { readonly kind: "invalid"; readonly causes: readonly FailureCause[] }
  /** 401, after one refresh of the credential. */
  | { readonly kind: "unauthorized" }
  /**
   * 403. With `ofObject`, admission refused this object (a policy, a quota), and the server may accept others.
   * Otherwise the permission is missing, or a server that has just started does not know of it yet.
   */
  | { readonly kind: "forbidden"; readonly ofObject?: true }
  /** 410, and an ERROR watch event with code 410: the resourceVersion or continue token is too old. */
  | { readonly kind: "expired" }
  /** 429, from priority and fairness or a PodDisruptionBudget. */
  | { readonly kind: "tooManyRequests"; readonly causes: readonly FailureCause[] }
  /** 405 and 415: this server does not support the request. */
  | { readonly kind: "unsupported" }
  /** Any other answer of the server: 5xx, and codes without a rule of their own. */
  | { readonly kind: "serverError"; readonly status: number }
  /** No answer within the deadline of the request. */
  | { readonly kind: "timeout"; readonly afterMs: number }
  /**
   * No connection could be made (`noConnection`; `silent`: nothing answered the attempt), one side did not accept the
   * certificate of the other (`tls`), or a connection broke before the answer was complete.
   */
  | {
      readonly kind: "unreachable";
      readonly noConnection?: true;
      readonly silent?: true;
      readonly tls?: true;
    }
  /** An answer of the wrong form: not JSON, larger than the bound, cut off. */
  | { readonly kind: "undecodable" }
  /** No usable credential: the exec plugin failed, the token file cannot be read. */
  | { readonly kind: "credential" }
  /** The caller's own AbortSignal. */
  | { readonly kind: "aborted" };

/**
 * What a caller may do about a failure:
 * - `backoff`: the same request may work later (after `retryAfterMs` when the server named a time);
 * - `refresh`: read the object again, decide again, then send a new request;
 * - `never`: the server will refuse the same request again until a user changes something.
 */
export type RetryPolicy = "backoff" | "refresh" | "never";

const RETRY_BY_KIND: Readonly<Record<ApiFailure["kind"], RetryPolicy>> = {
  notFound: "refresh",
  alreadyExists: "refresh",
  conflict: "refresh",
  uidMismatch: "refresh",
  invalid: "never",
  unauthorized: "backoff",
  forbidden: "backoff",
  expired: "refresh",
  tooManyRequests: "backoff",
  unsupported: "never",
  serverError: "backoff",
  timeout: "backoff",
  unreachable: "backoff",
  undecodable: "backoff",
  credential: "backoff",
  aborted: "never",
};

/** Further details from the server. */
export interface ApiErrorOptions {
  /** The server's own sentence (`Status.message`), already free of headers and tokens. */
  readonly message?: string;
  /** Milliseconds the server asked us to wait: `Retry-After`, or `details.retryAfterSeconds`. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** The only error that `@berth/kube` throws for a request. Its message names the verb, the object and the reason. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly failure: ApiFailure;
  readonly request: RequestInfo;
  readonly retry: RetryPolicy;
  readonly retryAfterMs: number | undefined;

  constructor(failure: ApiFailure, request: RequestInfo, options: ApiErrorOptions = {}) {
    super(
      describe(failure, request, options.message),
      options.cause === undefined ? {} : { cause: options.cause },
    );
    this.failure = failure;
    this.request = request;
    this.retry = RETRY_BY_KIND[failure.kind];
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Is this an `ApiError`, of one of these kinds when any are named? */
export function isApiError(error: unknown, ...kinds: readonly ApiFailure["kind"][]): error is ApiError {
  return error instanceof ApiError && (kinds.length === 0 || kinds.includes(error.failure.kind));
}

/**
 * Did the server refuse this very object, by validation or by admission? It may accept another object, or other
 * content.
 */
export function isRefusalOfObject(error: unknown): boolean {
  if (!isApiError(error, "invalid", "forbidden")) return false;
  return (
    error.failure.kind === "invalid" ||
    (error.failure.kind === "forbidden" && error.failure.ofObject === true)
  );
}

/**
 * `patch nodes "n1"`, `list pods in "kube-system"`, `create leases.coordination.k8s.io "a" in "b" under /some/path`,
 * `get nodes "n1" of cluster dfw-01`.
 */
export function describeRequest(request: RequestInfo): string {
  const resource = request.subresource ? `${request.resource}/${request.subresource}` : request.resource;
  const name = request.name === undefined ? "" : ` "${request.name}"`;
  const where = request.namespace ? ` in "${request.namespace}"` : "";
  const under = request.under === undefined ? "" : ` under ${request.under}`;
  const of = request.cluster === undefined ? "" : ` of cluster ${request.cluster}`;
  return `${request.verb} ${resource}${name}${where}${under}${of}`;
}

const EXPLANATION: Readonly<Record<ApiFailure["kind"], string>> = {
  notFound: "not found",
  alreadyExists: "it exists already",
  conflict: "another writer changed it meanwhile",
  uidMismatch: "it was deleted, or made again under the same name",
  invalid: "the server refused the content",
  unauthorized: "the server did not accept the credential",
  forbidden: "the server's authorization refused it",
  expired: "the server no longer holds that version",
  tooManyRequests: "the server asked to slow down",
  unsupported: "the server does not support it",
  serverError: "the server failed",
  timeout: "no answer in time",
  unreachable: "the server could not be reached",
  undecodable: "the answer could not be read",
  credential: "no usable credential",
  aborted: "stopped by the caller",
};

function explain(failure: ApiFailure): string {
  const isOwned = failure.kind === "conflict" && failure.causes.some(({ reason }) => reason === OWNED);
  return isOwned ? "another field manager owns fields of it" : EXPLANATION[failure.kind];
}

/** Of a cause of a refused apply (apimachinery `CauseTypeFieldManagerConflict`). */
const OWNED = "FieldManagerConflict";

function describe(failure: ApiFailure, request: RequestInfo, message: string | undefined): string {
  const status = failure.kind === "serverError" ? ` (HTTP ${failure.status})` : "";
  const after = failure.kind === "timeout" ? ` (${failure.afterMs} ms)` : "";
  const said = message ? `: ${message}` : "";
  return `${describeRequest(request)}: ${explain(failure)}${status}${after}${said}`;
}
