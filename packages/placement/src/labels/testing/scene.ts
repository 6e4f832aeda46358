/** Label rules at work on a real API server: how the parts are put together, and one test's part of a shared cluster. */
import { defineResource, type KubeClient, type KubeObject, type Node, nodes } from "@berth/kube";
import {
  clusterName,
  createController,
  createInformer,
  createSilentLogger,
  type EventInput,
  keyOf,
  systemClock,
  toSelf,
  watchFolder,
  watchFor,
} from "@berth/runtime";
import { type AuditMark, aNode, eventually, type TestCluster } from "@berth/testcluster";
import { expect } from "vitest";
import { nodeMarksChanged } from "../../node/predicate.ts";
import { bindLabels } from "../../node/testing/labels.ts";
import { type NodeApi, NodeWriter } from "../../node/writer.ts";
import { type LabelRules, parseLabelFolder, type RuleProblem } from "../index.ts";

interface WithSpec extends KubeObject {
  readonly spec: object;
}

const group = { group: "admissionregistration.k8s.io", version: "v1", namespaced: false };
const policies = defineResource<WithSpec>({
  ...group,
  plural: "validatingadmissionpolicies",
  kind: "ValidatingAdmissionPolicy",
});
const policyBindings = defineResource<WithSpec>({
  ...group,
  plural: "validatingadmissionpolicybindings",
  kind: "ValidatingAdmissionPolicyBinding",
});

/** From now on the server refuses (422) every update of a node that leaves this label on it. */
export async function forbidLabel(cluster: TestCluster, key: string): Promise<AsyncDisposable> {
  const name = `no-${key.replaceAll("/", "-")}`;
  const resourceRules = [
    { apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["nodes"] },
  ];
  await cluster.client.create(policies, {
    metadata: { name },
    spec: {
      matchConstraints: { resourceRules },
      validations: [
        { expression: `!has(object.metadata.labels) || !(${JSON.stringify(key)} in object.metadata.labels)` },
      ],
    },
  });
  await cluster.client.create(policyBindings, {
    metadata: { name },
    spec: { policyName: name, validationActions: ["Deny"] },
  });
  return {
    async [Symbol.asyncDispose]() {
      await cluster.client.delete(policyBindings, { name });
      await cluster.client.delete(policies, { name });
    },
  };
}

type Labels = Readonly<Record<string, string>>;

/** One test's part of a shared cluster: its nodes, label keys and installation carry its name. */
export interface Scene {
  readonly key: (name: string) => string;
  readonly nodeName: (node: string) => string;
  readonly run: (folder: string, more?: Partial<RunLabelsOptions>) => Promise<RunningLabels>;
  readonly create: (node: string, labels?: Labels) => Promise<void>;
  /** Another writer's edit. */
  readonly label: (node: string, labels: Readonly<Record<string, string | null>>) => Promise<void>;
  /** Those of the scene's domain, without the domain. */
  readonly labels: (node: string) => Promise<Labels>;
  readonly expectLabels: (node: string, expected: Labels) => Promise<void>;
  readonly mark: () => Promise<AuditMark>;
  /** How many patches of nodes the tested product sent since then: all, or of one node. */
  readonly patches: (since: AuditMark, node?: string) => Promise<number>;
}

/** The user agent of what runs in a scene. */
export function agentOf(name: string): string {
  return `berth-under-test-${name}/`;
}

export function setScene(cluster: TestCluster, name: string): Scene {
  const domain = `${name}.example.com/`;
  const nodeName = (node: string): string => `${name}-${node}`;
  const labels: Scene["labels"] = async (node) => {
    const { metadata } = await cluster.client.get(nodes, { name: nodeName(node) });
    const own = Object.entries(metadata?.labels ?? {}).filter(([key]) => key.startsWith(domain));
    return Object.fromEntries(own.map(([key, value]) => [key.slice(domain.length), value]));
  };
  return {
    key: (of) => `${domain}${of}`,
    nodeName,
    async run(folder, more) {
      await using owned = new AsyncDisposableStack();
      const client = owned.use(cluster.connect({ userAgent: `${agentOf(name)}1` }));
      const running = owned.use(await runLabels({ client, folder, installation: name, ...more }));
      const all = owned.move();
      return {
        events: running.events,
        get problems() {
          return running.problems;
        },
        [Symbol.asyncDispose]: () => all.disposeAsync(),
      };
    },
    async create(node, given = {}) {
      await cluster.client.create(nodes, aNode(nodeName(node)).labelled(given).build());
    },
    async label(node, edit) {
      const body = { metadata: { labels: edit } };
      await cluster.client.patch(nodes, { name: nodeName(node) }, { type: "merge", body });
    },
    labels,
    expectLabels: (node, expected) => eventually(async () => expect(await labels(node)).toEqual(expected)),
    mark: () => cluster.audit.mark(),
    patches(since, node) {
      const of = { verb: "patch", resource: "nodes", userAgent: agentOf(name) };
      return cluster.audit.countSince(since, node === undefined ? of : { ...of, name: nodeName(node) });
    },
  };
}

/** Label rules at work on a real cluster, put together as the composition root does it. */
interface RunningLabels extends AsyncDisposable {
  /** Events that would be written, in order. */
  readonly events: readonly EventInput[];
  /** Faults of the folder as last read. */
  readonly problems: readonly RuleProblem[];
}

interface RunLabelsOptions {
  readonly client: KubeClient;
  readonly folder: string;
  readonly installation: string;
  /** How long a file has to stay empty before that is believed. Milliseconds, default as for `watchFolder`. */
  readonly settleMs?: number;
  /** Runs before each patch is sent: the moment for another writer to be faster. */
  readonly beforePatch?: (name: string) => Promise<void>;
}

/** Resolves once the folder has been read and the informer is synced. */
async function runLabels(options: RunLabelsOptions): Promise<RunningLabels> {
  const { client, folder, installation, beforePatch, settleMs } = options;
  const common = { clock: systemClock, log: createSilentLogger() };
  const cluster = clusterName("test");
  const events: EventInput[] = [];
  let rules: LabelRules | undefined;
  let problems: readonly RuleProblem[] = [];
  const read = Promise.withResolvers<void>();
  const informer = createInformer<Node>({ client, cluster, resource: nodes, ...common });
  const api: NodeApi = {
    async patch(name, body, signal, versionOnly) {
      await beforePatch?.(name);
      return client.patch(nodes, { name }, { type: "merge", body }, { signal, versionOnly });
    },
    read: (name, signal) => client.get(nodes, { name }, { signal }),
  };
  const writer = new NodeWriter({
    nodes: informer,
    api,
    capabilities: [bindLabels(() => rules)],
    installation,
    clock: systemClock,
    events: { record: (event) => void events.push(event) },
  });
  const controller = createController({
    name: "nodes",
    reconcile: writer.reconcile,
    sources: [watchFor<Node>({ informer, predicate: nodeMarksChanged, map: toSelf(cluster) })],
    ...common,
  });
  const stop = new AbortController();
  const watching = watchFolder({
    path: folder,
    ...(settleMs !== undefined && { settleMs }),
    signal: stop.signal,
    onChange: (snapshot) => {
      ({ rules, problems } = parseLabelFolder(snapshot));
      read.resolve();
      for (const node of informer.list()) controller.enqueue(keyOf(cluster, node));
    },
    onProblem: () => undefined,
  });
  await read.promise;
  const running = [await informer.start(stop.signal), await controller.start(stop.signal)];
  return {
    events,
    get problems() {
      return problems;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all([watching, ...running.map(({ ended }) => ended)]);
    },
  };
}
