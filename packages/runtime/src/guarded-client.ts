/** A client for a whole program: it limits requests that the server refuses, and writes only with the lease. */
import {
  ApiError,
  type ApiFailure,
  type ApplyOptions,
  type CollectionScope,
  type DeleteOptions,
  isApiError,
  type KubeClient,
  type KubeObject,
  type List,
  type ListOptions,
  nameOfResource,
  type ObjectName,
  type Patch,
  type ReadOptions,
  type ReadPathOptions,
  type RequestInfo,
  type Resource,
  type Verb,
  type WatchOptions,
  type WatchStream,
  type WriteOptions,
} from "@berth/kube";
import type { Random } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import { OutageLog } from "./guard/outage-log.ts";
import { RequestGates } from "./guard/request-gates.ts";
import { ServedApis } from "./guard/served-apis.ts";
import type { Logger } from "./log.ts";
import { SharedFailure } from "./shared-failure.ts";

/** Options of a guard. */
export interface GuardOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Default `Math.random`. */
  readonly random?: Random;
  /** Returns the command that grants a missing permission, for the log line. Default none. */
  readonly grantOf?: (refusal: ApiError) => string | undefined;
  /** Whether this process may write now: `LeaderElector.mayWrite`. Default always. */
  readonly mayWrite?: () => boolean;
  /** Why the server cannot be reached. Requests of that time are not sent, and those that end then are `unreachable`. */
  readonly unreachable?: () => string | undefined;
  /** Whether `whenServed` also watches CRDs, where the user may list and watch them. Default false. */
  readonly watchesCrds?: boolean;
}

/**
 * The client of a program, with these promises added:
 *
 * - While the server refuses one kind of request (a verb, a resource and a namespace), one request of it is sent at a
 *   time, with backoff up to 25 s. The others reject with `SharedFailure` and the time of that attempt: see
 *   `RequestGates`. So a permission that comes back is used within 30 s, however many objects wait for it.
 * - Such refusals, and an unreachable server, are one log line when they begin and one when they end.
 * - Nothing is sent while `unreachable` gives a reason.
 * - Nothing is written while `mayWrite` returns false: the client calls it right before each write.
 *
 * Give the election a client without a guard.
 */
export interface GuardedClient extends KubeClient {
  /** As that of the client. It has the same promises, and a memory of refusals of its own. */
  under(path: string, options?: { readonly cluster?: string }): GuardedClient;
  /**
   * Resolves once the server serves the resource, or when `signal` aborts. Never rejects. It asks discovery, once for
   * all who wait: after 5 s, then less and less often, up to every 5 min. It asks within 20 s after another request
   * about the resource found nothing, and after 1 s when the CRD has changed, if `watchesCrds`.
   */
  whenServed(resource: Resource, signal: AbortSignal): Promise<void>;
  /** Why the server last refused requests about one of these resources, such as `workerpools.ate.dev`. */
  whyRefused(resources: readonly string[], verbs?: readonly Verb[]): ApiError | undefined;
}

/** The caller closes `client`. Closing the guard does the same. */
export function guardClient(client: KubeClient, options: GuardOptions): GuardedClient {
  return new GuardingClient(client, options);
}

/** Verbs that change something. */
export const WRITES: readonly Verb[] = ["create", "update", "patch", "delete", "deletecollection"];

class GuardingClient implements GuardedClient {
  readonly #client: KubeClient;
  readonly #options: GuardOptions;
  readonly #gates: RequestGates;
  readonly #outages: OutageLog;
  readonly #served: ServedApis;
  /** The part of `RequestInfo` that the client adds. */
  readonly #place: Pick<RequestInfo, "under" | "cluster">;

