/**
 * One Berth, as it is installed, among attackers: a peer that reaches the webhook's port, the owner of a path on a shared
 * registry, a node's own user under NodeRestriction, and a tenant. docs/reference/security.md has the threats.
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect as connectTls } from "node:tls";
import { crds } from "@berth/cli";
import {
  customResourceDefinitions,
  events,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  pods,
  secrets,
} from "@berth/kube";
import { aNode, eventually, findFreePort, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type FaultRegistry,
  startFaultRegistry,
} from "../../packages/registry/src/testing/fault-registry.ts";
import { runCommand } from "../command.ts";
import { ask } from "../gate-admission.ts";
import { type BerthProcess, startBerthOn } from "../product.ts";

const PASSWORD = "victims-password";
const EVIL_PASSWORD = "attackers-password";
const ATTACKER = "127.0.0.2";
const SLOW_BODIES = 9;

let cluster: TestCluster;
let registry: FaultRegistry;
let berth: BerthProcess;
let config: string;
let webhook: { readonly url: string; readonly ca: string };
const owned = new AsyncDisposableStack();

beforeAll(async () => {
  cluster = await sharedTestCluster({
    flags: {
      "kube-apiserver": ["--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction"],
    },
  });
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  for (const name of ["berth-system", "victim", "evil"])
    await client.create(namespaces, { metadata: { name } });
  registry = owned.use(
    await startFaultRegistry({
      auth: { scheme: "basic", users: { victim: PASSWORD, evil: EVIL_PASSWORD } },
    }),
  );
  registry.image("victim/app", "1", "linux/arm64");
  registry.image("evil/app", "1", "linux/amd64");
  await pullSecret("victim", "victim", PASSWORD);
  await pullSecret("evil", "evil", EVIL_PASSWORD);
  berth = owned.use(await installed());
  await berth.ready();
  const ca = await eventually(async () => {
    const { items } = await client.list(mutatingWebhookConfigurations);
    const bundle = items.flatMap(({ webhooks = [] }) => webhooks)[0]?.clientConfig.caBundle;
    if (bundle === undefined) throw new Error("the API server does not ask Berth yet");
    return Buffer.from(bundle, "base64").toString();
  });
  webhook = { ...webhook, ca };
});
afterAll(() => owned.disposeAsync());

/** `berth run` with one rule of each kind. The API server asks it, and lets nothing pass that it does not answer. */
async function installed(): Promise<BerthProcess> {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-hostile-"));
  owned.defer(() => rm(folder, { recursive: true }));
  const bindAddress = `127.0.0.1:${await findFreePort()}`;
  webhook = { url: `https://${bindAddress}`, ca: "" };
  const document = (kind: string, spec: object): string =>
    JSON.stringify({ apiVersion: "berth.dev/v1alpha1", kind, metadata: { name: "default" }, spec });
  const documents = [
    document("AdmissionServer", { mode: "Webhook", bindAddress, url: webhook.url, podFailurePolicy: "Fail" }),
    document("ImageRegistries", { registries: [{ registry: registry.host }] }),
    document("ArchitecturePolicy", { mode: "Affinity", maxHold: "5m" }),
    document("StartupGate", {
      nodeSelector: { matchLabels: { "hostile.test/gated": "true" } },
      signals: { annotations: [{ key: "hostile.test/ready" }] },
    }),
    document("LabelRule", {
      match: { all: [{ key: "hostile.test/in", operator: "Exists" }] },
      labels: [{ key: "hostile.test/seen", value: "true" }],
    }),
  ];
  config = path.join(folder, "berth.yaml");
  await writeFile(config, documents.join("\n---\n"));
  return startBerthOn(cluster, { args: ["--config", config, "--namespace", "berth-system"] });
}

async function pullSecret(namespace: string, user: string, password: string): Promise<void> {
  const auths = { [registry.host]: { username: user, password } };
  const data = { ".dockerconfigjson": Buffer.from(JSON.stringify({ auths })).toString("base64") };
  const type = "kubernetes.io/dockerconfigjson";
  await cluster.client.create(secrets, { metadata: { name: "pull", namespace }, type, data });
}

