/**
 * Every version that objects of some resources ever had, recorded by watches of our own, straight from the real API
 * server: what happened in a telling is judged by it, and older views of the cluster are made from it.
 */
import { isDeepStrictEqual } from "node:util";
import {
  compareResourceVersions,
  isApiError,
  type KubeClient,
  type KubeObject,
  nameOfResource,
  type Resource,
} from "@berth/kube";
import { type Conditions, createConditions } from "../fault/conditions.ts";

/** Who made a version: the story, the harness (a neutral change, to make an object change again), or the controller. */
export type Author = "story" | "harness" | "controller";

/** One version of one object, in the order in which the server told them. */
export interface HistoryEntry {
  /** The step that had begun last; `start` before the first. */
  readonly step: string;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly resource: Resource;
  /** Local: as the story knows it. */
  readonly name: string;
  readonly object: KubeObject;
  /** The version before, of the same uid. */
  readonly before: KubeObject | undefined;
  readonly by: Author;
  /** When our watch told it: not before the server had it. Milliseconds of `performance.now()`. */
  readonly at: number;
}

/** A change as the watch told it. */
export interface Version {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly resource: Resource;
  readonly object: KubeObject;
  readonly before: KubeObject | undefined;
  readonly step: string;
  /** Milliseconds of `performance.now()`. */
  readonly at: number;
}

/** How long a watch of ours may last before the server ends it: longer than any run. Seconds. */
const WATCH_SECONDS = 24 * 3600;
/** Before a broken watch is opened again. Milliseconds. */
const REOPEN_AFTER_MS = 50;

/** Use `recordVersions`. */
export class VersionLog implements AsyncDisposable {
  readonly conditions: Conditions = createConditions();
  /** The step that has begun last; noted with each version. */
  step = "start";
  readonly #stop = new AbortController();
  readonly #watches: Promise<void>[] = [];
  readonly #objects = new Map<string, KubeObject>();
  #versions: Version[] = [];
  #base = new Map<string, KubeObject>();
  /** By resource: the newest version told. */
  readonly #reached = new Map<string, string>();
  #baseReached = new Map<string, string>();
  #failure: unknown;

  /** Since `begin`. */
  get versions(): readonly Version[] {
    return this.#versions;
  }

  /** Forgets the past: what exists now is where the history starts. */
  begin(): void {
    this.#versions = [];
    this.#base = new Map(this.#objects);
    this.#baseReached = new Map(this.#reached);
    this.step = "start";
  }

  /** Whether this version of some object of the resource, and all before it, have been told. */
  hasReached(resource: Resource, resourceVersion: string): boolean {
    const reached = this.#reached.get(nameOfResource(resource)) ?? "0";
    return (compareResourceVersions(reached, resourceVersion) ?? 0) >= 0;
  }

