/** Chooses the `Authorization` of a request from a registry's present or earlier challenges. */
import { createHash } from "node:crypto";
import { type Challenge, parseChallenges } from "./challenge.ts";
import type { Deadline } from "./deadline.ts";
import type { Endpoint } from "./endpoints.ts";
import { ExchangeError } from "./exchange-error.ts";
import { RecentMap } from "./recent-map.ts";
import { basicOf, isToken, type TokenQuestion, type TokenStore } from "./token.ts";
import type { Answer } from "./transport.ts";
import type { RegistryCredential } from "./types.ts";

/** The server, repository and credential of a request. */
export interface Asker {
  readonly endpoint: Endpoint;
  /** Named as on that server, with its prefix. */
  readonly repository: string;
  readonly credential: RegistryCredential | undefined;
}

/** The header to send, and whether a further attempt could give another one. */
export interface Authorization {
  readonly header: string | undefined;
  readonly question?: TokenQuestion;
  readonly token?: string;
  readonly fresh: boolean;
}

const NONE: Authorization = { header: undefined, fresh: false };

/** The earlier challenge of a server, so that the next request of the same asker includes the answer. */
type Custom =
  | { readonly scheme: "basic" }
  | {
      readonly scheme: "bearer";
      readonly realm: string;
      /** A server at a public address named the realm. */
      readonly byPublic: boolean;
      readonly service: string | undefined;
      readonly scope: string;
    };

const MAX_ASKERS = 1_000;
const MAX_PARAMETER_LENGTH = 2048;

/**
 * A challenge counts only for the server, repository and credential that it answered. Otherwise the owner of one
 * repository could redirect the credentials of the others.
 */
export class Authorizer {
  readonly #tokens: TokenStore;
  readonly #customs: RecentMap<string, Custom> = new RecentMap(MAX_ASKERS);

  constructor(tokens: TokenStore) {
    this.#tokens = tokens;
  }

  /**
   * For a first attempt. A name and password are sent only after the server has asked for them.
   * @throws ExchangeError when the token service refuses, or cannot be asked.
   */
  async before(asker: Asker, deadline: Deadline): Promise<Authorization> {
    const { registryToken } = asker.credential ?? {};
    if (registryToken !== undefined)
      return isToken(registryToken) ? { header: `Bearer ${registryToken}`, fresh: true } : NONE;
    const custom = this.#customs.get(keyOf(asker));
    if (custom === undefined) return NONE;
    try {
      return await this.#follow(custom, asker, deadline);
    } catch (error) {
      // The token service may have moved, so ask the registry again. A refusal shows that the service exists.
      if (!(error instanceof ExchangeError && error.refused)) this.#customs.delete(keyOf(asker));
      throw error;
    }
  }

  /**
   * For the attempt after a 401; `undefined` when nothing else can be tried with this credential.
   * @throws ExchangeError as `before`.
   */
  async after(
    asker: Asker,
    answer: Pick<Answer, "headers" | "fromPublic">,
    tried: Authorization,
    deadline: Deadline,
  ): Promise<Authorization | undefined> {
    if (asker.credential?.registryToken !== undefined) return undefined;
    const custom = choose(parseChallenges(answer.headers["www-authenticate"]), asker, answer.fromPublic);
    if (custom === undefined) return undefined;
    this.#customs.set(keyOf(asker), custom);
    const { question, token } = tried;
    if (question !== undefined && token !== undefined) {
      this.#tokens.forget(question, token);
      const same = custom.scheme === "bearer" && custom.scope === question.scope;
      if (same && tried.fresh) return undefined;
    }
    const next = await this.#follow(custom, asker, deadline);
    return next.header === undefined || next.header === tried.header ? undefined : next;
  }

  async #follow(custom: Custom, asker: Asker, deadline: Deadline): Promise<Authorization> {
    const { endpoint, credential } = asker;
    if (custom.scheme === "basic") {
      const header = credential === undefined ? undefined : basicOf(credential);
      return { header, fresh: false };
    }
    const { scheme: _bearer, ...wanted } = custom;
    const question: TokenQuestion = { endpoint, asker: keyOf(asker), ...wanted, credential };
    const { token, fresh } = await this.#tokens.get(question, deadline);
    return { header: `Bearer ${token}`, question, token, fresh };
  }
}

/** Bearer if the challenge names a token service, else Basic. */
function choose(
  challenges: readonly Challenge[],
  { repository }: Asker,
  byPublic: boolean,
): Custom | undefined {
  for (const { scheme, parameters } of challenges) {
    const realm = parameters.get("realm");
    if (scheme !== "bearer" || realm === undefined || realm.length > MAX_PARAMETER_LENGTH) continue;
    const service = parameters.get("service")?.slice(0, MAX_PARAMETER_LENGTH);
    const scope = scopeLike(parameters.get("scope"), repository);
    return { scheme: "bearer", realm, byPublic, service, scope };
  }
  return challenges.some(({ scheme }) => scheme === "basic") ? { scheme: "basic" } : undefined;
}

/** The requested scope, where a server has one for everything (`aws`). Else the scope of a pull, no more. */
function scopeLike(asked: string | undefined, repository: string): string {
  const usual = `repository:${repository}:pull`;
  if (asked === undefined || asked === "" || asked.length > MAX_PARAMETER_LENGTH) return usual;
  return asked.startsWith(`repository:${repository}:`) ? usual : asked;
}

/** Holds no secret, because it stays in memory. One mirror may serve several registries with other rules. */
function keyOf({ endpoint, repository, credential }: Asker): string {
  const { username, password, identityToken } = credential ?? {};
  const secret = [username, password, identityToken].map((part) => part ?? null);
  const parts = [endpoint.origin, endpoint.query, endpoint.ca ?? null, repository, ...secret];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}
