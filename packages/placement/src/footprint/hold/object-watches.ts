/** Watches objects of resources that documents name: owners, and what these own. Reads only metadata. */

import { InformerSet, keepFields, type ReadAt, type WantedInformer } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { type Change, type Component, type Informer, type Running, whenAborted } from "@berth/runtime";
import type { GroupVersionResource } from "../footprint.ts";
import { resourceName, resourceOf, versionedName } from "./held-resource.ts";

export interface ObjectWatchesOptions extends ReadAt {
  /** Each version, also without a visible change: a write that met an older version waits for it. Must not throw. */
  readonly onChange: (resource: GroupVersionResource, change: Change<KubeObject>) => void;
  /** Berth has read one of the resources, or knows that it does not exist. Must not throw. */
  readonly onKnown: () => void;
}

/** A resource in one namespace; `""` for all of them. */
export interface WatchedPlace {
  readonly resource: GroupVersionResource;
  readonly namespace: string;
}

/** Indexes: objects that name an owner of this uid, and the object of this uid. */
export const BY_OWNER = "owner";
export const BY_UID = "uid";

const KEPT = ["metadata.deletionTimestamp", "metadata.finalizers", "metadata.ownerReferences"];

/** One informer for each wanted place. A missing resource is no problem: Berth keeps checking for it. */
export class ObjectWatches implements Component {
  readonly name = "footprint-objects";
  readonly #options: ObjectWatchesOptions;
  /** By `versionedName`. Unused sets stay, without informers: documents name few resources. */
  readonly #sets = new Map<string, InformerSet<KubeObject>>();
  readonly #runs: Promise<void>[] = [];
  readonly #failed = Promise.withResolvers<never>();
  #signal: AbortSignal | undefined;

  constructor(options: ObjectWatchesOptions) {
    this.#options = options;
  }

  /** Sets all wanted places. Call it at any time, also before `start`. */
  want(places: readonly WatchedPlace[]): void {
    const wanted = Map.groupBy(places, ({ resource }) => versionedName(resource));
    for (const [name, [first]] of wanted)
      if (first !== undefined && !this.#sets.has(name)) this.#sets.set(name, this.#begin(first.resource));
    for (const [name, set] of this.#sets) {
      const namespaces = new Set((wanted.get(name) ?? []).map(({ namespace }) => namespace));
      set.want([...namespaces].map(toInformer));
    }
  }

  /** `undefined` while it is not wanted, or has not been read. */
  get({ resource, namespace }: WatchedPlace): Informer<KubeObject> | undefined {
    return this.#sets.get(versionedName(resource))?.get(namespace);
  }

  /** The server has no such resource. */
  isMissing({ resource, namespace }: WatchedPlace): boolean {
    return this.#sets.get(versionedName(resource))?.isMissing(namespace) ?? false;
  }

  whyUnread(resources: readonly GroupVersionResource[]): string | undefined {
    const problems = resources.map((resource) => this.#sets.get(versionedName(resource))?.problem());
    return problems.find((problem) => problem !== undefined);
  }

  note(): string | undefined {
    return this.#sets
      .values()
      .map((set) => set.note())
      .find((note) => note !== undefined);
  }

  /** Does not wait for a snapshot. Call once. */
  start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    for (const set of this.#sets.values()) this.#run(set);
    const end = whenAborted(signal).then(() => Promise.all(this.#runs));
    return Promise.resolve({ ended: Promise.race([end.then(() => undefined), this.#failed.promise]) });
  }

  #begin(resource: GroupVersionResource): InformerSet<KubeObject> {
    const { onChange, onKnown, ...options } = this.#options;
    const set = new InformerSet<KubeObject>({
      ...options,
      name: `footprint-${resourceName(resource)}`,
      resource: resourceOf(resource),
      onChange: () => undefined,
      onVersion: (change) => onChange(resource, change),
      onSynced: onKnown,
      onMissing: onKnown,
    });
    this.#run(set);
    return set;
  }

  #run(set: InformerSet<KubeObject>): void {
    if (this.#signal === undefined) return;
    const run = set.start(this.#signal).then(({ ended }) => ended);
    this.#runs.push(run.catch(this.#failed.reject));
  }
}

function toInformer(namespace: string): WantedInformer<KubeObject> {
  return {
    key: namespace,
    scope: namespace === "" ? {} : { namespace },
    metadataOnly: true,
    optional: true,
    project: keepFields(KEPT),
    indexes: { [BY_OWNER]: refsOf, [BY_UID]: ({ metadata }) => (metadata?.uid ? [metadata.uid] : []) },
  };
}

/** Uids of its owners. */
export function refsOf({ metadata }: KubeObject): readonly string[] {
  return (metadata?.ownerReferences ?? []).map(({ uid }) => uid);
}
