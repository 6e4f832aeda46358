/**
 * What tests of the whole product do on a real API server, whatever the capability: nodes and pods of their own, Berths
 * in this process, and the requests and Events that users see of these.
 *
 * A fixture has its cluster to itself while it lasts: Berth looks after all nodes.
 */
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type BerthOptions, type RunningBerth, startBerth } from "@berth/cli";
import {
  daemonSets,
  events,
  isApiError,
  type KubeClient,
  type KubeEvent,
  type KubeObject,
  type Node,
  namespaces,
  nodes,
  type Pod,
  pods,
  type Resource,
  serviceAccounts,
  type WriteOptions,
} from "@berth/kube";
import {
  type AuditEntry,
  type AuditMark,
  aNode,
  eventually,
  type NodeBuilder,
  type PodBuilder,
  type TestCluster,
  type TestUser,
} from "@berth/testcluster";
import { PATIENT } from "./patience.ts";
import { type BerthOnCluster, type BerthProcess, startBerthOn, sumOfSamples } from "./product.ts";

/** No other user agent on these clusters begins so. */
export const BERTH = "berth/";
/** Berth's own namespace. */
export const NAMESPACE = "berth-system";
const WRITES: ReadonlySet<string> = new Set(["create", "update", "patch", "delete", "deletecollection"]);
/** Begins the names of objects that show that Berth has seen all that was done before. They do not count. */
export const CANARY = "canary";

/** How a Berth connects. */
export interface Connection {
  /** Default the API server itself. */
  readonly server?: string | undefined;
  /** Default a user who may do everything. */
  readonly user?: TestUser | undefined;
  /** Begins with `berth/`. */
  readonly userAgent?: string | undefined;
  /** A connection that is silent for this long is dead. Milliseconds. */
  readonly silenceMs?: number | undefined;
}

export interface StartOptions extends Connection, Partial<BerthOptions> {}

/** The namespace, with the account that no controller manager may be there to make. */
export async function createNamespace({ client }: TestCluster, name: string): Promise<void> {
  await client.create(namespaces, { metadata: { name } }).catch(orExists);
  const account = { metadata: { name: "default" } };
  await client.create(serviceAccounts, account, { namespace: name }).catch(orExists);
}

export function isWrite({ verb }: AuditEntry): boolean {
  return WRITES.has(verb);
}

export class Fixture implements AsyncDisposable {
  readonly cluster: TestCluster;
  /** Begins the names of its nodes; its pods are in the namespace of this name unless a test says otherwise. */
  readonly name: string;
  readonly #folder: Promise<AsyncDisposable & { readonly path: string }>;
  readonly #owned = new AsyncDisposableStack();
  #canaries = 0;

  constructor(cluster: TestCluster, name: string) {
    this.cluster = cluster;
    this.name = name;
    this.#folder = mkdtempDisposable(path.join(tmpdir(), "berth-fixture-"));
  }

  /** A Berth in this process. Waits for nothing; it ends with the fixture, at the latest. */
  async begin(connection: Connection, options: Omit<BerthOptions, "client">): Promise<RunningBerth> {
    const { server, user, userAgent = `${BERTH}test`, silenceMs } = connection;
    const chosen = { ...(server && { server }), ...(user && { user }), ...(silenceMs && { silenceMs }) };
    const client = this.own(this.cluster.connect({ userAgent, fieldManager: "berth", ...chosen }));
    return this.own(await startBerth({ client, ...options }));
  }

  /** The same, once it is ready. */
  async run(connection: Connection, options: Omit<BerthOptions, "client">): Promise<RunningBerth> {
    const berth = await this.begin(connection, options);
    await eventually(() => {
      const problems = berth.problems();
      if (problems.length > 0) throw new Error(problems.join("\n"));
    }, PATIENT);
    return berth;
  }

  /** `berth run` as a process of its own. Waits for nothing; it ends with the fixture, at the latest. */
  async spawn(options: BerthOnCluster): Promise<BerthProcess> {
    return this.own(await startBerthOn(this.cluster, options));
  }

  /** Ends this with the fixture, before all that was there earlier. */
  own<T extends AsyncDisposable | Disposable>(resource: T): T {
    return this.#owned.use(resource);
  }

  /** Does this when the Berths that are started from now on have ended. */
  owns(undo: () => Promise<void> | void): void {
    this.#owned.defer(undo);
  }

