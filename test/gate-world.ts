/**
 * A stage for tests of startup gates on the whole product: nodes, pods and gates on a real API server, a Berth in this
 * process, and what users see of it. No kubelet runs: the tests say what one would.
 *
 * A stage has its cluster to itself while it lasts: gates act on all nodes.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type BerthOptions, crds, type RunningBerth, startBerth } from "@berth/cli";
import {
  customResourceDefinitions,
  type DaemonSet,
  daemonSets,
  events,
  isApiError,
  type KubeEvent,
  type Node,
  namespaces,
  nodes,
  type Pod,
  pods,
} from "@berth/kube";
import { originalGate, type StartupGate, startupGates } from "@berth/placement";
import {
  type AuditEntry,
  type AuditMark,
  aNode,
  aPod,
  type EventuallyOptions,
  eventually,
  type NodeBuilder,
  type PodBuilder,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { expect } from "vitest";
import { sumOfSamples } from "./product.ts";

export const ORIGINAL_TAINT: string = `${originalGate.taint.key}=${originalGate.taint.value}:${originalGate.taint.effect}`;
/** The default signal, and no waiting that a test does not ask for. */
export const atOnce: object = { stableFor: "0s", signals: { pods: [{}] } };
/** No other user agent on these clusters begins so. */
export const BERTH = "berth/";
const WRITES: ReadonlySet<string> = new Set(["create", "update", "patch", "delete", "deletecollection"]);
/** Owns pods in kube-system wherever a stage is; nothing makes them but tests. */
const SETUP = "node-setup";

/** The cluster of this process, with the CRDs. */
export async function sharedGateCluster(): Promise<TestCluster> {
  const cluster = await sharedTestCluster();
  await installCrds(cluster);
  return cluster;
}

export async function installCrds({ client }: TestCluster): Promise<void> {
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  await eventually(() => client.list(startupGates));
}

export interface StartOptions extends Partial<BerthOptions> {
  /** Where it connects; default the API server itself. */
  readonly server?: string;
  /** Begins with `berth/`. */
  readonly userAgent?: string;
}

/** What a pod of a real node says of itself. */
export interface Said {
  readonly ready: boolean;
  /** Where it differs from `ready`. */
  readonly containersReady?: boolean;
  /** Nothing was said of its containers. */
  readonly noContainers?: true;
  /** RFC 3339; default now. */
  readonly startedAt?: string;
  /** Since when it is ready, or not. RFC 3339, of which the API keeps whole seconds; default now. */
  readonly since?: string;
}

/** @param name Begins the names of its nodes. */
export async function createGateStage(cluster: TestCluster, name: string): Promise<GateStage> {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-gates-"));
  const set = await cluster.client.create(daemonSets, aDaemonSet(SETUP, originalGate.podLabels));
  return new GateStage({ cluster, name, folder, setup: set });
}

interface Parts {
  readonly cluster: TestCluster;
  readonly name: string;
  readonly folder: string;
  readonly setup: DaemonSet;
}

