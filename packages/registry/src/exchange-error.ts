/** A failed question to one server. The error does not know the image or the other servers. */
import { errors } from "undici";
import type { RegistryFailureKind } from "./failure.ts";

/** For this package only: `client.ts` turns it into a RegistryError that names the image and a remedy. */
export class ExchangeError extends Error {
  override readonly name = "ExchangeError";
  readonly kind: RegistryFailureKind;
  /** Half a sentence that continues "it cannot be read: ". Without credentials, bodies, or queries of URLs. */
  readonly why: string;
  readonly retryAfterMs?: number;
  /** The server refused, the connection worked: another credential may help. */
  readonly refused: boolean;
  /** The failed server is neither configured nor in the image name: an answer led to it. */
  readonly elsewhere: boolean;

  constructor(
    kind: RegistryFailureKind,
    why: string,
    details: {
      readonly retryAfterMs?: number | undefined;
      readonly refused?: boolean;
      readonly elsewhere?: boolean;
    } = {},
  ) {
    super(why);
    this.kind = kind;
    this.why = why;
    this.refused = details.refused ?? false;
    this.elsewhere = details.elsewhere ?? false;
    if (details.retryAfterMs !== undefined) this.retryAfterMs = details.retryAfterMs;
  }
}

/** Half a sentence after the name of a host. It quotes no sent or received data, which errors may hold. */
export function reasonOf(cause: unknown): string {
  const code = codeOf(cause);
  if (
    cause instanceof errors.HTTPParserError ||
    /^(HPE_|UND_ERR_(HEADERS_OVERFLOW|RES_|RESPONSE|INVALID_RETURN|INFO))/.test(code)
  )
    return "does not answer in HTTP as it should be";
  if (/SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY)|CERT_UNTRUSTED/.test(code))
    return "shows a certificate of an authority that is not trusted: configure it for this registry";
  if (code.startsWith("ERR_SSL_")) return NO_TLS;
  return REASONS.get(code) ?? `cannot be reached${code === "" ? "" : ` (${code})`}`;
}

/** The same where a proxy carries the connection. What fails before the handshake with the server is the proxy's. */
export function reasonThroughProxy(cause: unknown, proxy: string): string {
  const status = /^Proxy (?:response|Authentication Required) \((\d{3})\)/.exec(messageOf(cause))?.[1];
  if (status === "407") return `cannot be reached: the proxy ${proxy} wants a login, or another one`;
  if (status !== undefined) return `cannot be reached: the proxy ${proxy} refuses with status ${status}`;
  const reason = reasonOf(cause);
  return /certificate|https|address/.test(reason)
    ? reason
    : `cannot be reached: the proxy ${proxy} ${reason}`;
}

/** undici has no code for a proxy that refuses. */
function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : "";
}

/** Of a server that answers, and not in TLS: most likely in plain http. */
const NO_TLS = "does not speak https";

export function speaksPlain({ why, elsewhere }: ExchangeError): boolean {
  return !elsewhere && why.endsWith(NO_TLS);
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ["ENOTFOUND", "is a name that does not resolve"],
  ["EAI_AGAIN", "is a name that does not resolve at the moment"],
  ["ECONNREFUSED", "refuses the connection"],
  ["EHOSTUNREACH", "has no route to it"],
  ["ENETUNREACH", "has no route to it"],
  ["ECONNRESET", "broke off the connection"],
  ["EPIPE", "broke off the connection"],
  ["UND_ERR_SOCKET", "broke off the connection"],
  ["ETIMEDOUT", "does not answer in time"],
  ["UND_ERR_CONNECT_TIMEOUT", "does not answer in time"],
  ["CERT_HAS_EXPIRED", "shows a certificate that has expired"],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "shows a certificate for another name"],
  ["EPROTO", NO_TLS],
  ["ERR_IP_BLOCKED", "is at an address that is connected to only if the host is configured"],
]);

/** Node nests the useful error inside an AggregateError when a name has several addresses. */
function codeOf(cause: unknown): string {
  const error: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && /^[A-Z0-9_]{1,64}$/.test(code) ? code : "";
}
