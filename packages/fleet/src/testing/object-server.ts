/** What an API server does with the objects of a fleet, without a server: versions, uids, finalizers, generations. */
import { isDeepStrictEqual } from "node:util";
import {
  ApiError,
  type ApiFailure,
  type DeleteOptions,
  type KubeObject,
  type Patch,
  type Resource,
} from "@berth/kube";
import { toTime } from "@berth/runtime";

export type Objects = ReadonlyMap<string, KubeObject>;

export interface Written {
  readonly resource: Resource;
  readonly before: KubeObject | undefined;
  /** `undefined`: it is gone. */
  readonly after: KubeObject | undefined;
}

interface Name {
  readonly name: string;
  readonly namespace?: string;
}

export class ObjectServer {
  /** By plural: all states since the start. */
  readonly #states = new Map<string, Objects[]>();
  readonly #now: () => number;
  #versions = 0;
  /** Creations of what is there already. */
  refusals = 0;
  /** Told of each write that changes something. */
  onWrite: (written: Written) => void = () => undefined;

  /** @param now wall time, ms. */
  constructor(now: () => number) {
    this.#now = now;
  }

  statesOf({ plural }: Resource): readonly Objects[] {
    return this.#listOf(plural);
  }

  all<T extends KubeObject>(resource: Resource<T>): readonly T[] {
    return [...(this.#listOf(resource.plural).at(-1)?.values() ?? [])] as T[];
  }

  get<T extends KubeObject>(resource: Resource<T>, { name }: Name): T {
    const found = this.#listOf(resource.plural).at(-1)?.get(name);
    if (found === undefined) throw failed({ kind: "notFound" }, resource);
    return found as T;
  }

  create<T extends KubeObject>(resource: Resource<T>, object: T, status: object = {}): T {
    const { name = "" } = object.metadata ?? {};
    if (this.#listOf(resource.plural).at(-1)?.has(name)) {
      this.refusals += 1;
      throw failed({ kind: "alreadyExists" }, resource);
    }
    const metadata = {
      namespace: "default",
      ...object.metadata,
      uid: `uid-${this.#versions}`,
      generation: 1,
      creationTimestamp: toTime(this.#now()),
    };
    return this.#store(resource, undefined, { status, ...object, metadata });
  }

  patch<T extends KubeObject>(resource: Resource<T>, of: Name, { body }: Patch, subresource?: string): T {
    const before = this.get(resource, of);
    const { metadata: { uid, resourceVersion } = {} } = body as KubeObject;
    if (uid !== undefined && uid !== before.metadata?.uid) throw failed({ kind: "uidMismatch" }, resource);
    if (resourceVersion !== undefined && resourceVersion !== before.metadata?.resourceVersion)
      throw failed({ kind: "conflict", causes: [] }, resource);
    const given = body as Readonly<Record<string, unknown>>;
    const { status, ...rest } = given;
    const next = merged(before, subresource === "status" ? { status } : rest) as T;
    if (isDeepStrictEqual(next, before)) return before;
    const isNewSpec = !isDeepStrictEqual(
      (next as { spec?: unknown }).spec,
      (before as { spec?: unknown }).spec,
    );
    const generation = (before.metadata?.generation ?? 0) + (isNewSpec ? 1 : 0);
    return this.#store(resource, before, { ...next, metadata: { ...next.metadata, generation } });
  }

  /** @param lingers what has no finalizers stays as well, such as a pod on a node. */
  delete(resource: Resource, of: Name, { preconditions }: DeleteOptions = {}, lingers = false): void {
    const before = this.get(resource, of);
    const { uid, finalizers = [], deletionTimestamp } = before.metadata ?? {};
    if (preconditions?.uid !== undefined && preconditions.uid !== uid)
      throw failed({ kind: "uidMismatch" }, resource);
    if (!lingers && finalizers.length === 0) return this.#remove(resource, before);
    if (deletionTimestamp !== undefined) return;
    const metadata = { ...before.metadata, deletionTimestamp: toTime(this.#now()) };
    this.#store(resource, before, { ...before, metadata });
  }

  #listOf(plural: string): Objects[] {
    const known = this.#states.get(plural) ?? [new Map<string, KubeObject>()];
    this.#states.set(plural, known);
    return known;
  }

  #store<T extends KubeObject>(resource: Resource<T>, before: T | undefined, object: T): T {
    this.#versions += 1;
    const after = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#versions) } };
    const { name = "", deletionTimestamp, finalizers = [] } = after.metadata;
    const isReleased = (before?.metadata?.finalizers?.length ?? 0) > 0 && finalizers.length === 0;
    if (deletionTimestamp !== undefined && isReleased) this.#remove(resource, after);
    else {
      this.onWrite({ resource, before, after });
      const states = this.#listOf(resource.plural);
      states.push(new Map([...(states.at(-1) ?? []), [name, after]]));
    }
    return after;
  }

  #remove(resource: Resource, before: KubeObject): void {
    this.#versions += 1;
    this.onWrite({ resource, before, after: undefined });
    const states = this.#listOf(resource.plural);
    states.push(new Map([...(states.at(-1) ?? [])].filter(([name]) => name !== before.metadata?.name)));
  }
}

export function failed(failure: ApiFailure, { plural }: Resource): ApiError {
  return new ApiError(failure, { verb: "patch", resource: plural });
}

/** RFC 7386. */
function merged(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else if (value !== undefined) result[key] = merged(result[key], value);
  }
  return result;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
