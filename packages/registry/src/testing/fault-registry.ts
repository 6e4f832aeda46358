/**
 * A registry on 127.0.0.1 that holds images put in by code, and answers as badly as it is told to. It is for what no
 * real registry does on demand; that images are read as real registries have them is for the real one to show.
 */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import { answer, answerBadly, type Fault, type Reply } from "./fault.ts";
import { Doorkeeper, type FaultRegistryAuth } from "./fault-auth.ts";
import {
  aManifest,
  anIndex,
  type Content,
  type ImageOptions,
  type ImageParts,
  toContent,
} from "./fault-images.ts";

export type { Fault } from "./fault.ts";
export type { FaultRegistryAuth } from "./fault-auth.ts";
export type { ImageFormat, ImageOptions } from "./fault-images.ts";

export interface FaultRegistryOptions {
  /** Default: everybody may read everything. */
  readonly auth?: FaultRegistryAuth;
  /** PEM. Default: plain http. */
  readonly tls?: { readonly certificate: string; readonly key: string };
  /** Default: one that is free. For a registry that comes back where it was. */
  readonly port?: number;
}

export type AskedFor = "manifest" | "head" | "blob" | "token" | "other";

/** A request as it came, in the order of arrival. */
export interface SeenRequest {
  readonly kind: AskedFor;
  /** Path and query. */
  readonly path: string;
  /** Empty for tokens. */
  readonly repository: string;
  readonly authorization: string | undefined;
  readonly accept: string | undefined;
  /** Of a token request by POST. */
  readonly form: string | undefined;
}

export type RequestCounts = Readonly<Record<AskedFor, number>>;

/** Which requests a fault is for. Default: all but those for tokens. */
export interface FaultScope {
  readonly kind?: AskedFor;
  readonly repository?: string;
  /** After so many, the fault is over. Default: until it is disposed. */
  readonly times?: number;
}

export interface FaultRegistry extends AsyncDisposable {
  /** `127.0.0.1:40123`, as in the name of an image. */
  readonly host: string;
  /** With its scheme. */
  readonly origin: string;
  /** Every request since the start or `forget`. */
  readonly requests: RequestCounts;
  /** Those answered by 200 and without a fault. */
  readonly served: RequestCounts;
  /** The latest 10,000. */
  readonly seen: readonly SeenRequest[];
  /** Puts in an image of one platform. @returns its digest. */
  image(repository: string, tag: string, platform: string, options?: ImageOptions): string;
  /** Puts in an image of several. @returns the digest of the index. */
  index(repository: string, tag: string, platforms: readonly string[], options?: ImageOptions): string;
  /** Puts in whatever it is, as JSON unless it is bytes. @returns its digest. */
  put(repository: string, tag: string, manifest: unknown, mediaType: string): string;
  /** Puts in a blob. @returns its digest. */
  blob(repository: string, bytes: Buffer): string;
  /** From the next request on, until it is disposed. Of several that fit, the latest. */
  inject(fault: Fault, scope?: FaultScope): Disposable;
  /** Other rules from now on; all tokens are withdrawn. */
  protect(auth: FaultRegistryAuth | undefined): void;
  /** Counts and requests seen, back to none. */
  forget(): void;
}

const MAX_SEEN = 10_000;
const MAX_FORM_BYTES = 64 * 1024;

export async function startFaultRegistry(options: FaultRegistryOptions = {}): Promise<FaultRegistry> {
  const registry = new LocalRegistry(options);
  await registry.listen();
  return registry;
}

interface Injection {
  readonly fault: Fault;
  readonly scope: FaultScope;
  left: number;
  readonly over: Promise<void>;
  readonly end: () => void;
}

class LocalRegistry implements FaultRegistry {
  readonly #options: FaultRegistryOptions;
  readonly #server: Server;
  readonly #contents: Map<string, Content> = new Map();
  readonly #injections: Injection[] = [];
  #doorkeeper: Doorkeeper | undefined;
  #requests = noRequests();
  #served = noRequests();
  #seen: SeenRequest[] = [];
  #port = 0;