  constructor(
    client: KubeClient,
    options: GuardOptions,
    outages: OutageLog = new OutageLog(options),
    place: Pick<RequestInfo, "under" | "cluster"> = client.cluster === undefined
      ? {}
      : { cluster: client.cluster },
  ) {
    this.#client = client;
    this.#options = options;
    this.#outages = outages;
    this.#place = place;
    this.#served = new ServedApis({ ...options, client });
    this.#gates = new RequestGates({
      ...options,
      onRefused: (kind) => outages.refused(kind),
      onTaken: (kind) => outages.taken(kind),
    });
  }

  whyRefused(resources: readonly string[], verbs?: readonly Verb[]): ApiError | undefined {
    return this.#gates.refused.find(
      ({ refusal: { request } }) =>
        resources.includes(request.resource) && (verbs?.includes(request.verb) ?? true),
    )?.refusal;
  }

  under(path: string, named: { readonly cluster?: string } = {}): GuardedClient {
    const under = (this.#place.under ?? "") + path;
    const options = { ...this.#options, watchesCrds: false };
    const place = { ...this.#place, ...named, ...(under !== "" && { under }) };
    return new GuardingClient(this.#client.under(path, named), options, this.#outages, place);
  }

  whenServed(resource: Resource, signal: AbortSignal): Promise<void> {
    return this.#served.whenServed(resource, signal);
  }

  get server(): string {
    return this.#client.server;
  }

  get cluster(): string | undefined {
    return this.#client.cluster;
  }

  get openSockets(): number {
    return this.#client.openSockets;
  }

  get<T extends KubeObject>(resource: Resource<T>, of: ObjectName, options?: ReadOptions): Promise<T> {
    const about = aboutOf("get", resource, of, options);
    return this.#run(about, () => this.#client.get(resource, of, options), options?.signal);
  }

  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions<T>): Promise<List<T>> {
    const about = aboutOf("list", resource, { namespace: options?.namespace });
    return this.#run(about, () => this.#client.list(resource, options), options?.signal);
  }

  async *pages<T extends KubeObject>(
    resource: Resource<T>,
    options: ListOptions<T> = {},
  ): AsyncGenerator<List<T>, void, void> {
    let token = options.continue;
    do {
      const page = await this.list(resource, token === undefined ? options : { ...options, continue: token });
      token = page.metadata.continue || undefined;
      yield page;
    } while (token !== undefined);
  }

  watch<T extends KubeObject>(resource: Resource<T>, options?: WatchOptions<T>): Promise<WatchStream<T>> {
    const about = aboutOf("watch", resource, { namespace: options?.namespace });
    return this.#run(about, () => this.#client.watch(resource, options), options?.signal);
  }

  create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: WriteOptions & { readonly namespace?: string; readonly name?: string },
  ): Promise<T> {
    const about = aboutOf("create", resource, { ...object.metadata, ...options }, options);
    return this.#run(about, () => this.#client.create(resource, object, options), options?.signal);
  }

  replace<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T> {
    const about = aboutOf("update", resource, object.metadata, options);
    return this.#run(about, () => this.#client.replace(resource, object, options), options?.signal);
  }

  patch<T extends KubeObject>(
    resource: Resource<T>,
    of: ObjectName,
    patch: Patch,
    options?: WriteOptions,
  ): Promise<T> {
    const about = aboutOf("patch", resource, of, options);
    return this.#run(about, () => this.#client.patch(resource, of, patch, options), options?.signal);
  }

  apply<T extends KubeObject>(resource: Resource<T>, object: T, options?: ApplyOptions): Promise<T> {
    const about = aboutOf("patch", resource, object.metadata, options);
    return this.#run(about, () => this.#client.apply(resource, object, options), options?.signal);
  }

  delete<T extends KubeObject>(
    resource: Resource<T>,
    of: ObjectName,
    options?: DeleteOptions,
  ): Promise<void> {
    return this.#run(
      aboutOf("delete", resource, of),
      () => this.#client.delete(resource, of, options),
      options?.signal,
    );
  }

  deleteCollection<T extends KubeObject>(
    resource: Resource<T>,
    scope: CollectionScope,
    options?: DeleteOptions,
  ): Promise<void> {
    const about = aboutOf("deletecollection", resource, { namespace: scope.namespace });
    return this.#run(about, () => this.#client.deleteCollection(resource, scope, options), options?.signal);
  }

  read(path: string, options?: ReadPathOptions): Promise<string> {
    return this.#client.read(path, options);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #run<R>(asked: RequestInfo, request: () => Promise<R>, signal: AbortSignal | undefined): Promise<R> {
    const about = { ...asked, ...this.#place };
    return this.#gates.run(about, () => this.#send(about, request), signal);
  }

  async #send<R>(about: RequestInfo, request: () => Promise<R>): Promise<R> {
    // Checked here and not before the gate: the process may have been frozen while this request waited there.
    const { mayWrite = () => true } = this.#options;
    if (WRITES.includes(about.verb) && !mayWrite()) {
      const message = "this process no longer holds the lease, or has not renewed it in time";
      throw new SharedFailure(new ApiError({ kind: "aborted" }, about, { message }));
    }
    this.#mustBeReached(about, { kind: "unreachable", noConnection: true });
    try {
      const answer = await request();
      this.#outages.reached();
      this.#served.answered(about.resource);
      return answer;
    } catch (error) {
      // The server may have carried it out.
      if (isApiError(error, "aborted")) this.#mustBeReached(about, { kind: "unreachable" });
      // Those who wait for a resource list and watch it themselves.
      if (isApiError(error, "notFound") && about.verb !== "list" && about.verb !== "watch")
        this.#served.asked(about.resource);
      if (!isApiError(error, "unreachable")) {
        if (!isApiError(error, "timeout", "aborted", "credential")) this.#outages.reached();
        throw error;
      }
      const isOutage = error.failure.kind === "unreachable" && error.failure.noConnection === true;
      if (!isOutage) throw error;
      this.#outages.unreachable(error);
      throw new SharedFailure(error);
    }
  }

  #mustBeReached(about: RequestInfo, failure: ApiFailure): void {
    const message = this.#options.unreachable?.();
    if (message !== undefined) throw new SharedFailure(new ApiError(failure, about, { message }));
  }
}

function aboutOf(
  verb: Verb,
  resource: Resource,
  of: { readonly namespace?: string | undefined; readonly name?: string | undefined } = {},
  options: { readonly subresource?: string } = {},
): RequestInfo {
  const { namespace, name } = of;
  return {
    verb,
    resource: nameOfResource(resource),
    ...(options.subresource !== undefined && { subresource: options.subresource }),
    ...(namespace && { namespace }),
    ...(name && { name }),
  };
}
