/** Notifiers with a real API server, real files, and a receiver that fails in each way in turn. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { json } from "node:stream/consumers";
import { createHost } from "@berth/host";
import { cronJobs, type Job, jobs, type KubeClient, namespaces, nodes } from "@berth/kube";
import { type Clock, clusterName, createLoopComponent, systemClock, whenAborted } from "@berth/runtime";
import {
  aNode,
  cutAfterForwarding,
  eventually,
  sharedTestCluster,
  startHttpProxy,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import type { ChangeMessage } from "./diff.ts";
import { type NodeNotifierSpec, nodeNotifierKind } from "./document.ts";
import { wireNotifiers } from "./notifiers.ts";

const API_VERSION = "berth.dev/v1alpha1";
const KEYS = ["notify.test/*"];

/** Ten times as fast: a retry after 1 s comes after 100 ms. */
const fastClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * 10,
  schedule: (delayMs, callback) => systemClock.schedule(delayMs / 10, callback),
};

type Specs = Readonly<Record<string, Partial<NodeNotifierSpec> | object>>;
type Answer = (response: ServerResponse, request: IncomingMessage) => void;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
});

/** Accepts everything, unless it has another answer. */
class Receiver implements AsyncDisposable {
  readonly received: ChangeMessage[] = [];
  readonly accepted: ChangeMessage[] = [];
  answer: Answer | undefined;
  readonly #server = createServer((request, response) => void this.#take(request, response));