  /** A file that is there as long as the fixture. As the option `config` of a Berth takes it. */
  async file(name: string, text: string): Promise<{ readonly path: string; readonly shown: string }> {
    const file = path.join((await this.#folder).path, name);
    await writeFile(file, text, { mode: 0o600 });
    return { path: file, shown: name };
  }

  /** The full name of a node. */
  nodeName(node: string): string {
    return `${this.name}-${node}`;
  }

  add(node: string, shape: (builder: NodeBuilder) => NodeBuilder = (it) => it): Promise<Node> {
    return this.cluster.client.create(nodes, shape(aNode(this.nodeName(node))).build());
  }

  readNode(node: string): Promise<Node> {
    return this.cluster.client.get(nodes, { name: this.nodeName(node) });
  }

  /** A merge patch by another field manager than Berth's. */
  editNode(node: string, body: object, options: WriteOptions = {}): Promise<Node> {
    return this.cluster.client.patch(nodes, { name: this.nodeName(node) }, { type: "merge", body }, options);
  }

  create(pod: PodBuilder, options: { readonly dryRun?: boolean } = {}): Promise<Pod> {
    const built = pod.build();
    return this.cluster.client.create(pods, built, {
      namespace: built.metadata?.namespace ?? this.name,
      ...options,
    });
  }

  readPod(name: string, namespace: string = this.name): Promise<Pod> {
    return this.cluster.client.get(pods, { namespace, name });
  }

  /** At once, as if its kubelet had ended it. */
  async deletePod(name: string, namespace: string = this.name): Promise<void> {
    await this.cluster.client.delete(pods, { namespace, name }, { gracePeriodSeconds: 0 });
  }

  /** A name for the next canary. */
  protected nextCanary(): string {
    this.#canaries += 1;
    return `${CANARY}-${this.#canaries}`;
  }

  requests(mark: AuditMark, resource?: string): Promise<readonly AuditEntry[]> {
    return this.cluster.audit.entriesSince(mark, { userAgent: BERTH, ...(resource && { resource }) });
  }

  /** Requests about the nodes of the fixture, or this one; lists and watches are about none. */
  async nodeRequests(mark: AuditMark, node = ""): Promise<readonly AuditEntry[]> {
    const found = await this.requests(mark, "nodes");
    const isMeant = (name: string): boolean =>
      node === "" ? name.startsWith(this.nodeName("")) : name === this.nodeName(node);
    return found.filter(({ name }) => isMeant(name) && !name.startsWith(this.nodeName(CANARY)));
  }

  /** Its writes to them, answered how ever: `patch 200`. */
  async nodeWrites(mark: AuditMark, node?: string): Promise<readonly string[]> {
    return (await this.nodeRequests(mark, node)).filter(isWrite).map(toText);
  }

  /** Its writes to all pods, or those of this name: `patch 200`, `create eviction 201`. */
  async podWrites(mark: AuditMark, pod?: string): Promise<readonly string[]> {
    const found = await this.requests(mark, "pods");
    const isMeant = (name: string): boolean =>
      pod === undefined ? !name.startsWith(`${CANARY}-`) : name === pod;
    return found.filter((it) => isWrite(it) && isMeant(it.name)).map(toText);
  }

  /** Events with this reason about an object of this name. */
  async events(reason: string, name: string): Promise<readonly KubeEvent[]> {
    const { items } = await this.cluster.client.list(events, { fieldSelector: `reason=${reason}` });
    return items.filter(({ regarding }) => regarding?.name === name);
  }

  /** Resolves once there is such an Event. */
  async event(reason: string, name: string): Promise<KubeEvent> {
    return eventually(async () => {
      const [event] = await this.events(reason, name);
      if (event === undefined) throw new Error(`no Event ${reason} about ${name}`);
      return event;
    }, PATIENT);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#owned.disposeAsync();
    } finally {
      await this.clear();
      await (await this.#folder)[Symbol.asyncDispose]();
    }
  }

  /** The next fixture sees no node, no pod and no DaemonSet. */
  protected async clear(): Promise<void> {
    const { client } = this.cluster;
    await deleteEverywhere(client, daemonSets);
    await deleteEverywhere(client, pods);
    await client.deleteCollection(nodes, {});
  }
}

async function deleteEverywhere(client: KubeClient, resource: Resource): Promise<void> {
  const { items } = await client.list<KubeObject>(resource, { metadataOnly: true });
  for (const namespace of new Set(items.map(({ metadata }) => metadata?.namespace ?? "")))
    await client.deleteCollection(resource, { namespace }, { gracePeriodSeconds: 0 });
}

function toText({ verb, subresource, code }: AuditEntry): string {
  return [verb, subresource, code].filter((it) => it !== "").join(" ");
}

/** The sum of the samples of a metric that carry these labels. */
export async function metric(
  { metrics }: RunningBerth,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  return sumOfSamples((await metrics.expose()).body, name, labels);
}

/** As kubectl writes them. */
export function taintsOf({ spec }: Node): readonly string[] {
  return (spec?.taints ?? []).map(({ key, value = "", effect }) => `${key}=${value}:${effect}`);
}

export function orExists(error: unknown): void {
  if (!isApiError(error, "alreadyExists")) throw error;
}

export function orGone(error: unknown): void {
  if (!isApiError(error, "notFound")) throw error;
}
