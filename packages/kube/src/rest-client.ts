import { type BodyReader, eitherReader, versionOf } from "./body-reader.ts";
import type {
  ApplyOptions,
  CollectionScope,
  DeleteOptions,
  KubeClient,
  ListOptions,
  Patch,
  ReadOptions,
  ReadPathOptions,
  RequestOptions,
  WatchOptions,
  WatchStream,
  WriteOptions,
} from "./client.ts";
import { ApiError, type RequestInfo, type Verb } from "./failure.ts";
import { ListReader } from "./list-reader.ts";
import type { KubeObject, List, ObjectName } from "./object.ts";
import { ACCEPT, ACCEPT_STREAM, decoderOf, PROTOBUF, startsProtobuf } from "./protobuf/decoder.ts";
import { ProtobufListReader } from "./protobuf/list-reader.ts";
import { deleteBody, toBody } from "./request-body.ts";
import {
  faultOfName,
  faultOfNamespace,
  MAX_NAME,
  PATH,
  pathOf,
  type Query,
  toQuery,
} from "./request-path.ts";
import { nameOfResource, type Resource } from "./resource.ts";
import { Transport, type TransportOptions, type TransportRequest } from "./transport.ts";
import { FrameSplitter, LineSplitter } from "./watch-splitters.ts";
import { EventStream, latestEndMs, parseEvent } from "./watch-stream.ts";