  /** All present objects of a resource. */
  present(resource: Resource): readonly KubeObject[] {
    const head = `${nameOfResource(resource)}/`;
    return [...this.#objects].filter(([key]) => key.startsWith(head)).map(([, object]) => object);
  }

  /** The objects of a resource as they were after the first `count` versions. */
  viewOf(resource: Resource, count: number): ReadonlyMap<string, KubeObject> {
    const head = `${nameOfResource(resource)}/`;
    const view = new Map([...this.#base].filter(([key]) => key.startsWith(head)));
    for (const version of this.#versions.slice(0, count)) {
      const key = keyOf(version.resource, version.object);
      if (!key.startsWith(head)) continue;
      if (version.type === "DELETED") view.delete(key);
      else view.set(key, version.object);
    }
    return view;
  }

  /** The resourceVersion of that view. */
  resourceVersionOf(resource: Resource, count: number): string {
    const name = nameOfResource(resource);
    const last = this.#versions.slice(0, count).findLast((one) => nameOfResource(one.resource) === name);
    return last?.object.metadata?.resourceVersion ?? this.#baseReached.get(name) ?? "1";
  }

  /** Resolves as soon as `holds()`; asked after every change. `false` when the time is over first. */
  async until(holds: () => boolean, timeoutMs: number): Promise<boolean> {
    this.throwIfBroken();
    if (holds()) return true;
    let over = false;
    const timer = setTimeout(() => {
      over = true;
      this.conditions.changed();
    }, timeoutMs);
    try {
      await this.conditions.until(() => over || this.#failure !== undefined || holds());
    } finally {
      clearTimeout(timer);
    }
    this.throwIfBroken();
    return holds();
  }

  /** @throws what ended a watch of ours for good. */
  throwIfBroken(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when the present objects are known. */
  async follow(client: KubeClient, resource: Resource): Promise<void> {
    const started = Promise.withResolvers<void>();
    const watch = this.#follow(client, resource, started.resolve).catch((error: unknown) => {
      this.#failure ??= error;
      this.conditions.changed();
    });
    this.#watches.push(watch);
    await Promise.race([started.promise, watch]);
    this.throwIfBroken();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#watches);
    this.conditions.close(new Error("the history was closed"));
  }

  async #follow(client: KubeClient, resource: Resource, onSnapshot: () => void): Promise<void> {
    const { signal } = this.#stop;
    const name = nameOfResource(resource);
    while (!signal.aborted) {
      const from = this.#reached.get(name);
      const where = from === undefined ? { sendInitialEvents: true } : { resourceVersion: from };
      try {
        await using watch = await client.watch(resource, { ...where, signal, timeoutSeconds: WATCH_SECONDS });
        for await (const event of watch) {
          if (event.type !== "BOOKMARK") this.#note(resource, event.type, event.object);
          else if (event.initialEventsEnd) {
            this.#reached.set(name, event.resourceVersion);
            onSnapshot();
          }
        }
      } catch (error) {
        if (signal.aborted) return;
        // Versions would be missing from the history: better no verdict than a wrong one.
        if (!isApiError(error, "unreachable", "serverError", "timeout")) throw error;
        await new Promise((resolve) => setTimeout(resolve, REOPEN_AFTER_MS));
      }
    }
  }

  #note(resource: Resource, type: Version["type"], object: KubeObject): void {
    const key = keyOf(resource, object);
    const known = this.#objects.get(key);
    const before = known?.metadata?.uid === object.metadata?.uid ? known : undefined;
    if (type === "DELETED") this.#objects.delete(key);
    else this.#objects.set(key, object);
    const name = nameOfResource(resource);
    const reached = this.#reached.get(name);
    if (reached !== undefined) {
      const version = object.metadata?.resourceVersion ?? "";
      if ((compareResourceVersions(version, reached) ?? 1) > 0) this.#reached.set(name, version);
    }
    this.#versions.push({ type, resource, object, before, step: this.step, at: performance.now() });
    this.conditions.changed();
  }
}

/** Resolves when the present objects of these resources are known. */
export async function recordVersions(
  client: KubeClient,
  resources: readonly Resource[],
): Promise<VersionLog> {
  await using owned = new AsyncDisposableStack();
  const log = owned.use(new VersionLog());
  for (const resource of resources) await log.follow(client, resource);
  owned.move();
  return log;
}

/** Whether the two versions of an object differ in nothing but their status. */
export function isStatusOnly(before: KubeObject, after: KubeObject): boolean {
  return isDeepStrictEqual(withoutStatus(before), withoutStatus(after));
}

function withoutStatus(object: KubeObject): unknown {
  const { status: _status, metadata = {}, ...rest } = object as KubeObject & { readonly status?: unknown };
  const { managedFields: _fields, resourceVersion: _version, ...meta } = metadata;
  return { ...rest, metadata: meta };
}

/** `nodes//n1`, `pods/default/p1`. */
export function keyOf(resource: Resource, { metadata = {} }: KubeObject): string {
  return `${nameOfResource(resource)}/${metadata.namespace ?? ""}/${metadata.name ?? ""}`;
}
