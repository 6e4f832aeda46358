/**
 * The alerts of `monitoring/`, by Prometheus itself: each is brought about on a real cluster, fires with the metrics of
 * the Berth that runs there, and is explained by the commands of its runbook. Only the time that it must last is cut.
 */
import { execFile } from "node:child_process";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { cells, instances, workloadDeployments } from "@berth/fleet";
import { toCustomResourceDefinition } from "@berth/host";
import { deployments, leases, namespaces, nodes, pods, secrets } from "@berth/kube";
import { deschedulePolicies, labelRules, product, startupGates } from "@berth/placement";
import { createAuthority, issueServingCertificate } from "@berth/runtime";
import {
  aNode,
  answer,
  aPod,
  delay,
  eventually,
  findFreePort,
  hold,
  restoreSharedTestClusters,
  sharedTestCluster,
  startHttpProxy,
  type TestCluster,
} from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { createSigner, originAnnotations } from "../../packages/fleet/src/api/origin.ts";
import { aDeployment, anInstance } from "../../packages/fleet/src/deployment/testing/fixtures.ts";
import { fleetKinds } from "../../packages/fleet/src/kinds/kinds.ts";
import { playCells } from "../../packages/fleet/src/testing/cell-actor.ts";
import { installCrds, quotaCrds } from "../../packages/fleet/src/testing/fixture-crds.ts";
import { createWorkload, fleetFixture, issueToken } from "../fleet-fixture.ts";
import { sharedFullCluster } from "../footprint-cluster.ts";
import { readGuides } from "../guides.ts";
import { alertRules, commandsIn, ruleFile, runbookOf } from "../monitoring.ts";
import { root } from "../pages.ts";
import { patiently } from "../patience.ts";
import { type BerthOnCluster, type BerthProcess, startBerthOn } from "../product.ts";
import { buildPrometheus, operatorCrds, promtool, startPrometheus } from "./prometheus.ts";

const run = promisify(execFile);
const NAMESPACE = "berth-system";
const HOUR_MS = 60 * 60 * 1000;
/** A gate that holds each node for a second. */
const SHORT = { nodeSelector: {}, minimumHold: "1s" };
/** Longer than the minute that `BerthQueueOld` needs. */
const FIRES = { timeoutMs: 180_000, everyMs: 1000 };
const atOnce = {
  groups: ruleFile.groups.map(({ name, rules }) => ({
    name,
    rules: rules.map((rule) => ({ ...rule, for: "0s" })),
  })),
};

let cluster: TestCluster;
beforeAll(async () => {
  await buildPrometheus();
  cluster = await sharedFullCluster();
});
afterEach(restoreSharedTestClusters);

const start = ({ on = cluster, ...options }: BerthOnCluster & { readonly on?: TestCluster } = {}) =>
  startBerthOn(on, options);

/** Where Prometheus finds its metrics. */
function targetOf({ log, output }: BerthProcess): Promise<string> {
  return patiently(() => {
    const url = log.find(({ metrics }) => typeof metrics === "string")?.["metrics"];
    if (typeof url !== "string") throw new Error(`it serves no metrics yet:\n${output}`);
    return new URL(url).host;
  });
}

interface Firing {
  readonly berths: readonly [BerthProcess, ...BerthProcess[]];
  /** Some of its labels. */
  readonly labels?: Readonly<Record<string, string>>;
  /** What the words in capitals of the runbook stand for. */
  readonly words?: Readonly<Record<string, string>>;
  /** The commands of the runbook tell this; `readyz` is the report of the first Berth. */
  readonly tells?: RegExp;
  /** Done once Prometheus has read the metrics. */
  readonly act?: () => Promise<void>;
}
type Check = (firing: Firing) => Promise<void>;

