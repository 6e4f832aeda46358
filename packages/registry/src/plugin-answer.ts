/** What credential plugins print: kubelet's credential providers, and Docker's credential helpers. Pure. */
import { type DockerConfig, entriesOf } from "./docker-config.ts";
import { fieldOf, isRecord, type JsonLimits, parseJson } from "./json-document.ts";

/** What a credential provider answered. A fault continues the sentence "the credential provider NAME …". */
export type ProviderAnswer =
  | { readonly fault: string }
  | {
      readonly config: DockerConfig;
      readonly cacheKey: CacheKey;
      /** Absent: the provider leaves it to its configuration. */
      readonly cacheMs?: number;
    };

/** What an answer may be used for again: the same repository, the same registry, or all images of the provider. */
export type CacheKey = "Image" | "Registry" | "Global";

const LIMITS: JsonLimits = { maxBytes: 1024 * 1024, maxDepth: 64 };

/** @param apiVersion the one that the provider was asked in. */
export function parseProviderAnswer(output: Uint8Array, apiVersion: string): ProviderAnswer {
  const { value, fault } = parse(output);
  if (fault !== undefined) return { fault };
  if (fieldOf(value, "kind") !== "CredentialProviderResponse" || fieldOf(value, "apiVersion") !== apiVersion)
    return { fault: `answers with what is no CredentialProviderResponse of ${apiVersion}` };
  const cacheKey = fieldOf(value, "cacheKeyType");
  if (cacheKey !== "Image" && cacheKey !== "Registry" && cacheKey !== "Global")
    return { fault: "answers with a cacheKeyType that is not Image, Registry or Global" };
  const duration = fieldOf(value, "cacheDuration") ?? undefined;
  const cacheMs = typeof duration === "string" ? parseGoDuration(duration) : undefined;
  if (duration !== undefined && cacheMs === undefined)
    return { fault: "answers with a cacheDuration that is no duration" };
  const auth = fieldOf(value, "auth") ?? {};
  if (!isRecord(auth)) return { fault: "answers with an auth that is no object" };
  const pairs = Object.entries(auth).map(([place, one]) => {
    const [username, password] = [fieldOf(one, "username"), fieldOf(one, "password")];
    return [place, { username, password }] as const;
  });
  return { config: entriesOf(pairs), cacheKey, ...(cacheMs !== undefined && { cacheMs }) };
}

/** The user that stands for an identity token in the protocol of Docker's credential helpers. */
const TOKEN_USER = "<token>";
/** What helpers print when they have no credential (`errCredentialsNotFoundMessage` of docker-credential-helpers). */
const NOT_FOUND = "credentials not found in native keychain";

/** The credential of a helper for the place that it was asked about. `failure`: of the program. */
export function parseHelperAnswer(
  output: Buffer,
  place: string,
  failure: string | undefined,
): { readonly fault: string } | { readonly config: DockerConfig } {
  if (failure !== undefined)
    return output.toString("utf8").trim() === NOT_FOUND ? { config: entriesOf([]) } : { fault: failure };
  const { value, fault } = parse(output);
  if (fault !== undefined) return { fault };
  const [username, secret] = [fieldOf(value, "Username"), fieldOf(value, "Secret")];
  const entry = username === TOKEN_USER ? { identitytoken: secret } : { username, password: secret };
  return { config: entriesOf([[place, entry]]) };
}

function parse(output: Uint8Array): { readonly value?: unknown; readonly fault?: string } {
  const document = parseJson(output, LIMITS);
  return document.ok ? { value: document.value } : { fault: `answers with what is ${document.why}` };
}

const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/** `12h0m0s` as Go prints it, in milliseconds; `undefined` for anything else, and for negative ones. */
export function parseGoDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (!/^(?:\d{1,15}(?:\.\d{1,9})?(?:ns|us|µs|ms|s|m|h))+$/.test(text)) return undefined;
  const parts = text.matchAll(/([\d.]+)([a-zµ]+)/g);
  return parts.reduce((sum, [, count = "", unit = ""]) => sum + Number(count) * (UNITS[unit] ?? 0), 0);
}
