/** The interface of a connection to one cluster. `connect` creates it; `rest-client.ts` implements it. */
import type { KubeObject, List, ObjectName } from "./object.ts";
import type { Resource } from "./resource.ts";

/** Options that every request takes. */
export interface RequestOptions {
  readonly signal?: AbortSignal;
  /** Total time for the answer, body included. Milliseconds, default 30,000 (120,000 for a page of a list). */
  readonly timeoutMs?: number;
}

/** Options of a read of a path. */
export interface ReadPathOptions extends RequestOptions {
  /** The media types that the caller understands. Default `application/json`. */
  readonly accept?: string;
}

/** Options of a get. */
export interface ReadOptions extends RequestOptions {
  readonly subresource?: string;
  /** As in `ListOptions`. */
  readonly metadataOnly?: boolean;
}

/** Which objects of a collection: one namespace or all, label and field selectors as kubectl writes them. */
export interface CollectionScope {
  /** Absent or `""`: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** Fields to keep, by name: with all that is below, or some of it. For a list: of each element. */
export interface Fields {
  readonly [field: string]: Fields | "all";
}

/**
 * Converts a freshly parsed object to the part that the caller keeps, so that unused fields never reach a cache. It
 * owns its argument and may delete from it. Default: identity.
 */
export interface Projection<T> {
  (object: T): T;
  /**
   * It keeps these fields and does nothing else. Then a client may read them alone from the answer, and not call it:
   * Nodes come as protobuf, of which the rest is skipped. Default: unknown.
   */
  readonly fields?: Fields;
}

/** The objects to list, the version to read, and the part of each object to keep. */
export interface ListOptions<T extends KubeObject> extends CollectionScope, RequestOptions {
  /** Objects a page; default 500. A server may ignore it. */
  readonly limit?: number;
  readonly continue?: string;
  /** `"0"` reads the server's cache (any age); absent reads the latest. */
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: "Exact" | "NotOlderThan";
  /**
   * Only `apiVersion`, `kind` and `metadata` of each object (PartialObjectMetadata). The server does not send spec and
   * status. Useful for a cache of large objects that needs only labels or owners.
   */
  readonly metadataOnly?: boolean;
  readonly project?: Projection<T>;
}

/** The objects to watch, the start version, and the part of each object to keep. */
export interface WatchOptions<T extends KubeObject> extends CollectionScope {
  readonly signal?: AbortSignal;
  /** The start version. Absent with `sendInitialEvents`: a snapshot first, then an `initialEventsEnd` bookmark. */
  readonly resourceVersion?: string;
  /** WatchList (KEP-3157): the server streams the present objects as ADDED, then a marked bookmark. */
  readonly sendInitialEvents?: boolean;
  /**
   * The server ends the stream after this long, seconds. Default random, 300–600, so that ends spread out. A minute later
   * the client ends it: something between them may be dead without a sign.
   */
  readonly timeoutSeconds?: number;
  /** As in `ListOptions`. */
  readonly metadataOnly?: boolean;
  readonly project?: Projection<T>;
}

/** One event of a watch. A bookmark has no object, only the server's current version. */
export type WatchEvent<T extends KubeObject> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string; readonly initialEventsEnd: boolean };

/** Options of every write. */
export interface WriteOptions extends RequestOptions {
  readonly subresource?: string;
  /** Recorded by the server in managedFields. Default: that of the client. */
  readonly fieldManager?: string;
  /** The server validates and answers, and stores nothing. */
  readonly dryRun?: boolean;
  /** What the server does about fields that it does not know, or that stand twice. Default: it drops them (`Warn`). */
  readonly fieldValidation?: "Strict" | "Warn" | "Ignore";
  /**
   * Of the answer only `metadata.resourceVersion` is needed, because a watch brings the object anyway. The rest is not
   * decoded, and whatever happens to it, the write counts as done. Default false.
   */
  readonly versionOnly?: boolean;
}

/** Options of a server-side apply. */
export interface ApplyOptions extends WriteOptions {
  /** Take over fields that another field manager owns. Default false: a `conflict` names the manager. */
  readonly force?: boolean;
}

/** A JSON Patch operation (RFC 6902). */
export type JsonPatchOperation =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly path: string; readonly from: string };

