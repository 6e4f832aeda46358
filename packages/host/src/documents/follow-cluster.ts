/** Follows the documents of one kind in the cluster. Distinguishes deleted documents from a deleted CRD. */
import { customResourceDefinitions, isApiError, type KubeClient, nameOfResource } from "@berth/kube";
import {
  type Clock,
  type Component,
  createLoopComponent,
  type Informer,
  isSameData,
  sleep,
} from "@berth/runtime";
import type { Product } from "../product.ts";
import type { DocumentObject, ServedKind } from "./document-kind.ts";
import { ruleName } from "./sources.ts";

/** The objects of one kind that Berth puts in force. */
export interface ClusterObjects<T = DocumentObject> {
  readonly objects: readonly T[];
  /** Set when objects may be missing: only these rules (`cluster/<name>`) are known to be deleted on purpose. */
  readonly unsettled?: { readonly deleted: ReadonlySet<string> };
}

/** Dependencies that the followers of all kinds share. */
export interface FollowerDeps {
  readonly product: Product;
  readonly client: Pick<KubeClient, "get">;
  readonly traces: DocumentTraces;
  readonly clock: Clock;
  /** How long a CRD may be missing, or new, before missing objects count as deleted. Milliseconds. */
  readonly graceMs: number;
  /** Called with the consequences when the CRD of a kind is not served; with `undefined` when it is served again. */
  readonly onAway: (kind: string, message: string | undefined) => void;
}

/** The marks that documents put on objects. */
export interface DocumentTraces {
  /** Resolves with `true` once all objects that may have marks are known; with `false` if `signal` aborts first. */
  whenKnown(signal: AbortSignal): Promise<boolean>;
  /** Did documents of the cluster put marks for this capability, in this process or an earlier one? */
  of(capability: string): boolean;
}

export interface FollowedKind<T extends DocumentObject> {
  readonly kind: Pick<ServedKind, "resource" | "whenAway" | "annotations">;
  readonly documents: Informer<T>;
  /** The capability in whose name these documents put marks. */
  readonly capability: string;
  /** Receives the documents; see `DocumentSource`. */
  readonly source: {
    /** `undefined`: the CRD is not served, so the objects are not known. */
    setCluster(read: ClusterObjects<T> | undefined): void;
    /** Called when the objects could not be read within `PATIENCE_MS`. Berth continues without them. */
    settle(): void;
  };
  /** Called once all marks are known. */
  readonly onKnown?: () => void;
  /** Called every `LOOK_MS`. */
  readonly onLook?: () => void;
}

/** Changes of several objects within this time are handled together. Milliseconds. */
const COALESCE_MS = 50;
/** Interval between two checks of whether the CRD is served. Milliseconds. */
export const LOOK_MS = 5000;
/** How long the follower waits for objects that it may not read. Milliseconds. */
export const PATIENCE_MS = 30_000;
/** Ten minutes: a user who installs a CRD again needs time to apply the objects after it. */
export const CRD_GRACE_MS: number = 10 * 60_000;

/** A CRD that is served. */
interface ServedCrd {
  /** Changes when the CRD is deleted and created again. */
  readonly uid: string;
  readonly createdAt: number;
}

/** Without the permission to read CRDs, the CRD counts as deleted when all its objects are gone. */
const unreadableCrd: ServedCrd = { uid: "", createdAt: Number.NEGATIVE_INFINITY };

/** A refused read, which a starting API server gives for every request. Missing objects do not count as deleted. */
const refusedCrd: ServedCrd = { uid: "", createdAt: Number.POSITIVE_INFINITY };

export function createDocumentFollower<T extends DocumentObject>(
  followed: FollowedKind<T>,
  deps: FollowerDeps,
): Component {
  const follower = new DocumentFollower(followed, deps);
  const name = `${followed.kind.resource.kind.replaceAll(/\B[A-Z]/g, (letter) => `-${letter}`).toLowerCase()}-follower`;
  return {
    ...createLoopComponent({
      name,
      run: (signal) => follower.run(signal),
      whenStarted: () => follower.firstLook,
    }),
    note: () => follower.message,
  };
}

/**
 * Deleting an object removes its marks from the nodes. Deleting the CRD also deletes all objects, often by mistake:
 *
 * - While the CRD is not served, the objects stay in force for the grace period. After it the source counts as not read
 *   (`keep`), or all objects count as deleted (`release`).
 * - A restored CRD may not have all its objects yet. Until it is older than the grace period, only objects that were
 *   deleted while it was served count as deleted.
 * - A process that starts without the CRD knows no objects: it removes nothing until the grace period is over.
 */
