/** What is known of images, for the rules of architecture placement: registries are asked, and what they said is kept. */
import type { KubeClient } from "@berth/kube";
import {
  createRegistryClient,
  factName,
  ImageFactStore,
  type ImageReader,
  type ImageReference,
  isOf,
  parseReference,
  type RegistryCredential,
  type RegistryEndpoints,
  RegistryError,
  referenceText,
} from "@berth/registry";
import {
  type Clock,
  type ClusterName,
  type Component,
  createLoopComponent,
  type Logger,
  type MetricsRegistry,
  sleep,
  whenAborted,
} from "@berth/runtime";
import type { ImageDemand, ImageKnowledge, ImageQuestion, ImageSight } from "../image-sight.ts";
import { ExpiringCache } from "./expiring-cache.ts";
import { FactConfigMaps } from "./fact-config-maps.ts";
import { ofRefusedName, scopeOf, toKnowledge } from "./knowledge.ts";
import { createImageMetrics } from "./metrics.ts";
import { PullCredentials } from "./pull-credentials.ts";

/** How registries are reached, and which of them. */
export interface RegistrySettings {
  readonly endpoints: RegistryEndpoints;
  /** Of other images nothing is looked up; see `isOf`. Absent: all may be. */
  readonly allowedRegistries?: readonly string[];
  /** Absolute. Read when it is needed. */
  readonly dockerConfig?: string;
  readonly tagTtlMs: number;
  readonly alwaysTtlMs: number;
  /** Of each request. */
  readonly timeoutMs: number;
}

export interface ImageLibraryOptions {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  /** Berth's own, where facts are kept in ConfigMaps. Absent: in memory only, and a restart asks again. */
  readonly namespace?: string;
  /** How registries are reached; made by `readRegistrySettings`. */
  readonly registries: RegistrySettings;
  /** What registries are told: `berth/0.1.0`. */
  readonly userAgent: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
}

/** A read may take several requests: a token, a manifest, a config, each at a mirror first. */
const REQUESTS_PER_READ = 3;

/** For all the requests that it takes to read an image. Milliseconds. */
export function readMsOf({ timeoutMs }: RegistrySettings): number {
  return REQUESTS_PER_READ * timeoutMs;
}

/** @throws RegistryError `invalidName`; `notAllowed` for an image that must not be looked up. */
export function parseAllowed(image: string, { allowedRegistries }: RegistrySettings): ImageReference {
  const reference = parseReference(image);
  if (allowedRegistries?.some((place) => isOf(place, reference)) ?? true) return reference;
  const message =
    `${referenceText(reference)} is not looked up: the configuration allows only registries that it lists. ` +
    "Use an image of one of them, or have this one added to allowedRegistries in ImageRegistries";
  throw new RegistryError("notAllowed", message, { registry: reference.registry });
}

/** How long what was kept is waited for before registries are asked all the same. Milliseconds. */
const RESTORE_MS = 10_000;
const NAMES = { ttlMs: Number.POSITIVE_INFINITY, maxEntries: 10_000, maxWeight: 4 * 1024 * 1024 };
/** What could not be read of pull secrets is remembered for as long as a failure may stand. Milliseconds. */
const PROBLEMS = { ttlMs: 3_600_000, maxEntries: 10_000, maxWeight: 1024 * 1024 };

export function createImageLibrary(options: ImageLibraryOptions): ImageLibrary {
  return new ImageLibrary(options);
}

/**
 * `look` is synchronous and asks nobody; `want` has registries asked, once for each image however often it is called.
 * Each replica has its own: facts that the leader has found reach the others through ConfigMaps.
 */
export class ImageLibrary implements ImageSight, ImageDemand {
  /** What every replica runs. They wait for nothing. */
  readonly always: readonly Component[];
  /** What the leader runs: it keeps the facts in ConfigMaps. */
  readonly elected: readonly Component[];
  readonly #options: ImageLibraryOptions;
  readonly #reader: ImageReader & AsyncDisposable;
  readonly #store: ImageFactStore;
  readonly #credentials: PullCredentials;
  readonly #kept: FactConfigMaps | undefined;
  readonly #woken = Promise.withResolvers<void>();
  /** Names taken apart: the same few hundred are asked about for every pod. */
  readonly #names: ExpiringCache<ImageReference | RegistryError>;
  /** By scope: what could not be read of its pull secrets. */
  readonly #problems: ExpiringCache<readonly string[]>;
  /** What was kept has been read: registries are asked from now on. */
  readonly #ready = Promise.withResolvers<void>();
  #commonProblem = "";