/** Each brings its alert about. Prometheus runs while `check` does. */
const faults: Readonly<Record<string, (check: Check) => Promise<void>>> = {
  async BerthAbsent(check) {
    await using berth = await start();
    await berth.ready();
    await check({ berths: [berth], act: () => berth.kill() });
  },

  async BerthNoLeader(check) {
    const spec = {
      holderIdentity: "a-pod-that-is-gone",
      leaseDurationSeconds: 3600,
      renewTime: new Date().toISOString().replace("Z", "000Z"),
    };
    await cluster.client.create(leases, { metadata: { namespace: NAMESPACE, name: "berth" }, spec });
    const args = ["--leader-elect", "--namespace", NAMESPACE];
    await using one = await start({ args });
    await using other = await start({ args });
    await check({
      berths: [one, other],
      labels: { lease: "berth" },
      tells: /a-pod-that-is-gone/,
    });
  },

  async BerthApiDenied(check) {
    const user = await cluster.user("without-rights");
    await using berth = await start({ user });
    const words = { VERB: "list", RESOURCE: "nodes", "system:serviceaccount:berth-system:berth": user.name };
    await check({
      berths: [berth],
      labels: { verb: "list", resource: "nodes" },
      words,
      tells: /^no$/m,
    });
  },

  async BerthSourceUnread(check) {
    await using berth = await start({ args: ["--label-dir", "missing"] });
    const labels = { source: "rules" };
    await check({ berths: [berth], labels, tells: /\[[!-]\]rules: .*missing/ });
  },

  async BerthDocumentInvalid(check) {
    const labels = [{ key: "kubernetes.io/os", value: "mine" }];
    await cluster.client.create(labelRules, { metadata: { name: "reserved" }, spec: { match: {}, labels } });
    await using berth = await start();
    const words = { NAME: "reserved" };
    await check({
      berths: [berth],
      labels: { kind: "LabelRule" },
      words,
      tells: /reserved for Kubernetes/,
    });
  },

  async BerthQueueOld(check) {
    const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
    await using proxy = await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate });
    const silent = hold();
    using _rule = proxy.on({ verb: "patch", resource: "nodes" }, silent);
    const spec = { match: {}, labels: [{ key: "example.com/slow", value: "yes" }] };
    await cluster.client.create(labelRules, { metadata: { name: "slow" }, spec });
    for (let at = 0; at < 200; at += 1) await cluster.client.create(nodes, aNode(`slow-${at}`).build());
    await using berth = await start({ server: proxy.url });
    await check({ berths: [berth], labels: { controller: "nodes" } });
    silent.release();
  },

  async BerthNodeHeldTooLong(check) {
    const spec = { nodeSelector: {}, signals: { conditions: [{ type: "DriverReady" }] } };
    await cluster.client.create(startupGates, { metadata: { name: "driver" }, spec });
    const at = new Date(Date.now() - HOUR_MS).toISOString().replace(/\.\d+Z$/, "Z");
    const node = aNode("held").tainted({
      key: "startup.k8s.io/initializing",
      value: "wait",
      effect: "NoSchedule",
    });
    const state = { v: 1, state: "held", at, why: "Gated" };
    await cluster.client.create(nodes, {
      ...node.build(),
      metadata: { name: "held", annotations: { "gate.berth.dev/driver": JSON.stringify(state) } },
    });
    await using berth = await start();
    await check({
      berths: [berth],
      words: { NODE: "held" },
      tells: /condition DriverReady: the node has no/,
    });
  },

  async BerthBreakerOpen(check) {
    const spec = {
      match: { all: [{ key: "example.com/device" }] },
      labels: [{ key: "example.com/derived" }],
      removalDelay: "0s",
      breaker: { percent: 10, nodes: 2 },
    };
    await cluster.client.create(labelRules, { metadata: { name: "device" }, spec });
    const names = Array.from({ length: 6 }, (_, at) => `device-${at}`);
    for (const name of names)
      await cluster.client.create(nodes, aNode(name).labelled({ "example.com/device": "yes" }).build());
    await using berth = await start();
    const derived = async () =>
      (await cluster.client.list(nodes, { labelSelector: "example.com/derived" })).items.length;
    await patiently(async () => expect(await derived()).toBe(names.length));
    await Promise.all(names.map((name) => unlabel(name, "example.com/device")));
    await check({ berths: [berth], words: { RULE: "device" }, tells: /RemovalsFrozen/ });
    expect(await derived()).toBeGreaterThan(0);
  },

  async BerthEvictionsFrozen(check) {
    const rule = {
      match: { all: [{ key: "example.com/device" }] },
      labels: [{ key: "example.com/derived" }],
    };
    const spec = { ...rule, removalDelay: "0s", breaker: { percent: 100 } };
    await cluster.client.create(labelRules, { metadata: { name: "device" }, spec });
    await cluster.client.create(deschedulePolicies, {
      metadata: { name: "moves" },
      spec: { for: "1s", requireFit: false },
    });
    await cluster.client.create(
      nodes,
      aNode("device").fake().labelled({ "example.com/device": "yes" }).build(),
    );
    await using berth = await start();
    const { spec: podSpec = { containers: [] } } = aPod("many")
      .selecting({ "example.com/derived": "true" })
      .build();
    const labels = { app: "many" };
    await cluster.client.create(deployments, {
      metadata: { namespace: "default", name: "many" },
      spec: {
        replicas: 12,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: podSpec },
      },
    });
    await patiently(async () => {
      const { items } = await cluster.client.list(pods, { namespace: "default" });
      expect(items.filter(({ status }) => status?.phase === "Running")).toHaveLength(12);
    });
    await unlabel("device", "example.com/device");
    await check({ berths: [berth], words: { NAME: "moves" }, tells: /EvictionsFrozen/ });
  },

  async BerthAdmissionFailing(check) {
    await cluster.client.create(startupGates, { metadata: { name: "driver" }, spec: SHORT });
    const documents = [webhookAt("https://127.0.0.1:1", "/nonexistent/tls")];
    await using berth = await start({ documents });
    const labels = { component: "startup-gate-admission" };
    await check({ berths: [berth], labels, tells: /\[!\]startup-gate-admission: .*nonexistent/ });
  },

  async BerthAdmissionNotAsked(check) {
    await cluster.client.create(startupGates, { metadata: { name: "driver" }, spec: SHORT });
    // The API server cannot reach it there, as behind a NetworkPolicy.
    const documents = [webhookAt(`https://127.0.0.1:${await findFreePort()}`)];
    await using berth = await start({ documents });
    let count = 0;
    const act = () =>
      eventually(async () => {
        count += 1;
        await cluster.client.create(nodes, aNode(`missed-${count}`).build());
        expect(await berth.metric("berth_admission_missed")).toBe(1);
      }, FIRES);
    const words = { NAME: "driver" };
    await check({
      berths: [berth],
      labels: { rules: "startup-gate" },
      words,
      tells: /AdmissionFailed/,
      act,
    });
  },

  async BerthCertificateEnds(check) {
    await cluster.client.create(startupGates, { metadata: { name: "driver" }, spec: SHORT });
    await using folder = await mkdtempDisposable(path.join(tmpdir(), "berth-tls-"));
    const nowMs = Date.now();
    const authority = await createAuthority({ nowMs });
    const hosts = ["127.0.0.1"];
    const leaf = await issueServingCertificate({ authority, hosts, nowMs, validMs: 72 * HOUR_MS });
    const files = { "ca.crt": authority.certificate, "tls.key": leaf.key, "tls.crt": leaf.certificate };
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder.path, name), text);
    const documents = [webhookAt("https://127.0.0.1:1", folder.path)];
    await using berth = await start({ documents });
    await check({ berths: [berth] });
  },

  async BerthQuotaSilent(check) {
    const plane = await sharedTestCluster();
    await installCrds(plane.client, quotaCrds);
    const certificate = await plane.authority.issueServing(["127.0.0.1"]);
    await using proxy = await startHttpProxy({ target: plane.url, ca: plane.ca, certificate });
    await using fixture = await fleetFixture(cluster, {
      spec: {
        mode: "single",
        cities: ["DFW"],
        project: { id: "web" },
        quota: { from: "Kubeconfig", kubeconfig: "quota" },
      },
      quota: plane.kubeconfig({ server: proxy.url }),
    });
    await plane.client.create(namespaces, { metadata: { name: "web" } });
    const namespace = await fixture.namespace("web");
    await using berth = await fixture.start();
    using _outage = proxy.on({ path: /quota\.miloapis\.com/ }, answer(503));
    await createWorkload(cluster.client, { namespace });
    const words = { "NAMESPACE/NAME": "web/w" };
    await check({ berths: [berth], words, tells: /QuotaBackendUnavailable/ });
  },

  async BerthCellUnheard(check) {
    await makeCell(await sharedTestCluster());
    await using hub = await start({ documents: [HUB] });
    await check({ berths: [hub], labels: { cell: CELL }, words: { NAME: CELL }, tells: /NotRunning/ });
  },

  async BerthCellCredentialEnds(check) {
    const away = await sharedTestCluster();
    const token = await issueToken(away.client, { namespace: "default", name: "default" });
    await makeCell(away, away.kubeconfig({ user: { name: "hub", groups: [], token } }));
    await using hub = await start({ documents: [HUB] });
    await check({
      berths: [hub],
      labels: { cell: CELL },
      words: { NAME: CELL },
      tells: /CredentialExpires/,
    });
  },

  async BerthOrphans(check) {
    const away = await sharedTestCluster();
    await installCrds(
      away.client,
      fleetKinds.map((kind) => toCustomResourceDefinition(kind, product)),
    );
    const cellUid = await makeCell(away);
    await using _cell = await playCells(away.client, [CELL]);
    const key = Buffer.alloc(32, 1);
    const hubUid = await identityOf(cluster);
    const data = { key: key.toString("base64"), hub: Buffer.from(hubUid).toString("base64") };
    const metadata = { namespace: NAMESPACE, name: "berth-fleet-signing" };
    await cluster.client.create(secrets, { metadata, data });
    const place = { namespace: "ns-lost", name: "lost-us-dfw" };
    const origin = { hub: hubUid, sourceUid: "lost", epoch: 1, start: 0 };
    const labels = {
      "meta.datumapis.com/upstream-cluster-name": "cluster-single",
      "meta.datumapis.com/upstream-namespace": "default",
    };
    await away.client.create(namespaces, { metadata: { name: place.namespace, labels } });
    const annotations = originAnnotations(origin, { cellUid, ...place }, createSigner(key));
    const { spec } = aDeployment();
    await away.client.create(workloadDeployments, {
      metadata: { ...place, annotations },
      ...(spec && { spec }),
    });
    await using hub = await start({ documents: [HUB] });
    await check({ berths: [hub], tells: /ns-lost\/lost-us-dfw +runs +single\/default\/lost-us-dfw/ });
  },

  async BerthProjectionQuarantined(check) {
    const namespace = "ns-of-nobody";
    await cluster.client.create(namespaces, { metadata: { name: namespace } });
    const { spec } = anInstance(aDeployment(), 0);
    const metadata = { namespace, name: "lost-us-dfw-0", annotations: { "berth.dev/cell-uid": "u" } };
    await cluster.client.create(instances, { metadata, ...(spec && { spec }) });
    await using hub = await start({ documents: [HUB] });
    await check({
      berths: [hub],
      labels: { reason: "IdentityMissing" },
      tells: /ns-of-nobody +lost-us-dfw-0/,
    });
  },

  async BerthFederationSlow(check) {
    const away = await sharedTestCluster();
    await installCrds(
      away.client,
      fleetKinds.map((kind) => toCustomResourceDefinition(kind, product)),
    );
    await makeCell(away);
    const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
    await using proxy = await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate });
    using _slow = proxy.on(
      { verb: "patch", resource: "workloaddeployments", subresource: "status" },
      delay(6_000),
    );
    await using cell = await start({ on: away, args: ["--mode", "cell", "--cell", CELL] });
    await using hub = await start({ server: proxy.url, documents: [HUB] });
    await cell.ready();
    await hub.ready();
    const act = async (): Promise<void> => {
      await createWorkload(cluster.client, { namespace: "default" });
    };
    await check({ berths: [hub], tells: new RegExp(`${CELL} +DFW +True`), act });
  },
};

