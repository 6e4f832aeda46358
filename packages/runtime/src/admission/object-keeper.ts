import {
  apiVersionOf,
  type CollectionScope,
  isApiError,
  type KubeClient,
  type KubeObject,
  nameOfResource,
  type Resource,
} from "@berth/kube";
import type { Clock } from "../clock.ts";
import type { Component } from "../component.ts";
import { type Controller, createController } from "../controller.ts";
import { createInformer, type Informer } from "../informer.ts";
import { type ClusterName, keyOf, type ObjectKey, toKeyText } from "../key.ts";
import type { Logger } from "../log.ts";
import { toSelf } from "../mapper.ts";
import type { MetricsRegistry } from "../metrics.ts";
import type { ReconcileContext, ReconcileResult } from "../reconcile.ts";
import { isShared } from "../shared-failure.ts";
import { watchFor } from "../source.ts";
import { covers, fingerprint } from "./coverage.ts";
import { describeProblem } from "./refusal.ts";

/** The part of a client that keeping objects needs. */
export type ObjectClient = Pick<KubeClient, "list" | "pages" | "watch" | "apply" | "delete">;

/** The kind, and the cluster. */
interface CommonOptions<T extends KubeObject> {
  /** Lower case, digits and dashes: the name of its controller, and the beginning of its informer's. */
  readonly name: string;
  readonly client: ObjectClient;
  readonly cluster: ClusterName;
  readonly resource: Resource<T>;
  /**
   * An annotation that records the desired state at the last write, so that a field that is no longer desired is noticed.
   * An adopted object does not get it.
   */
  readonly recordedIn: string;
  /** Where objects of a namespaced kind are. Absent: in all namespaces. */
  readonly namespace?: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
}

/** The kept objects: all that carry these labels, or a single one of another owner. */
export type ObjectKeeperOptions<T extends KubeObject> = CommonOptions<T> &
  (
    | {
        /** Only objects of this keeper carry these labels. It deletes any that carries them and is not desired. */
        readonly selector: Readonly<Record<string, string>>;
        readonly adopt?: never;
      }
    | {
        /** The name of an object of another owner. Only its desired fields are ours. */
        readonly adopt: string;
        readonly selector?: never;
      }
  );

/** Keeps objects of one kind as desired while its components run. */
export interface ObjectKeeper<T extends KubeObject> {
  /** Start them in this order: an informer, then the writer. */
  readonly components: readonly [Component, Component];
  /**
   * Sets all desired objects. `undefined`: they are not known yet, and nothing is changed.
   * @throws RangeError for an object without a name, or outside of the watched namespace.
   */
  setDesired(objects: readonly T[] | undefined): void;
  /** Why an object is not as desired, in a sentence that names a missing right; `undefined` when nothing failed. */
  problem(): string | undefined;
  /** Only the problems of requests that the API server refuses. A lost connection is no refusal. */
  refusal(): string | undefined;
  /** Is every desired object stored as desired? `false` before the first check. */
  settled(): boolean;
  /**
   * Deletes every object that carries the labels, and desires none from then on. Call it while the components run, or
   * after they have ended. Does nothing to an adopted object. Rejects with `ApiError`.
   */
  release(signal: AbortSignal): Promise<void>;
}

/** This many applies of an object within a minute mean that another controller undoes them: wait 5 minutes. */
const MAX_APPLIES = 4;
const APPLIES_WINDOW_MS = 60_000;
const CONTESTED_MS = 5 * 60_000;
/** A refusal may be temporary: an administrator grants a right, or a referenced object appears. */
const REFUSED_MS = 5_000;

