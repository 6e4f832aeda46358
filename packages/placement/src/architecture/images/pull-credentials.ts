/** The credentials of a pod for its images, found as kubelet finds them. */
import {
  isApiError,
  type KubeClient,
  type ObjectName,
  type Secret,
  secrets,
  serviceAccounts,
} from "@berth/kube";
import {
  credentialsFor,
  type DockerConfig,
  DockerConfigFile,
  type ImageReference,
  parseDockerConfig,
  type RegistryCredential,
} from "@berth/registry";
import type { Clock } from "@berth/runtime";
import type { ImageAccess } from "../image-sight.ts";
import { ExpiringCache } from "./expiring-cache.ts";

export interface PullCredentialsOptions {
  /** Absent: there is no cluster, and no Secret is read. */
  readonly client?: Pick<KubeClient, "get">;
  readonly clock: Pick<Clock, "monotonic">;
  /** Path of a docker config whose credentials are for all pods. Absolute. */
  readonly dockerConfig?: string;
}

export interface FoundCredentials {
  /** In the order to try them. */
  readonly credentials: readonly RegistryCredential[];
  /** What could not be read of the pod's own, in sentences without content: `the pull secret team/one does not exist`. */
  readonly problems: readonly string[];
  /** The same of the docker config that is for all pods. */
  readonly commonProblems: readonly string[];
}

/** A change of a Secret counts after `ttlMs` at the latest. The weight is the length of texts: a Secret may have 1 MiB. */
const KEPT = { ttlMs: 60_000, maxEntries: 1000, maxWeight: 8 * 1024 * 1024 };
/** Kubernetes sets no bound to the list of a pod. */
const MAX_SECRETS = 32;
/** `NameIsDNSSubdomain`: nobody has checked what a pod names. */
const NAME = /^(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

/** A docker config, or the names of Secrets with one, and what is wrong with that. */
interface Reading {
  readonly config?: DockerConfig;
  readonly names?: readonly string[];
  readonly problems: readonly string[];
  /** For the bounds of what is kept. */
  readonly length: number;
  /** The API server did not answer: it is asked again at the next question. */
  readonly isPassing?: boolean;
}

/**
 * Reads Secrets by name, with one GET each, and keeps them for a minute: no list and no watch, so that the right to
 * `get` is enough. One that is missing, forbidden or wrong is a problem, and the others count. The order is kubelet's:
 * pull secrets of the pod, or of its service account where it names none, and after them the docker config of the node.
 */
export class PullCredentials {
  readonly #client: Pick<KubeClient, "get"> | undefined;
  readonly #file: DockerConfigFile | undefined;
  readonly #kept: ExpiringCache<Reading>;
  readonly #running = new Map<string, Promise<Reading>>();

  constructor({ client, clock, dockerConfig }: PullCredentialsOptions) {
    this.#client = client;
    this.#file = dockerConfig === undefined ? undefined : new DockerConfigFile(dockerConfig);
    this.#kept = new ExpiringCache({ clock, ...KEPT });
  }

  /** Never rejects. */
  async find(access: ImageAccess, reference: ImageReference): Promise<FoundCredentials> {
    const account = access.secrets.length > 0 ? undefined : await this.#ofAccount(access);
    const names = [...new Set(account?.names ?? access.secrets)];
    const used = names.slice(0, MAX_SECRETS);
    const [file, ...read] = await Promise.all([
      this.#file?.read(),
      ...used.map((name) => this.#ofSecret(access.namespace, name)),
    ]);
    const configs = read.map(({ config }) => config).filter((config) => config !== undefined);
    const surplus = names.length - used.length;
    return {
      credentials: [configs, file ? [file] : []].flatMap((some) => credentialsFor(some, reference)),
      problems: [
        ...(account?.problems ?? []),
        ...read.flatMap(({ problems }) => problems),
        ...(surplus > 0 ? [`of its pull secrets only the first ${MAX_SECRETS} are used`] : []),
      ],
      commonProblems: file?.problems ?? [],
    };
  }

  #ofAccount({ namespace, serviceAccount }: ImageAccess): Promise<Reading> {
    // What a pod without a service account gets (plugin/pkg/admission/serviceaccount).
    const name = serviceAccount === "" ? "default" : serviceAccount;
    return this.#once("service account", { namespace, name }, async (client) => {
      const { imagePullSecrets = [] } = await client.get(serviceAccounts, { namespace, name });
      const names = imagePullSecrets.map((one) => one.name ?? "").filter((one) => one !== "");
      return { names, problems: [], length: names.join("").length };
    });
  }

  #ofSecret(namespace: string, name: string): Promise<Reading> {
    return this.#once("pull secret", { namespace, name }, async (client) =>
      readSecret(await client.get(secrets, { namespace, name }), `the pull secret ${namespace}/${name}`),
    );
  }

  /** One question at a time about each object. */
  #once(
    called: keyof typeof RESOURCES,
    { namespace, name }: ObjectName,
    read: (client: Pick<KubeClient, "get">) => Promise<Reading>,
  ): Promise<Reading> {
    const client = this.#client;
    if (client === undefined) return Promise.resolve({ problems: [], length: 0 });
    // A name with a slash in it would ask for something else.
    if (!NAME.test(name) || !NAME.test(namespace ?? ""))
      return Promise.resolve({ problems: [`a name of a ${called} is none`], length: 0 });
    const key = `${called}/${namespace}/${name}`;
    const known = this.#kept.get(key);
    if (known !== undefined) return Promise.resolve(known);
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const started = read(client)
      .catch((error: unknown) => failed(error, `the ${called} ${namespace}/${name}`, RESOURCES[called]))
      .then((reading) => {
        this.#running.delete(key);
        if (!reading.isPassing) this.#kept.set(key, reading, reading.length + key.length);
        return reading;
      });
    this.#running.set(key, started);
    return started;
  }
}

/** By what it is called. */
const RESOURCES = { "pull secret": "secrets", "service account": "serviceaccounts" } as const;

/** A Secret of the type `kubernetes.io/<format>` has its docker config in the field `.<format>`. */
const FORMATS = ["dockerconfigjson", "dockercfg"] as const;

function readSecret({ type = "Opaque", data }: Secret, what: string): Reading {
  const format = FORMATS.find((one) => type === `kubernetes.io/${one}`);
  if (format === undefined)
    return { problems: [`${what} is of the type ${type}, which holds no docker config`], length: 0 };
  const encoded = data?.[`.${format}`];
  if (encoded === undefined) return { problems: [`${what} has no field .${format}`], length: 0 };
  const config = parseDockerConfig(Buffer.from(encoded, "base64").toString("utf8"), format);
  const problems = config.problems.map((problem) => `${what}: ${problem}`);
  return { config, problems, length: encoded.length };
}

function failed(error: unknown, what: string, resource: string): Reading {
  if (isApiError(error, "notFound")) return { problems: [`${what} does not exist`], length: 0 };
  const why = isApiError(error) ? error.failure.kind : "unknown";
  const problem =
    why === "forbidden"
      ? `${what} may not be read: Berth lacks the right to get ${resource} there`
      : `${what} could not be read (${why})`;
  // Not kept: it may be refused in passing, and the client asks in moderation.
  return { problems: [problem], length: 0, isPassing: true };
}
