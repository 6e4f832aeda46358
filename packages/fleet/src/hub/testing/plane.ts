/** An API server, and what Berth has read of it. It can be cut off, and restored to what it was. No clock. */

import { isDeepStrictEqual } from "node:util";
import type { KubeObject, Resource } from "@berth/kube";
import { applyMergePatch } from "../../workload/merge-patch.ts";

export type Objects = ReadonlyMap<string, KubeObject>;

interface State {
  readonly objects: Objects;
  readonly version: number;
}

/** What a request asks for. Each is bound to the uid, and a patch to the version that was seen. */
export type Request =
  | { readonly do: "create"; readonly resource: Resource; readonly body: KubeObject }
  | { readonly do: "patch"; readonly resource: Resource; readonly seen: KubeObject; readonly body: object }
  | { readonly do: "status"; readonly resource: Resource; readonly seen: KubeObject; readonly body: object }
  | { readonly do: "delete"; readonly resource: Resource; readonly seen: KubeObject };

export class Plane {
  readonly name: string;
  readonly uid: string;
  /** All states since the start. A restore appends one. */
  readonly states: State[] = [{ objects: new Map(), version: 0 }];
  /** Requests reach it, and it answers. */
  isReachable = true;
  /** Berth knows that it answers, and has read it since. */
  isSynced = true;
  /** There is no older backup. */
  oldest = 0;
  #seen = 0;
  /** Of its own, so that a seed repeats a history: uids decide which cell comes first. A restore does not take it back. */
  #uids = 0;
  /** States before it belong to a past that was undone. */
  #restoredAt = 0;
  onWrite: (resource: Resource, before: KubeObject | undefined, after: KubeObject | undefined) => void = () =>
    undefined;

  constructor(name: string) {
    this.name = name;
    this.uid = `uid-of-${name}`;
  }

  get version(): number {
    return this.states.length - 1;
  }

  get seenVersion(): number {
    return this.#seen;
  }

