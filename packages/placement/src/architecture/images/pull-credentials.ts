/** Finds the credentials of a pod for its images as the kubelet does. */
import {
  isApiError,
  type KubeClient,
  type Secret,
  secrets,
  selfSubjectAccessReviews,
  serviceAccounts,
} from "@berth/kube";
import {
  CredentialPlugins,
  type CredentialPluginsOptions,
  credentialsFor,
  type DockerConfig,
  DockerConfigFile,
  type ImageReference,
  parseDockerConfig,
  type RegistryCredential,
} from "@berth/registry";
import type { Clock } from "@berth/runtime";
import { BoundedMap } from "../../node/bounded-map.ts";
import type { ImageAccess } from "../image-observations.ts";

export interface PullCredentialsOptions {
  /** Absent: there is no cluster, and Berth reads no Secrets. */
  readonly client?: Pick<KubeClient, "get" | "create">;
  readonly clock: Pick<Clock, "monotonic">;
  /** Absolute path of a docker config with credentials for all pods. */
  readonly dockerConfig?: string;
  /** Programs with credentials for all pods. Helpers are run that this docker config names, and none of a Secret. */
  readonly credentialPlugins?: Omit<CredentialPluginsOptions, "clock">;
}

export interface FoundCredentials {
  /** In the order to try them. */
  readonly credentials: readonly RegistryCredential[];
  /** Problems with the pod's own secrets, without their content: `the pull secret team/one does not exist`. */
  readonly problems: readonly string[];
  /** Problems with the docker config and the programs for all pods. */
  readonly commonProblems: readonly string[];
  /** Those of the programs alone: the credentials may come when it is asked again. */
  readonly failedPrograms: readonly string[];
}

