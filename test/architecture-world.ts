/**
 * A stage for tests of architecture placement on the whole product: nodes, pods and policies on a real API server, a
 * Berth in this process, and what users see of it. Images are in a registry of the test's own choice.
 *
 * A stage has its cluster to itself while it lasts: taints concern all nodes and all pods.
 *
 * Long because what every test of it asks of a cluster is asked here, once.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type BerthOptions, crds, type RunningBerth, startBerth } from "@berth/cli";
import {
  customResourceDefinitions,
  daemonSets,
  events,
  isApiError,
  type KubeClient,
  type KubeEvent,
  type KubeObject,
  mutatingWebhookConfigurations,
  type Node,
  namespaces,
  nodes,
  type Pod,
  type PodSpec,
  pods,
  type Resource,
  secrets,
  serviceAccounts,
} from "@berth/kube";
import {
  ARCHITECTURE_GATE,
  ARCHITECTURES_ANNOTATION,
  type ArchitecturePolicy,
  type ArchitecturePolicyStatus,
  architecturePolicies,
  ORIGINAL_ARCHITECTURE_KEY,
} from "@berth/placement";
import { createJsonLogger } from "@berth/runtime";
import {
  type AuditEntry,
  type AuditMark,
  aNode,
  aPod,
  type EventuallyOptions,
  eventually,
  findFreePort,
  type NodeBuilder,
  type PodBuilder,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { listing } from "../packages/cli/src/testing/registries.ts";

/** No other user agent on these clusters begins so. */
export const BERTH = "berth/";
/** Berth's own. */
export const NAMESPACE = "berth-system";
/** The drop-in for archaware-controller. */
export const DROP_IN: string = path.join(
  import.meta.dirname,
  "../examples/architecture/archaware-controller.yaml",
);
export const KEY: string = ORIGINAL_ARCHITECTURE_KEY;
const WRITES: ReadonlySet<string> = new Set(["create", "update", "patch", "delete", "deletecollection"]);

/** The cluster of this process, with the CRDs and Berth's namespace. */
export async function sharedArchitectureCluster(): Promise<TestCluster> {
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(architecturePolicies));
  await client.create(namespaces, { metadata: { name: NAMESPACE } });
  return cluster;
}

export interface StartOptions extends Partial<BerthOptions> {
  /** Where it connects; default the API server itself. */
  readonly server?: string;
  /** The API server asks it about new pods, and does this when it does not answer. Default: it is not asked. */
  readonly asked?: "Ignore" | "Fail";
}

/** A Berth, and all that it has logged. */
export interface StartedBerth {
  readonly berth: RunningBerth;
  readonly lines: readonly string[];
}

/**
 * @param name Of the namespace of its pods; begins the names of its nodes.
 * @param registries Of this machine. Its Berths list them, as users do.
 */
export async function createArchitectureStage(
  cluster: TestCluster,
  name: string,
  registries: readonly { readonly host: string }[] = [],
): Promise<ArchitectureStage> {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-architecture-"));
  await cluster.client.create(namespaces, { metadata: { name } });
  // Where no controller manager makes it.
  const account = { metadata: { name: "default" } };
  await cluster.client.create(serviceAccounts, account, { namespace: name }).catch((error: unknown) => {
    if (!isApiError(error, "alreadyExists")) throw error;
  });
  return new ArchitectureStage(cluster, name, folder, registries);
}