const podOf = (namespace: string, name: string, image: string): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace },
  spec: { containers: [{ name: "c", image }], imagePullSecrets: [{ name: "pull" }] },
});

function reviewOf(object: object, namespace: string): string {
  const kind = { group: "", version: "v1", kind: "Pod" };
  const resource = { group: "", version: "v1", resource: "pods" };
  const userInfo = { username: "nobody" };
  const request = { uid: "1", kind, resource, namespace, operation: "CREATE", userInfo, object };
  return JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request });
}

/** An honest user's pod that the API server asks Berth about. Refused when it has no answer in time. */
const honest = (): Promise<unknown> =>
  cluster.client.create(
    pods,
    { metadata: { name: "honest" }, spec: { containers: [{ name: "c", image: "x.test/honest:1" }] } },
    { namespace: "victim", dryRun: true },
  );

describe("a peer of the webhook", () => {
  it("S-1 has no Secret read and no registry asked by a forged review", async () => {
    const mark = await cluster.audit.mark();
    const seen = registry.seen.length;
    const body = reviewOf(podOf("victim", "forged", `${registry.host}/victim/app:1`), "victim");
    const { status } = await ask(`${webhook.url}/mutate-pod`, { ca: webhook.ca, body });
    expect(status).toBe(200);
    // Whatever it led to would have come before the answer to a stored pod of another tenant.
    await eventually(async () => {
      await honest();
      expect(await berth.metric("berth_admission_requests_total", { code: "200" })).toBeGreaterThan(1);
    });
    const read = await cluster.audit.entriesSince(mark, { resource: "secrets", userAgent: "berth/" });
    expect(read.filter(({ requestUri }) => requestUri.includes("/namespaces/victim/"))).toEqual([]);
    expect(registry.seen.slice(seen)).toEqual([]);
  });

  it("S-6 keeps nobody from an answer by slow bodies, large ones, and a review with as many images as fit", async () => {
    const { hostname, port } = new URL(webhook.url);
    using attack = new DisposableStack();
    const send = (head: string, body: string): void => {
      const tcp = connect({ host: hostname, port: Number(port), localAddress: ATTACKER });
      const socket = connectTls({ socket: tcp, ca: webhook.ca });
      attack.defer(() => void socket.destroy());
      socket.on("error", () => undefined);
      socket.write(
        `POST /mutate-pod HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${head}\r\n\r\n${body}`,
      );
    };
    for (let at = 0; at < SLOW_BODIES; at++) send("content-length: 4000000", "{");
    const sparse = "{},".repeat(7 * 350_000);
    for (let at = 0; at < 8; at++) send(`content-length: ${sparse.length}`, sparse);
    const containers = Array.from({ length: 300_000 }, (_, at) => ({ image: `a/${at}` }));
    const many = reviewOf({ ...podOf("evil", "many", "x"), spec: { containers } }, "evil");
    send(`content-length: ${many.length}`, many);
    const answers = await Promise.allSettled(Array.from({ length: 20 }, honest));
    expect(answers.filter(({ status }) => status === "rejected")).toEqual([]);
  });
});

describe("the owner of a path on a shared registry", () => {
  it("S-3 S-4 S-5 neither gets the credentials of others, nor has Berth connect where it likes, nor stops the others", async () => {
    const stolen: string[] = [];
    const thief = createServer((request, response) => {
      stolen.push(`${request.url} ${request.headers.authorization}`);
      response.end("{}");
    }).listen(0, "127.0.0.1");
    await eventually(() => expect(thief.listening).toBe(true));
    const realm = `http://127.0.0.1:${(thief.address() as AddressInfo).port}/token`;
    const fault = {
      does: "status",
      status: 401,
      headers: {
        "www-authenticate": `Bearer realm="${realm}",service="x",scope="repository:victim/app:pull"`,
      },
    } as const;
    using _evil = registry.inject(fault, { repository: "evil/app" });
    const create = (namespace: string, repository: string): Promise<unknown> =>
      cluster.client.create(pods, podOf(namespace, "app", `${registry.host}/${repository}:1`), { namespace });
    await create("evil", "evil/app");
    await eventually(async () => {
      const { items } = await cluster.client.list(events, { namespace: "evil" });
      expect(items.map(({ reason }) => reason)).toContainEqual(expect.stringMatching(/^(Image|Registry)/));
    });
    await create("victim", "victim/app");
    await eventually(async () => {
      const { spec } = await cluster.client.get(pods, { namespace: "victim", name: "app" });
      expect(JSON.stringify(spec?.affinity)).toContain("arm64");
    });
    expect(stolen).toEqual([]);
    thief.close();
    for (const password of [PASSWORD, EVIL_PASSWORD]) expect(berth.output).not.toContain(password);
  });
});

