/**
 * Informers of one cluster that come and go while the program runs, and share watches: as many informers of a resource as
 * its readers need, and as few watches as can serve them.
 */
import { type ApiError, type KubeObject, nameOfResource } from "@berth/kube";
import { whenAborted } from "../component.ts";
import { createFedInformer, type Informer, type InformerOptions } from "../informer.ts";
import type { Feed } from "../informer-feed.ts";
import type { ReadingClient } from "../reflector.ts";
import { cover } from "./cover.ts";
import { type Scope, scopeOf } from "./scope.ts";
import { type Member, type Refusals, SharedWatch, type SharedWatchOptions } from "./shared-watch.ts";

/** The cluster that the informers read. */
export interface SharedInformersOptions
  extends Pick<InformerOptions<KubeObject>, "cluster" | "clock" | "random"> {
  /** A function makes a client for each watch. */
  readonly client: ReadingClient | (() => ReadingClient);
}

/** `project` must not change the object that it is given: other informers read the same one. */
export interface InformerRequest<T extends KubeObject>
  extends Omit<InformerOptions<T>, keyof SharedInformersOptions | "eager"> {
  readonly project: NonNullable<InformerOptions<T>["project"]>;
  /** The server has answered that it does not have the resource. Must not throw. */
  readonly onMissing?: () => void;
  /** What follows for a command when its user may not read the objects, as the end of a sentence. */
  readonly consequence?: string;
}

/** An informer, and why it holds nothing. */
export interface SharedInformer<T extends KubeObject> {
  readonly informer: Informer<T>;
  /** The last refusal of its watch, until the server allows the request. */
  readonly refused: ApiError | undefined;
  /** The server last answered that it does not have the resource. It may have had it before. */
  readonly isMissing: boolean;
}

/** Makes informers of one cluster. */
export interface SharedInformers {
  /**
   * An informer that runs from `start` until the signal aborts. The cache, indexes and handlers are its own. One that
   * joins others can make their watch begin again: they keep their caches meanwhile, and see each change once.
   */
  informer<T extends KubeObject>(options: InformerRequest<T>): SharedInformer<T>;
}

/** Informers that start within this time begin one watch together. Milliseconds. */
export const JOIN_MS = 20;

/** Informers over one client. Nothing is sent before one of them starts. */
export function createSharedInformers(options: SharedInformersOptions): SharedInformers {
  const groups = new Map<string, unknown>();
  const groupOf = <T extends KubeObject>(asked: InformerRequest<T>): Group<T> => {
    const { resource, metadataOnly = false, optional = false } = asked;
    const key = JSON.stringify([nameOfResource(resource), resource.version, metadataOnly, optional]);
    // A key has one resource, and so one type of objects.
    const group =
      (groups.get(key) as Group<T> | undefined) ??
      new Group<T>({ ...asked, ...options, metadataOnly, optional });
    groups.set(key, group);
    return group;
  };
  return {
    informer(asked) {
      const group = groupOf(asked);
      const scope = scopeOf(asked.scope ?? {});
      const informer = createFedInformer({ ...asked, ...options }, (sink) =>
        group.feed({ scope, sink }, asked.onMissing),
      );
      return {
        informer,
        get refused() {
          return group.refused(scope);
        },
        get isMissing() {
          return group.isMissing;
        },
      };
    },
  };
}

type GroupOptions<T extends KubeObject> = Omit<
  SharedWatchOptions<T>,
  "client" | "scope" | "after" | "refusals" | "onMissing" | "onRefused"
> &
  Pick<SharedInformersOptions, "client">;

/** The informers of one resource. */
class Group<T extends KubeObject> {
  isMissing = false;
  readonly #options: GroupOptions<T>;
  readonly #members = new Map<Member<T>, (() => void) | undefined>();
  /** By the text of their scope. */
  readonly #watches = new Map<string, SharedWatch<T>>();
  /** Of watches that run, and of those that ran and whose scope is still wanted. */
  readonly #refusals = new Map<string, Refusals>();
  readonly #failed = Promise.withResolvers<never>();
  /** The watches are arranged anew soon. */
  #isArranging = false;

  constructor(options: GroupOptions<T>) {
    this.#options = options;
    this.#failed.promise.catch(() => undefined);
  }

  feed(member: Member<T>, onMissing: (() => void) | undefined): Feed {
    const watch = (): SharedWatch<T> | undefined =>
      this.#watches.values().find(({ members }) => members.has(member));
    return {
      run: async (signal) => {
        this.#members.set(member, onMissing);
        this.#change();
        await Promise.race([whenAborted(signal), this.#failed.promise]);
        this.#members.delete(member);
        const last = watch();
        last?.members.delete(member);
        this.#change();
        if (last?.members.size === 0) await last.stop();
      },
      get lastByteAt() {
        return watch()?.lastByteAt;
      },
    };
  }

  refused(scope: Scope): ApiError | undefined {
    const by = cover(this.#scopes(), this.#isRefused).get(scope.text);
    return by && this.#refusals.get(by.text)?.values().next().value;
  }

  #scopes(): readonly Scope[] {
    return Array.from(this.#members.keys(), ({ scope }) => scope);
  }

  readonly #isRefused = ({ text }: Scope): boolean => (this.#refusals.get(text)?.size ?? 0) > 0;

  #change(): void {
    if (this.#isArranging) return;
    this.#isArranging = true;
    this.#options.clock.schedule(JOIN_MS, () => {
      this.#isArranging = false;
      this.#arrange();
    });
  }

  /** Begins a watch where members are that no running one has, and stops those without members. */
  #arrange(): void {
    const served = cover(this.#scopes(), this.#isRefused);
    const scopeFor = ({ scope }: Member<T>): Scope => served.get(scope.text) ?? scope;
    const wanted = Map.groupBy(this.#members.keys(), (member) => scopeFor(member).text);
    for (const text of this.#refusals.keys()) if (!served.has(text)) this.#refusals.delete(text);
    const stopped: Promise<void>[] = [];
    for (const [text, watch] of this.#watches) {
      if (isEqual(watch.members, wanted.get(text) ?? [])) continue;
      this.#watches.delete(text);
      stopped.push(watch.stop());
    }
    // An informer may still be telling what a stopped watch has read, and tells of the next one after it.
    const before = Promise.all(stopped);
    before.catch(this.#failed.reject);
    for (const [text, members] of wanted) {
      const [first] = members;
      if (first !== undefined && !this.#watches.has(text)) this.#begin(scopeFor(first), members, before);
    }
  }

  #begin(scope: Scope, members: readonly Member<T>[], after: Promise<unknown>): void {
    const refusals: Refusals = this.#refusals.get(scope.text) ?? new Map();
    this.#refusals.set(scope.text, refusals);
    const { client } = this.#options;
    const watch = new SharedWatch<T>(
      {
        ...this.#options,
        client: typeof client === "function" ? client() : client,
        scope,
        after,
        refusals,
        onMissing: (isMissing) => this.#miss(isMissing),
        onRefused: () => this.#change(),
      },
      members,
    );
    this.#watches.set(scope.text, watch);
    watch.ended.catch(this.#failed.reject);
  }

  #miss(isMissing: boolean): void {
    const isNews = isMissing && !this.isMissing;
    this.isMissing = isMissing;
    if (isNews) for (const onMissing of this.#members.values()) onMissing?.();
  }
}

function isEqual<M>(some: ReadonlySet<M>, others: readonly M[]): boolean {
  return some.size > 0 && some.size === others.length && others.every((it) => some.has(it));
}
