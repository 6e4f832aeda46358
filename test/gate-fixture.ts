/**
 * Fixture for tests of startup gates on the whole product: nodes, pods and gates on a real API server, a Berth in this
 * process, and what users see of it. No kubelet runs: the tests write what one would.
 */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { type BerthOptions, crds, type RunningBerth } from "@berth/cli";
import {
  customResourceDefinitions,
  type DaemonSet,
  daemonSets,
  type KubeEvent,
  type Node,
  type Pod,
  pods,
} from "@berth/kube";
import { originalGate, type StartupGate, startupGates } from "@berth/placement";
import {
  aPod,
  type EventuallyOptions,
  eventually,
  type NodeBuilder,
  type PodBuilder,
  sharedTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { expect } from "vitest";
import { aDaemonSet } from "../packages/cli/src/testing/cluster.ts";
import { Fixture, orGone, type StartOptions, taintsOf } from "./fixture.ts";

export const ORIGINAL_TAINT: string = `${originalGate.taint.key}=${originalGate.taint.value}:${originalGate.taint.effect}`;
/** The default signal, and no waiting that a test does not ask for. */
export const atOnce: object = { stableFor: "0s", signals: { pods: [{}] } };
/** Owns pods in kube-system wherever a fixture is; nothing makes them but tests. */
const SETUP = "node-setup";
const SYSTEM = { namespace: "kube-system" };
/** Of a patch that a kubelet makes. */
export const STATUS = { subresource: "status" } as const;

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
export async function createGateFixture(cluster: TestCluster, name: string): Promise<GateFixture> {
  return new GateFixture(
    cluster,
    name,
    await cluster.client.create(daemonSets, setupSet(SETUP, originalGate.podLabels), SYSTEM),
  );
}

export class GateFixture extends Fixture {
  /** A DaemonSet in kube-system whose pods have the labels of the contract. */
  readonly setup: DaemonSet;

  /** Use `createGateFixture`. */
  constructor(cluster: TestCluster, name: string, setup: DaemonSet) {
    super(cluster, name);
    this.setup = setup;
  }

  start(options: StartOptions = {}): Promise<RunningBerth> {
    const self = { apiVersion: "v1", kind: "Namespace", name: "default" };
    return this.run(options, { self, namespace: "default", ...options });
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

  /** One with the taint of the contract from its first moment, as admission or a kubelet gives it. */
  addHeld(node: string, shape: (builder: NodeBuilder) => NodeBuilder = (it) => it): Promise<Node> {
    return this.add(node, (it) => shape(it.tainted(ORIGINAL_TAINT)));
  }

  /**
   * A pod that a signal of the contract is about: in kube-system, of the DaemonSet of the fixture. To be made after its
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

  daemonSet(name: string, labels: Readonly<Record<string, string>>): Promise<DaemonSet> {
    return this.cluster.client.create(daemonSets, setupSet(name, labels), SYSTEM);
  }

  /** Resolves once the node has a taint with this key, as kubectl writes it; by default that of the contract. */
  async held(node: string, taint: string = ORIGINAL_TAINT): Promise<Node> {
    return eventually(async () => {
      const found = await this.readNode(node);
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
      const found = await this.readNode(node);
      if (hasTaint(found, key)) throw new Error(describe(found));
      return found;
    }, options);
  }

  /** Resolves once Berth has written down that it holds, or has let go. */
  async state(node: string, state: "held" | "released", gate: string): Promise<Node> {
    return eventually(async () => {
      const found = await this.readNode(node);
      if (stateOf(found, gate)?.["state"] !== state) throw new Error(describe(found));
      return found;
    });
  }

  /**
   * Resolves once everything that was done before has been seen and answered: a node that is held is let go, because
   * its pod, made after all else, is ready. For gates of the contract whose signal is the fixture's DaemonSet.
   */
  async settled(options: EventuallyOptions = {}): Promise<void> {
    const canary = this.nextCanary();
    await this.addHeld(canary);
    await this.pod(this.init(canary), { ready: true });
    await this.free(canary, originalGate.taint.key, options);
  }

  /** Events with this reason about a node. */
  override events(reason: string, node: string): Promise<readonly KubeEvent[]> {
    return super.events(reason, this.nodeName(node));
  }

  protected override async clear(): Promise<void> {
    await this.cluster.client.deleteCollection(startupGates, {}).catch(orGone);
    await super.clear();
  }
}

function setupSet(name: string, labels: Readonly<Record<string, string>>): DaemonSet {
  return aDaemonSet(name, { labels, image: "registry.test/setup:1", tolerations: [{ operator: "Exists" }] });
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
export async function boots(fixture: GateFixture, node: string, bootID: string): Promise<void> {
  const { status } = await fixture.readNode(node);
  const lastHeartbeatTime = new Date().toISOString();
  const conditions = (status?.conditions ?? []).map((one) => Object.assign({}, one, { lastHeartbeatTime }));
  await fixture.editNode(node, { status: { nodeInfo: { bootID }, conditions } }, STATUS);
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

function describe({ metadata, spec }: Node): string {
  return JSON.stringify({ name: metadata?.name, annotations: metadata?.annotations, taints: spec?.taints });
}

/** Resolves once the status of a gate has these fields. */
export async function says({ cluster }: GateFixture, gate: string, fields: object): Promise<void> {
  await eventually(async () => {
    const { status } = await cluster.client.get(startupGates, { name: gate });
    expect(status).toMatchObject(fields);
  });
}

/** As `says`, of one condition. */
export function saysCondition(fixture: GateFixture, gate: string, condition: object): Promise<void> {
  return says(fixture, gate, { conditions: expect.arrayContaining([expect.objectContaining(condition)]) });
}