class DocumentFollower<T extends DocumentObject> {
  readonly #followed: FollowedKind<T>;
  readonly #deps: FollowerDeps;
  /** By name. */
  readonly #inForce = new Map<string, T>();
  /** Objects in force that disappeared together with their CRD. */
  readonly #carried = new Set<string>();
  /** Rules of objects that a user deleted on purpose. */
  readonly #deleted = new Set<string>();
  /** The CRD at the last read of the objects. */
  #crd: ServedCrd | undefined;
  #awaySinceMs: number | undefined;
  /** The CRD may be served, but Berth may not read it, and all its objects are gone. */
  #isHidden = false;
  /** When the API server first refused to let Berth read the CRD, monotonic ms. */
  #refusedSinceMs: number | undefined;
  #told: ClusterObjects<T> | "nothing" | undefined;
  #isAsked = false;
  #work: Promise<void> = Promise.resolve();
  readonly #firstLook = Promise.withResolvers<void>();
  /** True if objects were in force, in this process or an earlier one. Only then a missing CRD needs a message. */
  #isMissed = false;
  message: string | undefined;

  constructor(followed: FollowedKind<T>, deps: FollowerDeps) {
    this.#followed = followed;
    this.#deps = deps;
  }

  get firstLook(): Promise<void> {
    return this.#firstLook.promise;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { documents, onLook, source } = this.#followed;
    const { clock, traces } = this.#deps;
    const startedMs = clock.monotonic();
    let isPatient = true;
    let timer: Disposable | undefined;
    using _subscribed = documents.subscribe({
      onChange: () => {
        timer ??= clock.schedule(COALESCE_MS, () => {
          timer = undefined;
          void this.#look(signal);
        });
      },
    });
    void documents.whenSynced(signal).then(() => this.#look(signal));
    void traces.whenKnown(signal).then((known) => known && this.#tracesKnown());
    await this.#look(signal);
    this.#firstLook.resolve();
    while (await sleep(clock, LOOK_MS, signal)) {
      onLook?.();
      void this.#look(signal);
      if (this.#told !== undefined || !isPatient || clock.monotonic() - startedMs < PATIENCE_MS) continue;
      isPatient = false;
      source.settle();
    }
    timer?.[Symbol.dispose]();
    await this.#work;
  }

  #tracesKnown(): void {
    this.#followed.onKnown?.();
    this.#isMissed ||= this.#deps.traces.of(this.#followed.capability);
    this.#report();
  }

  /** Runs one check at a time: the API server may be slow. A check that has not started serves all callers. */
  #look(signal: AbortSignal): Promise<void> {
    if (this.#isAsked) return this.#work;
    this.#isAsked = true;
    this.#work = this.#work.then(() => {
      this.#isAsked = false;
      return this.#lookOnce(signal);
    });
    return this.#work;
  }

