import type { Dispatcher } from "undici";
import {
  ApiError,
  type ApiErrorOptions,
  type ApiFailure,
  type FailureCause,
  type RequestInfo,
} from "./failure.ts";
import { isProtobuf, statusIn } from "./protobuf/decoder.ts";

/** An error answer is a `Status` of a few hundred bytes. Anything longer is a proxy's page and is cut. */
export const MAX_ERROR_BYTES: number = 256 * 1024;

/**
 * Admission answers `pods "x" is forbidden: exceeded quota …` or `admission webhook "y" denied the request: …`, and
 * every authorizer `nodes "x" is forbidden: User "y" cannot patch resource …` (apiserver, `responsewriters`). Only the
 * message text distinguishes them.
 */
const OF_OBJECT =
  /^(?:\S+ (?:"[^"]*" )?is forbidden: (?!User ")|admission webhook "[^"]*" denied the request)/;

interface StatusBody {
  readonly kind?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: { readonly causes?: readonly FailureCause[]; readonly retryAfterSeconds?: number };
}

/** Converts an error answer to an `ApiError`. */
export function toApiError(
  { statusCode, headers }: Pick<Dispatcher.ResponseData, "statusCode" | "headers">,
  body: Buffer,
  request: RequestInfo,
): ApiError {
  const status: StatusBody = isProtobuf(body) ? statusIn(body) : parseStatus(body.toString("utf8"));
  return new ApiError(toFailure(statusCode, status), request, options(status, headers["retry-after"]));
}

/** The ERROR event of a watch carries a `Status` too. */
export function fromStatusObject(object: unknown, request: RequestInfo): ApiError {
  const status = (typeof object === "object" && object !== null ? object : {}) as StatusBody;
  return new ApiError(toFailure(status.code ?? 500, status), request, options(status, undefined));
}

function options(status: StatusBody, retryAfter: string | readonly string[] | undefined): ApiErrorOptions {
  const header = Number(Array.isArray(retryAfter) ? retryAfter[0] : retryAfter);
  const seconds = Number.isFinite(header) && header > 0 ? header : status.details?.retryAfterSeconds;
  return {
    ...(status.message === undefined ? {} : { message: status.message }),
    ...(seconds === undefined || seconds <= 0 ? {} : { retryAfterMs: seconds * 1000 }),
  };
}

/** The failure for an HTTP status and its `Status`. The codes are those of apimachinery's `api/errors`. */
export function toFailure(code: number, status: StatusBody): ApiFailure {
  const causes = status.details?.causes ?? [];
  switch (code) {
    case 400:
      return { kind: "invalid", causes };
    case 401:
      return { kind: "unauthorized" };
    case 403:
      return OF_OBJECT.test(status.message ?? "")
        ? { kind: "forbidden", ofObject: true }
        : { kind: "forbidden" };
    case 404:
      return { kind: "notFound" };
    case 405:
    case 415:
      return { kind: "unsupported" };
    case 409:
      if (status.reason === "AlreadyExists") return { kind: "alreadyExists" };
      // An apply with the uid of a deleted object (apiserver, `applyPatcher.createNewObject`). Only the text shows it.
      return status.message?.includes(": uid mismatch: ") === true
        ? { kind: "uidMismatch" }
        : { kind: "conflict", causes };
    case 410:
      return { kind: "expired" };
    case 422:
      return causes.length > 0 && causes.every(({ field }) => field === "metadata.uid")
        ? { kind: "uidMismatch" }
        : { kind: "invalid", causes };
    case 429:
      return { kind: "tooManyRequests", causes };
    default:
      // Old etcd proxies send 500 for a too old resourceVersion of a list; the reason is still right.
      return status.reason === "Expired" ? { kind: "expired" } : { kind: "serverError", status: code };
  }
}

function parseStatus(text: string): StatusBody {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && (body as StatusBody).kind === "Status") return body;
  } catch {
    // The answer of a proxy or load balancer, not of the API server.
  }
  const line = text.trim().split("\n", 1)[0]?.slice(0, 200) ?? "";
  return line === "" || line.startsWith("<") ? {} : { message: line };
}

/** What arrives of the stream of an error answer. Never rejects. */
export async function readBounded(body: Dispatcher.ResponseData["body"]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk as Buffer);
      size += (chunk as Buffer).length;
      if (size > MAX_ERROR_BYTES) break;
    }
  } catch {
    // The status code alone still classifies the failure.
  }
  return Buffer.concat(chunks);
}
