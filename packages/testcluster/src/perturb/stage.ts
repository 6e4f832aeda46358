/** The hands of a story, and a note of what they and the harness did, so that the rest is the controller's doing. */
import {
  compareResourceVersions,
  isApiError,
  type KubeObject,
  nameOfResource,
  type Patch,
  type Resource,
} from "@berth/kube";
import type { TestCluster } from "../cluster.ts";
import type { Author, HistoryEntry, Version, VersionLog } from "./history.ts";
import type { Stage } from "./story.ts";

/** Set by the harness where an object has to change again and the story does not change it. */
export const NUDGE = "perturb.berth.dev/nudge";

/** The history is behind the server by some milliseconds. */
const HISTORY_LAG_MS = 20_000;

export class NotedStage implements Stage {
  readonly cluster: TestCluster;
  readonly others: readonly TestCluster[];
  readonly #log: VersionLog;
  readonly #prefix: string;
  /** By version. A patch of the story that changes nothing would claim one of another writer: stories do not send such. */
  readonly #authors = new Map<string, Author>();
  /** Uids of what the story has removed. */
  readonly #removed = new Set<string>();
  #nudges = 0;

  /** @param prefix begins every name of the run. */
  constructor(cluster: TestCluster, log: VersionLog, prefix: string, others: readonly TestCluster[]) {
    this.cluster = cluster;
    this.others = others;
    this.#log = log;
    this.#prefix = prefix;
  }

  nameOf(local: string): string {
    return this.#prefix + local;
  }