  constructor(options: FaultRegistryOptions) {
    this.#options = options;
    const { tls } = options;
    const listener: RequestListener = (request, response) => {
      this.#handle(request, response).catch(() => response.destroy());
    };
    this.#server = tls
      ? createTlsServer({ cert: tls.certificate, key: tls.key }, listener)
      : createServer(listener);
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#options.port ?? 0, "127.0.0.1");
    await once(this.#server, "listening");
    const address = this.#server.address();
    this.#port = typeof address === "object" && address !== null ? address.port : 0;
    this.protect(this.#options.auth);
  }

  get host(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get origin(): string {
    return `${this.#options.tls ? "https" : "http"}://${this.host}`;
  }

  get requests(): RequestCounts {
    return { ...this.#requests };
  }

  get served(): RequestCounts {
    return { ...this.#served };
  }

  get seen(): readonly SeenRequest[] {
    return [...this.#seen];
  }

  image(repository: string, tag: string, platform: string, options: ImageOptions = {}): string {
    return this.#store(repository, tag, aManifest(platform, { seed: repository, ...options }));
  }

  index(repository: string, tag: string, platforms: readonly string[], options: ImageOptions = {}): string {
    return this.#store(repository, tag, anIndex(platforms, { seed: repository, ...options }));
  }

  put(repository: string, tag: string, manifest: unknown, mediaType: string): string {
    return this.#store(repository, tag, { top: toContent(manifest, mediaType), manifests: [], blobs: [] });
  }

  blob(repository: string, bytes: Buffer): string {
    const content = toContent(bytes, "application/octet-stream");
    this.#contents.set(`${repository}/blobs/${content.digest}`, content);
    return content.digest;
  }

  inject(fault: Fault, scope: FaultScope = {}): Disposable {
    const { promise, resolve } = Promise.withResolvers<void>();
    const injection: Injection = {
      fault,
      scope,
      left: scope.times ?? Number.POSITIVE_INFINITY,
      over: promise,
      end: resolve,
    };
    this.#injections.unshift(injection);
    return { [Symbol.dispose]: () => this.#remove(injection) };
  }

  protect(auth: FaultRegistryAuth | undefined): void {
    this.#doorkeeper = auth === undefined ? undefined : new Doorkeeper(auth, this.origin);
  }

  forget(): void {
    this.#requests = noRequests();
    this.#served = noRequests();
    this.#seen = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const injection of this.#injections.splice(0)) injection.end();
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #store(repository: string, tag: string, { top, manifests, blobs }: ImageParts): string {
    for (const content of [top, ...manifests])
      this.#contents.set(`${repository}/manifests/${content.digest}`, content);
    for (const content of blobs) this.#contents.set(`${repository}/blobs/${content.digest}`, content);
    this.#contents.set(`${repository}/manifests/${tag}`, top);
    return top.digest;
  }

  #remove(injection: Injection): void {
    const index = this.#injections.indexOf(injection);
    if (index >= 0) this.#injections.splice(index, 1);
    injection.end();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "/";
    const { pathname, searchParams } = new URL(path, this.origin);
    const { kind, repository } = whatFor(request.method, pathname);
    const form = request.method === "POST" ? await readForm(request) : undefined;
    const { authorization, accept } = request.headers;
    this.#requests[kind]++;
    this.#seen.push({ kind, path, repository, authorization, accept, form });
    if (this.#seen.length > MAX_SEEN) this.#seen.shift();
    const reply = (): Reply => {
      if (kind === "token") return this.#tokenFor(searchParams, form, authorization);
      return this.#doorkeeper?.refuse(repository, authorization) ?? this.#contentAt(pathname);
    };
    const injection = this.#injectionFor(kind, repository);
    if (injection !== undefined) {
      if (--injection.left <= 0) this.#injections.splice(this.#injections.indexOf(injection), 1);
      return answerBadly(injection.fault, reply(), path, response, injection.over);
    }
    const good = reply();
    if (good.status === 200) this.#served[kind]++;
    answer(response, good);
  }

  #injectionFor(kind: AskedFor, repository: string): Injection | undefined {
    return this.#injections.find(({ scope }) => {
      const kindFits = scope.kind === undefined ? kind !== "token" : scope.kind === kind;
      return kindFits && (scope.repository ?? repository) === repository;
    });
  }

  #tokenFor(query: URLSearchParams, form: string | undefined, authorization: string | undefined): Reply {
    const fields = form === undefined ? undefined : new URLSearchParams(form);
    return this.#doorkeeper?.grant(query, fields, authorization) ?? missing();
  }

  #contentAt(pathname: string): Reply {
    const content = this.#contents.get(pathname.replace(/^\/v2\//, ""));
    if (content === undefined) return missing();
    const headers = {
      "content-type": content.mediaType,
      "content-length": `${content.bytes.length}`,
      "docker-content-digest": content.digest,
    };
    return { status: 200, headers, body: content.bytes };
  }
}

function noRequests(): Record<AskedFor, number> {
  return { manifest: 0, head: 0, blob: 0, token: 0, other: 0 };
}

function missing(): Reply {
  return { status: 404, headers: {}, body: Buffer.from('{"errors":[{"code":"MANIFEST_UNKNOWN"}]}') };
}

function whatFor(
  method: string | undefined,
  path: string,
): { readonly kind: AskedFor; readonly repository: string } {
  if (path === "/token") return { kind: "token", repository: "" };
  const [, repository = "", folder] = /^\/v2\/(.+)\/(manifests|blobs)\/[^/]+$/.exec(path) ?? [];
  if (folder === "blobs") return { kind: "blob", repository };
  if (folder === undefined) return { kind: "other", repository };
  return { kind: method === "HEAD" ? "head" : "manifest", repository };
}

async function readForm(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes: Buffer = chunk;
    size += bytes.length;
    if (size > MAX_FORM_BYTES) throw new RangeError("the form is too long");
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString("utf8");
}
