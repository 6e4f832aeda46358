import type { KubeClient } from "./client.ts";
import { isApiError } from "./failure.ts";
import { defineResource, type Resource } from "./resource.ts";

/** A kind as owner references name it. */
export interface KindName {
  /** `""` for core. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** The client of a `ResourceDirectory`, and its clock. */
export interface ResourceDirectoryOptions {
  readonly client: Pick<KubeClient, "read">;
  /** Milliseconds, as `Clock.monotonic`. */
  readonly monotonic: () => number;
}

/** Time before a group version without a wanted kind is read again, ms: a CRD may have been added. */
export const MISS_MS: number = 60_000;
/** Group versions remembered: about five times as many as a large cluster serves. Then the oldest is forgotten. */
const MAX_READ = 512;

const GROUP = /^(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)?$/;
const VERSION = /^[a-z][-a-z0-9]{0,62}$/;

interface GroupVersion {
  readonly resources: readonly Resource[];
  /** Monotonic ms. */
  readonly readAt: number;
}

/**
 * Finds the resource of a kind by its name, from the server's discovery documents.
 *
 * It reads each group version once. It reads it again for a missing kind when the last read was more than `MISS_MS`
 * ago. Impossible names get an answer without a request.
 */
export class ResourceDirectory {
  readonly #options: ResourceDirectoryOptions;
  readonly #read = new Map<string, GroupVersion>();
  /** The server's preferred version, by group. */
  readonly #preferred = new Map<string, { readonly version: string | undefined; readonly readAt: number }>();
  /** Requests in flight: other callers wait for the same answer. */
  readonly #reading = new Map<string, Promise<GroupVersion>>();

  constructor(options: ResourceDirectoryOptions) {
    this.#options = options;
  }

  /**
   * `undefined`: the server has no such kind. For a version that is no longer served it returns the preferred one, as
   * the garbage collector does for owners. Rejects with `ApiError` when the server does not answer.
   */
  async ofKind({ group, version, kind }: KindName, signal?: AbortSignal): Promise<Resource | undefined> {
    if (!isPossible(group, version)) return undefined;
    const named = await this.#find(group, version, kind, signal);
    if (named !== undefined || group === "") return named;
    const preferred = await this.#preferredOnce(group, signal);
    return preferred === undefined || preferred === version
      ? undefined
      : this.#find(group, preferred, kind, signal);
  }

  async #find(
    group: string,
    version: string,
    kind: string,
    signal: AbortSignal | undefined,
  ): Promise<Resource | undefined> {
    const id = `${group}/${version}`;
    const known = this.#read.get(id);
    const found = known?.resources.find((resource) => resource.kind === kind);
    if (found !== undefined) return found;
    if (known !== undefined && this.#options.monotonic() - known.readAt < MISS_MS) return undefined;
    const { resources } = await this.#readOnce(id, group, version, signal);
    return resources.find((resource) => resource.kind === kind);
  }

  #readOnce(
    id: string,
    group: string,
    version: string,
    signal: AbortSignal | undefined,
  ): Promise<GroupVersion> {
    const running = this.#reading.get(id);
    if (running !== undefined) return running;
    const reading = this.#readGroupVersion(group, version, signal).finally(() => this.#reading.delete(id));
    this.#reading.set(id, reading);
    return reading;
  }

  async #readGroupVersion(
    group: string,
    version: string,
    signal: AbortSignal | undefined,
  ): Promise<GroupVersion> {
    const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    const resources = resourcesOf(await this.#document(path, signal), group, version);
    const read = { resources, readAt: this.#options.monotonic() };
    keepNewest(this.#read, `${group}/${version}`, read);
    return read;
  }

  /** Cached as long as a miss in a group version. */
  async #preferredOnce(group: string, signal: AbortSignal | undefined): Promise<string | undefined> {
    const now = this.#options.monotonic();
    const known = this.#preferred.get(group);
    if (known !== undefined && now - known.readAt < MISS_MS) return known.version;
    const version = await this.#preferredVersion(group, signal);
    keepNewest(this.#preferred, group, { version, readAt: this.#options.monotonic() });
    return version;
  }

  async #preferredVersion(group: string, signal: AbortSignal | undefined): Promise<string | undefined> {
    const document = await this.#document(`/apis/${group}`, signal);
    const version = (document as { preferredVersion?: { version?: unknown } } | undefined)?.preferredVersion
      ?.version;
    return typeof version === "string" && isPossible(group, version) ? version : undefined;
  }

  /** `undefined`: not served. */
  async #document(path: string, signal: AbortSignal | undefined): Promise<unknown> {
    try {
      return JSON.parse(await this.#options.client.read(path, signal === undefined ? {} : { signal }));
    } catch (error) {
      if (isApiError(error, "notFound")) return undefined;
      throw error;
    }
  }
}

/** Checked because both become parts of a path. */
function isPossible(group: string, version: string): boolean {
  return group.length <= 253 && GROUP.test(group) && VERSION.test(version);
}

/** The resources of an `APIResourceList` without subresources, which have a `/` in their name. */
function resourcesOf(document: unknown, group: string, version: string): readonly Resource[] {
  const { resources } = (document ?? {}) as { readonly resources?: unknown };
  if (!Array.isArray(resources)) return [];
  return resources.flatMap((entry: unknown) => {
    const { name, kind, namespaced } = (entry ?? {}) as {
      name?: unknown;
      kind?: unknown;
      namespaced?: unknown;
    };
    if (typeof name !== "string" || typeof kind !== "string" || name.includes("/")) return [];
    return [defineResource({ group, version, plural: name, kind, namespaced: namespaced === true })];
  });
}

/** Adds the entry as the newest; removes the oldest above `MAX_READ`. */
function keepNewest<V>(entries: Map<string, V>, key: string, value: V): void {
  entries.delete(key);
  for (const oldest of entries.keys()) {
    if (entries.size < MAX_READ) break;
    entries.delete(oldest);
  }
  entries.set(key, value);
}