export class ArchitectureStage implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly name: string;
  readonly #folder: string;
  readonly #registries: readonly { readonly host: string }[];
  readonly #owned = new AsyncDisposableStack();
  #count = 0;

  /** Use `createArchitectureStage`. */
  constructor(
    cluster: TestCluster,
    name: string,
    folder: string,
    registries: readonly { readonly host: string }[],
  ) {
    this.cluster = cluster;
    this.name = name;
    this.#folder = folder;
    this.#registries = registries;
  }

  /** Starts a Berth and resolves once it is ready. It ends with the stage, at the latest. */
  async start({ server, asked, ...options }: StartOptions = {}): Promise<StartedBerth> {
    const userAgent = `${BERTH}test`;
    const client = this.cluster.connect({ userAgent, fieldManager: "berth", ...(server && { server }) });
    this.#owned.use(client);
    const lines: string[] = [];
    const log = createJsonLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });
    const admission = { spec: await admissionSpec(asked), namespace: NAMESPACE };
    const registries = await listing(...this.#registries);
    const berth = await startBerth({ client, namespace: NAMESPACE, admission, log, registries, ...options });
    this.#owned.use(berth);
    await eventually(() => {
      const problems = berth.problems();
      if (problems.length > 0) throw new Error(problems.join("\n"));
    });
    return { berth, lines };
  }

  /** Does this when the Berths of the stage have ended. */
  owns(undo: () => Promise<void> | void): void {
    this.#owned.defer(undo);
  }

  /** A configuration file, for the option `config`. */
  async file(name: string, text: string): Promise<{ readonly path: string; readonly shown: string }> {
    const file = path.join(this.#folder, name);
    await writeFile(file, text, { mode: 0o600 });
    return { path: file, shown: name };
  }

  policy(name: string, spec: object): Promise<ArchitecturePolicy> {
    return this.cluster.client.create(architecturePolicies, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "ArchitecturePolicy",
      metadata: { name },
      spec,
    });
  }

  async status(policy: string): Promise<ArchitecturePolicyStatus> {
    return (await this.cluster.client.get(architecturePolicies, { name: policy })).status ?? {};
  }

  nodeName(node: string): string {
    return `${this.name}-${node}`;
  }

  add(node: string, shape: (builder: NodeBuilder) => NodeBuilder = (it) => it): Promise<Node> {
    return this.cluster.client.create(nodes, shape(aNode(this.nodeName(node))).build());
  }

  readNode(node: string): Promise<Node> {
    return this.cluster.client.get(nodes, { name: this.nodeName(node) });
  }

  /** Others change the node. */
  editNode(node: string, body: object): Promise<Node> {
    return this.cluster.client.patch(nodes, { name: this.nodeName(node) }, { type: "merge", body });
  }

  /** Resolves once the taints of the node with this key are these values. */
  async tainted(node: string, values: readonly string[], key: string = KEY): Promise<Node> {
    return eventually(async () => {
      const found = await this.readNode(node);
      const standing = taintsOf(found).filter((it) => it.startsWith(`${key}=`));
      const wanted = values.map((value) => `${key}=${value}:NoSchedule`);
      if (standing.join() !== wanted.join()) throw new Error(`${standing.join()}: ${JSON.stringify(found)}`);
      return found;
    });
  }

  /** In the namespace of the stage unless it names another. */
  pod(name: string): PodBuilder {
    return aPod(name).in(this.name);
  }

  create(pod: PodBuilder, options: { readonly dryRun?: boolean } = {}): Promise<Pod> {
    const built = pod.build();
    const { namespace = this.name } = built.metadata ?? {};
    return this.cluster.client.create(pods, built, { namespace, ...options });
  }

  readPod(name: string, namespace: string = this.name): Promise<Pod> {
    return this.cluster.client.get(pods, { namespace, name });
  }

  /** At once, as if its kubelet had ended it. */
  async deletePod(name: string, namespace: string = this.name): Promise<void> {
    await this.cluster.client.delete(pods, { namespace, name }, { gracePeriodSeconds: 0 });
  }

  /** Resolves once the pod tolerates these values of the taint, each with a toleration of its own. */
  async tolerating(name: string, values: readonly string[], namespace: string = this.name): Promise<Pod> {
    return eventually(async () => {
      const found = await this.readPod(name, namespace);
      const given = tolerationsOf(found);
      if (JSON.stringify(given) !== JSON.stringify(tolerationsFor(values)))
        throw new Error(`${JSON.stringify(given)} on ${name}`);
      return found;
    });
  }

  /** Resolves once our gate is off the pod. */
  async letGo(name: string, options: EventuallyOptions = {}): Promise<Pod> {
    return eventually(async () => {
      const found = await this.readPod(name);
      if (isHeld(found)) throw new Error(`${name} is held`);
      return found;
    }, options);
  }

  /** Resolves once the API server asks Berth about pods of this stage, with these labels. */
  async asking(labels: Readonly<Record<string, string>> = {}): Promise<void> {
    await eventually(async () => {
      const tried = this.pod("tried")
        .labelled(labels)
        .annotated({ [ARCHITECTURES_ANNOTATION]: "riscv64" });
      const { spec } = await this.create(tried, { dryRun: true });
      if (!JSON.stringify(spec).includes("riscv64")) throw new Error("Berth is not asked");
    });
  }

  /**
   * Resolves once everything that was done before has been seen and answered: a pod that needs no registry, made after
   * all else, tolerates what it may run on. For policies that taint; it is gone then.
   */
  async settled(): Promise<void> {
    this.#count += 1;
    const name = `canary-${this.#count}`;
    await this.create(this.pod(name).annotated({ [ARCHITECTURES_ANNOTATION]: "riscv64" }));
    await this.tolerating(name, ["riscv64"]);
    await this.deletePod(name);
  }

  /** The writes of Berth to these, answered how ever: `patch 200`. Those to canaries do not count. */
  async writes(mark: AuditMark, resource: string, name?: string): Promise<readonly string[]> {
    const found = await this.requests(mark, resource);
    return found
      .filter((it) => WRITES.has(it.verb) && !it.name.startsWith("canary-"))
      .filter((it) => name === undefined || it.name === name)
      .map(({ verb, subresource, code }) => [verb, subresource, code].filter((it) => it !== "").join(" "));
  }

  requests(mark: AuditMark, resource?: string): Promise<readonly AuditEntry[]> {
    return this.cluster.audit.entriesSince(mark, { userAgent: BERTH, ...(resource && { resource }) });
  }

  /** Events with this reason about an object of this name. */
  async events(reason: string, name: string): Promise<readonly KubeEvent[]> {
    const { items } = await this.cluster.client.list(events, { fieldSelector: `reason=${reason}` });
    return items.filter(({ regarding }) => regarding?.name === name);
  }

  /** Reasons of all Events about pods of this namespace; none while everything goes well. */
  async toldOfPods(namespace: string = this.name): Promise<readonly string[]> {
    const { items } = await this.cluster.client.list(events, { namespace });
    return items.filter(({ regarding }) => regarding?.kind === "Pod").map(({ reason = "" }) => reason);
  }

  /** Resolves once there is such an Event. */
  async said(reason: string, name: string): Promise<KubeEvent> {
    return eventually(async () => {
      const [event] = await this.events(reason, name);
      if (event === undefined) throw new Error(`no Event ${reason} about ${name}`);
      return event;
    });
  }

  /** A pull secret for a user of a registry. */
  async pullSecret(name: string, registry: string, user: string, password: string): Promise<void> {
    const auth = Buffer.from(`${user}:${password}`).toString("base64");
    const config = JSON.stringify({ auths: { [registry]: { auth } } });
    const { name: namespace } = this;
    await this.cluster.client.create(
      secrets,
      {
        metadata: { name, namespace },
        type: "kubernetes.io/dockerconfigjson",
        data: { ".dockerconfigjson": Buffer.from(config).toString("base64") },
      },
      { namespace },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#owned.disposeAsync();
    } finally {
      await this.#clear();
      await rm(this.#folder, { recursive: true, force: true });
    }
  }

  async #clear(): Promise<void> {
    const { client } = this.cluster;
    await client.deleteCollection(architecturePolicies, {});
    await client.deleteCollection(mutatingWebhookConfigurations, {});
    const sets = await client.list(daemonSets, { metadataOnly: true });
    for (const namespace of spacesOf(sets.items)) await client.deleteCollection(daemonSets, { namespace });
    const left = await client.list(pods, { metadataOnly: true });
    for (const namespace of spacesOf(left.items))
      await client.deleteCollection(pods, { namespace }, { gracePeriodSeconds: 0 });
    await client.deleteCollection(nodes, {});
    // The API server stops asking a moment later: what the next stage makes must not meet this one's webhook.
    await eventually(async () => {
      const tried = this.pod("tried").annotated({ [ARCHITECTURES_ANNOTATION]: "riscv64" });
      const { spec } = await this.create(tried, { dryRun: true });
      if (JSON.stringify(spec).includes("riscv64")) throw new Error("somebody is still asked");
    });
  }
}

