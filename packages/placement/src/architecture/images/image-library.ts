/** Gets image facts for the rules of architecture placement: asks registries and keeps their answers. */
import type { KubeClient } from "@berth/kube";
import {
  type CredentialPluginsOptions,
  createRegistryClient,
  factName,
  ImageFactStore,
  type ImageReader,
  type ImageReference,
  isOf,
  type ProxyFor,
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
import { BoundedMap } from "../../node/bounded-map.ts";
import type { ImageDemand, ImageKnowledge, ImageObservations, ImageQuestion } from "../image-observations.ts";
import { FactConfigMaps } from "./fact-config-maps.ts";
import { ofRefusedName, scopeOf, toKnowledge } from "./knowledge.ts";
import { createImageMetrics } from "./metrics.ts";
import { PullCredentials } from "./pull-credentials.ts";

/** Which registries Berth may reach, and how. */
export interface RegistrySettings {
  readonly endpoints: RegistryEndpoints;
  /** Berth looks up images only from these; see `isOf`. Absent: from all registries. */
  readonly allowedRegistries?: readonly string[];
  /** Absolute path. Berth reads the file when it needs it. */
  readonly dockerConfig?: string;
  /** Programs with credentials for all pods. */
  readonly credentialPlugins?: Omit<CredentialPluginsOptions, "clock">;
  /** The proxies of this process. */
  readonly proxyFor?: ProxyFor;
  readonly tagTtlMs: number;
  readonly alwaysTtlMs: number;
  /** Of each request. */
  readonly timeoutMs: number;
}

export interface ImageLibraryOptions {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  /** Berth's own namespace, for the fact ConfigMaps. Absent: facts stay in memory, and a restart asks again. */
  readonly namespace?: string;
  /** Made by `readRegistrySettings`. */
  readonly registries: RegistrySettings;
  /** The user agent in requests to registries: `berth/0.1.0`. */
  readonly userAgent: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
}

/** A read may take several requests: a token, a manifest, a config, each at a mirror first. */
const REQUESTS_PER_READ = 3;

/** Time limit for all requests of one image read. Milliseconds. */
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

/** How long Berth waits for stored facts before it asks registries without them. Milliseconds. */
const RESTORE_MS = 10_000;
const NAMES = { maxEntries: 10_000, maxWeight: 4 * 1024 * 1024 };
/** Problems with credentials stay as long as a failure may stay. Milliseconds. */
const PROBLEMS_TTL_MS = 3_600_000;
const PROBLEMS = { maxEntries: 10_000, maxWeight: 1024 * 1024 };

export function createImageLibrary(options: ImageLibraryOptions): ImageLibrary {
  return new ImageLibrary(options);
}

/**
 * `look` is synchronous and sends no request. `want` asks registries once for each image, however often callers repeat
 * it. Each replica has its own library. ConfigMaps carry facts from the leader to the other replicas.
 */
export class ImageLibrary implements ImageObservations, ImageDemand {
  /** Every replica runs these. They wait for nothing. */
  readonly always: readonly Component[];
  /** Only the leader runs these: they keep the facts in ConfigMaps. */
  readonly elected: readonly Component[];
  readonly #options: ImageLibraryOptions;
  readonly #reader: ImageReader & AsyncDisposable;
  readonly #store: ImageFactStore;
  readonly #credentials: PullCredentials;
  readonly #kept: FactConfigMaps | undefined;
  readonly #woken = Promise.withResolvers<void>();
  /** Parsed image names: callers ask about the same few hundred for every pod. */
  readonly #names: BoundedMap<ImageReference | RegistryError>;
  /** By scope: the problems with its pull secrets. */
  readonly #problems: BoundedMap<readonly string[]>;
  /** By scope and full name: the programs that had no credentials for it. */
  readonly #failedPrograms: BoundedMap<readonly string[]>;
  /** Problems of credentials for all pods that were logged. */
  readonly #logged: BoundedMap<true>;
  /** Resolves once Berth has read the stored facts. It asks registries from then on. */
  readonly #ready = Promise.withResolvers<void>();

  constructor(options: ImageLibraryOptions) {
    this.#options = options;
    const { registries, clock, log, metrics, namespace } = options;
    const { endpoints, timeoutMs, tagTtlMs, alwaysTtlMs, proxyFor } = registries;
    const { onRequest, ...counting } = createImageMetrics(metrics, () => this.#countFacts());
    const listenerFailed = (error: unknown): void => log.error("a listener failed", { error });
    this.#reader = createRegistryClient({
      endpoints,
      ...(proxyFor && { proxyFor }),
      requestMs: timeoutMs,
      readMs: readMsOf(registries),
      userAgent: options.userAgent,
      program: "Berth",
      settings: "the document ImageRegistries",
      clock,
      onRequest: (request) => {
        onRequest(request);
        const { registry, why } = request;
        // For the operator only. Events use one wording, so that tenants cannot probe the network by image names.
        if (why !== undefined) log.info("a request to a registry failed", { registry, why });
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
    this.#credentials = new PullCredentials({ client, clock, ...registries });
    this.#names = new BoundedMap(NAMES);
    this.#problems = new BoundedMap({ ...PROBLEMS, expiry: { clock, ttlMs: PROBLEMS_TTL_MS } });
    this.#failedPrograms = new BoundedMap({ ...PROBLEMS, expiry: { clock, ttlMs: PROBLEMS_TTL_MS } });
    this.#logged = new BoundedMap({ ...PROBLEMS, expiry: { clock, ttlMs: PROBLEMS_TTL_MS } });
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
    const name = factName(reference);
    const answer = this.#store.look({ reference, pull, scope });
    if (answer.state !== "failed") return toKnowledge(name, answer);
    const [secrets, programs] = [this.#problems.get(scope), this.#failedPrograms.get(keyOf(scope, name))];
    return toKnowledge(name, answer, { secrets, programs });
  }

  want({ image, pull, access }: ImageQuestion): void {
    const reference = this.#parse(image);
    if (reference instanceof RegistryError) return;
    this.wake();
    const scope = scopeOf(access);
    const own = keyOf(scope, factName(reference));
    let isFree = false;
    const credentials = async (): Promise<readonly RegistryCredential[]> => {
      const found = await this.#credentials.find(access, reference);
      this.#problems.set(scope, found.problems, scope.length + found.problems.join("").length);
      const { failedPrograms } = found;
      isFree = failedPrograms.length === 0;
      if (!isFree) this.#failedPrograms.set(own, failedPrograms, own.length + failedPrograms.join("").length);
      for (const problem of found.commonProblems) this.#reportCommon(problem);
      return found.credentials;
    };
    // Never rejects. Disposal of the store waits for it.
    const asked = this.#store.want({ reference, pull, scope, namespace: access.namespace, credentials });
    // Until there is another answer, the last one stands, and what it was asked without.
    void asked.then(() => isFree && this.#failedPrograms.delete(own));
  }

  /**
   * Reads the stored facts before Berth asks registries. Call it when a policy comes into force, or again at will. The
   * first `want` calls it too. Until then Berth watches nothing: without policies it needs no permissions.
   */
  wake(): void {
    this.#woken.resolve();
  }

  /**
   * Calls the listener with the full name, as in `look`, each time the answer for it changes. The image is now known,
   * its tag means another image, or the failure is another. The listener must not throw.
   */
  subscribe(listener: (name: string) => void): Disposable {
    return this.#store.subscribe(listener);
  }

  /** Each once an hour, because images take turns with their problems. */
  #reportCommon(problem: string): void {
    if (this.#logged.get(problem)) return;
    this.#logged.set(problem, true, problem.length);
    this.#options.log.warn("the credentials for all pods have a fault", { problem });
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
        "facts of images are kept in memory only, because Berth's namespace does not exist: after a restart Berth asks registries again",
      );
    }
    this.#ready.resolve();
    await whenAborted(signal);
    this.#credentials[Symbol.dispose]();
    await this.#store[Symbol.asyncDispose]();
    await this.#reader[Symbol.asyncDispose]();
  }

  #countFacts(): { readonly tags: number; readonly digests: number } {
    const counts = { tags: 0, digests: 0 };
    for (const { name } of this.#store.entries()) counts[name.includes("@") ? "digests" : "tags"] += 1;
    return counts;
  }
}

/** The key of an image among pods that have the same credentials. */
const keyOf = (scope: string, name: string): string => `${scope}\n${name}`;
