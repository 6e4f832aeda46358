/** Who may read what of a fault registry, by tokens or by name and password. */
import { randomUUID } from "node:crypto";
import type { Reply } from "./fault.ts";

export type FaultRegistryAuth =
  | {
      readonly scheme: "token";
      /** Name to password. */
      readonly users?: Readonly<Record<string, string>>;
      /** Refresh tokens that a POST is answered for. */
      readonly identityTokens?: readonly string[];
      /** Tokens accepted as they are. */
      readonly registryTokens?: readonly string[];
      /** What is not public needs a user. Default: everything. */
      readonly isPublic?: (repository: string) => boolean;
      /** As in the answer; absent there when `undefined`. */
      readonly expiresInS?: number;
      /** Instead of its own: what the challenge names. */
      readonly realm?: string;
      /** Instead of `repository:…:pull`. */
      readonly scope?: string;
    }
  | {
      readonly scheme: "basic";
      readonly users: Readonly<Record<string, string>>;
      readonly isPublic?: (repository: string) => boolean;
    };

interface Grant {
  readonly scope: string;
  /** By a known user, and so good for what is not public. */
  readonly known: boolean;
}

const MAX_GRANTS = 10_000;

export class Doorkeeper {
  readonly #auth: FaultRegistryAuth;
  readonly #origin: string;
  readonly #grants: Map<string, Grant> = new Map();

  constructor(auth: FaultRegistryAuth, origin: string) {
    this.#auth = auth;
    this.#origin = origin;
  }

  /** The refusal, or `undefined` when the request may pass. */
  refuse(repository: string, authorization: string | undefined): Reply | undefined {
    const auth = this.#auth;
    if (auth.scheme === "basic") {
      if (auth.isPublic?.(repository) || isUser(auth.users, authorization)) return undefined;
      return unauthorized('Basic realm="fault registry"');
    }
    const scope = auth.scope ?? `repository:${repository}:pull`;
    const token = /^Bearer (.+)$/.exec(authorization ?? "")?.[1] ?? "";
    if (auth.registryTokens?.includes(token)) return undefined;
    const grant = this.#grants.get(token);
    if (grant?.scope === scope && (grant.known || auth.isPublic?.(repository))) return undefined;
    const realm = auth.realm ?? `${this.#origin}/token`;
    return unauthorized(`Bearer realm="${realm}",service="fault, \\"registry\\"",scope="${scope}"`);
  }

  /** The answer of the token service. */
  grant(query: URLSearchParams, form: URLSearchParams | undefined, authorization: string | undefined): Reply {
    const auth = this.#auth;
    if (auth.scheme !== "token") return { status: 404, headers: {}, body: Buffer.alloc(0) };
    const refresh = form?.get("refresh_token");
    const known =
      form === undefined
        ? authorization !== undefined
        : typeof refresh === "string" && auth.identityTokens?.includes(refresh) === true;
    if (form === undefined && known && !isUser(auth.users ?? {}, authorization)) return unauthorized("Basic");
    if (form !== undefined && !known) return { status: 400, headers: {}, body: Buffer.alloc(0) };
    const token = `token-${randomUUID()}`;
    if (this.#grants.size < MAX_GRANTS)
      this.#grants.set(token, { scope: (form ?? query).get("scope") ?? "", known });
    const life = auth.expiresInS === undefined ? {} : { expires_in: auth.expiresInS };
    const body = Buffer.from(
      JSON.stringify(form === undefined ? { token, ...life } : { access_token: token, ...life }),
    );
    return { status: 200, headers: { "content-type": "application/json" }, body };
  }

  /** As if all tokens had been withdrawn. */
  withdraw(): void {
    this.#grants.clear();
  }
}

function isUser(users: Readonly<Record<string, string>>, authorization: string | undefined): boolean {
  const encoded = /^Basic (.+)$/.exec(authorization ?? "")?.[1] ?? "";
  const pair = Buffer.from(encoded, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon > 0 && users[pair.slice(0, colon)] === pair.slice(colon + 1);
}

function unauthorized(challenge: string): Reply {
  return { status: 401, headers: { "www-authenticate": challenge }, body: Buffer.from('{"errors":[]}') };
}
