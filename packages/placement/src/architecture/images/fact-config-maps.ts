/** What is known of images, kept in ConfigMaps of Berth's namespace: a restart asks no registry what it was told before. */
import { baseName } from "@berth/host";
import { type ConfigMap, configMaps, type KubeClient } from "@berth/kube";
import type { ImageFactStore } from "@berth/registry";
import {
  type Clock,
  type ClusterName,
  type Component,
  createInformer,
  createLoopComponent,
  type Informer,
  keyOf,
  type Logger,
  type MetricsRegistry,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { countFor, isSameButForDates, MAX_SHARDS, readShard, toShards } from "./fact-shards.ts";

/** On ConfigMaps with facts of images, with the name of the installation. */
export const IMAGE_FACTS_LABEL = "berth.dev/image-facts";
/** The field of a ConfigMap that holds them, a line each. */
export const IMAGE_FACTS_FIELD = "facts";

/** After the first fact that is not kept yet. Milliseconds. */
const SAVE_AFTER_MS = 30_000;
/** How often it is saved that facts were found to hold on, and none is new: tags are looked at all the time. Milliseconds. */
const RENEW_AFTER_MS = 600_000;

interface FactConfigMapsOptions {
  readonly client: Pick<KubeClient, "list" | "watch" | "apply">;
  readonly cluster: ClusterName;
  readonly namespace: string;
  readonly installation: string;
  readonly memory: Pick<ImageFactStore, "entries" | "restore" | "subscribe">;
  /** Nothing is read or watched before. */
  readonly wanted: Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
}

/**
 * - Every replica takes over what is kept, as it changes; what is no fact is logged and ignored.
 * - One replica at a time writes, the leader: 30 s after something new is known, and when it stops in order. Only
 *   ConfigMaps that change are written; those where no more than dates do, every 10 minutes.
 * - Without the right to read ConfigMaps nothing is written either, for it would wipe out what is there.
 */
export class FactConfigMaps {
  /** What every replica runs. */
  readonly reader: Component;
  /** What the leader runs. */
  readonly writer: Component;
  readonly #options: FactConfigMapsOptions;
  readonly #informer: Informer<ConfigMap>;
  readonly #restored = Promise.withResolvers<void>();
  #isUnsaved = true;
  /** When dates were saved last. Monotonic ms. */
  #datedMs = 0;
  #saving: Promise<void> = Promise.resolve();
  #problem: string | undefined;

  constructor(options: FactConfigMapsOptions) {
    this.#options = options;
    const { client, cluster, namespace, installation, clock, log, metrics } = options;
    this.#informer = createInformer({
      name: "image-facts",
      client,
      cluster,
      resource: configMaps,
      scope: { namespace, labelSelector: `${IMAGE_FACTS_LABEL}=${installation}` },
      optional: true,
      clock,
      log,
      metrics,
    });
    this.#informer.subscribe({
      onChange: (change) => {
        if (change.type !== "deleted") this.#restore(change.object);
      },
    });
    this.reader = createLoopComponent({ name: "image-facts", run: (signal) => this.#read(signal) });
    this.writer = {
      name: "image-facts-writer",
      start: async (signal) => ({ ended: this.#keep(signal), drain: () => this.#save(signal, true) }),
    };
  }

  /** Resolves once what was kept has been read, or cannot be read at present, or nothing is read any more. */
  get restored(): Promise<void> {
    return this.#restored.promise;
  }

  async #read(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#options.wanted, whenAborted(signal)]);
    if (!signal.aborted) {
      const { ended } = await this.#informer.start(signal);
      this.#restored.resolve();
      await ended;
    }
    this.#restored.resolve();
  }

  #restore({ metadata, data }: ConfigMap): void {
    const { facts, garbage } = readShard(data?.[IMAGE_FACTS_FIELD] ?? "");
    const { memory, log } = this.#options;
    const { refused } = memory.restore(facts);
    const configMap = `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
    const lines = garbage + refused;
    if (lines > 0) log.warn("lines that are no facts of images are ignored", { configMap, lines });
    log.debug("facts of images read", { configMap, facts: facts.length });
  }

  async #keep(signal: AbortSignal): Promise<void> {
    const { memory, clock } = this.#options;
    await Promise.race([this.restored, whenAborted(signal)]);
    this.#datedMs = clock.monotonic();
    let news = new AbortController();
    using _told = memory.subscribe(() => {
      this.#isUnsaved = true;
      news.abort();
    });
    while (!signal.aborted) {
      if (!this.#isUnsaved) {
        const leftMs = this.#datedMs + RENEW_AFTER_MS - clock.monotonic();
        news = new AbortController();
        // Nothing is saved while nothing can be read: it is not tried in a loop.
        await sleep(clock, Math.max(leftMs, SAVE_AFTER_MS), AbortSignal.any([signal, news.signal]));
      }
      if (this.#isUnsaved) await sleep(clock, SAVE_AFTER_MS, signal);
      if (!signal.aborted) await this.#save(signal);
    }
  }

  /** One after another. Never rejects: what failed is tried again. */
  #save(signal: AbortSignal, isLast = false): Promise<void> {
    this.#saving = this.#saving.then(() => this.#saveNow(signal, isLast));
    return this.#saving;
  }

  async #saveNow(signal: AbortSignal, isLast: boolean): Promise<void> {
    if (!this.#informer.synced || signal.aborted) return;
    this.#isUnsaved = false;
    const { log, clock } = this.#options;
    const nowMs = clock.monotonic();
    const withDates = isLast || nowMs - this.#datedMs >= RENEW_AFTER_MS;
    try {
      await this.#applyShards(signal, withDates);
      if (withDates) this.#datedMs = nowMs;
      this.#problem = undefined;
    } catch (error) {
      this.#isUnsaved = true;
      if (signal.aborted) return;
      const problem = String(error);
      if (problem !== this.#problem) log.warn("what is known of images cannot be kept", { error: problem });
      this.#problem = problem;
    }
  }

  async #applyShards(signal: AbortSignal, withDates: boolean): Promise<void> {
    const { client, namespace, installation, memory, log } = this.#options;
    const shards = toShards(memory.entries(), this.#shardsNow());
    // From the last: when there come to be more of them, facts move to those, and must be there before they go elsewhere.
    for (const [at, text = ""] of [...shards.entries()].toReversed()) {
      const object: ConfigMap = {
        metadata: {
          name: this.#nameOf(at),
          namespace,
          labels: { "app.kubernetes.io/managed-by": "berth", [IMAGE_FACTS_LABEL]: installation },
        },
        data: { [IMAGE_FACTS_FIELD]: text },
      };
      const stored = this.#informer.get(keyOf(this.#options.cluster, object));
      const kept = stored?.data?.[IMAGE_FACTS_FIELD] ?? "";
      if (kept === text || (!withDates && isSameButForDates(kept, text))) continue;
      await client.apply(configMaps, object, { force: true, signal });
      log.debug("facts of images kept", { configMap: `${namespace}/${object.metadata?.name ?? ""}` });
    }
  }

  #nameOf(at: number): string {
    return `${baseName(this.#options.installation)}-image-facts-${at}`;
  }

  #shardsNow(): number {
    for (let at = MAX_SHARDS - 1; at >= 0; at--) {
      const metadata = { name: this.#nameOf(at), namespace: this.#options.namespace };
      if (this.#informer.get(keyOf(this.#options.cluster, { metadata })) !== undefined) return countFor(at);
    }
    return 1;
  }
}