const CELL = "dfw-01";
const HUB = { kind: "Fleet", spec: { mode: "management", hub: "self", projects: "self" } };

async function identityOf({ client }: TestCluster): Promise<string> {
  return (await client.get(namespaces, { name: "kube-system" })).metadata?.uid ?? "";
}

/** @returns its uid. */
async function makeCell(of: TestCluster, text = of.kubeconfig()): Promise<string> {
  const uid = await identityOf(of);
  const kubeconfig = Buffer.from(text).toString("base64");
  const secret = { namespace: NAMESPACE, name: CELL };
  await cluster.client.create(secrets, { metadata: secret, data: { kubeconfig } });
  const spec = { city: "DFW", secretRef: { name: secret.name }, uid };
  await cluster.client.create(cells, { metadata: { name: CELL }, spec });
  return uid;
}

/** @param certificates a folder; default a Secret of Berth. */
function webhookAt(url: string, certificates?: string): { readonly kind: string; readonly spec: object } {
  const spec = { mode: "Webhook", bindAddress: "127.0.0.1:0", url, ...(certificates && { certificates }) };
  return { kind: "AdmissionServer", spec };
}

async function unlabel(name: string, label: string): Promise<void> {
  const body = { metadata: { labels: { [label]: null } } };
  await cluster.client.patch(nodes, { name }, { type: "merge", body });
}

