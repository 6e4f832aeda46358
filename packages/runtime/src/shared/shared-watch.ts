/** One watch for several informers of a resource. It decodes each object once, and each informer keeps its own part. */
import { type ApiError, isApiError, type KubeObject, type Resource } from "@berth/kube";
import type { InformerSink } from "../informer-feed.ts";
import type { Snapshot } from "../object-store.ts";
import { type Filling, type ReadingClient, Reflector, type ReflectorOptions } from "../reflector.ts";
import { contains, type Scope } from "./scope.ts";

/** An informer that takes part in a watch. */
export interface Member<T extends KubeObject> {
  readonly scope: Scope;
  readonly sink: InformerSink<T>;
}

/** An object as it passes through the watch: its identity, and what each member keeps. */
interface Passing<T extends KubeObject> extends KubeObject {
  /** In the order of the members. `undefined`: outside the member's scope. */
  readonly parts: readonly (T | undefined)[];
}

interface SharedSnapshot<T extends KubeObject> extends Filling<Passing<T>> {
  readonly of: readonly Snapshot<T>[];
}

/** The last refusal of a watch by verb: a user may have one permission without the other. */
export type Refusals = Map<string, ApiError>;

export interface SharedWatchOptions<T extends KubeObject>
  extends Omit<ReflectorOptions<KubeObject>, "resource" | "scope" | "project"> {
  readonly resource: Resource<T>;
  /** Includes the scope of each member. */
  readonly scope: Scope;
  /** The watch begins after this. */
  readonly after: Promise<unknown>;
  /** Filled by the watch. */
  readonly refusals: Refusals;
  /** The server has answered that it does not have the resource, or has it again. Must not throw. */
  readonly onMissing: (isMissing: boolean) => void;
  /** The first refusal, or the end of the last one. Must not throw. */
  readonly onRefused: () => void;
}

/** Runs from its creation until `stop`. Its members never grow: a new one needs a new snapshot, and so a new watch. */
export class SharedWatch<T extends KubeObject> {
  readonly members: Set<Member<T>>;
  /** Rejects when the watch fails in a way that it cannot repair. */
  readonly ended: Promise<void>;
  readonly #stopping = new AbortController();
  readonly #reflector: Reflector<Passing<T>, SharedSnapshot<T>>;

  constructor(options: SharedWatchOptions<T>, members: readonly Member<T>[]) {
    const { scope } = options;
    const isWhole = members.map((it) => it.scope.text === scope.text);
    this.members = new Set(members);
    const each = (call: (sink: InformerSink<T>, index: number) => void): void => {
      // Nothing of a watch that was stopped may reach an informer that another watch feeds now.
      if (this.#stopping.signal.aborted) return;
      for (const [index, member] of members.entries()) if (this.members.has(member)) call(member.sink, index);
    };
    this.#reflector = new Reflector<Passing<T>, SharedSnapshot<T>>(
      {
        ...options,
        client: this.#listenTo(options),
        scope: scope.asked,
        // The client decodes what it was asked for. What comes out of `project` is what the reflector carries.
        resource: options.resource as unknown as Resource<Passing<T>>,
        project: (object) => toPassing(object as unknown as T, members, isWhole),
      },
      {
        beginSnapshot: () => beginSnapshot(members),
        async replace({ of }) {
          const all: Promise<void>[] = [];
          each((sink, index) => void all.push(sink.replace(of[index] as Snapshot<T>)));
          await Promise.all(all);
        },
        upsert: (object) =>
          each((sink, index) => {
            const part = object.parts[index];
            if (part === undefined) sink.leave(object);
            else sink.upsert(part);
          }),
        remove: (object) =>
          each((sink, index) => {
            const part = object.parts[index];
            if (part === undefined) sink.leave(object);
            else sink.remove(part);
          }),
        arrive: () => undefined,
        connection: (problem) => {
          let isKnown = false;
          each((sink) => {
            sink.connection(problem, isKnown);
            isKnown = true;
          });
        },
        listing(how) {
          let isTold = false;
          each((sink) => {
            if (!isTold) sink.listing(how);
            isTold = true;
          });
        },
      },
    );
    this.ended = options.after.then(() => this.#reflector.run(this.#stopping.signal));
  }

  get lastByteAt(): number | undefined {
    return this.#reflector.lastByteAt;
  }

  /** Resolves once nothing of it runs. */
  stop(): Promise<void> {
    this.#stopping.abort();
    return this.ended;
  }

  /** Wraps the client to record refusals. An accepted watch is enough for an informer. */
  #listenTo({ client, refusals, onMissing, onRefused }: SharedWatchOptions<T>): ReadingClient {
    const noted = async <R>(request: Promise<R>, granted: () => void): Promise<R> => {
      const wasRefused = refusals.size > 0;
      try {
        const answer = await request;
        granted();
        onMissing(false);
        return answer;
      } catch (error) {
        if (isApiError(error, "forbidden")) refusals.set(error.request.verb, error);
        if (isApiError(error, "notFound")) onMissing(true);
        throw error;
      } finally {
        if (wasRefused !== refusals.size > 0) onRefused();
      }
    };
    return {
      ...(client.whenServed && { whenServed: client.whenServed.bind(client) }),
      list: (resource, options) => noted(client.list(resource, options), () => refusals.delete("list")),
      watch: (resource, options) => noted(client.watch(resource, options), () => refusals.clear()),
    };
  }
}

/** @param isWhole by member, whether its scope is that of the watch, so that the API server has decided. */
function toPassing<T extends KubeObject>(
  object: T,
  members: readonly Member<T>[],
  isWhole: readonly boolean[],
): Passing<T> {
  const { name = "", namespace, uid, resourceVersion } = object.metadata ?? {};
  return {
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    parts: members.map(({ scope, sink }, index) =>
      isWhole[index] || contains(scope, object) ? sink.project(object) : undefined,
    ),
  };
}

function beginSnapshot<T extends KubeObject>(members: readonly Member<T>[]): SharedSnapshot<T> {
  const of = members.map(({ sink }) => sink.beginSnapshot());
  const removeFrom = (snapshot: Snapshot<T>, object: KubeObject): void => snapshot.remove(object as T);
  return {
    of,
    put(object) {
      for (const [index, snapshot] of of.entries()) {
        const part = object.parts[index];
        if (part === undefined) removeFrom(snapshot, object);
        else snapshot.put(part);
      }
    },
    remove(object) {
      for (const snapshot of of) removeFrom(snapshot, object);
    },
  };
}
