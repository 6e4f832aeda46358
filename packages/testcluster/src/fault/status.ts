import type { FailureCause } from "@berth/kube";
import type { ObservedRequest, Reply } from "./interceptor.ts";

/** What an injected failure says beside its HTTP status. */
export interface StatusOptions {
  /** `Status.reason`; default: what kube-apiserver says with this status. */
  readonly reason?: string;
  readonly message?: string;
  readonly causes?: readonly FailureCause[];
  /** Seconds; sent as the `Retry-After` header and as `details.retryAfterSeconds`. */
  readonly retryAfterSeconds?: number;
  /** A line of text in place of the Status object: how priority and fairness sends its 429. */
  readonly plainText?: boolean;
}

/** metav1.StatusReason of k8s.io/apimachinery, for the codes that have one. */
const REASON_OF_STATUS: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  406: "NotAcceptable",
  409: "Conflict",
  410: "Expired",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** The `metav1.Status` of a failure of this request. */
export function statusObject(
  status: number,
  request: ObservedRequest,
  options: StatusOptions = {},
): Readonly<Record<string, unknown>> {
  const reason = options.reason ?? REASON_OF_STATUS[status];
  const causes = options.causes?.map(({ field, reason, message }) => ({ field, reason, message }));
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: options.message ?? messageFor(status, request),
    ...(reason === undefined ? {} : { reason }),
    details: {
      ...(request.name ? { name: request.name } : {}),
      ...(request.group ? { group: request.group } : {}),
      ...(request.resource ? { kind: request.resource } : {}),
      ...(causes ? { causes } : {}),
      ...(options.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: options.retryAfterSeconds }),
    },
    code: status,
  };
}

/** An answer with that status, as kube-apiserver would write it. */
export function statusReply(status: number, request: ObservedRequest, options: StatusOptions = {}): Reply {
  const { retryAfterSeconds, plainText = false } = options;
  return {
    kind: "answer",
    status,
    headers: {
      "content-type": plainText ? "text/plain; charset=utf-8" : "application/json",
      ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
    },
    body: plainText
      ? `${options.message ?? messageFor(status, request)}\n`
      : `${JSON.stringify(statusObject(status, request, options))}\n`,
  };
}

function messageFor(status: number, { verb, resource, name }: ObservedRequest): string {
  return `injected fault: ${verb} ${resource}${name && ` "${name}"`} answered with ${status}`;
}
