/**
 * Bearer tokens of registries (distribution specification, "Token Authentication" and its OAuth2 variant). Each
 * credential requests one token per scope and keeps it in memory until shortly before it expires.
 */
import { Deadline } from "./deadline.ts";
import type { Endpoint } from "./endpoints.ts";
import { ExchangeError } from "./exchange-error.ts";
import type { RegistryFailureKind } from "./failure.ts";
import { RecentMap } from "./recent-map.ts";
import { refusal } from "./refusal.ts";
import { type Answer, type Transport, whyNotFollow } from "./transport.ts";
import type { RegistryCredential } from "./types.ts";

/** The purpose of a token. */
export interface TokenQuestion {
  readonly endpoint: Endpoint;
  /** Server, repository and credential, as a digest. Only this asker gets the token. */
  readonly asker: string;
  /** As the registry named it; checked in this file. */
  readonly realm: string;
  /** A server at a public address named the realm. */
  readonly byPublic: boolean;
  readonly service: string | undefined;
  /** `repository:library/nginx:pull` */
  readonly scope: string;
  readonly credential: RegistryCredential | undefined;
}

export interface Token {
  readonly token: string;
  /** This call requested it. */
  readonly fresh: boolean;
}

/** The specification's default for an answer without a lifetime. */
const DEFAULT_LIFE_S = 60;
/** A withdrawn right must not work for longer than this. */
const MAX_LIFE_S = 60 * 60;
/** Unused in its last 10 s (at most a sixth of its life), for clock differences and network delays. */
const MARGIN_MS = 10_000;
const MAX_TOKENS = 1_000;
const MAX_ANSWER_BYTES = 1024 * 1024;
/** Servers take headers of 8 to 64 KiB. */
const MAX_TOKEN_LENGTH = 32 * 1024;
const CLIENT_ID = "berth";

/** The clocks of the client. */
export interface RegistryClock {
  /** Ms since 1970. */
  now(): number;
  /** Never jumps, ms. */
  monotonic(): number;
}

interface Kept {
  readonly token: string;
  readonly until: number;
}

export class TokenStore {
  readonly #transport: Transport;
  readonly #clock: RegistryClock;
  readonly #closing: AbortSignal;
  readonly #kept: RecentMap<string, Kept> = new RecentMap(MAX_TOKENS);
  readonly #underWay: Map<string, Promise<string>> = new Map();

  constructor(transport: Transport, clock: RegistryClock, closing: AbortSignal) {
    this.#transport = transport;
    this.#clock = clock;
    this.#closing = closing;
  }

  /**
   * Callers with the same question share one request. It goes on when one of them gives up.
   * @throws ExchangeError
   */
  async get(question: TokenQuestion, deadline: Deadline): Promise<Token> {
    const key = keyOf(question);
    const kept = this.#kept.get(key);
    if (kept !== undefined && this.#clock.monotonic() < kept.until)
      return { token: kept.token, fresh: false };
    let asked = this.#underWay.get(key);
    if (asked === undefined) {
      asked = this.#ask(question, key).finally(() => this.#underWay.delete(key));
      this.#underWay.set(key, asked);
    }
    return { token: await deadline.race(asked), fresh: true };
  }

  /** Call it for a refused token. A newer token stays. */
  forget(question: TokenQuestion, token: string): void {
    const key = keyOf(question);
    if (this.#kept.get(key)?.token === token) this.#kept.delete(key);
  }

  async #ask(question: TokenQuestion, key: string): Promise<string> {
    const realm = this.#realmOf(question);
    const askedAt = this.#clock.monotonic();
    const answer = await this.#transport.send(toExchange(question, realm), this.#closing);
    const { token, lifeMs } = parseAnswer(
      { ...answer, elsewhere: answer.elsewhere || realm.origin !== question.endpoint.origin },
      realm.host,
      this.#clock.now(),
    );
    const until = askedAt + lifeMs - Math.min(MARGIN_MS, lifeMs / 6);
    this.#kept.set(key, { token, until });
    return token;
  }

  /**
   * A registry may send its own credentials to any token service that it names, as every client allows: `docker.io`
   * names `auth.docker.io`. The service must use https. Only a registry that uses plain http itself may name a plain
   * http service, and the configuration must list that service.
   */
  #realmOf({ endpoint, realm }: TokenQuestion): URL {
    const refuse = (what: string): ExchangeError =>
      new ExchangeError("malformed", `${endpoint.host} redirects for tokens ${what}`);
    if (!URL.canParse(realm)) throw refuse("to a target that is not a URL");
    const url = new URL(realm);
    const why = whyNotFollow(url, endpoint);
    if (why !== undefined) throw refuse(why);
    if (url.protocol === "http:" && !this.#transport.isListed(url.origin))
      throw refuse("to plain http on a host that the configuration does not list");
    url.hash = "";
    return url;
  }
}

/** RFC 7617; `undefined` for a credential without name and password. */
export function basicOf({ username, password }: RegistryCredential): string | undefined {
  if (username === undefined && password === undefined) return undefined;
  return `Basic ${Buffer.from(`${username ?? ""}:${password ?? ""}`, "utf8").toString("base64")}`;
}

/** Whether a header may hold the token (`b64token` of RFC 6750, and other visible characters). */
export function isToken(text: unknown): text is string {
  return typeof text === "string" && text.length <= MAX_TOKEN_LENGTH && /^[\x21-\x7e]+$/.test(text);
}

function keyOf({ asker, realm, service, scope }: TokenQuestion): string {
  return JSON.stringify([asker, realm, service, scope]);
}

function toExchange(question: TokenQuestion, realm: URL): Parameters<Transport["send"]>[0] {
  const { endpoint, byPublic, service, scope, credential } = question;
  const common = {
    kind: "token",
    endpoint,
    byPublic,
    accept: "application/json",
    maxBytes: MAX_ANSWER_BYTES,
  } as const;
  if (credential?.identityToken !== undefined) {
    const form = new URLSearchParams({
      ...(service === undefined ? {} : { service }),
      scope,
      grant_type: "refresh_token",
      client_id: CLIENT_ID,
      refresh_token: credential.identityToken,
    });
    return { ...common, method: "POST", url: realm.href, form: form.toString(), authorization: undefined };
  }
  const url = new URL(realm);
  if (service !== undefined) url.searchParams.append("service", service);
  // Spaces separate scopes in the challenge and in a form; a query repeats the parameter.
  for (const one of scope.split(" ")) url.searchParams.append("scope", one);
  const authorization = credential === undefined ? undefined : basicOf(credential);
  return { ...common, method: "GET", url: url.href, authorization };
}

function parseAnswer(
  answer: Answer,
  host: string,
  now: number,
): { readonly token: string; readonly lifeMs: number } {
  const { status, bytes } = answer;
  const named = `its token service ${host}`;
  if (status < 200 || status > 299) throw refusal(answer, named, now, kindOf(status));
  const document = parseObject(bytes);
  const token = [document?.["token"], document?.["access_token"]].find(isToken);
  if (token === undefined) throw new ExchangeError("malformed", `${named} answers with no token`);
  const stated = document?.["expires_in"];
  const seconds = typeof stated === "number" && stated > 0 ? Math.min(stated, MAX_LIFE_S) : DEFAULT_LIFE_S;
  return { token, lifeMs: seconds * 1000 };
}

/** With 400 OAuth2 refuses a refresh token (RFC 6749 section 5.2). A 404 says nothing about the image. */
function kindOf(status: number): RegistryFailureKind | undefined {
  if (status === 400) return "unauthorized";
  return status === 404 ? "malformed" : undefined;
}

function parseObject(bytes: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