/**
 * Keeps objects as desired by server-side apply, with these promises:
 *
 * - An object that is missing, or differs in a desired field, is applied, by force. Added fields and named list items
 *   stay. A field that is no longer desired is removed, also after a change while no keeper ran.
 * - An object with the labels that is not desired is deleted, bound to the uid that was seen.
 * - When all is as desired, it writes nothing. If the server stores an object in another form than sent, each change of
 *   it costs one more write, and no endless series.
 * - A failed object is tried again within 5 s, or when the client's guard says, and delays no other. An object that
 *   another controller keeps changing back is left alone for five minutes.
 * - An adopted object is changed when it exists, and neither made nor deleted. Dropping it changes nothing.
 *
 * Run it in one process at a time, the leader. Two processes with different desired objects would undo each other's
 * work, four times a minute. Nothing happens before its components are started.
 * @throws RangeError for a selector without labels.
 */
export function createObjectKeeper<T extends KubeObject>(options: ObjectKeeperOptions<T>): ObjectKeeper<T> {
  return new ApplyingKeeper(options);
}

interface Desired<T extends KubeObject> {
  readonly key: ObjectKey;
  readonly object: T;
  readonly fingerprint: string;
}

/** The last apply, and the times of recent ones. */
interface Applied {
  readonly fingerprint: string;
  /** From the server's answer. */
  readonly resourceVersion: string | undefined;
  /** Monotonic ms. */
  readonly at: readonly number[];
  readonly contestedUntilMs: number;
}

interface Failure {
  readonly problem: string;
  readonly refused: boolean;
}

class ApplyingKeeper<T extends KubeObject> implements ObjectKeeper<T> {
  readonly components: readonly [Component, Component];
  readonly #options: ObjectKeeperOptions<T>;
  readonly #informer: Informer<T>;
  readonly #controller: Controller;
  /** By the text of its key. `undefined`: not known yet. */
  #desired: ReadonlyMap<string, Desired<T>> | undefined;
  readonly #applied = new Map<string, Applied>();
  readonly #failures = new Map<string, Failure>();
  /** Texts of keys that were as desired at the last check. */
  readonly #inOrder = new Set<string>();

