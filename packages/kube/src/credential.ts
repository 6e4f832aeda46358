import { readFile } from "node:fs/promises";
import { performance } from "node:perf_hooks";

/** The identity of this process for the server at this moment. Never logged, never part of an error. */
export interface CredentialMaterial {
  /** Value of the Authorization header, scheme included. */
  readonly authorization?: string;
  /** PEM client certificate and key. */
  readonly certificate?: { readonly cert: string; readonly key: string };
  /** PEM of the authority that the server's certificate is verified with. Default `ConnectOptions.ca`. */
  readonly ca?: string;
}

/** A source of credentials that may change while the program runs. */
export interface Credential {
  /** The current material. Concurrent callers share one refresh. @throws Error whose cause the user can fix. */
  material(signal?: AbortSignal): Promise<CredentialMaterial>;
  /** The server answered 401 to this material: the next `material` must not return it from a cache. */
  reject(material: CredentialMaterial): void;
}

/** Material that never changes: a token given once, a client certificate, or nothing at all. */
export function staticCredential(material: CredentialMaterial = {}): Credential {
  const fixed = Promise.resolve(material);
  return { material: () => fixed, reject: () => undefined };
}

/** A credential that its owner replaces while clients use it. */
export interface ReplaceableCredential extends Credential {
  /**
   * Every later request uses `next`, and `ca` where it is given and the material has none. Requests and watches that run go on with what they began
   * with. So a change of credentials costs no list.
   */
  replace(next: Credential, ca?: string): void;
}

/** @param ca as in `replace`. */
export function replaceableCredential(first: Credential, ca?: string): ReplaceableCredential {
  let current = { credential: first, ca };
  /** Which credential each material came from: the server may reject one of the last. */
  const origins = new WeakMap<
    CredentialMaterial,
    { readonly of: Credential; readonly own: CredentialMaterial }
  >();
  return {
    async material(signal) {
      const { credential, ca: authority } = current;
      const own = await credential.material(signal);
      const material = { ...(authority !== undefined && { ca: authority }), ...own };
      origins.set(material, { of: credential, own });
      return material;
    },
    reject(material) {
      const origin = origins.get(material);
      origin?.of.reject(origin.own);
    },
    replace: (credential, authority) => {
      current = { credential, ca: authority };
    },
  };
}

/** A token that never changes. See `tokenFile` for one that rotates. */
export function bearerToken(token: string): Credential {
  return staticCredential({ authorization: `Bearer ${token}` });
}

/** client-go re-reads a token file every minute (`transport/token_source.go`); kubelet rotates well before expiry. */
const FILE_TTL_MS = 60_000;

/** Material from files that another program renews: read every minute, and at once after a 401. */
export function fileCredential(
  read: () => Promise<CredentialMaterial>,
  ttlMs: number = FILE_TTL_MS,
): Credential {
  return cachedCredential(async () => ({ material: await read(), ttlMs }));
}

/** A token in a file that another program renews: read every `ttlMs` (default a minute), and after a 401. */
export function tokenFile(path: string, ttlMs: number = FILE_TTL_MS): Credential {
  return fileCredential(async () => ({ authorization: await readTokenFile(path) }), ttlMs);
}

/** The Authorization header for the token in a file. @throws Error with the file's name when it has none. */
export async function readTokenFile(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    throw new Error(`the token file ${path} cannot be read: ${cause.code ?? cause.message}`);
  });
  const token = text.trim();
  if (token === "") throw new Error(`the token file ${path} is empty`);
  return `Bearer ${token}`;
}

/** New material and how long it may be used, milliseconds (`Infinity`: until it is rejected). */
export interface FreshMaterial {
  readonly material: CredentialMaterial;
  readonly ttlMs: number;
}

/**
 * Caches the result of `fetch` until it expires or the server rejects it. Any number of callers share one fetch. A
 * failed fetch falls back to material that has not been rejected, else rejects.
 */
export function cachedCredential(fetch: (signal?: AbortSignal) => Promise<FreshMaterial>): Credential {
  let current: { material: CredentialMaterial; staleAt: number } | undefined;
  let rejected: CredentialMaterial | undefined;
  let running: Promise<CredentialMaterial> | undefined;
  const refresh = async (): Promise<CredentialMaterial> => {
    try {
      const fresh = await fetch();
      current = { material: fresh.material, staleAt: performance.now() + fresh.ttlMs };
      return fresh.material;
    } catch (error) {
      if (current !== undefined && current.material !== rejected) return current.material;
      throw error;
    } finally {
      running = undefined;
    }
  };
  return {
    material() {
      if (current !== undefined && current.material !== rejected && performance.now() < current.staleAt) {
        return Promise.resolve(current.material);
      }
      running ??= refresh();
      return running;
    },
    reject(material) {
      rejected = material;
    },
  };
}
