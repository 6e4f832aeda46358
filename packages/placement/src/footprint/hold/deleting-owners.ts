/** Owners whose deletion waits, and which of them a change concerns: to look at one is to read all pods that may be its own. */
import type { Pod } from "@berth/kube";
import type { FootprintSight } from "../footprint-sight.ts";
import { isGroupedByOwner } from "../groups.ts";
import type { Guard } from "./decide.ts";
import { type Above, mayBeOf, ownersAbove } from "./held-pods.ts";

/** What a look at an owner has found, and waits for. */
export interface HoldLook {
  /** Pods whose owners are being read: as long as one of them is, another look finds no more. */
  readonly unread: readonly Pod[];
  /** Uids of pods that were its own. */
  readonly known: ReadonlySet<string>;
}

/** What pods are told apart by. Read from memory. */
export interface DeletingSight extends Pick<FootprintSight, "owners"> {
  guards(resource: string): readonly Guard[];
  /** As `DeletedOwner.refsOf` has it. */
  refsOf(guard: Guard, namespace: string, uid: string): readonly string[] | undefined;
}

interface Entry<K> {
  readonly key: K;
  readonly uid: string;
  unread: Pod[];
  known: ReadonlySet<string>;
}

/** As many entries as there are owners whose deletion waits, by the text of their key. */
export class DeletingOwners<K extends { readonly resource: string; readonly namespace: string }> {
  readonly #sight: DeletingSight;
  readonly #entries = new Map<string, Entry<K>>();

  constructor(sight: DeletingSight) {
    this.#sight = sight;
  }

  /** Answers whether it was not there before. */
  put(text: string, key: K, uid: string): boolean {
    const before = this.#entries.get(text);
    if (before?.uid !== uid) this.#entries.set(text, { key, uid, unread: [], known: new Set() });
    return before === undefined;
  }

  /** Answers whether it was there before. */
  delete(text: string): boolean {
    return this.#entries.delete(text);
  }

  deleteAll(resource: string): void {
    for (const [text, { key }] of this.#entries) if (key.resource === resource) this.#entries.delete(text);
  }

  keys(): readonly K[] {
    return [...this.#entries.values()].map(({ key }) => key);
  }

  looked(text: string, { unread, known }: HoldLook): void {
    const entry = this.#entries.get(text);
    if (entry === undefined) return;
    entry.unread = [...unread];
    entry.known = known;
  }

  /** Those that can have pods in this namespace. */
  in(namespace: string): readonly K[] {
    const guards = this.#guards();
    const isBelieved = (guard: Guard): boolean =>
      guard.footprints.some((footprint) => !isGroupedByOwner(footprint));
    return this.#where(
      ({ key }) =>
        key.namespace === namespace || key.namespace === "" || guards(key.resource).some(isBelieved),
    );
  }

  withUid(uids: ReadonlySet<string>): readonly K[] {
    return this.#where(({ uid }) => uids.has(uid));
  }

  /**
   * Those that the pod may be one of. One whose owners are not known concerns nobody before they are, except when it is
   * gone: somebody may have waited for them.
   */
  ofPod(pod: Pod, isGone: boolean): readonly K[] {
    const byGuard = new Map<Guard, Above | undefined>();
    const above = (guard: Guard): Above | undefined => {
      if (!byGuard.has(guard))
        byGuard.set(
          guard,
          ownersAbove(pod, this.#sight, (namespace, uid) => this.#sight.refsOf(guard, namespace, uid)),
        );
      return byGuard.get(guard);
    };
    const guards = this.#guards();
    return this.#where((entry) =>
      guards(entry.key.resource).some((guard) =>
        guard.footprints.some((footprint) =>
          mayBeOf(footprint, pod, {
            namespace: entry.key.namespace,
            uid: entry.uid,
            known: entry.known,
            above: () => above(guard),
            isGone,
          }),
        ),
      ),
    );
  }

  /** Those that waited for owners of pods and know all of them now. Asks for those that have been forgotten. */
  known(): readonly K[] {
    // Many wait for the same ones: each is looked up once.
    const isKnown = new Map<Pod, boolean>();
    const ask = (pod: Pod): boolean => {
      const answer = isKnown.get(pod) ?? this.#sight.owners(pod) !== undefined;
      isKnown.set(pod, answer);
      return answer;
    };
    return this.#where((entry) => {
      if (entry.unread.length === 0) return false;
      // The last one was asked for last.
      for (let last = entry.unread.at(-1); last !== undefined && ask(last); last = entry.unread.at(-1))
        entry.unread.pop();
      return entry.unread.length === 0;
    });
  }

  /** Each resource is looked up once. */
  #guards(): (resource: string) => readonly Guard[] {
    const byResource = new Map<string, readonly Guard[]>();
    return (resource) => {
      const guards = byResource.get(resource) ?? this.#sight.guards(resource);
      byResource.set(resource, guards);
      return guards;
    };
  }

  #where(is: (entry: Entry<K>) => boolean): readonly K[] {
    const found: K[] = [];
    for (const entry of this.#entries.values()) if (is(entry)) found.push(entry.key);
    return found;
  }
}
