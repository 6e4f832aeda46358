/** Watches objects of resources that documents name: owners, and what these own. Reads only metadata. */

import { keepFields, type ReadAt, type Scoped, View } from "@berth/host";
import type { CollectionScope, KubeObject } from "@berth/kube";
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

type NamespacesView = View<KubeObject, readonly string[]>;

/** A view for each resource, and a scope for each wanted place. A missing resource is no problem: Berth keeps checking. */
export class ObjectWatches implements Component {
  readonly name = "footprint-objects";
  readonly #options: ObjectWatchesOptions;
  /** By `versionedName`. Unused views stay, without scopes: documents name few resources. */
  readonly #views = new Map<string, NamespacesView>();
  readonly #runs: Promise<void>[] = [];
  readonly #failed = Promise.withResolvers<never>();
  #signal: AbortSignal | undefined;

  constructor(options: ObjectWatchesOptions) {
    this.#options = options;
  }

  /** Sets all wanted places. Call it at any time, also before `start`. */
  want(places: readonly WatchedPlace[]): void {
    for (const { resource } of places) {
      const name = versionedName(resource);
      if (!this.#views.has(name)) this.#views.set(name, this.#begin(resource));
    }
    const wanted = Map.groupBy(places, ({ resource }) => versionedName(resource));
    for (const [name, view] of this.#views)
      view.want((wanted.get(name) ?? []).map(({ namespace }) => namespace));
  }

  /** `undefined` while it is not wanted, or has not been read. */
  get({ resource, namespace }: WatchedPlace): Informer<KubeObject> | undefined {
    return this.#of(resource)?.at(scopeOf(namespace));
  }

  /** The server has no such resource. */
  isMissing({ resource, namespace }: WatchedPlace): boolean {
    return this.#of(resource)?.isMissing(scopeOf(namespace)) ?? false;
  }

  whyUnread(resources: readonly GroupVersionResource[]): string | undefined {
    return resources.map((resource) => this.#of(resource)?.problem()).find((it) => it !== undefined);
  }

  note(): string | undefined {
    return [...this.#views.values()].map((view) => view.note()).find((it) => it !== undefined);
  }

  /** Does not wait for a snapshot. Call once. */
  start(signal: AbortSignal): Promise<Running> {
    this.#signal = signal;
    for (const view of this.#views.values()) this.#run(view);
    const end = whenAborted(signal).then(() => Promise.all(this.#runs));
    return Promise.resolve({ ended: Promise.race([end.then(() => undefined), this.#failed.promise]) });
  }

  #of(resource: GroupVersionResource): NamespacesView | undefined {
    return this.#views.get(versionedName(resource));
  }

  #begin(resource: GroupVersionResource): NamespacesView {
    const { onChange, onKnown, ...at } = this.#options;
    const read = {
      name: `footprint-${resourceName(resource)}`,
      resource: resourceOf(resource),
      wanted: (namespaces: readonly string[]) => namespaces.map(toScoped),
    };
    const view: NamespacesView = new View(read, {
      ...at,
      onVersion: (change) => onChange(resource, change),
      onRead: onKnown,
    });
    this.#run(view);
    return view;
  }

  #run(view: NamespacesView): void {
    if (this.#signal === undefined) return;
    const run = view.start(this.#signal).then(({ ended }) => ended);
    this.#runs.push(run.catch(this.#failed.reject));
  }
}

const scopeOf = (namespace: string): CollectionScope => (namespace === "" ? {} : { namespace });

function toScoped(namespace: string): Scoped<KubeObject> {
  return {
    scope: scopeOf(namespace),
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