  /** As Berth sees it: perhaps older. */
  seen<T extends KubeObject>(resource: Resource<T>): readonly T[] {
    return listOf(this.states[this.#seen]?.objects, resource);
  }

  now<T extends KubeObject>(resource: Resource<T>): readonly T[] {
    return listOf(this.#now, resource);
  }

  get<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string): T | undefined {
    return this.#now.get(keyOf(resource, namespace, name)) as T | undefined;
  }

  see(states: number = Number.POSITIVE_INFINITY): void {
    if (!this.isReachable) return;
    this.#seen = Math.max(Math.min(this.#seen + states, this.version), this.#restoredAt);
  }

  /** Another process leads, whose watch is so many states behind. */
  lag(states: number): void {
    this.#seen = Math.max(this.#seen - states, this.#restoredAt);
  }

  /** Berth's probe: it finds out whether the server answers, and then reads all of it. */
  probe(): void {
    this.isSynced = this.isReachable;
    if (this.isReachable) this.see();
  }

  /** To what it was so many changes before. What Berth has read stays as it is, until it notices. */
  restore(changes: number): void {
    const to = this.states[Math.max(this.version - changes, this.oldest)];
    if (to === undefined) return;
    this.states.push(to);
    this.#restoredAt = this.version;
    for (const it of this.now(NAMESPACES))
      if (it.metadata?.deletionTimestamp !== undefined) this.endNamespace(it);
  }

  /** `false`: refused. */
  take(request: Request): boolean {
    const { resource } = request;
    const { metadata: of } = request.do === "create" ? request.body : request.seen;
    const key = keyOf(resource, of?.namespace ?? "", of?.name ?? "");
    const before = this.#now.get(key);
    if (request.do === "create") {
      const namespace = this.#now.get(keyOf(NAMESPACES, "", of?.namespace ?? ""));
      const isMissing = resource.namespaced && namespace === undefined;
      if (before !== undefined || isMissing || namespace?.metadata?.deletionTimestamp !== undefined)
        return false;
      this.#uids += 1;
      const uid = `${this.name}-${this.#uids}`;
      const metadata = { ...of, uid, generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" };
      const { status: _status, ...body } = request.body as KubeObject & { status?: unknown };
      this.#put(resource, key, before, { ...body, metadata });
      return true;
    }
    if (before === undefined || before.metadata?.uid !== of?.uid) return false;
    if (request.do === "delete") return this.#delete(resource, key, before);
    if (before.metadata?.resourceVersion !== of?.resourceVersion) return false;
    const body =
      request.do === "status" ? { status: (request.body as { status: unknown }).status } : request.body;
    const merged =
      request.do === "status" ? { ...before, ...body } : (applyMergePatch(before, body) as KubeObject);
    this.#put(resource, key, before, merged);
    return true;
  }

  /** It is gone at once, whatever its finalizers say. */
  strip(resource: Resource, object: KubeObject): void {
    const key = keyOf(resource, object.metadata?.namespace ?? "", object.metadata?.name ?? "");
    const before = this.#now.get(key);
    if (before !== undefined) this.#put(resource, key, before, undefined);
  }

  get #now(): Objects {
    return this.states.at(-1)?.objects ?? new Map();
  }

  #delete(resource: Resource, key: string, before: KubeObject): boolean {
    if (before.metadata?.deletionTimestamp !== undefined) return true;
    const metadata = { ...before.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
    this.#put(resource, key, before, { ...before, metadata });
    return true;
  }

  #put(resource: Resource, key: string, before: KubeObject | undefined, after: KubeObject | undefined): void {
    const objects = new Map(this.#now);
    const version = (this.states.at(-1)?.version ?? 0) + 1;
    const isGone =
      after?.metadata?.deletionTimestamp !== undefined && (after.metadata.finalizers ?? []).length === 0;
    let next = isGone ? undefined : after;
    if (next === undefined) objects.delete(key);
    else {
      const { generation = 1 } = next.metadata ?? {};
      const isOther = before !== undefined && !isDeepStrictEqual(specOf(before), specOf(next));
      next = {
        ...next,
        metadata: {
          ...next.metadata,
          resourceVersion: String(version),
          generation: isOther ? generation + 1 : generation,
        },
      };
      objects.set(key, next);
    }
    this.states.push({ objects, version });
    this.onWrite(resource, before, next);
    if (next === undefined && before !== undefined && resource !== NAMESPACES) this.#collect(before);
  }

  /** The collector, and the end of a namespace. */
  #collect(gone: KubeObject): void {
    for (const [, object] of this.#now) {
      const isOwned = object.metadata?.ownerReferences?.some(({ uid }) => uid === gone.metadata?.uid);
      if (isOwned) this.take({ do: "delete", resource: resourceOf(object), seen: object });
    }
    const namespace = this.get(NAMESPACES, "", gone.metadata?.namespace ?? "");
    if (namespace?.metadata?.deletionTimestamp !== undefined) this.endNamespace(namespace);
  }

  /** Goes when nothing is left in it. */
  endNamespace(namespace: KubeObject): void {
    const { name = "" } = namespace.metadata ?? {};
    const isIn = (object: KubeObject): boolean => object.metadata?.namespace === name;
    for (const object of this.#now.values())
      if (isIn(object)) this.take({ do: "delete", resource: resourceOf(object), seen: object });
    if (!this.#now.values().some(isIn)) this.strip(NAMESPACES, namespace);
  }
}

const resourcesByKind = new Map<string, Resource>();
export const NAMESPACES: Resource = known({
  group: "",
  version: "v1",
  plural: "namespaces",
  kind: "Namespace",
  namespaced: false,
});

/** Its objects can be found by their kind. */
export function known(resource: Resource): Resource {
  resourcesByKind.set(resource.kind, resource);
  return resource;
}

function resourceOf({ kind = "" }: KubeObject): Resource {
  const found = resourcesByKind.get(kind);
  if (found === undefined) throw new TypeError(`unknown kind ${kind}`);
  return found;
}

function keyOf(resource: Resource, namespace: string, name: string): string {
  return `${resource.kind}/${namespace}/${name}`;
}

function listOf<T extends KubeObject>(objects: Objects | undefined, resource: Resource<T>): readonly T[] {
  return [...(objects?.values() ?? [])].filter(({ kind }) => kind === resource.kind) as unknown as T[];
}

function specOf(object: KubeObject): unknown {
  return (object as { spec?: unknown }).spec;
}
