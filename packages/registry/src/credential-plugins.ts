/** Credentials from programs of the operator, run as the kubelet and Docker run them. */
import path from "node:path";
import {
  type DockerConfig,
  type DockerConfigHelper,
  isPlaceOf,
  type Place,
  parsePlace,
} from "./docker-config.ts";
import { type CacheKey, parseHelperAnswer, parseProviderAnswer } from "./plugin-answer.ts";
import { type ProgramResult, runProgram } from "./program.ts";
import { RecentMap } from "./recent-map.ts";
import type { ImageReference } from "./types.ts";

/** One provider of a CredentialProviderConfig (`kubelet.config.k8s.io/v1`). */
export interface CredentialProvider {
  /** Name of its file in the folder. */
  readonly name: string;
  /** Of the protocol: `credentialprovider.kubelet.k8s.io/v1`. */
  readonly apiVersion: string;
  /** `*.dkr.ecr.*.amazonaws.com`, `registry.example:8080/path`. */
  readonly matchImages: readonly string[];
  /** For answers that do not say how long they count. 0: not kept. */
  readonly defaultCacheMs: number;
  readonly args: readonly string[];
  /** Added to the environment of all programs. */
  readonly env: Readonly<Record<string, string>>;
}

/** The programs, and what they may know of this process. */
export interface CredentialPluginsOptions {
  /** Absolute. Has the providers by their names, and helpers as `docker-credential-NAME`. */
  readonly folder: string;
  readonly providers: readonly CredentialProvider[];
  /** The whole environment of the programs. */
  readonly environment: Readonly<Record<string, string>>;
  readonly clock: { readonly monotonic: () => number };
  /** Of one run, ms. Default 30,000. */
  readonly timeoutMs?: number;
}

interface Kept {
  readonly config: DockerConfig;
  /** On the monotonic clock, ms. */
  readonly until: number;
}

/** Runs at a time of one program. A program that hangs delays no other. */
const MAX_RUNS = 4;
const MAX_KEPT = 256;
const TIMEOUT_MS = 30_000;
/** Helpers do not say how long their credentials count. */
const HELPER_MS = 60_000;
/** The Docker Hub in docker configs and in the protocol of helpers. */
const HUB = { name: "docker.io", server: "https://index.docker.io/v1/" } as const;

const GLOBAL = "*";

/**
 * Keeps answers as the kubelet does: by repository, registry or provider, for as long as they say. The same question in
 * flight is asked once. Failures are not kept: the store of facts remembers the failure of the image. Disposal ends what
 * runs.
 */
export class CredentialPlugins implements Disposable {
  readonly #options: CredentialPluginsOptions;
  readonly #providers: readonly { readonly of: CredentialProvider; readonly places: readonly Place[] }[];
  readonly #kept: RecentMap<string, Kept> = new RecentMap(MAX_KEPT);
  readonly #running = new Map<string, Promise<DockerConfig>>();
  /** By program: runs, and those that wait for their turn. */
  readonly #turns = new Map<string, { runs: number; readonly waiting: (() => void)[] }>();
  readonly #stop = new AbortController();

  constructor(options: CredentialPluginsOptions) {
    this.#options = options;
    this.#providers = options.providers.map((of) => ({
      of,
      places: of.matchImages.flatMap((text) => parsePlace(text) ?? []),
    }));
  }

  /** What the providers of the image answer, in their order. Entries may be of other images. Never rejects. */
  async ofProviders(reference: ImageReference): Promise<DockerConfig> {
    const asked = this.#providers.filter(({ places }) => places.some((place) => isPlaceOf(place, reference)));
    return merged(await Promise.all(asked.map(({ of }) => this.#askProvider(of, reference))));
  }

  /** What the helpers of a docker config that the operator wrote have for the image. Never rejects. */
  async ofHelpers(helpers: readonly DockerConfigHelper[], reference: ImageReference): Promise<DockerConfig> {
    const { registry } = reference;
    const server = registry === HUB.name ? HUB.server : registry;
    const asked = helpers.filter(({ host }) => host === registry || server.includes(`//${host}/`));
    return merged(await Promise.all(asked.map(({ name }) => this.#askHelper(name, server))));
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }

  #askProvider(provider: CredentialProvider, reference: ImageReference): Promise<DockerConfig> {
    const { name, apiVersion, args, env, defaultCacheMs } = provider;
    const image = `${reference.registry}/${reference.repository}`;
    const keys: Readonly<Record<CacheKey, string>> = {
      Image: `${name} ${image}`,
      Registry: `${name} ${reference.registry}`,
      Global: `${name} ${GLOBAL}`,
    };
    return this.#once(Object.values(keys), async () => {
      const input = JSON.stringify({ apiVersion, kind: "CredentialProviderRequest", image });
      const { output, fault } = await this.#run(name, args, env, input);
      const answer = fault === undefined ? parseProviderAnswer(output, apiVersion) : { fault };
      if ("fault" in answer) return faulty(`the credential provider ${name} ${answer.fault}`);
      this.#keep(keys[answer.cacheKey], answer.config, answer.cacheMs ?? defaultCacheMs);
      return answer.config;
    });
  }

  #askHelper(name: string, server: string): Promise<DockerConfig> {
    const program = `docker-credential-${name}`;
    const key = `${program} ${server}`;
    return this.#once([key], async () => {
      const { output, fault } = await this.#run(program, ["get"], {}, server);
      const answer = parseHelperAnswer(output, server, fault);
      if ("fault" in answer) return faulty(`the credential helper ${program} ${answer.fault}`);
      this.#keep(key, answer.config, HELPER_MS);
      return answer.config;
    });
  }

  /** @param keys the first is that of the question. */
  #once(keys: readonly string[], ask: () => Promise<DockerConfig>): Promise<DockerConfig> {
    const now = this.#options.clock.monotonic();
    for (const key of keys) {
      const kept = this.#kept.get(key);
      if (kept !== undefined && now < kept.until) return Promise.resolve(kept.config);
    }
    const [key = ""] = keys;
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const started = ask().finally(() => this.#running.delete(key));
    this.#running.set(key, started);
    return started;
  }

  #keep(key: string, config: DockerConfig, ms: number): void {
    if (ms > 0) this.#kept.set(key, { config, until: this.#options.clock.monotonic() + ms });
  }

  async #run(
    program: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    input: string,
  ): Promise<ProgramResult> {
    const turn = this.#turns.get(program) ?? { runs: 0, waiting: [] };
    this.#turns.set(program, turn);
    if (turn.runs === MAX_RUNS) await new Promise<void>((resolve) => turn.waiting.push(resolve));
    else turn.runs += 1;
    try {
      const { folder, environment, timeoutMs = TIMEOUT_MS } = this.#options;
      return await runProgram({
        file: path.join(folder, program),
        args,
        env: { ...environment, ...env },
        input,
        timeoutMs,
        signal: this.#stop.signal,
      });
    } finally {
      // The next one takes over the place of this run.
      const next = turn.waiting.shift();
      if (next === undefined) turn.runs -= 1;
      else next();
    }
  }
}

function merged(configs: readonly DockerConfig[]): DockerConfig {
  return {
    entries: configs.flatMap(({ entries }) => entries),
    problems: configs.flatMap(({ problems }) => problems),
  };
}

const faulty = (problem: string): DockerConfig => ({ entries: [], problems: [problem] });