/** How to connect to a cluster. */
export interface ConnectOptions extends Omit<TransportOptions, "userAgent"> {
  /** Names the program in the audit log. Default `kube-client`. */
  readonly userAgent?: string;
  /** Recorded in managedFields when a write does not name its own. Default: the user agent up to its version. */
  readonly fieldManager?: string;
  /** Names the cluster in every failure. Default none, for a program with one cluster. */
  readonly cluster?: string;
  /** Of requests that name none themselves, ms. Default 30 s, and 2 minutes for a page of a list. */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 30_000;
/** A page of 500 large objects from a busy server; client-go has no limit here. */
const LIST_TIMEOUT_MS = 120_000;
const DEFAULT_PAGE = 500;

const PATCH_CONTENT_TYPE: Readonly<Record<Patch["type"], string>> = {
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  strategic: "application/strategic-merge-patch+json",
};

/** Opens no connection before the first request. Dispose or `close` to end every request and connection. */
export function connect(options: ConnectOptions): KubeClient {
  const { userAgent = "kube-client", fieldManager = userAgent.replace(/\/.*/, "") } = options;
  const transport = new Transport({ ...options, userAgent });
  const { cluster, timeoutMs } = options;
  return new RestClient(transport, {
    fieldManager,
    ...(cluster && { cluster }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
}

/** What each client of one transport has in common. */
interface Common {
  readonly fieldManager: string;
  readonly cluster?: string;
  readonly timeoutMs?: number;
}

class RestClient implements KubeClient {
  readonly #transport: Transport;
  readonly #common: Common;
  /** The path of `under`; `undefined` for the client that owns the transport. */
  readonly #under: string | undefined;
  readonly #closing = new AbortController();

  constructor(transport: Transport, common: Common, under?: string) {
    this.#transport = transport;
    this.#common = common;
    this.#under = under;
  }

  get cluster(): string | undefined {
    return this.#common.cluster;
  }

  get server(): string {
    const { origin, prefix } = this.#transport;
    return origin + prefix + (this.#under ?? "");
  }

  under(path: string, options: { readonly cluster?: string } = {}): KubeClient {
    if (path !== "" && !PATH.test(path))
      throw new TypeError(`${JSON.stringify(path)} is not a path such as /a/b`);
    return new RestClient(this.#transport, { ...this.#common, ...options }, (this.#under ?? "") + path);
  }

  get openSockets(): number {
    return this.#transport.openSockets;
  }

  async get<T extends KubeObject>(
    resource: Resource<T>,
    of: ObjectName,
    options: ReadOptions = {},
  ): Promise<T> {
    return await this.#send<T>(
      {
        method: "GET",
        accept: options.metadataOnly ? partialMetadata("PartialObjectMetadata") : undefined,
        ...this.#about("get", resource, of, options.subresource),
      },
      options,
    );
  }

  async list<T extends KubeObject>(resource: Resource<T>, options: ListOptions<T> = {}): Promise<List<T>> {
    const query: Query = {
      limit: options.limit ?? DEFAULT_PAGE,
      continue: options.continue,
      resourceVersion: options.continue === undefined ? options.resourceVersion : undefined,
      resourceVersionMatch: options.continue === undefined ? options.resourceVersionMatch : undefined,
    };
    const { project = (item: T): T => item, metadataOnly } = options;
    const json = new ListReader((bytes) => {
      const item = parse(bytes) as T | undefined;
      return item && project(item);
    });
    const decoder = metadataOnly ? undefined : decoderOf(resource, options.project);
    const protobuf = decoder && new ProtobufListReader(decoder);
    const list = await this.#send<List<T>>(
      {
        method: "GET",
        accept: metadataOnly ? partialMetadata("PartialObjectMetadataList") : decoder && ACCEPT,
        ...this.#collection("list", resource, options, query),
      },
      { ...options, timeoutMs: options.timeoutMs ?? this.#common.timeoutMs ?? LIST_TIMEOUT_MS },
      protobuf === undefined ? json : eitherReader(startsProtobuf, protobuf, json),
    );
    const whole = (list.items ?? []).map((item) => project(item));
    return { ...list, items: [...(protobuf?.items ?? []), ...json.items, ...whole] };
  }

  async *pages<T extends KubeObject>(
    resource: Resource<T>,
    options: ListOptions<T> = {},
  ): AsyncGenerator<List<T>, void, void> {
    let token = options.continue;
    do {
      const page = await this.list(resource, token === undefined ? options : { ...options, continue: token });
      token = page.metadata.continue === "" ? undefined : page.metadata.continue;
      yield page;
    } while (token !== undefined);
  }

  async watch<T extends KubeObject>(
    resource: Resource<T>,
    options: WatchOptions<T> = {},
  ): Promise<WatchStream<T>> {
    const timeoutSeconds = options.timeoutSeconds ?? 300 + Math.floor(Math.random() * 300);
    const about = this.#collection("watch", resource, options, {
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: options.resourceVersion,
      sendInitialEvents: options.sendInitialEvents,
      resourceVersionMatch: options.sendInitialEvents ? "NotOlderThan" : undefined,
      timeoutSeconds,
    });
    const { metadataOnly, project } = options;
    const decoder = metadataOnly ? undefined : decoderOf(resource, project);
    const request = {
      method: "GET",
      accept: metadataOnly ? partialMetadata("PartialObjectMetadata") : decoder && ACCEPT_STREAM,
      ...about,
      signal: options.signal,
      closing: this.#closing.signal,
      timeoutMs: this.#common.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    } as const;
    const stream = await this.#transport.open(request, latestEndMs(timeoutSeconds));
    if (decoder !== undefined && stream.contentType.startsWith(PROTOBUF))
      return new EventStream<T>(stream, about.info, new FrameSplitter(), (bytes) => decoder.event(bytes));
    return new EventStream<T>(stream, about.info, new LineSplitter(), parseEvent, project);
  }

  async create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options: WriteOptions & { readonly namespace?: string; readonly name?: string } = {},
  ): Promise<T> {
    const namespace = options.namespace ?? object.metadata?.namespace ?? "";
    const name = options.name ?? object.metadata?.name ?? "";
    const about =
      options.subresource === undefined
        ? this.#collection("create", resource, { namespace }, this.#writeQuery(options))
        : this.#about(
            "create",
            resource,
            { namespace, name },
            options.subresource,
            this.#writeQuery(options),
          );
    const info = name === "" ? about.info : { ...about.info, name };
    const body = toBody(resource, object);
    return await this.#send<T>(
      { ...about, info, method: "POST", body, contentType: "application/json" },
      options,
    );
  }

  async replace<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const about = this.#about(
      "update",
      resource,
      nameOf(object),
      options.subresource,
      this.#writeQuery(options),
    );
    const body = toBody(resource, object);
    return await this.#send<T>({ ...about, method: "PUT", body, contentType: "application/json" }, options);
  }

  async patch<T extends KubeObject>(
    resource: Resource<T>,
    of: ObjectName,
    patch: Patch,
    options: WriteOptions = {},
  ): Promise<T> {
    const about = this.#about("patch", resource, of, options.subresource, this.#writeQuery(options));
    const body = Buffer.from(JSON.stringify(patch.body));
    return await this.#send<T>(
      { ...about, method: "PATCH", body, contentType: PATCH_CONTENT_TYPE[patch.type] },
      options,
    );
  }

  async apply<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options: ApplyOptions = {},
  ): Promise<T> {
    const query = { ...this.#writeQuery(options), force: options.force ? true : undefined };
    const about = this.#about("patch", resource, nameOf(object), options.subresource, query);
    const body = toBody(resource, object);
    return await this.#send<T>(
      { ...about, method: "PATCH", body, contentType: "application/apply-patch+yaml" },
      options,
    );
  }

  async delete<T extends KubeObject>(
    resource: Resource<T>,
    of: ObjectName,
    options: DeleteOptions = {},
  ): Promise<void> {
    await this.#send(
      { ...this.#about("delete", resource, of), method: "DELETE", ...deleteBody(options) },
      options,
    );
  }

  async deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    scope: CollectionScope,
    options: DeleteOptions = {},
  ): Promise<void> {
    const about = this.#collection("deletecollection", resource, scope, {});
    await this.#send({ ...about, method: "DELETE", ...deleteBody(options) }, options);
  }

  async read(path: string, options: ReadPathOptions = {}): Promise<string> {
    const request: TransportRequest = {
      method: "GET",
      ...this.#at(path, { verb: "get", resource: path }),
      accept: options.accept,
      signal: options.signal,
      closing: this.#closing.signal,
      timeoutMs: options.timeoutMs ?? this.#common.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    };
    return await this.#transport.send(request, (body) => body.toString("utf8"));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#under === undefined) await this.#transport.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #send<R>(
    request: Pick<TransportRequest, "method" | "info" | "path" | "body" | "contentType" | "accept">,
    options: RequestOptions & Pick<WriteOptions, "versionOnly">,
    reader: BodyReader | undefined = options.versionOnly ? versionOf() : undefined,
  ): Promise<R> {
    const about: TransportRequest = {
      ...request,
      signal: options.signal,
      closing: this.#closing.signal,
      timeoutMs: options.timeoutMs ?? this.#common.timeoutMs ?? DEFAULT_TIMEOUT_MS,
      keepTooManyRequests: request.info.subresource === "eviction",
    };
    const answer = await this.#transport.send(about, parse, reader);
    if (answer !== undefined) return answer as R;
    throw new ApiError({ kind: "undecodable" }, request.info, { message: "the answer cannot be decoded" });
  }

  #writeQuery(options: WriteOptions): Query {
    return {
      fieldManager: options.fieldManager ?? this.#common.fieldManager,
      dryRun: options.dryRun ? "All" : undefined,
      fieldValidation: options.fieldValidation,
    };
  }

  #about(
    verb: Verb,
    resource: Resource,
    of: ObjectName,
    subresource?: string,
    query: Query = {},
  ): Pick<TransportRequest, "info" | "path"> {
    const { name, namespace = "" } = of;
    const info: RequestInfo = {
      verb,
      resource: nameOfResource(resource),
      name: name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name,
      ...(subresource === undefined ? {} : { subresource }),
      ...(namespace && namespace.length <= MAX_NAME ? { namespace } : {}),
    };
    const fault = faultOfName(resource, of);
    if (fault !== undefined) throw this.#invalid(info, fault);
    const tail = subresource === undefined ? "" : `/${subresource}`;
    const path = `${pathOf(resource, of.namespace)}/${encodeURIComponent(of.name)}${tail}${toQuery(query)}`;
    return this.#at(path, info);
  }

  #collection(
    verb: Verb,
    resource: Resource,
    scope: CollectionScope,
    query: Query,
  ): Pick<TransportRequest, "info" | "path"> {
    const info: RequestInfo = {
      verb,
      resource: nameOfResource(resource),
      ...(scope.namespace ? { namespace: scope.namespace } : {}),
    };
    const isOfAll = verb === "list" || verb === "watch";
    const fault = isOfAll ? undefined : faultOfNamespace(resource, scope.namespace);
    if (fault !== undefined) throw this.#invalid(info, fault);
    const selectors = { labelSelector: scope.labelSelector, fieldSelector: scope.fieldSelector };
    return this.#at(pathOf(resource, scope.namespace) + toQuery({ ...selectors, ...query }), info);
  }

  /** What is refused before it is sent. */
  #invalid(info: RequestInfo, message: string): ApiError {
    return new ApiError({ kind: "invalid", causes: [] }, this.#at("", info).info, { message });
  }

  #at(path: string, info: RequestInfo): Pick<TransportRequest, "info" | "path"> {
    const under = this.#under ?? "";
    const { cluster } = this.#common;
    return {
      info: { ...info, ...(under !== "" && { under }), ...(cluster !== undefined && { cluster }) },
      path: under + path,
    };
  }
}

/** `undefined` for invalid JSON. It omits the parser's error, which quotes the text, and that may be a Secret. */
function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** The media type for metadata only. It has no fallback, so that a cache never mixes two kinds. */
function partialMetadata(kind: "PartialObjectMetadata" | "PartialObjectMetadataList"): string {
  return `application/json;as=${kind};v=v1;g=meta.k8s.io`;
}

function nameOf(object: KubeObject): ObjectName {
  return { namespace: object.metadata?.namespace ?? "", name: object.metadata?.name ?? "" };
}