export class GateStage implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly name: string;
  /** A DaemonSet in kube-system whose pods have the labels of the contract. */
  readonly setup: DaemonSet;
  readonly #folder: string;
  readonly #berths = new AsyncDisposableStack();
  #count = 0;

  /** Use `createGateStage`. */
  constructor({ cluster, name, folder, setup }: Parts) {
    this.cluster = cluster;
    this.name = name;
    this.setup = setup;
    this.#folder = folder;
  }

  /** Starts a Berth and resolves once it is ready. It ends with the stage, at the latest. */
  async start({ server, userAgent = `${BERTH}test`, ...options }: StartOptions = {}): Promise<RunningBerth> {
    const client = this.cluster.connect({ userAgent, fieldManager: "berth", ...(server && { server }) });
    this.#berths.use(client);
    const self = { apiVersion: "v1", kind: "Namespace", name: "default" };
    const namespace = "default";
    const berth = this.#berths.use(await startBerth({ client, self, namespace, ...options }));
    await eventually(() => {
      const problems = berth.problems();
      if (problems.length > 0) throw new Error(problems.join("\n"));
    });
    return berth;
  }

  /** Does this when the Berths of the stage have ended. */
  owns(undo: () => Promise<void> | void): void {
    this.#berths.defer(undo);
  }

  /** A configuration file, for the option `config`. */
  async file(name: string, text: string): Promise<{ readonly path: string; readonly shown: string }> {
    const file = path.join(this.#folder, name);
    await writeFile(file, text);
    return { path: file, shown: name };
  }

  /** The gate of the drop-in document; its webhook is another matter. */
  async dropIn(): Promise<Pick<BerthOptions, "config">> {
    const example = path.join(import.meta.dirname, "../examples/startup-gate/nodetaintshandler.yaml");
    const [gate = ""] = (await readFile(example, "utf8")).split("\n---\n");
    return { config: [await this.file("nodetaintshandler.yaml", gate)] };
  }

  gate(name: string, spec: object): Promise<StartupGate> {
    return this.cluster.client.create(startupGates, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "StartupGate",
      metadata: { name },
      spec,
    });
  }

  /** The full name of a node. */
  nodeName(node: string): string {
    return `${this.name}-${node}`;
  }

  add(node: string, shape: (builder: NodeBuilder) => NodeBuilder = (it) => it): Promise<Node> {
    return this.cluster.client.create(nodes, shape(aNode(this.nodeName(node))).build());
  }

  /** One with the taint of the contract from its first moment, as admission or a kubelet gives it. */
  addHeld(node: string, shape: (builder: NodeBuilder) => NodeBuilder = (it) => it): Promise<Node> {
    return this.add(node, (it) => shape(it.tainted(ORIGINAL_TAINT)));
  }

  read(node: string): Promise<Node> {
    return this.cluster.client.get(nodes, { name: this.nodeName(node) });
  }

  /** Others change the node. */
  edit(node: string, body: object, subresource?: "status"): Promise<Node> {
    const options = subresource === undefined ? {} : { subresource };
    return this.cluster.client.patch(nodes, { name: this.nodeName(node) }, { type: "merge", body }, options);
  }

  /**
   * A pod that a signal of the contract is about: in kube-system, of the DaemonSet of the stage. To be made after its
   * node: one that is older does not count, and the API server's whole seconds tell it in some runs only.
   */
  init(node: string, name = `init-${node}`): PodBuilder {
    return aPod(name)
      .in("kube-system")
      .labelled(originalGate.podLabels)
      .on(this.nodeName(node))
      .ofDaemonSet(SETUP, this.setup.metadata?.uid);
  }

  /** Makes a pod; with `said` the kubelet has said so. */
  async pod(builder: PodBuilder, said?: Said): Promise<Pod> {
    const pod = builder.build();
    const { namespace = "", name = "" } = pod.metadata ?? {};
    const made = await this.cluster.client.create(pods, pod, { namespace });
    if (said !== undefined) await this.say({ namespace, name }, said);
    return made;
  }

  /** The kubelet says how a pod fares. */
  async say(pod: { readonly namespace?: string; readonly name: string }, said: Said): Promise<void> {
    const { namespace = "kube-system", name } = pod;
    const body = { status: toStatus(said) };
    await this.cluster.client.patch(
      pods,
      { namespace, name },
      { type: "merge", body },
      { subresource: "status" },
    );
  }

  /** At once, as if its kubelet had ended it. */
  async deletePod(pod: { readonly namespace: string; readonly name: string }): Promise<void> {
    await this.cluster.client.delete(pods, pod, { gracePeriodSeconds: 0 });
  }

  daemonSet(name: string, labels: Readonly<Record<string, string>>): Promise<DaemonSet> {
    return this.cluster.client.create(daemonSets, aDaemonSet(name, labels));
  }

  async namespace(name: string): Promise<string> {
    await this.cluster.client.create(namespaces, { metadata: { name } }).catch((error: unknown) => {
      if (!isApiError(error, "alreadyExists")) throw error;
    });
    return name;
  }

  /** Resolves once the node has a taint with this key, as kubectl writes it; by default that of the contract. */
  async held(node: string, taint: string = ORIGINAL_TAINT): Promise<Node> {
    return eventually(async () => {
      const found = await this.read(node);
      if (!taintsOf(found).includes(taint)) throw new Error(describe(found));
      return found;
    });
  }

  /** Resolves once the node has no taint with this key any more. */
  async free(
    node: string,
    key: string = originalGate.taint.key,
    options: EventuallyOptions = {},
  ): Promise<Node> {
    return eventually(async () => {
      const found = await this.read(node);
      if (hasTaint(found, key)) throw new Error(describe(found));
      return found;
    }, options);
  }

  /** Resolves once Berth has written down that it holds, or has let go. */
  async state(node: string, state: "held" | "released", gate: string): Promise<Node> {
    return eventually(async () => {
      const found = await this.read(node);
      if (stateOf(found, gate)?.["state"] !== state) throw new Error(describe(found));
      return found;
    });
  }

  /**
   * Resolves once everything that was done before has been seen and answered: a node that is held is let go, because
   * its pod, made after all else, is ready. For gates of the contract whose signal is the stage's DaemonSet.
   */
  async settled(options: EventuallyOptions = {}): Promise<void> {
    this.#count += 1;
    const canary = `canary-${this.#count}`;
    await this.addHeld(canary);
    await this.pod(this.init(canary), { ready: true });
    await this.free(canary, originalGate.taint.key, options);
  }

  /** What Berth has asked of nodes of this stage, canaries excepted. */
  async requestsFor(mark: AuditMark, node?: string): Promise<readonly AuditEntry[]> {
    const wanted = node === undefined ? undefined : this.nodeName(node);
    const entries = await this.cluster.audit.entriesSince(mark, { userAgent: BERTH, resource: "nodes" });
    return entries.filter(({ name }) =>
      wanted === undefined
        ? name.startsWith(`${this.name}-`) && !name.startsWith(`${this.name}-canary`)
        : name === wanted,
    );
  }

  /** Its writes to them, answered how ever: `patch 200`. */
  async writesFor(mark: AuditMark, node?: string): Promise<readonly string[]> {
    const found = await this.requestsFor(mark, node);
    return found.filter(({ verb }) => WRITES.has(verb)).map(({ verb, code }) => `${verb} ${code}`);
  }

  /** Events with this reason about a node. */
  async events(reason: string, node: string): Promise<readonly KubeEvent[]> {
    const { items } = await this.cluster.client.list(events, { fieldSelector: `reason=${reason}` });
    return items.filter(({ regarding }) => regarding?.name === this.nodeName(node));
  }

  /** Resolves once there is such an Event. */
  async said(reason: string, node: string): Promise<KubeEvent> {
    return eventually(async () => {
      const [event] = await this.events(reason, node);
      if (event === undefined) throw new Error(`no Event ${reason}: ${describe(await this.read(node))}`);
      return event;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#berths.disposeAsync();
    } finally {
      await this.#clear();
      await rm(this.#folder, { recursive: true, force: true });
    }
  }

  async #clear(): Promise<void> {
    const { client } = this.cluster;
    const ignoreAbsent = (error: unknown): void => {
      if (!isApiError(error, "notFound")) throw error;
    };
    await client.deleteCollection(startupGates, {}).catch(ignoreAbsent);
    await client.deleteCollection(daemonSets, { namespace: "kube-system" });
    await client.deleteCollection(nodes, {});
    const { items } = await client.list(pods, { metadataOnly: true });
    const spaces = new Set(items.map(({ metadata }) => metadata?.namespace ?? ""));
    for (const namespace of spaces)
      await client.deleteCollection(pods, { namespace }, { gracePeriodSeconds: 0 });
  }
}