function spacesOf(
  items: readonly { readonly metadata?: { readonly namespace?: string } | undefined }[],
): ReadonlySet<string> {
  return new Set(items.map(({ metadata }) => metadata?.namespace ?? ""));
}

type Admission = NonNullable<BerthOptions["admission"]>;

async function admissionSpec(asked: StartOptions["asked"]): Promise<Admission["spec"]> {
  if (asked === undefined) return { mode: "Off", bindAddress: "127.0.0.1:0", failurePolicy: "Ignore" };
  const port = await findFreePort();
  return {
    mode: "Webhook",
    bindAddress: `127.0.0.1:${port}`,
    url: `https://127.0.0.1:${port}`,
    failurePolicy: "Ignore",
    podFailurePolicy: asked,
  };
}

/** A watch that tells of each version of each object, from those that there are on. */
export interface Following extends AsyncDisposable {
  /** Resolves when all versions that there were before have been told, and ends it. */
  end(): Promise<void>;
}

/** Resolves when those that there are have been told. Fails when the watch does: it is for a server that stays. */
export async function followed<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  see: (object: T) => void,
): Promise<Following> {
  const stop = new AbortController();
  const watch = await client.watch(resource, { sendInitialEvents: true, signal: stop.signal });
  const started = Promise.withResolvers<void>();
  let seen = 0n;
  const running = (async () => {
    try {
      for await (const event of watch) {
        if (event.type === "BOOKMARK" && event.initialEventsEnd) started.resolve();
        if (event.type === "ADDED" || event.type === "MODIFIED") see(event.object);
        const version =
          event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata?.resourceVersion;
        seen = BigInt(version ?? "0");
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    }
  })();
  await Promise.race([started.promise, running]);
  const close = async (): Promise<void> => {
    stop.abort();
    await watch[Symbol.asyncDispose]();
    await running;
  };
  return {
    async end() {
      const versions: bigint[] = [];
      for await (const { items } of client.pages(resource))
        for (const { metadata } of items) versions.push(BigInt(metadata?.resourceVersion ?? "0"));
      const last = versions.reduce((most, one) => (one > most ? one : most), 0n);
      await eventually(() => {
        if (seen < last) throw new Error(`seen up to ${seen} and not ${last}`);
      });
      await close();
    },
    [Symbol.asyncDispose]: close,
  };
}

/** As kubectl writes them. */
export function taintsOf({ spec }: Node): readonly string[] {
  return (spec?.taints ?? []).map(({ key, value = "", effect }) => `${key}=${value}:${effect}`);
}

/** Those for the original key, or another, field by field as they are stored. */
export function tolerationsOf({ spec }: { readonly spec?: PodSpec }, key: string = KEY): readonly object[] {
  return (spec?.tolerations ?? []).filter((it) => it.key === key);
}

/** As the contract has them: in this order of fields, without an operator. */
export function tolerationsFor(values: readonly string[], key: string = KEY): readonly object[] {
  return values.map((value) => ({ key, value, effect: "NoSchedule" }));
}

export function isHeld({ spec }: Pod): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === ARCHITECTURE_GATE) === true;
}

/** What each term of its required node affinity says about `kubernetes.io/arch`; none without any. */
export function architecturesOf({ spec }: Pod): readonly (readonly string[])[] {
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return (required?.nodeSelectorTerms ?? []).map(({ matchExpressions = [] }) =>
    matchExpressions.flatMap(({ key, values = [] }) => (key === "kubernetes.io/arch" ? values : [])),
  );
}

/** What a refused request said. */
export async function refusalOf(made: Promise<unknown>): Promise<string> {
  const answer = await made.catch((error: unknown) => error);
  if (!isApiError(answer)) throw new Error(`not refused: ${JSON.stringify(answer)}`);
  return answer.message;
}
