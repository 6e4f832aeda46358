/**
 * Notices that a missing API is served. Discovery is asked once for all who wait, and less and less often. A change of
 * the CRD, or another request about the resource, has it asked sooner.
 */
import {
  apiVersionOf,
  customResourceDefinitions,
  isApiError,
  type KubeClient,
  type KubeObject,
  nameOfResource,
  type Resource,
  type WatchEvent,
} from "@berth/kube";
import type { Random } from "../backoff.ts";
import type { Clock } from "../clock.ts";

/** Time to the first look at discovery, ms. Each further wait is twice as long. */
export const FIRST_LOOK_MS = 5_000;
/** The longest wait, ms. */
export const LAST_LOOK_MS = 300_000;
/** A random share of this is added to each wait, so that many servers are not asked at the same moment. */
const JITTER = 0.2;
/** Discovery is asked within this time after a request of another caller about a missing resource, ms. */
export const ASKED_MS = 20_000;
/** The same, after the CRD of a missing resource has changed: a new one is served after some hundred ms. */
export const CRD_MS = 1_000;
/** How long one watch of CRDs may last, s. */
const WATCH_S = 3_600;

/** All groups with their resources in one answer. Servers before 1.27 answer with the names of group versions. */
const DISCOVERY = `${["v2", "v2beta1"]
  .map((version) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`)
  .join()},application/json`;

export interface ServedApisOptions {
  readonly client: Pick<KubeClient, "read" | "list" | "watch">;
  readonly clock: Clock;
  readonly random?: Random;
  /** Also watch CRDs while a caller waits. It needs the rights to list and watch them. Default false. */
  readonly watchesCrds?: boolean;
}

interface Waiter {
  readonly resource: Resource;
  readonly tell: () => void;
}

/** The APIs of one server. Every authenticated user may read discovery. */
export class ServedApis {
  readonly #options: ServedApisOptions;
  readonly #waiting = new Set<Waiter>();
  /** Resources that discovery named, and about which no request has succeeded since. */
  readonly #doubted = new Set<string>();
  #waitMs = FIRST_LOOK_MS;
  /** When the next look is due, monotonic ms. */
  #dueMs = Number.POSITIVE_INFINITY;
  #timer: Disposable | undefined;
  #isLooking = false;
  #watchesCrds = false;
  /** Aborts once nothing waits. */
  #rest = new AbortController();

  constructor(options: ServedApisOptions) {
    this.#options = options;
  }

  /** Resolves once discovery names the resource or may not be read, and when `signal` aborts. Never rejects. */
  async whenServed(resource: Resource, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const tell = (): void => resolve();
    const waiter: Waiter = { resource, tell };
    signal.addEventListener("abort", tell, { once: true });
    this.#waiting.add(waiter);
    // A server that names what it does not serve must not be asked for it again and again.
    if (this.#doubted.has(nameOfResource(resource))) this.#lookWithin(this.#waitMs);
    else this.#expect(FIRST_LOOK_MS);
    await promise;
    signal.removeEventListener("abort", tell);
    this.#forget(waiter);
  }

  /** A request about the resource has succeeded. */
  answered(resource: string): void {
    this.#doubted.delete(resource);
    for (const waiter of this.#waitersFor(resource)) waiter.tell();
  }

  /** A request about the resource, or one object of it, has found nothing. */
  asked(resource: string): void {
    if (this.#waitersFor(resource).length > 0) this.#lookWithin(ASKED_MS);
  }

  #waitersFor(name: string): readonly Waiter[] {
    return [...this.#waiting].filter(({ resource }) => nameOfResource(resource) === name);
  }

  #forget(waiter: Waiter): void {
    this.#waiting.delete(waiter);
    if (this.#waiting.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#dueMs = Number.POSITIVE_INFINITY;
    this.#rest.abort();
    this.#rest = new AbortController();
  }

  /** Something new is likely to be served soon. */
  #expect(withinMs: number): void {
    this.#waitMs = FIRST_LOOK_MS;
    this.#lookWithin(withinMs);
  }

  #lookWithin(ms: number): void {
    const { clock } = this.#options;
    const now = clock.monotonic();
    this.#dueMs = Math.min(this.#dueMs, now + ms);
    this.#timer?.[Symbol.dispose]();
    if (!this.#isLooking) this.#timer = clock.schedule(this.#dueMs - now, () => void this.#look());
  }

  async #look(): Promise<void> {
    const { random = Math.random, watchesCrds = false } = this.#options;
    const { signal } = this.#rest;
    this.#isLooking = true;
    this.#dueMs = Number.POSITIVE_INFINITY;
    this.#waitMs = Math.min(this.#waitMs * 2, LAST_LOOK_MS);
    // Before discovery, so that a CRD which is created after the answer is seen.
    if (watchesCrds && !this.#watchesCrds) await this.#watchCrds(signal);
    const isServed = await this.#read(signal);
    this.#isLooking = false;
    const waiting = [...this.#waiting];
    const served = waiting.filter(({ resource }) => isServed(resource));
    for (const { resource, tell } of served) {
      this.#doubted.add(nameOfResource(resource));
      tell();
    }
    if (served.length < waiting.length) this.#lookWithin(this.#waitMs * (1 + JITTER * random()));
  }

  /** All count as served where discovery may not be read: then those who wait have to try. */
  async #read(signal: AbortSignal): Promise<(resource: Resource) => boolean> {
    try {
      return readerOf(JSON.parse(await this.#options.client.read("/apis", { accept: DISCOVERY, signal })));
    } catch (error) {
      const isForbidden = isApiError(error, "forbidden");
      return () => isForbidden;
    }
  }

  /** Resolves once the watch is open, or could not be opened: then the next look tries again. */
  async #watchCrds(signal: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const scope = { metadataOnly: true, signal };
    try {
      const { metadata } = await client.list(customResourceDefinitions, { ...scope, limit: 1 });
      const { resourceVersion = "0" } = metadata;
      const opened = { ...scope, resourceVersion, timeoutSeconds: WATCH_S };
      const stream = await client.watch(customResourceDefinitions, opened);
      this.#watchesCrds = true;
      void this.#follow(stream);
    } catch {
      // Without permission, discovery finds the CRD later.
    }
  }

  async #follow(stream: AsyncIterable<WatchEvent<KubeObject>>): Promise<void> {
    try {
      for await (const event of stream) {
        const name = event.type === "BOOKMARK" ? undefined : event.object.metadata?.name;
        if (name !== undefined && this.#waitersFor(name).length > 0) this.#expect(CRD_MS);
      }
    } catch {
      // The next look opens another one.
    }
    this.#watchesCrds = false;
  }
}

/** The answer to `/apis`: `APIGroupDiscoveryList`, or the older `APIGroupList`, which names no resources. */
interface Discovery {
  readonly items?: readonly {
    readonly metadata: { readonly name: string };
    readonly versions: readonly {
      readonly version: string;
      readonly resources?: readonly { readonly resource: string }[];
    }[];
  }[];
  readonly groups?: readonly { readonly versions: readonly { readonly groupVersion: string }[] }[];
}

function readerOf({ items = [], groups = [] }: Discovery): (resource: Resource) => boolean {
  const resources = items.flatMap(({ metadata: { name: group }, versions }) =>
    versions.flatMap(({ version, resources = [] }) =>
      resources.map(({ resource }) => `${group}/${version} ${resource}`),
    ),
  );
  const versions = groups.flatMap((group) => group.versions.map(({ groupVersion }) => groupVersion));
  const named = new Set([...resources, ...versions]);
  return (resource) => {
    const version = apiVersionOf(resource);
    // The core group has a document of its own. Every server serves it.
    return resource.group === "" || named.has(version) || named.has(`${version} ${resource.plural}`);
  };
}