/** Runs them in one shell, with `berth` in its path, as the admin of the cluster. Their failures are in the text. */
async function shell(commands: readonly string[]): Promise<string> {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), "berth-runbook-"));
  const kubeconfig = path.join(folder.path, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const PATH = `${path.join(root, "bin")}:${process.env["PATH"] ?? ""}`;
  const env = { ...process.env, PATH, KUBECONFIG: kubeconfig };
  const script = ["exec 2>&1", ...commands].join("\n");
  const ended = run("bash", ["-c", script], { cwd: root, env });
  return (await ended.catch((error: unknown) => error as { readonly stdout: string })).stdout;
}

/** What `readyz` says, and the commands under **Look**. There are no pods of Berth to ask. */
async function lookedAt(
  alert: string,
  words: Readonly<Record<string, string>>,
  berth: BerthProcess,
): Promise<string> {
  const [text = ""] = (runbookOf.get(alert) ?? "").split("**Do**");
  const commands = commandsIn(text)
    .map((command) => Object.entries(words).reduce((said, [word, is]) => said.replaceAll(word, is), command))
    .filter((command) => !/\b[A-Z]{4,}\b|logs |describe pods/.test(command));
  const readyz = berth.exit === undefined ? (await berth.readiness()).text : "";
  return readyz + (await shell(commands));
}

