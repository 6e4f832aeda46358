/** What a capability reads, declared as values. A process and its commands make views of the same ones. */
import { type KubeObject, type Namespace, namespaces } from "@berth/kube";
import type { Change } from "@berth/runtime";
import type { WriteClient } from "../objects/intent.ts";
import { noteWrites } from "./own-writes.ts";
import { type Purpose, pick, type ReadAt } from "./scope-informer.ts";
import { type Read, View, type Views } from "./view.ts";

/** The reads of a capability, by name. @typeParam M the type of the objects of each. */
export type Reads<M, C> = { readonly [N in keyof M]: Read<M[N] & KubeObject, C, M> };

/** For each read, the keys that a change concerns. Pure functions of the change and the views. */
export type Concerns<M, K> = {
  readonly [N in keyof M]?: (change: Change<M[N] & KubeObject>, views: Views<M>) => Iterable<K> | "all";
};

export interface ViewsOptions<M, K> extends ReadAt {
  readonly concerns?: Concerns<M, K>;
  /** As `concerns`, for each version of an object, also without a visible change: a patch may wait for it. */
  readonly versions?: Concerns<M, K>;
  /** What a change needs beside keys. Called before those. Must not throw. */
  readonly onChange?: { readonly [N in keyof M]?: (change: Change<M[N] & KubeObject>) => void };
  /** Called with keys from `concerns` and `versions`. Must not throw. */
  readonly onKeys?: (keys: Iterable<K>, of: keyof M) => void;
  /** Any key may be concerned: a scope has been read, or the server does not have the resource. Must not throw. */
  readonly onAll?: (of: keyof M) => void;
}

export function createViews<M, C, K = never>(reads: Reads<M, C>, options: ViewsOptions<M, K>): Views<M, C> {
  const { concerns, versions, onChange, onKeys, onAll, ...at } = options;
  const names = Object.keys(reads) as (keyof M)[];
  let known: { readonly inForce: C } | undefined;
  const made = names.map((name) => {
    const all = (): void => {
      if (reads[name].isFirst && known !== undefined) views.want(known.inForce);
      onAll?.(name);
    };
    const tell = (of: Concerns<M, K> | undefined) => (change: Change<M[keyof M] & KubeObject>) => {
      const keys = of?.[name]?.(change, views);
      if (keys === "all") all();
      else if (keys !== undefined) onKeys?.(keys, name);
    };
    const toConcerned = tell(concerns);
    return new View(reads[name], {
      ...at,
      onChange(change) {
        onChange?.[name]?.(change);
        toConcerned(change);
      },
      onVersion: tell(versions),
      onRead: all,
    });
  });
  const all = {
    want(inForce: C, which?: "first") {
      if (which === undefined) known = { inForce };
      for (const [index, name] of names.entries())
        if (which === undefined || reads[name].isFirst) made[index]?.want(inForce, views);
    },
    get isRead() {
      const wanted = made.filter((view) => view.isWanted);
      return wanted.length > 0 && wanted.every((view) => view.synced);
    },
    writing: (client: WriteClient) =>
      noteWrites(client, (resource) => made.find((view) => view.resource === resource)?.own),
    problem: () => made.map((view) => view.problem()).find((problem) => problem !== undefined),
    components: made,
  };
  const byName = Object.fromEntries(names.map((name, index) => [name, made[index]]));
  const views = Object.assign(all, byName) as unknown as Views<M, C>;
  return views;
}

/** A read of the labels of all namespaces. @param isNeeded whether documents in force ask for them. */
export function namespacesRead<C>(
  about: Omit<Purpose<Namespace>, "resource">,
  isNeeded: (inForce: C) => boolean,
): Read<Namespace, C> {
  const project = ({ metadata }: Namespace): Namespace => ({
    metadata: pick(metadata ?? {}, ["name", "uid", "resourceVersion", "labels"]),
  });
  const all = [{ metadataOnly: true, project }];
  return { ...about, resource: namespaces, wanted: (inForce) => (isNeeded(inForce) ? all : []) };
}

/** Labels by namespace. `null`: no namespace has this name. `undefined` while the labels are not known. */
export type NamespaceLabels = (name: string) => Readonly<Record<string, string>> | null | undefined;

export function labelsIn(view: Pick<View<Namespace>, "find">): NamespaceLabels {
  return (name) => {
    const found = view.find(name);
    return found && (found.metadata?.labels ?? {});
  };
}
