/** Which `Authorization` goes with a request: by what a registry asked for before, or asks for now. */
import { type Challenge, parseChallenges } from "./challenge.ts";
import type { Deadline } from "./deadline.ts";
import type { Endpoint } from "./endpoints.ts";
import { ExchangeError } from "./exchange-error.ts";
import { RecentMap } from "./recent-map.ts";
import { basicOf, isToken, type TokenQuestion, type TokenStore } from "./token.ts";
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

/** What a server asked for, so that the next request to it brings it along. */
type Custom =
  | { readonly scheme: "basic" }
  | {
      readonly scheme: "bearer";
      readonly realm: string;
      readonly service: string | undefined;
      readonly scope: (repository: string) => string | undefined;
    };

const MAX_SERVERS = 256;
const MAX_PARAMETER_LENGTH = 2048;

export class Authorizer {
  readonly #tokens: TokenStore;
  readonly #customs: RecentMap<string, Custom> = new RecentMap(MAX_SERVERS);

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
    const custom = this.#customs.get(serverOf(asker));
    if (custom === undefined) return NONE;
    try {
      return await this.#follow(custom, asker, deadline);
    } catch (error) {
      // Its token service may have moved: the registry is asked again. A refusal says that the service is there.
      if (!(error instanceof ExchangeError && error.refused)) this.#customs.delete(serverOf(asker));
      throw error;
    }
  }

  /**
   * For a request that was answered by 401; `undefined` when there is nothing else to try with this credential.
   * @throws ExchangeError as `before`.
   */
  async after(
    asker: Asker,
    wanted: string | readonly string[] | undefined,
    tried: Authorization,
    deadline: Deadline,
  ): Promise<Authorization | undefined> {
    if (asker.credential?.registryToken !== undefined) return undefined;
    const custom = choose(parseChallenges(wanted), asker);
    if (custom === undefined) return undefined;
    this.#customs.set(serverOf(asker), custom);
    const { question, token } = tried;
    if (question !== undefined && token !== undefined) {
      this.#tokens.forget(question, token);
      const same = custom.scheme === "bearer" && custom.scope(asker.repository) === question.scope;
      if (same && tried.fresh) return undefined;
    }
    const next = await this.#follow(custom, asker, deadline);
    return next.header === undefined || next.header === tried.header ? undefined : next;
  }

  async #follow(
    custom: Custom,
    { endpoint, repository, credential }: Asker,
    deadline: Deadline,
  ): Promise<Authorization> {
    if (custom.scheme === "basic") {
      const header = credential === undefined ? undefined : basicOf(credential);
      return { header, fresh: false };
    }
    const { realm, service, scope } = custom;
    const question: TokenQuestion = { endpoint, realm, service, scope: scope(repository), credential };
    const { token, fresh } = await this.#tokens.get(question, deadline);
    return { header: `Bearer ${token}`, question, token, fresh };
  }
}

/** Bearer where it says where to get a token, else Basic. */
function choose(challenges: readonly Challenge[], { repository }: Asker): Custom | undefined {
  for (const { scheme, parameters } of challenges) {
    const realm = parameters.get("realm");
    if (scheme !== "bearer" || realm === undefined || realm.length > MAX_PARAMETER_LENGTH) continue;
    const service = parameters.get("service")?.slice(0, MAX_PARAMETER_LENGTH);
    return { scheme: "bearer", realm, service, scope: scopesLike(parameters.get("scope"), repository) };
  }
  return challenges.some(({ scheme }) => scheme === "basic") ? { scheme: "basic" } : undefined;
}

/**
 * The scopes of all repositories of a server by that of one: most name the repository, some one scope for everything
 * (`aws`). Without any, what the specification says. More than pulling is never asked for where the shape is known.
 */
function scopesLike(
  example: string | undefined,
  repository: string,
): (repository: string) => string | undefined {
  const usual = (asked: string): string => `repository:${asked}:pull`;
  if (example === undefined || example === "" || example.length > MAX_PARAMETER_LENGTH) return usual;
  return example.startsWith(`repository:${repository}:`) ? usual : () => example;
}

/** A mirror may stand before several registries, each with rules of its own. */
function serverOf({ endpoint }: Asker): string {
  return `${endpoint.origin}/${endpoint.prefix}${endpoint.query} ${endpoint.ca ?? ""}`;
}