  constructor(options: ImageLibraryOptions) {
    this.#options = options;
    const { registries, clock, log, metrics, namespace } = options;
    const { endpoints, timeoutMs, tagTtlMs, alwaysTtlMs, dockerConfig } = registries;
    const { onRequest, ...counting } = createImageMetrics(metrics, () => this.#countFacts());
    const listenerFailed = (error: unknown): void => log.error("a listener failed", { error });
    this.#reader = createRegistryClient({
      endpoints,
      requestMs: timeoutMs,
      readMs: readMsOf(registries),
      userAgent: options.userAgent,
      clock,
      onRequest: (request) => {
        onRequest(request);
        const { registry, why } = request;
        // For the operator only: Events have one wording, lest tenants explore the network by image names.
        if (why !== undefined) log.info("a registry was asked in vain", { registry, why });
      },
    });
    this.#store = new ImageFactStore({
      reader: this.#reader,
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      tagTtlMs,
      alwaysTtlMs,
      ready: this.#ready.promise,
      observer: { ...counting, listenerFailed },
    });
    const { client } = options;
    const config = dockerConfig !== undefined && { dockerConfig };
    this.#credentials = new PullCredentials({ client, clock, ...config });
    this.#names = new ExpiringCache({ clock, ...NAMES });
    this.#problems = new ExpiringCache({ clock, ...PROBLEMS });
    this.#kept =
      namespace === undefined
        ? undefined
        : new FactConfigMaps({ ...options, namespace, memory: this.#store, wanted: this.#woken.promise });
    const questions = createLoopComponent({ name: "image-questions", run: (signal) => this.#run(signal) });
    this.always = [...(this.#kept ? [this.#kept.reader] : []), questions];
    this.elected = this.#kept ? [this.#kept.writer] : [];
  }

  look({ image, pull, access }: ImageQuestion): ImageKnowledge {
    const reference = this.#parse(image);
    if (reference instanceof RegistryError) return ofRefusedName(image, reference);
    const scope = scopeOf(access);
    const answer = this.#store.look({ reference, pull, scope });
    return toKnowledge(factName(reference), answer, this.#problems.get(scope));
  }

  want({ image, pull, access }: ImageQuestion): void {
    const reference = this.#parse(image);
    if (reference instanceof RegistryError) return;
    this.wake();
    const scope = scopeOf(access);
    const credentials = async (): Promise<readonly RegistryCredential[]> => {
      const found = await this.#credentials.find(access, reference);
      this.#problems.set(scope, found.problems, scope.length + found.problems.join("").length);
      this.#reportCommon(found.commonProblems.join("; "));
      return found.credentials;
    };
    // Never rejects, and is waited for when the store is disposed of.
    void this.#store.want({ reference, pull, scope, namespace: access.namespace, credentials });
  }

  /**
   * Reads what was kept, before anybody is asked: to be called when a policy comes into force, and again at will. The
   * first `want` does so too. Until then nothing is watched, so that those who have no policy need no rights.
   */
  wake(): void {
    this.#woken.resolve();
  }

  /**
   * The listener gets the name in full, as `look` has it, each time when what is said about it has changed: it is known,
   * stands for something else, or failed in another way. Must not throw.
   */
  subscribe(listener: (name: string) => void): Disposable {
    return this.#store.subscribe(listener);
  }

  #reportCommon(problem: string): void {
    if (problem === this.#commonProblem) return;
    this.#commonProblem = problem;
    const { dockerConfig } = this.#options.registries;
    if (problem !== "")
      this.#options.log.warn("the docker config for all pods has faults", { path: dockerConfig, problem });
  }

  #parse(image: string): ImageReference | RegistryError {
    const known = this.#names.get(image);
    if (known !== undefined) return known;
    let parsed: ImageReference | RegistryError;
    try {
      parsed = parseAllowed(image, this.#options.registries);
    } catch (error) {
      if (!(error instanceof RegistryError)) throw error;
      parsed = error;
    }
    this.#names.set(image, parsed, image.length);
    return parsed;
  }

  async #run(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#woken.promise, whenAborted(signal)]);
    if (this.#kept !== undefined) {
      const restored = new AbortController();
      const limit = AbortSignal.any([signal, restored.signal]);
      await Promise.race([this.#kept.restored, sleep(this.#options.clock, RESTORE_MS, limit)]);
      restored.abort();
    } else if (!signal.aborted) {
      this.#options.log.info(
        "what is known of images is kept in memory only, for Berth's namespace does not exist: a restart asks again",
      );
    }
    this.#ready.resolve();
    await whenAborted(signal);
    await this.#store[Symbol.asyncDispose]();
    await this.#reader[Symbol.asyncDispose]();
  }

  #countFacts(): { readonly tags: number; readonly digests: number } {
    const counts = { tags: 0, digests: 0 };
    for (const { name } of this.#store.entries()) counts[name.includes("@") ? "digests" : "tags"] += 1;
    return counts;
  }
}