  /** What a controller puts before the name of an object, to name another one after it, stays. */
  readonly toLocal = (name: string): string => {
    const at = name.indexOf(this.#prefix);
    return at < 0 ? "" : name.slice(0, at) + name.slice(at + this.#prefix.length);
  };

  changed(): void {
    this.#log.conditions.changed();
  }

  latest<T extends KubeObject>(resource: Resource<T>, local: string, namespace?: string): T | undefined {
    const isIt = ({ metadata }: KubeObject): boolean =>
      this.toLocal(metadata?.name ?? "") === local &&
      (namespace === undefined || metadata?.namespace === namespace);
    return this.#log.present(resource).find(isIt) as T | undefined;
  }

  async create<T extends KubeObject>(resource: Resource<T>, object: T): Promise<T> {
    const name = this.nameOf(object.metadata?.name ?? "");
    const made = await this.cluster.client.create(resource, {
      ...object,
      metadata: { ...object.metadata, name },
    });
    return await this.#note(resource, made, "story");
  }

  patch<T extends KubeObject>(
    resource: Resource<T>,
    local: string,
    patch: Patch,
    options: { readonly subresource?: string } = {},
  ): Promise<T> {
    return this.#patch(resource, { local, patch, options, by: "story" });
  }

  async remove(resource: Resource, local: string): Promise<void> {
    const {
      name = this.nameOf(local),
      namespace = "",
      uid = "",
    } = this.latest(resource, local)?.metadata ?? {};
    this.#removed.add(uid);
    await this.cluster.client.delete(resource, { name, namespace });
    const isGoing = ({ metadata }: KubeObject): boolean =>
      metadata?.uid !== uid || metadata.deletionTimestamp !== undefined;
    const noted = (): boolean => isGoing(this.latest(resource, local) ?? {});
    await this.#log.until(noted, HISTORY_LAG_MS);
  }

  /** A change that no controller may care about. `false` when there is no such object any more. */
  async nudge(resource: Resource, local: string, namespace?: string): Promise<boolean> {
    // Without it not even its namespace is known.
    if (this.latest(resource, local, namespace) === undefined) return false;
    this.#nudges += 1;
    const body = { metadata: { annotations: { [NUDGE]: String(this.#nudges) } } };
    try {
      const patch: Patch = { type: "merge", body };
      await this.#patch(resource, { local, namespace, patch, options: {}, by: "harness" });
      return true;
    } catch (error) {
      if (isApiError(error, "notFound")) return false;
      throw error;
    }
  }

  /** Versions of this object that the story or the harness has made so far. */
  changesOf(resource: Resource, local: string): number {
    const isIt = (key: string): boolean => {
      const [kind, name = ""] = key.split("/");
      return kind === nameOfResource(resource) && this.toLocal(name) === local;
    };
    return [...this.#authors.keys()].filter(isIt).length;
  }

  /** The history of this run as the story reads it. Each resource has a watch of its own: the server tells the order. */
  history(): readonly HistoryEntry[] {
    const entries = this.#log.versions.flatMap((version): readonly HistoryEntry[] => {
      const name = this.toLocal(version.object.metadata?.name ?? "");
      if (name === "") return [];
      const { step, type, resource, object, before, at } = version;
      return [{ step, type, resource, name, object, before, by: this.authorOf(version), at }];
    });
    return entries.toSorted(inOrderOfServer);
  }

  authorOf({ type, resource, object, before }: Version): Author {
    const { uid = "", deletionTimestamp } = object.metadata ?? {};
    const begins = deletionTimestamp !== undefined && before?.metadata?.deletionTimestamp === undefined;
    if ((type === "DELETED" || begins) && this.#removed.has(uid)) return "story";
    return this.#authors.get(versionKey(resource, object)) ?? "controller";
  }

  /** Removes every object of the run, whatever finalizers it has, and waits until the history has it. */
  async clear(resources: readonly Resource[], timeoutMs: number): Promise<void> {
    for (const resource of resources) {
      const ours = (): readonly KubeObject[] =>
        this.#log.present(resource).filter(({ metadata }) => this.toLocal(metadata?.name ?? "") !== "");
      await Promise.all(ours().map((object) => this.#destroy(resource, object)));
      const cleared = await this.#log.until(() => ours().length === 0, timeoutMs);
      if (!cleared) throw new Error(`${ours().length} ${resource.plural} of the run cannot be removed`);
    }
  }

  async #destroy(resource: Resource, { metadata = {} }: KubeObject): Promise<void> {
    const { name = "", namespace = "", finalizers = [] } = metadata;
    const { client } = this.cluster;
    try {
      if (finalizers.length > 0) {
        const body = { metadata: { finalizers: null } };
        await client.patch(resource, { name, namespace }, { type: "merge", body });
      }
      // No kubelet ends a pod of a story once the story is over.
      await client.delete(resource, { name, namespace }, { gracePeriodSeconds: 0 });
    } catch (error) {
      if (!isApiError(error, "notFound")) throw error;
    }
  }

  async #patch<T extends KubeObject>(
    resource: Resource<T>,
    { local, namespace: within, patch, options, by }: NotedPatch,
  ): Promise<T> {
    const { name = this.nameOf(local), namespace = "" } =
      this.latest(resource, local, within)?.metadata ?? {};
    const of = { name, namespace };
    return await this.#note(resource, await this.cluster.client.patch(resource, of, patch, options), by);
  }

  /** Returns once the history has it: what is judged next is judged with it. */
  async #note<T extends KubeObject>(resource: Resource, object: T, by: Author): Promise<T> {
    this.#authors.set(versionKey(resource, object), by);
    const { resourceVersion = "0" } = object.metadata ?? {};
    await this.#log.until(() => this.#log.hasReached(resource, resourceVersion), HISTORY_LAG_MS);
    return object;
  }
}

function inOrderOfServer(a: HistoryEntry, b: HistoryEntry): number {
  const [left = "", right = ""] = [a, b].map(({ object }) => object.metadata?.resourceVersion);
  return compareResourceVersions(left, right) ?? 0;
}

interface NotedPatch {
  readonly local: string;
  /** Default: any. */
  readonly namespace?: string | undefined;
  readonly patch: Patch;
  readonly options: { readonly subresource?: string };
  readonly by: Author;
}

function versionKey(resource: Resource, { metadata = {} }: KubeObject): string {
  return `${nameOfResource(resource)}/${metadata.name ?? ""}/${metadata.resourceVersion ?? ""}`;
}