function aDaemonSet(name: string, labels: Readonly<Record<string, string>>): DaemonSet {
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name, namespace: "kube-system" },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          tolerations: [{ operator: "Exists" }],
          containers: [{ name: "main", image: "registry.test/setup:1" }],
        },
      },
    },
  };
}

function toStatus({ ready, containersReady = ready, noContainers, startedAt, since }: Said): Pod["status"] {
  const at = new Date().toISOString();
  const running = { startedAt: startedAt ?? at };
  const status = ready ? "True" : "False";
  const image = "registry.test/app:1";
  const main = {
    name: "main",
    image,
    imageID: "",
    restartCount: 0,
    ready: containersReady,
    state: { running },
  };
  return {
    phase: "Running",
    conditions: [{ type: "Ready", status, lastTransitionTime: since ?? at }],
    ...(noContainers !== true && { containerStatuses: [main] }),
  };
}

/** A node that says which boot it is in. */
export function booted(bootID: string): (builder: NodeBuilder) => NodeBuilder {
  return (builder) =>
    builder.with((node) => {
      const { nodeInfo } = node.status ?? {};
      return { ...node, status: { ...node.status, ...(nodeInfo && { nodeInfo: { ...nodeInfo, bootID } }) } };
    });
}

/** The kubelet of the node reports after a reboot. */
export async function boots(stage: GateStage, node: string, bootID: string): Promise<void> {
  const { status } = await stage.read(node);
  const lastHeartbeatTime = new Date().toISOString();
  const conditions = (status?.conditions ?? []).map((one) => Object.assign({}, one, { lastHeartbeatTime }));
  await stage.edit(node, { status: { nodeInfo: { bootID }, conditions } }, "status");
}

/** As kubectl writes them. */
export function taintsOf({ spec }: Node): readonly string[] {
  return (spec?.taints ?? []).map(({ key, value = "", effect }) => `${key}=${value}:${effect}`);
}

export function hasTaint({ spec }: Node, key: string = originalGate.taint.key): boolean {
  return spec?.taints?.some((taint) => taint.key === key) === true;
}

/** What Berth has written down of a hold. */
export function stateOf({ metadata }: Node, gate: string): Readonly<Record<string, unknown>> | undefined {
  const text = metadata?.annotations?.[`gate.berth.dev/${gate}`];
  return text === undefined ? undefined : (JSON.parse(text) as Readonly<Record<string, unknown>>);
}

export function completedAt({ metadata }: Node): string | undefined {
  return metadata?.annotations?.[originalGate.completed];
}

/** The sum of the samples of a metric that carry these labels. */
export async function metric(
  { metrics }: RunningBerth,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  return sumOfSamples((await metrics.expose()).body, name, labels);
}

function describe({ metadata, spec }: Node): string {
  return JSON.stringify({ name: metadata?.name, annotations: metadata?.annotations, taints: spec?.taints });
}

/** Resolves once the status of a gate has these fields. */
export async function says({ cluster }: GateStage, gate: string, fields: object): Promise<void> {
  await eventually(async () => {
    const { status } = await cluster.client.get(startupGates, { name: gate });
    expect(status).toMatchObject(fields);
  });
}

/** As `says`, of one condition. */
export function saysCondition(stage: GateStage, gate: string, condition: object): Promise<void> {
  return says(stage, gate, { conditions: expect.arrayContaining([expect.objectContaining(condition)]) });
}