describe("monitoring/rules.yaml", () => {
  it("is taken by promtool without a remark", async () => {
    const file = path.join(root, "monitoring/rules.yaml");
    const said = await promtool("check", "rules", "--lint=all", "--lint-fatal", file);
    expect(said).toContain(`SUCCESS: ${alertRules.length} rules found`);
  });

  it("does what its unit tests say, and each alert has one", async () => {
    const file = path.join(import.meta.dirname, "rules.test.yaml");
    expect(await promtool("test", "rules", file)).toContain("SUCCESS");
    const tested = [...(await readFile(file, "utf8")).matchAll(/- name: (\w+)/g)].map(([, name]) => name);
    expect(new Set(tested)).toEqual(new Set(alertRules.map(({ alert }) => alert)));
  });

  it.each(alertRules)("$alert fires when it happens to the real Berth", async ({ alert }) => {
    const fault = faults[alert];
    if (fault === undefined) throw new Error(`no fault brings ${alert} about`);
    await fault(async ({ berths, labels = {}, words = {}, tells = /(?:)/, act }) => {
      const targets = await Promise.all(berths.map(targetOf));
      await using prometheus = await startPrometheus(targets, atOnce);
      await patiently(async () => expect(await prometheus.query("up == 1")).toHaveLength(targets.length));
      await act?.();
      const firing = await eventually(async () => {
        const alerts = await prometheus.alerts();
        expect(alerts).toContainEqual(
          expect.objectContaining({
            state: "firing",
            labels: expect.objectContaining({ alertname: alert, ...labels }) as unknown,
          }),
        );
        return alerts.find((it) => it.labels["alertname"] === alert);
      }, FIRES);
      expect(firing?.annotations["summary"]).not.toMatch(/\{\{|<no value>|<error/);
      await patiently(async () => expect(await lookedAt(alert, words, berths[0])).toMatch(tells));
    });
  });

  it("says nothing of two replicas that are well, nor of one that has files and no CRD", async () => {
    await cluster.client.create(startupGates, { metadata: { name: "short" }, spec: SHORT });
    const spec = { match: {}, labels: [{ key: "example.com/well", value: "yes" }] };
    await cluster.client.create(labelRules, { metadata: { name: "well" }, spec });
    const args = ["--leader-elect", "--namespace", NAMESPACE];
    const bare = await sharedTestCluster();
    await using one = await start({ args });
    await using other = await start({ args });
    await using files = await start({ on: bare, args: ["--label-dir", path.join(root, "examples/labels")] });
    const berths = [one, other, files];
    await Promise.all(berths.map((berth) => berth.ready()));
    await using prometheus = await startPrometheus(await Promise.all(berths.map(targetOf)), atOnce);
    await cluster.client.create(nodes, aNode("well").build());
    await patiently(async () =>
      expect(await prometheus.query("count_over_time(up[1m]) > 20")).toHaveLength(3),
    );
    expect(await prometheus.query("ALERTS")).toEqual([]);
  });
});

it("the guide gives the operator of Prometheus what its CRDs take", async () => {
  const guide = readGuides().find(({ name }) => name === "watch-berth.md")?.text ?? "";
  const commands = /^ *```sh\n([\s\S]*?)^ *```$/m.exec(guide)?.[1]?.split("\n") ?? [];
  const crds = await operatorCrds();
  const kinds = ["podmonitors", "servicemonitors", "prometheusrules"];
  const printed = await shell([
    `kubectl create ${kinds.map((kind) => `-f ${crds}/monitoring.coreos.com_${kind}.yaml`).join(" ")} > /dev/null`,
    "kubectl wait crd --all --for=condition=Established > /dev/null",
    ...commands,
    "kubectl apply -f monitoring/service-monitor.yaml",
  ]);
  expect(printed.trim().split("\n")).toEqual([
    "podmonitor.monitoring.coreos.com/berth created",
    "prometheusrule.monitoring.coreos.com/berth created",
    "servicemonitor.monitoring.coreos.com/berth created",
  ]);
});