/** Berth sees a changed Secret after this at the latest. Milliseconds. */
const SECRETS_MS = 60_000;
/** The weight is the text length: a Secret may have 1 MiB. */
const KEPT = { maxEntries: 1000, maxWeight: 8 * 1024 * 1024 };
/** Shorter, as a server that has just started may not know a permission yet. */
const RIGHTS_MS = 10_000;
/** Kubernetes does not limit the list in a pod. */
const MAX_SECRETS = 32;
/** `NameIsDNSSubdomain`: the names in a pod are unchecked input. */
const NAME = /^(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

/** A docker config, or names of Secrets that hold one, and the problems with it. */
interface Reading {
  readonly config?: DockerConfig;
  readonly names?: readonly string[];
  readonly problems: readonly string[];
  /** Text length, for the limit of the cache. */
  readonly length: number;
  /** The failure may be temporary: Berth asks the API server again at the next question. */
  readonly isPassing?: boolean;
}

/**
 * Reads each Secret by name with one GET, and keeps it for a minute. The permission to `get` is enough, and without it
 * Berth sends no GET: a refusal is a fault to those who watch the API server. A missing, forbidden or wrong Secret is a
 * problem, and the others count. The order is the kubelet's: pull secrets of the pod, or of its service account if the
 * pod names none. What is for all pods comes last: the docker config, then the programs. Disposal ends these.
 */
export class PullCredentials implements Disposable {
  readonly #client: PullCredentialsOptions["client"];
  readonly #path: string | undefined;
  readonly #file: DockerConfigFile | undefined;
  readonly #plugins: CredentialPlugins | undefined;
  readonly #kept: BoundedMap<Reading>;
  /** By question: may Berth get this? */
  readonly #rights: BoundedMap<Promise<boolean>>;
  readonly #running = new Map<string, Promise<Reading>>();

  constructor({ client, clock, dockerConfig, credentialPlugins }: PullCredentialsOptions) {
    this.#client = client;
    this.#path = dockerConfig;
    this.#plugins = credentialPlugins && new CredentialPlugins({ ...credentialPlugins, clock });
    this.#file = dockerConfig === undefined ? undefined : new DockerConfigFile(dockerConfig);
    this.#kept = new BoundedMap({ ...KEPT, expiry: { clock, ttlMs: SECRETS_MS } });
    this.#rights = new BoundedMap({ ...KEPT, expiry: { clock, ttlMs: RIGHTS_MS } });
  }

  /** Never rejects. */
  async find(access: ImageAccess, reference: ImageReference): Promise<FoundCredentials> {
    const account = access.secrets.length > 0 ? undefined : await this.#ofAccount(access);
    const names = [...new Set(account?.names ?? access.secrets)];
    const used = names.slice(0, MAX_SECRETS);
    const [common, ...read] = await Promise.all([
      this.#forAll(reference),
      ...used.map((name) => this.#ofSecret(access.namespace, name)),
    ]);
    const { file, programs } = common;
    const ofAll = [...(file ? [file] : []), ...programs];
    const failedPrograms = programs.flatMap(({ problems }) => problems);
    const configs = read.map(({ config }) => config).filter((config) => config !== undefined);
    const surplus = names.length - used.length;
    return {
      credentials: [configs, ofAll].flatMap((some) => credentialsFor(some, reference)),
      problems: [
        ...(account?.problems ?? []),
        ...read.flatMap(({ problems }) => problems),
        ...(surplus > 0 ? [`of its pull secrets only the first ${MAX_SECRETS} are used`] : []),
      ],
      commonProblems: [...(file?.problems ?? []), ...failedPrograms],
      failedPrograms,
    };
  }

  [Symbol.dispose](): void {
    this.#plugins?.[Symbol.dispose]();
  }

  async #readFile(): Promise<DockerConfig | undefined> {
    const file = await this.#file?.read();
    if (file === undefined) return undefined;
    const isIgnored = file.helpers !== undefined && this.#plugins === undefined;
    const note = "its credHelpers are not run: set credentialPlugins in ImageRegistries";
    const problems = [...file.problems, ...(isIgnored ? [note] : [])];
    return { ...file, problems: problems.map((problem) => `the docker config ${this.#path}: ${problem}`) };
  }

  /** One keyring, as the kubelet's own. */
  async #forAll(
    reference: ImageReference,
  ): Promise<{ readonly file: DockerConfig | undefined; readonly programs: readonly DockerConfig[] }> {
    const file = await this.#readFile();
    const programs = await Promise.all([
      this.#plugins?.ofHelpers(file?.helpers ?? [], reference),
      this.#plugins?.ofProviders(reference),
    ]);
    return { file, programs: programs.filter((config) => config !== undefined) };
  }

  #ofAccount({ namespace, serviceAccount }: ImageAccess): Promise<Reading> {
    // A pod without a service account gets this one (plugin/pkg/admission/serviceaccount).
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

  /** Sends one request at a time for each object. */
  #once(
    called: keyof typeof RESOURCES,
    { namespace, name }: { readonly namespace: string; readonly name: string },
    read: (client: Client) => Promise<Reading>,
  ): Promise<Reading> {
    const client = this.#client;
    if (client === undefined) return Promise.resolve({ problems: [], length: 0 });
    // A name with a slash would address another object.
    if (!NAME.test(name) || !NAME.test(namespace))
      return Promise.resolve({ problems: [`a name of a ${called} is not valid`], length: 0 });
    const key = `${called}/${namespace}/${name}`;
    const known = this.#kept.get(key);
    if (known !== undefined) return Promise.resolve(known);
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const [what, resource] = [`the ${called} ${namespace}/${name}`, RESOURCES[called]];
    const started = this.#mayGet(client, { resource, namespace, name })
      .then((isAllowed) => (isAllowed ? read(client) : refused(what, resource)))
      .catch((error: unknown) => failed(error, what, resource))
      .then((reading) => {
        this.#running.delete(key);
        if (!reading.isPassing) this.#kept.set(key, reading, reading.length + key.length);
        return reading;
      });
    this.#running.set(key, started);
    return started;
  }

  /** Asks about all objects first, then about this one. Every account may ask, as `system:basic-user` grants. */
  async #mayGet(client: Client, { resource, ...object }: Asked): Promise<boolean> {
    return (await this.#isAllowed(client, { resource })) || this.#isAllowed(client, { resource, ...object });
  }

  #isAllowed(client: Client, asked: Asked): Promise<boolean> {
    const key = JSON.stringify(asked);
    const known = this.#rights.get(key);
    if (known !== undefined) return known;
    const review = { spec: { resourceAttributes: { verb: "get", ...asked } } };
    const answer = client
      .create(selfSubjectAccessReviews, review)
      .then(({ status }) => status?.allowed === true);
    this.#rights.set(key, answer, key.length);
    answer.catch(() => this.#rights.delete(key));
    return answer;
  }
}

/** One object, or all of the resource. */
interface Asked {
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
}

type Client = NonNullable<PullCredentialsOptions["client"]>;

/** The resource by its name in messages. */
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
  if (isApiError(error, "forbidden")) return refused(what, resource);
  return passing(`${what} could not be read (${isApiError(error) ? error.failure.kind : "unknown"})`);
}

const refused = (what: string, resource: string): Reading =>
  passing(`${what} cannot be read: Berth lacks the permission to get ${resource} there`);

/** Not cached: the failure may be temporary, and the client limits its requests. */
const passing = (problem: string): Reading => ({ problems: [problem], length: 0, isPassing: true });