  async #lookOnce(signal: AbortSignal): Promise<void> {
    const { documents } = this.#followed;
    // The informer can also be absent because Berth may not read the objects. Then the state of the CRD is not known.
    const isServed = !documents.absent;
    if (signal.aborted || (isServed ? !documents.synced : documents.refusal !== undefined)) return;
    // Objects are read before the CRD. So a CRD that is served afterwards did not take a missing object with it.
    const present = new Map(Array.from(documents.list(), (one) => [one.metadata?.name ?? "", one]));
    const lost = this.#inForce.keys().some((name) => !present.has(name) && !this.#carried.has(name));
    const isRead = this.#crd !== undefined && this.#crd !== refusedCrd;
    const isKnown = isRead && this.#awaySinceMs === undefined && !lost;
    const crd = isServed && !isKnown ? await this.#readCrd(present.size, signal) : this.#crd;
    if (signal.aborted || crd === "unknown") return;
    if (!isServed || crd === "gone" || crd === undefined) this.#goOnWithout();
    else this.#takeOver(crd, present);
    this.#report();
  }

  #takeOver(crd: ServedCrd, present: ReadonlyMap<string, T>): void {
    const { clock, graceMs } = this.#deps;
    const isSettled = clock.now() >= crd.createdAt + graceMs;
    const wasServed =
      crd !== refusedCrd &&
      this.#awaySinceMs === undefined &&
      (this.#crd === undefined || this.#crd.uid === crd.uid);
    for (const name of this.#inForce.keys()) {
      if (present.has(name)) continue;
      if (isSettled || (wasServed && !this.#carried.has(name))) {
        this.#inForce.delete(name);
        this.#carried.delete(name);
        this.#deleted.add(ruleName("cluster", name));
      } else this.#carried.add(name);
    }
    for (const [name, object] of present) {
      const before = this.#inForce.get(name);
      this.#inForce.set(name, before !== undefined && this.#isSame(before, object) ? before : object);
      this.#carried.delete(name);
      this.#deleted.delete(ruleName("cluster", name));
    }
    this.#crd = crd;
    this.#awaySinceMs = undefined;
    this.#isMissed = this.#inForce.size > 0;
    // From now on every missing object counts as deleted, so names are not needed.
    if (isSettled) this.#deleted.clear();
    this.#tell(this.#objects(isSettled));
  }

  #goOnWithout(): void {
    this.#awaySinceMs ??= this.#deps.clock.monotonic();
    for (const name of this.#inForce.keys()) this.#carried.add(name);
    if (!this.#isOver()) {
      this.#tell(this.#crd && this.#objects(false));
      return;
    }
    this.#inForce.clear();
    this.#carried.clear();
    this.#deleted.clear();
    this.#crd = undefined;
    this.#tell(this.#followed.kind.whenAway === "release" ? { objects: [] } : undefined);
  }

  #isOver(): boolean {
    const { clock, graceMs } = this.#deps;
    return this.#awaySinceMs !== undefined && clock.monotonic() - this.#awaySinceMs >= graceMs;
  }

  #objects(isSettled: boolean): ClusterObjects<T> {
    const objects = [...this.#inForce.values()];
    return isSettled ? { objects } : { objects, unsettled: { deleted: new Set(this.#deleted) } };
  }

  /** Passes on the documents only if they differ from the last ones. */
  #tell(read: ClusterObjects<T> | undefined): void {
    const last = this.#told;
    if (last !== undefined && (last === "nothing" ? read === undefined : read && isEqual(last, read))) return;
    this.#told = read ?? "nothing";
    this.#followed.source.setCluster(read);
  }

  #isSame({ metadata: a }: T, { metadata: b }: T): boolean {
    const { annotations = [] } = this.#followed.kind;
    return (
      a?.uid === b?.uid &&
      a?.generation === b?.generation &&
      annotations.every((key) => a?.annotations?.[key] === b?.annotations?.[key])
    );
  }

  /** @param present number of objects in the cluster. */
  async #readCrd(present: number, signal: AbortSignal): Promise<ServedCrd | "gone" | "unknown"> {
    const { clock } = this.#deps;
    const name = nameOfResource(this.#followed.kind.resource);
    try {
      const { metadata = {} } = await this.#deps.client.get(customResourceDefinitions, { name }, { signal });
      const { uid = "", creationTimestamp = "", deletionTimestamp } = metadata;
      this.#refusedSinceMs = undefined;
      this.#isHidden = false;
      if (deletionTimestamp !== undefined) return "gone";
      return { uid, createdAt: Date.parse(creationTimestamp) || Number.NEGATIVE_INFINITY };
    } catch (error) {
      if (!isApiError(error, "forbidden")) this.#refusedSinceMs = undefined;
      if (isApiError(error, "notFound")) return "gone";
      if (!isApiError(error, "forbidden")) return "unknown";
      this.#refusedSinceMs ??= clock.monotonic();
      if (clock.monotonic() - this.#refusedSinceMs < PATIENCE_MS) return refusedCrd;
      const wereAny = this.#inForce.size > 0 || this.#awaySinceMs !== undefined;
      this.#isHidden = present === 0 && wereAny;
      return this.#isHidden ? "gone" : unreadableCrd;
    }
  }

  #report(): void {
    const { kind } = this.#followed.kind.resource;
    const message = this.#isMissed && this.#awaySinceMs !== undefined ? this.#describe() : undefined;
    if (message === this.message) return;
    this.message = message;
    this.#deps.onAway(kind, message);
  }

  #describe(): string {
    const { resource, whenAway } = this.#followed.kind;
    const { printsCrds } = this.#deps.product;
    const advice = `Install it${printsCrds === undefined ? "" : ` (\`${printsCrds}\`)`} and apply its objects again.`;
    const after =
      whenAway === "keep"
        ? "what they set stays, and nothing more is set"
        : "all objects count as deleted, and what they hold is released";
    const minutes = `${this.#deps.graceMs / 60_000} min`;
    const crd = `The CRD ${nameOfResource(resource)}`;
    const why = this.#isHidden ? "lost all its objects, and reading it is forbidden" : "is not served";
    return this.#isOver()
      ? `${crd} ${why}, for ${minutes} now: ${after}. ${advice}`
      : `${crd} ${why}: nothing changes for ${minutes}, then ${after}. ${advice}`;
  }
}

function isEqual<T>(a: ClusterObjects<T>, b: ClusterObjects<T>): boolean {
  return (
    a.objects.length === b.objects.length &&
    a.objects.every((object, at) => object === b.objects[at]) &&
    isSameData([...(a.unsettled?.deleted ?? [])], [...(b.unsettled?.deleted ?? [])]) &&
    (a.unsettled === undefined) === (b.unsettled === undefined)
  );
}