  static async start(answer?: Answer): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.answer = answer;
    await once(receiver.#server.listen(0, "127.0.0.1"), "listening");
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/nodes?token=secret`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const message = (await json(request)) as ChangeMessage;
    this.received.push(message);
    if (this.answer !== undefined) return this.answer(response, request);
    this.accepted.push(message);
    response.writeHead(204).end();
  }
}

/** Berth's host with notifiers alone. Resolves once it follows the nodes. */
async function startNotifiers(specs: Specs, client: KubeClient = cluster.client) {
  const folder = await mkdtemp(path.join(tmpdir(), "notifiers-"));
  const file = path.join(folder, "notifiers.json");
  const write = (given: Specs): Promise<void> => {
    const items = Object.entries(given).map(([name, spec]) => ({
      apiVersion: API_VERSION,
      kind: "NodeNotifier",
      metadata: { name },
      spec,
    }));
    return writeFile(file, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  };
  await write(specs);
  const host = createHost({
    product: { name: "notify-test", domain: "berth.test" },
    client,
    cluster: clusterName("c"),
    kinds: { apiVersion: API_VERSION, kinds: [nodeNotifierKind] },
    config: [{ path: folder, shown: folder }],
  });
  const faults: string[] = [];
  const onFault = ({ message }: { readonly message: string }): void => void faults.push(message);
  wireNotifiers({ ...host, nodes: host.runtime.informer(nodes), clock: fastClock, onFault });
  const started = Promise.withResolvers<void>();
  const run = (signal: AbortSignal): Promise<void> => {
    started.resolve();
    return whenAborted(signal);
  };
  host.add([createLoopComponent({ name: "started", run })], "elected");
  const stop = new AbortController();
  const ended = host.run(stop.signal);
  await Promise.all([started.promise, host.filesRead]);
  return {
    write,
    faults,
    async metric(line: string): Promise<string | undefined> {
      const { body } = await host.metrics.expose();
      return body
        .split("\n")
        .find((it) => it.startsWith(`berth_notifications_${line} `))
        ?.split(" ")
        .at(-1);
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

async function createNodes(...names: readonly string[]): Promise<void> {
  for (const name of names) await cluster.client.create(nodes, aNode(name).build());
}

async function label(name: string, labels: Readonly<Record<string, string | null>>): Promise<void> {
  await cluster.client.patch(nodes, { name }, { type: "merge", body: { metadata: { labels } } });
}

const messageOf = (node: string, told: Partial<ChangeMessage>): ChangeMessage => ({
  node,
  labelsAdded: {},
  labelsDeleted: [],
  labelsUpdated: {},
  annotationsAdded: {},
  annotationsDeleted: [],
  annotationsUpdated: {},
  ...told,
});

it("sends what the keys name, and neither what they do not name nor what stood before", async () => {
  await createNodes("notify-keys");
  await label("notify-keys", { "notify.test/old": "1" });
  await using receiver = await Receiver.start();
  await using _run = await startNotifiers({ a: { keys: KEYS, post: { url: receiver.url } } });
  await label("notify-keys", { "other.test/x": "1" });
  const annotations = { "notify.test/x": "2", "volumes.kubernetes.io/x": "y" };
  const body = { metadata: { labels: { "notify.test/x": "1", "notify.test/old": null }, annotations } };
  await cluster.client.patch(nodes, { name: "notify-keys" }, { type: "merge", body });
  await eventually(() => expect(receiver.received).toHaveLength(1));
  expect(receiver.received).toEqual([
    messageOf("notify-keys", {
      labelsAdded: { "notify.test/x": "1" },
      labelsDeleted: ["notify.test/old"],
      annotationsAdded: { "notify.test/x": "2" },
    }),
  ]);
});

it("tries again while a receiver is down, slow, broken or busy, and delivers to others meanwhile", async () => {
  await createNodes("notify-a", "notify-b");
  await using broken = await Receiver.start((response) => void response.destroy());
  await using healthy = await Receiver.start();
  await using run = await startNotifiers({
    broken: { keys: KEYS, retries: 100, post: { url: broken.url, timeout: "200ms" } },
    healthy: { keys: KEYS, post: { url: healthy.url } },
  });
  await label("notify-a", { "notify.test/x": "1" });
  await eventually(() => expect(healthy.accepted).toHaveLength(1));
  await label("notify-a", { "notify.test/x": "2" });
  await label("notify-b", { "notify.test/x": "1" });
  await eventually(() => expect(healthy.accepted).toHaveLength(3));
  const further: readonly Answer[] = [
    () => undefined,
    (_, request) => void request.socket.end("no HTTP at all\r\n\r\n"),
    (response) => void response.writeHead(429, { "retry-after": "1" }).end("x".repeat(100_000)),
  ];
  for (const answer of further) {
    const { length: before } = broken.received;
    broken.answer = answer;
    await eventually(() => expect(broken.received.length).toBeGreaterThan(before));
  }
  broken.answer = undefined;
  await eventually(async () => expect(await run.metric('total{notifier="broken",result="sent"}')).toBe("2"));
  expect(broken.accepted.toSorted((a, b) => a.node.localeCompare(b.node))).toEqual([
    messageOf("notify-a", { labelsAdded: { "notify.test/x": "2" } }),
    messageOf("notify-b", { labelsAdded: { "notify.test/x": "1" } }),
  ]);
  expect(await run.metric('pending{notifier="broken"}')).toBe("0");
  expect(run.faults).toEqual([]);
});

it("gives up after the retries and at a refusal, warns once, and forgets what a changed notifier had", async () => {
  await createNodes("notify-c");
  await using receiver = await Receiver.start((response) => void response.writeHead(403).end());
  const spec = { keys: KEYS, retries: 1, post: { url: receiver.url } };
  await using run = await startNotifiers({ a: spec });
  await label("notify-c", { "notify.test/x": "1" });
  await eventually(async () => expect(await run.metric('total{notifier="a",result="refused"}')).toBe("1"));
  receiver.answer = (response) => void response.writeHead(500).end();
  await label("notify-c", { "notify.test/x": "2" });
  await eventually(async () => expect(await run.metric('total{notifier="a",result="failed"}')).toBe("1"));
  expect(receiver.received).toHaveLength(3);
  const { origin } = new URL(receiver.url);
  expect(run.faults).toEqual([
    `NodeNotifier a: a change of node notify-c is lost: ${origin} answers with status 403`,
  ]);
  receiver.answer = (response) => void response.writeHead(503, { "retry-after": "3600" }).end();
  await label("notify-c", { "notify.test/x": "3" });
  await eventually(async () => expect(await run.metric('pending{notifier="a"}')).toBe("1"));
  await eventually(() => expect(receiver.received).toHaveLength(4));
  await run.write({});
  await eventually(async () => expect(await run.metric('total{notifier="a",result="dropped"}')).toBe("1"));
  expect(await run.metric('pending{notifier="a"}')).toBe("0");
});

it("creates one Job from a CronJob for one change, also if the answer is lost", async () => {
  await createNodes("notify-job");
  const namespace = "notify-ops";
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
  const template = {
    metadata: { labels: { app: "refresh" }, annotations: { note: "x" } },
    spec: { restartPolicy: "Never", containers: [{ name: "c", image: "registry.test/refresh" }] },
  };
  const jobTemplate = { metadata: { labels: { team: "ops" } }, spec: { backoffLimit: 2, template } };
  const metadata = { namespace, name: "refresh" };
  const schedule = { schedule: "0 0 1 1 *", suspend: true, jobTemplate };
  const { uid } = (await cluster.client.create(cronJobs, { metadata, spec: schedule })).metadata ?? {};
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  await using proxy = await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate });
  await using client = cluster.connect({ server: proxy.url });
  const creates = { verb: "create", resource: "jobs" } as const;
  using _lost = proxy.on(creates, cutAfterForwarding(), { times: 1 });
  const job = { namespace, cronJob: "refresh" };
  const spec = { keys: KEYS, job, nodeSelector: { matchLabels: { "notify.test/x": "1" } } };
  await using run = await startNotifiers({ ops: spec }, client);
  await label("notify-job", { "notify.test/x": "1" });
  await eventually(async () => expect(await run.metric('total{notifier="ops",result="sent"}')).toBe("1"));
  const listed = async (): Promise<readonly Job[]> => (await cluster.client.list(jobs, { namespace })).items;
  const [made, ...others] = await listed();
  expect(others).toEqual([]);
  expect(proxy.count(creates)).toBe(2);
  const change = JSON.stringify(messageOf("notify-job", { labelsAdded: { "notify.test/x": "1" } }));
  expect(made?.metadata).toMatchObject({
    name: expect.stringMatching(/^refresh-[0-9a-f]{10}$/),
    labels: { team: "ops", "berth.dev/node": "notify-job" },
    annotations: { "cronjob.kubernetes.io/instantiate": "manual", "berth.dev/node-change": change },
    ownerReferences: [{ apiVersion: "batch/v1", kind: "CronJob", name: "refresh", uid, controller: true }],
  });
  expect(made?.spec).toMatchObject({
    backoffLimit: 2,
    template: {
      metadata: {
        labels: { app: "refresh", "berth.dev/node": "notify-job" },
        annotations: { note: "x", "berth.dev/node-change": change },
      },
      spec: template.spec,
    },
  });
  // The node leaves the selected ones by this change.
  await label("notify-job", { "notify.test/x": null });
  await eventually(async () => expect(await listed()).toHaveLength(2));
});