/** The patch formats of the API; the content type follows from `type` and cannot be mixed up. */
export type Patch =
  | { readonly type: "merge"; readonly body: object }
  | { readonly type: "json"; readonly body: readonly JsonPatchOperation[] }
  | { readonly type: "strategic"; readonly body: object };

/** Options of a delete. */
export interface DeleteOptions extends RequestOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Orphan" | "Background" | "Foreground";
  readonly dryRun?: boolean;
  /** The server refuses the delete (`conflict`) unless the object still matches. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/**
 * One cluster, one credential. Every method rejects with `ApiError` and nothing else; every method ends when its
 * signal aborts or its deadline passes. Reads and watches share HTTP/2 connections, a hundred to each; writes use a
 * bounded HTTP/1.1 pool (measured faster for small patches) that closes when idle.
 */
export interface KubeClient extends AsyncDisposable {
  /** `https://host:port` and the path that all requests begin with, for messages. Tells clusters apart. */
  readonly server: string;
  /** `ConnectOptions.cluster`. */
  readonly cluster?: string | undefined;
  /** One object, or a subresource of it. `notFound` when there is none. */
  get<T extends KubeObject>(resource: Resource<T>, of: ObjectName, options?: ReadOptions): Promise<T>;
  /** One page. */
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions<T>): Promise<List<T>>;
  /** All pages, in order, one held at a time. `expired` when a continue token outlived the server's history. */
  pages<T extends KubeObject>(resource: Resource<T>, options?: ListOptions<T>): AsyncIterable<List<T>>;
  /**
   * Opens a watch. Resolves only once the server has accepted it. The stream ends without an error when the server ends
   * it, and rejects with `ApiError` otherwise.
   */
  watch<T extends KubeObject>(resource: Resource<T>, options?: WatchOptions<T>): Promise<WatchStream<T>>;
  /** The stored object, as the server answers it. `alreadyExists` when the name is taken. */
  create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: WriteOptions & { readonly namespace?: string; readonly name?: string },
  ): Promise<T>;
  /** PUT of a whole object exactly as it was read; for objects we own entirely (Lease). */
  replace<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  /** Changes only what the patch names. A merge patch with uid and resourceVersion is bound to that version. */
  patch<T extends KubeObject>(
    resource: Resource<T>,
    of: ObjectName,
    patch: Patch,
    options?: WriteOptions,
  ): Promise<T>;
  /** Server-side apply of the fields in `object`. */
  apply<T extends KubeObject>(resource: Resource<T>, object: T, options?: ApplyOptions): Promise<T>;
  /** Resolves once the server accepts it; finalizers may keep the object. `notFound` when there is none. */
  delete<T extends KubeObject>(resource: Resource<T>, of: ObjectName, options?: DeleteOptions): Promise<void>;
  /** Deletes the objects of the scope, at the server's pace. The API has no transaction for it. */
  deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    scope: CollectionScope,
    options?: DeleteOptions,
  ): Promise<void>;
  /** Reads a path that is no resource (`/version`, `/readyz`, discovery). Returns the body as text. */
  read(path: string, options?: ReadPathOptions): Promise<string>;
  /**
   * A client for an API that this server has under a path, such as the control plane of one project. It has the same
   * credential and the same connections. Closing it ends its own requests; closing the client of `connect` ends all.
   *
   * @param path as in a URL: `/apis/example.com/v1/projects/web/control-plane`. It follows the path of this client. `""`
   *   is a client for the same API whose requests can be ended together.
   * @param options a name for failures, instead of that of this client.
   * @throws TypeError when it is not such a path: it has no `?`, no `#`, and no empty, `.` or `..` segment.
   */
  under(path: string, options?: { readonly cluster?: string }): KubeClient;
  /** Open sockets now. Idle: one for each hundred watches, and none without a watch. */
  readonly openSockets: number;
  /** Ends every present and future request with `aborted`, and every connection that no other client uses. */
  close(): Promise<void>;
}

/** Events in the server's order. Pull-based: a slow reader slows the server and does not fill our memory. */
export interface WatchStream<T extends KubeObject> extends AsyncIterable<WatchEvent<T>>, AsyncDisposable {
  /** Monotonic time (ms, `performance.now`) when bytes last arrived. */
  readonly lastByteAt: number;
}