describe("a compromised kubelet", () => {
  it("S-7 cannot have Berth remove the taint and the cordon of its node by a forged record", async () => {
    const user = await cluster.user("system:node:n1", ["system:nodes"]);
    await using kubelet = cluster.connect({ user });
    const dedicated = { key: "dedicated", value: "payments", effect: "NoSchedule" };
    await cluster.client.create(nodes, aNode("n1").tainted(dedicated).build());
    await cluster.client.patch(
      nodes,
      { name: "n1" },
      { type: "merge", body: { spec: { unschedulable: true } } },
    );
    // What NodeRestriction is for.
    await expect(
      kubelet.patch(nodes, { name: "n1" }, { type: "merge", body: { spec: { taints: null } } }),
    ).rejects.toThrow("not allowed to modify taints");
    const mark = { c: "startup-gate", r: "config/default", since: "2026-01-01T00:00:00Z", v: "payments" };
    const marks = { "taint/dedicated:NoSchedule": mark, unschedulable: { ...mark, v: "true" } };
    const annotations = { "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks }) };
    const metadata = { annotations, labels: { "hostile.test/in": "1" } };
    await kubelet.patch(nodes, { name: "n1" }, { type: "merge", body: { metadata } });
    const node = await eventually(async () => {
      const found = await cluster.client.get(nodes, { name: "n1" });
      expect(found.metadata?.labels?.["hostile.test/seen"]).toBe("true");
      return found;
    });
    expect(node.spec?.unschedulable).toBe(true);
    expect(node.spec?.taints).toContainEqual(expect.objectContaining({ key: "dedicated" }));
  });
});

it("a tenant S-2 S-10 gets no lookups for 65 images, and no control character to a terminal", async () => {
  const images = Array.from({ length: 65 }, (_, at) => `${registry.host}/evil/many-${at}:1`);
  const containers = images.map((image, at) => ({ name: `c${at}`, image }));
  const seen = registry.seen.length;
  await cluster.client.create(
    pods,
    { metadata: { name: "many" }, spec: { containers } },
    { namespace: "evil" },
  );
  const name = "evil\u001b[2J\u202eapp:1";
  await cluster.client.create(pods, podOf("evil", "ansi", `x.test/${name}`), { namespace: "evil" });
  // Its lookups would have come before those of a pod made later.
  await cluster.client.create(pods, podOf("evil", "later", `${registry.host}/evil/later:1`), {
    namespace: "evil",
  });
  await eventually(() =>
    expect(registry.seen.some(({ repository }) => repository === "evil/later")).toBe(true),
  );
  expect(registry.seen.slice(seen).filter(({ repository }) => repository.includes("many"))).toEqual([]);
  const folder = await mkdtemp(path.join(tmpdir(), "berth-hostile-"));
  owned.defer(() => rm(folder, { recursive: true }));
  const kubeconfig = path.join(folder, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const explain = (pod: string): Promise<string> =>
    runCommand("explain", "pod", `evil/${pod}`, "--kubeconfig", kubeconfig, "--config", config);
  expect(await explain("many")).toContain("TooManyImages");
  const shown = await explain("ansi");
  expect(shown).toContain("x.test/evil");
  for (const hostile of ["\u001b", "\u202e"]) expect(shown).not.toContain(hostile);
});