  constructor(options: ObjectKeeperOptions<T>) {
    const { name, client, cluster, resource, clock, log, metrics, selector } = options;
    if (selector !== undefined && Object.keys(selector).length === 0) {
      throw new RangeError(
        `${name}: without a label, every ${nameOfResource(resource)} would be ours to delete`,
      );
    }
    const common = { clock, log, ...(metrics && { metrics }) };
    this.#options = options;
    this.#informer = createInformer<T>({
      ...common,
      name: `${name}-informer`,
      client,
      cluster,
      resource,
      scope: scopeOf(options),
      // Its `refusal` is reported, and it retries every 5 s.
      optional: true,
    });
    this.#controller = createController({
      ...common,
      name,
      reconcile: (key, context) => this.#reconcile(key, context),
      sources: [watchFor({ informer: this.#informer, map: toSelf(cluster) })],
      concurrency: 4,
      queue: { backoff: { capMs: REFUSED_MS } },
    });
    const writer: Component = {
      name,
      start: async (signal) => {
        await this.#informer.whenSynced(signal);
        return this.#controller.start(signal);
      },
      problem: () => this.problem(),
    };
    this.components = [this.#informer, writer];
  }

  setDesired(objects: readonly T[] | undefined): void {
    const before = this.#desired;
    const desired = objects && new Map(objects.map((object) => this.#prepare(object)));
    this.#desired = desired;
    if (desired === undefined) return;
    for (const text of this.#applied.keys()) if (!desired.has(text)) this.#applied.delete(text);
    for (const text of this.#failures.keys()) if (!desired.has(text)) this.#failures.delete(text);
    for (const text of this.#inOrder) if (!desired.has(text)) this.#inOrder.delete(text);
    for (const [text, { key, fingerprint }] of desired) {
      if (before?.get(text)?.fingerprint === fingerprint) continue;
      this.#inOrder.delete(text);
      this.#controller.enqueue(key);
    }
    // Objects that were desired until now, or that existed before the first call.
    for (const object of this.#informer.list()) {
      const key = keyOf(this.#options.cluster, object);
      if (!desired.has(toKeyText(key))) this.#controller.enqueue(key);
    }
  }

  problem(): string | undefined {
    return (
      describeAll(this.#failures.values()) ??
      this.#unread() ??
      this.#informer.problem() ??
      this.#controller.problem?.()
    );
  }

  refusal(): string | undefined {
    return describeAll(this.#failures.values().filter(({ refused }) => refused)) ?? this.#unread();
  }

  /** Why nothing could be read so far. Once synced, the last objects read still count. */
  #unread(): string | undefined {
    return this.#informer.synced ? undefined : this.#informer.refusal;
  }

  settled(): boolean {
    return this.#desired?.keys().every((text) => this.#inOrder.has(text)) ?? false;
  }

  async release(signal: AbortSignal): Promise<void> {
    this.setDesired([]);
    const { client, resource, selector, cluster } = this.#options;
    if (selector === undefined) return;
    for await (const page of client.pages(resource, { ...scopeOf(this.#options), signal })) {
      await Promise.all(page.items.map((object) => this.#delete(keyOf(cluster, object), object, signal)));
    }
  }

  /** Adds the fields that every object of the keeper has. */
  #prepare(object: T): [string, Desired<T>] {
    const { cluster, resource, selector, adopt } = this.#options;
    const { metadata } = object;
    const namespace = resource.namespaced ? (metadata?.namespace ?? this.#options.namespace ?? "") : "";
    const key = { cluster, namespace, name: metadata?.name ?? "" };
    this.#mustBeWatched(key);
    const whole: T = {
      ...object,
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: {
        ...metadata,
        ...(resource.namespaced && { namespace }),
        ...(selector && { labels: { ...metadata?.labels, ...selector } }),
      },
    };
    const print = fingerprint(whole);
    const marked = adopt === undefined ? withAnnotation(whole, this.#options.recordedIn, print) : whole;
    return [toKeyText(key), { key, object: marked, fingerprint: print }];
  }

  #mustBeWatched({ namespace, name }: ObjectKey): void {
    const { resource, adopt, namespace: only = namespace } = this.#options;
    const refuse = (why: string): never => {
      throw new RangeError(`cannot keep ${nameOfResource(resource)} ${why}`);
    };
    if (name === "") refuse("without a name");
    if (resource.namespaced && namespace === "") refuse(`"${name}" without a namespace`);
    if (resource.namespaced && namespace !== only) refuse(`"${name}" in namespace "${namespace}"`);
    if (adopt !== undefined && adopt !== name) refuse(`"${name}" when "${adopt}" is adopted`);
  }

  async #reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<ReconcileResult | undefined> {
    const text = toKeyText(key);
    if (this.#desired === undefined) return undefined;
    const wanted = this.#desired.get(text)?.fingerprint;
    try {
      const result = await this.#putInOrder(key, signal);
      this.#failures.delete(text);
      // The desired object may have changed meanwhile.
      const isStill = wanted !== undefined && this.#desired?.get(text)?.fingerprint === wanted;
      if (result === undefined && isStill) this.#inOrder.add(text);
      else this.#inOrder.delete(text);
      return result;
    } catch (error) {
      // Another writer was faster, and its change will arrive.
      if (signal.aborted || isApiError(error, "conflict", "uidMismatch")) throw error;
      const problem = describeProblem(error);
      const refused = isApiError(error, "invalid", "forbidden", "unsupported");
      const isNews = this.#failures.get(text)?.problem !== problem;
      this.#failures.set(text, { problem, refused });
      this.#inOrder.delete(text);
      if (!refused) throw error;
      if (isNews && !isShared(error))
        this.#options.log.warn("an object is refused; it is tried again", { object: text, problem });
      return { recheckAfterMs: error.retryAfterMs ?? REFUSED_MS };
    }
  }

  async #putInOrder(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    const wanted = this.#desired?.get(toKeyText(key));
    const live = this.#informer.get(key);
    if (wanted === undefined) {
      const ours = this.#options.selector !== undefined && this.#desired !== undefined;
      if (ours && live !== undefined) await this.#delete(key, live, signal);
      return undefined;
    }
    if (live === undefined && this.#options.adopt !== undefined) return undefined;
    if (live?.metadata?.deletionTimestamp !== undefined) return { recheckAfterMs: REFUSED_MS };
    if (live !== undefined && this.#isInOrder(live, wanted)) return undefined;
    return await this.#apply(wanted, live, signal);
  }

  #isInOrder(live: T, { key, object, fingerprint }: Desired<T>): boolean {
    const applied = this.#applied.get(toKeyText(key));
    if (applied !== undefined && applied.fingerprint === fingerprint) {
      // This version is our own write, even if the server stored it in another form.
      if (live.metadata?.resourceVersion === applied.resourceVersion) return true;
    } else if (applied !== undefined) {
      return false;
    }
    return covers(live, object);
  }

  async #apply(
    wanted: Desired<T>,
    live: T | undefined,
    signal: AbortSignal,
  ): Promise<ReconcileResult | undefined> {
    const { client, resource, adopt, clock, log } = this.#options;
    const text = toKeyText(wanted.key);
    const nowMs = clock.monotonic();
    const known = this.#applied.get(text);
    const before = known?.fingerprint === wanted.fingerprint ? known : undefined;
    if (before !== undefined && nowMs < before.contestedUntilMs) {
      return { recheckAfterMs: before.contestedUntilMs - nowMs };
    }
    const at = [...(before?.at ?? []).filter((atMs) => nowMs - atMs < APPLIES_WINDOW_MS), nowMs];
    if (before !== undefined && at.length > MAX_APPLIES) {
      log.warn("another writer keeps changing an object back; it is left alone for a while", {
        object: text,
      });
      this.#applied.set(text, { ...before, at: [], contestedUntilMs: nowMs + CONTESTED_MS });
      return { recheckAfterMs: CONTESTED_MS };
    }
    // With its uid, so that an adopted object that was deleted meanwhile is not created again.
    const uid = adopt === undefined ? undefined : live?.metadata?.uid;
    const object = uid === undefined ? wanted.object : withUid(wanted.object, uid);
    const answer = await client.apply(resource, object, { force: true, signal });
    const { resourceVersion } = answer.metadata ?? {};
    this.#applied.set(text, { fingerprint: wanted.fingerprint, resourceVersion, at, contestedUntilMs: 0 });
    log.info(live === undefined ? "made an object" : "put an object in order", { object: text });
    return undefined;
  }

  async #delete({ namespace, name }: ObjectKey, { metadata }: T, signal: AbortSignal): Promise<void> {
    const { client, resource, log } = this.#options;
    const uid = metadata?.uid;
    if (metadata?.deletionTimestamp !== undefined || uid === undefined) return;
    try {
      await client.delete(resource, { namespace, name }, { preconditions: { uid }, signal });
      log.info("deleted an object that is not desired", { object: `${namespace}/${name}` });
    } catch (error) {
      // Already deleted, or a new object of that name that the informer will deliver.
      if (!isApiError(error, "notFound", "conflict", "uidMismatch")) throw error;
    }
  }
}

function describeAll(failures: Iterable<Failure>): string | undefined {
  const [first, ...more] = failures;
  return first && (more.length > 0 ? `${first.problem} (and ${more.length} more)` : first.problem);
}

function scopeOf<T extends KubeObject>({
  namespace,
  selector,
  adopt,
}: ObjectKeeperOptions<T>): CollectionScope {
  return {
    ...(namespace !== undefined && { namespace }),
    ...(adopt !== undefined && { fieldSelector: `metadata.name=${adopt}` }),
    ...(selector !== undefined && {
      labelSelector: Object.entries(selector)
        .map(([key, value]) => `${key}=${value}`)
        .join(","),
    }),
  };
}

function withAnnotation<T extends KubeObject>(object: T, key: string, value: string): T {
  const { metadata } = object;
  return { ...object, metadata: { ...metadata, annotations: { ...metadata?.annotations, [key]: value } } };
}

function withUid<T extends KubeObject>(object: T, uid: string): T {
  return { ...object, metadata: { ...object.metadata, uid } };
}
