/** Keeps image facts in ConfigMaps of Berth's namespace, so that a restart does not ask registries again. */
import { baseName } from "@berth/host";
import { type ConfigMap, configMaps, type KubeClient, pathOf } from "@berth/kube";
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
import { berthAs } from "../../api/group.ts";
import { countFor, isSameButForDates, MAX_SHARDS, readShard, toShards } from "./fact-shards.ts";

/** Label of ConfigMaps with image facts. Its value is the name of the installation. */
export const IMAGE_FACTS_LABEL = "berth.dev/image-facts";
/** The ConfigMap field that holds the facts, one on each line. */
export const IMAGE_FACTS_FIELD = "facts";

/** Delay from the first unsaved fact until Berth saves. Milliseconds. */
const SAVE_AFTER_MS = 30_000;
/** How often Berth saves the dates of unchanged facts, because it checks tags all the time. Milliseconds. */
const RENEW_AFTER_MS = 600_000;

interface FactConfigMapsOptions {
  readonly client: Pick<KubeClient, "list" | "watch" | "apply">;
  readonly cluster: ClusterName;
  readonly namespace: string;
  readonly installation: string;
  readonly memory: Pick<ImageFactStore, "entries" | "restore" | "subscribe">;
  /** Berth reads and watches nothing before this resolves. */
  readonly wanted: Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
}

/**
 * - Every replica reads the ConfigMaps as they change. It logs and ignores lines that are no facts.
 * - Only the leader writes: 30 s after a new fact, and when it stops in order. It writes only ConfigMaps that change.
 *   If only dates change, it writes every 10 minutes.
 * - Without permission to read ConfigMaps, Berth does not write them: it would overwrite the stored facts.
 */
export class FactConfigMaps {
  /** Every replica runs this. */
  readonly reader: Component;
  /** Only the leader runs this. */
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

  /** Resolves once Berth has read the stored facts, cannot read them at present, or stops. */
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
    const configMap = pathOf(metadata);
    const lines = garbage + refused;
    if (lines > 0) log.warn("lines that are not facts of images are ignored", { configMap, lines });
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
        // While Berth cannot read ConfigMaps it saves nothing. The minimum pause avoids a busy loop.
        await sleep(clock, Math.max(leftMs, SAVE_AFTER_MS), AbortSignal.any([signal, news.signal]));
      }
      if (this.#isUnsaved) await sleep(clock, SAVE_AFTER_MS, signal);
      if (!signal.aborted) await this.#save(signal);
    }
  }

  /** Runs one save after another. Never rejects: Berth retries a failed save. */
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
      if (problem !== this.#problem) log.warn("facts of images cannot be stored", { error: problem });
      this.#problem = problem;
    }
  }

  async #applyShards(signal: AbortSignal, withDates: boolean): Promise<void> {
    const { client, namespace, installation, memory, log } = this.#options;
    const shards = toShards(memory.entries(), this.#shardsNow());
    // Write the last first: facts move to new ConfigMaps, and must be there before they go from old ones.
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
      log.debug("facts of images stored", { configMap: `${namespace}/${object.metadata?.name ?? ""}` });
    }
  }

  #nameOf(at: number): string {
    return `${baseName(berthAs(this.#options.installation))}-image-facts-${at}`;
  }

  #shardsNow(): number {
    for (let at = MAX_SHARDS - 1; at >= 0; at--) {
      const metadata = { name: this.#nameOf(at), namespace: this.#options.namespace };
      if (this.#informer.get(keyOf(this.#options.cluster, { metadata })) !== undefined) return countFor(at);
    }
    return 1;
  }
}
