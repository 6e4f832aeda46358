/** Which `Authorization` goes with a request: by what a registry asked for before, or asks for now. */
import { createHash } from "node:crypto";
import { type Challenge, parseChallenges } from "./challenge.ts";
import type { Deadline } from "./deadline.ts";
import type { Endpoint } from "./endpoints.ts";
import { ExchangeError } from "./exchange-error.ts";
import { RecentMap } from "./recent-map.ts";
import { basicOf, isToken, type TokenQuestion, type TokenStore } from "./token.ts";
import type { Answer } from "./transport.ts";
import type { RegistryCredential } from "./types.ts";

/** Who asks whom for what. */
export interface Asker {
  readonly endpoint: Endpoint;
  /** As that server has it, with its prefix. */
  readonly repository: string;
  readonly credential: RegistryCredential | undefined;
}

/** What to send, and whether asking again could give anything else. */
export interface Authorization {
  readonly header: string | undefined;
  readonly question?: TokenQuestion;
  readonly token?: string;
  readonly fresh: boolean;
}

const NONE: Authorization = { header: undefined, fresh: false };

/** What a server asked for, so that the next request of the same asker brings it along. */
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
 * A challenge counts only for the server, repository and credential that it answered: whoever owns one repository of a
 * registry must not say where the credentials of the others go.
 */
export class Authorizer {
  readonly #tokens: TokenStore;
  readonly #customs: RecentMap<string, Custom> = new RecentMap(MAX_ASKERS);

  constructor(tokens: TokenStore) {
    this.#tokens = tokens;
  }

  /**
   * For a request that has not been tried. A name and password are not sent before the server has asked for them.
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
      // Its token service may have moved: the registry is asked again. A refusal says that the service is there.
      if (!(error instanceof ExchangeError && error.refused)) this.#customs.delete(keyOf(asker));
      throw error;
    }
  }

  /**
   * For a request that was answered by 401; `undefined` when there is nothing else to try with this credential.
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

/** Bearer where it says where to get a token, else Basic. */
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

/** As asked for, where a server has one scope for everything (`aws`). Else what the specification says: no more than pulling. */
function scopeLike(asked: string | undefined, repository: string): string {
  const usual = `repository:${repository}:pull`;
  if (asked === undefined || asked === "" || asked.length > MAX_PARAMETER_LENGTH) return usual;
  return asked.startsWith(`repository:${repository}:`) ? usual : asked;
}

/** Holds no secret, for it stays in memory. A mirror may stand before several registries, each with rules of its own. */
function keyOf({ endpoint, repository, credential }: Asker): string {
  const { username, password, identityToken } = credential ?? {};
  const secret = [username, password, identityToken].map((part) => part ?? null);
  const parts = [endpoint.origin, endpoint.query, endpoint.ca ?? null, repository, ...secret];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}
