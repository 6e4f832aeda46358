/**
 * How new nodes get the taints of startup gates from their first moment: the API server by itself, or by asking Berth
 * over TLS. On the whole product and a real API server, in the cases of the contract (N-P1 to N-P4, N-P14, N-B1, N-B9, N-B10)
 * and in what goes wrong with certificates, configurations and replicas.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  daemonSets,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  namespaces,
  pods,
  validatingWebhookConfigurations,
} from "@berth/kube";
import { originalGate, startupGates } from "@berth/placement";
import {
  aNode,
  aPod,
  eventually,
  startTcpProxy,
  startTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { hasPolicies } from "../packages/cli/src/testing/cluster.ts";
import { taintsOf } from "./fixture.ts";
import {
  type Admission,
  addGated,
  ask,
  BINDING,
  CONFIGURATION,
  createAdmissionFixture,
  gatedAtCreation,
  letIn,
  NAMESPACE,
  originalConfiguration,
  review,
  tryNode,
  webhookAt,
} from "./gate-admission.ts";
import {
  atOnce,
  type GateFixture,
  hasTaint,
  installCrds,
  ORIGINAL_TAINT,
  saysCondition,
  sharedGateCluster,
} from "./gate-fixture.ts";
import { quickest } from "./patience.ts";
import { startBerthOn } from "./product.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

const POLICY: Admission = {
  spec: { mode: "Policy", bindAddress: ":0", failurePolicy: "Ignore" },
  namespace: NAMESPACE,
};

/** A folder as a Secret is mounted, with a certificate of the cluster's authority. */
async function certificateFolder(
  fixture: GateFixture,
): Promise<{ readonly path: string; readonly rotate: () => Promise<void> }> {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-tls-"));
  fixture.owns(() => rm(folder, { recursive: true, force: true }));
  const rotate = async (): Promise<void> => {
    const { certificate, key } = await cluster.authority.issueServing(["127.0.0.1"]);
    await writeFile(path.join(folder, "tls.key"), key);
    await writeFile(path.join(folder, "tls.crt"), certificate);
  };
  await writeFile(path.join(folder, "ca.crt"), cluster.authority.certificate);
  await rotate();
  return { path: folder, rotate };
}

const decode = (text: string): unknown => JSON.parse(Buffer.from(text, "base64").toString("utf8"));

describe("the drop-in's webhook", () => {
  const { taint } = originalGate;
  const wait = { key: taint.key, value: taint.value, effect: taint.effect };

  /** It runs with a folder of certificates and the configuration of the original, as the drop-in document says. */
  async function dropIn(fixture: GateFixture): Promise<{ readonly url: string; readonly ca: string }> {
    const { path: certificates } = await certificateFolder(fixture);
    const configuration = {
      name: "node-startup-taint",
      webhook: "nodestartup.taint.add.nodetaintshandler.io",
    };
    const { admission, url } = await webhookAt({ certificates, url: undefined, configuration });
    await fixture.start({ ...(await fixture.dropIn()), admission });
    return { url, ca: cluster.authority.certificate };
  }

  it("N-P1 to N-P3 answers as the original did", async () => {
    await using fixture = await createAdmissionFixture(cluster, "p1");
    const { url, ca } = await dropIn(fixture);
    const answer = async (object: object): Promise<Readonly<Record<string, unknown>>> => {
      const { status, body } = await ask(`${url}/mutate-node`, { ca, body: JSON.stringify(object) });
      expect(status).toBe(200);
      const { apiVersion, kind, response } = JSON.parse(body) as Record<string, unknown>;
      expect({ apiVersion, kind }).toEqual({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" });
      return response as Readonly<Record<string, unknown>>;
    };
    const allowed = { uid: "d4a1c1e0-0000-4000-8000-000000000001", allowed: true };
    const plain = await answer(review(aNode("n").build()));
    expect(plain).toMatchObject({ ...allowed, patchType: "JSONPatch" });
    expect(decode(String(plain["patch"]))).toEqual([{ op: "add", path: "/spec/taints", value: [wait] }]);
    const tainted = await answer(review(aNode("n").tainted("a=b:NoExecute").build()));
    expect(tainted).toMatchObject({ ...allowed, patchType: "JSONPatch" });
    expect(decode(String(tainted["patch"]))).toEqual([{ op: "add", path: "/spec/taints/-", value: wait }]);
    const azure = aNode("n").labelled({ "kubernetes.azure.com/mode": "system" });
    for (const question of [
      review(aNode("n").tainted(ORIGINAL_TAINT).build()),
      review(aNode("n").build(), { operation: "UPDATE" }),
      review(aNode("n").build(), { kind: "Pod" }),
      review(azure.build()),
    ])
      expect(await answer(question)).toEqual(allowed);
  });

  it("N-P4 refuses what is no JSON, and allows what says nothing, and N-P14 is probed over TLS", async () => {
    await using fixture = await createAdmissionFixture(cluster, "p4");
    const { url, ca } = await dropIn(fixture);
    expect(await ask(`${url}/mutate-node`, { ca, body: "{not-json" })).toMatchObject({ status: 400 });
    const { status, body } = await ask(`${url}/mutate-node`, { ca, body: "{}" });
    expect([status, JSON.parse(body)]).toMatchObject([200, { response: { allowed: true } }]);
    expect(await ask(`${url}/healthz`, { ca })).toMatchObject({ status: 200, body: "ok" });
    expect(await ask(`${url}/readyz`, { ca })).toMatchObject({ status: 200, body: "ready" });
  });

  it("gates nodes by the configuration of the original, whose caBundle it puts right", async () => {
    await using fixture = await createAdmissionFixture(cluster, "adopted");
    const { url } = await dropIn(fixture);
    const { certificate: foreign } = await cluster.authority.issueServing(["author.example"]);
    const made = await cluster.client.create(
      mutatingWebhookConfigurations,
      originalConfiguration(url, foreign),
    );
    await gatedAtCreation(cluster.client);
    const found = await cluster.client.get(mutatingWebhookConfigurations, { name: "node-startup-taint" });
    const { clientConfig: _, ...rest } = found.webhooks?.[0] ?? {};
    const { clientConfig: __, ...before } = made.webhooks?.[0] ?? {};
    expect(rest).toEqual(before);
    expect(found.webhooks?.[0]?.clientConfig.url).toBe(`${url}/mutate-node`);
    const node = await addGated(fixture);
    await fixture.pod(fixture.init(node), { ready: true });
    expect(hasTaint(await fixture.free(node))).toBe(false);
  });
});

describe.skipIf(!hasPolicies)("policies", () => {
  it("gate nodes from their first moment, and are taken for Auto where the API server has them", async () => {
    await using fixture = await createAdmissionFixture(cluster, "policy");
    await fixture.gate("net", { ...atOnce, nodeSelector: { matchLabels: { pool: "a" } } });
    await fixture.start({ admission: { ...POLICY, spec: { ...POLICY.spec, mode: "Auto" } } });
    await saysCondition(fixture, "net", { type: "Admission", status: "True", reason: "AdmissionByPolicy" });
    await eventually(async () =>
      expect(hasTaint(await tryNode(cluster.client, (it) => it.labelled({ pool: "a" })))).toBe(true),
    );
    expect(hasTaint(await fixture.add("other", (it) => it.labelled({ pool: "b" })))).toBe(false);
    const { key } = originalGate.taint;
    const made = await fixture.add("n", (it) =>
      it.labelled({ pool: "a" }).tainted(`${key}=other:NoSchedule`),
    );
    expect(taintsOf(made).filter((it) => it.startsWith(key))).toEqual([ORIGINAL_TAINT]);
    expect((await cluster.client.list(mutatingWebhookConfigurations)).items).toEqual([]);
    await fixture.pod(fixture.init("n"), { ready: true });
    await fixture.free("n");
  });

  it("follow the gates, and go with them", async () => {
    await using fixture = await createAdmissionFixture(cluster, "follow");
    await fixture.gate("net", atOnce);
    await fixture.start({ admission: POLICY });
    await gatedAtCreation(cluster.client);
    const body = { spec: { taint: { key: "follow.test/wait" } } };
    await cluster.client.patch(startupGates, { name: "net" }, { type: "merge", body });
    await gatedAtCreation(cluster.client, "follow.test/wait");
    await letIn(cluster.client);
    await cluster.client.delete(startupGates, { name: "net" });
    await eventually(async () =>
      expect((await cluster.client.list(mutatingAdmissionPolicies)).items).toEqual([]),
    );
    await letIn(cluster.client, "follow.test/wait");
  });

  it("are switched off by the last replica that ends, and not while another one runs", async () => {
    await using fixture = await createAdmissionFixture(cluster, "last");
    await fixture.gate("net", atOnce);
    const labels = { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": "berth" };
    for (const name of ["one", "two"])
      await fixture.pod(aPod(name).in(NAMESPACE).labelled(labels).on("elsewhere"), { ready: true });
    const one = await fixture.start({ admission: { ...POLICY, podName: "one" } });
    await gatedAtCreation(cluster.client);
    await one[Symbol.asyncDispose]();
    expect(await cluster.client.get(mutatingAdmissionPolicyBindings, BINDING)).toBeDefined();
    expect(hasTaint(await tryNode(cluster.client))).toBe(true);
    const again = await fixture.start({ admission: { ...POLICY, podName: "one" } });
    await fixture.deletePod("two", NAMESPACE);
    await again[Symbol.asyncDispose]();
    await expect(cluster.client.get(mutatingAdmissionPolicyBindings, BINDING)).rejects.toThrow(/not found/);
    await letIn(cluster.client);
    // Whoever comes next switches them on again.
    await fixture.start({ admission: { ...POLICY, podName: "three" } });
    await gatedAtCreation(cluster.client);
  });
});

describe("a webhook of Berth", () => {
  it("gates nodes with certificates that it makes, and with its caBundle right again after somebody changed it", async () => {
    await using fixture = await createAdmissionFixture(cluster, "own");
    await fixture.gate("net", atOnce);
    const { admission } = await webhookAt();
    await fixture.start({ admission });
    await saysCondition(fixture, "net", { type: "Admission", status: "True", reason: "AdmissionByWebhook" });
    await gatedAtCreation(cluster.client);
    const caBundle = Buffer.from(cluster.authority.certificate).toString("base64");
    const { webhooks = [] } = await cluster.client.get(mutatingWebhookConfigurations, CONFIGURATION);
    const body = webhooks.map((_, at) => ({
      op: "replace" as const,
      path: `/webhooks/${at}/clientConfig/caBundle`,
      value: caBundle,
    }));
    await cluster.client.patch(mutatingWebhookConfigurations, CONFIGURATION, { type: "json", body });
    await eventually(async () => {
      const found = await cluster.client.get(mutatingWebhookConfigurations, CONFIGURATION);
      for (const { clientConfig } of found.webhooks ?? []) expect(clientConfig.caBundle).not.toBe(caBundle);
    });
    await gatedAtCreation(cluster.client);
    await cluster.client.delete(mutatingWebhookConfigurations, CONFIGURATION);
    await gatedAtCreation(cluster.client);
  });

  it("N-B1 that cannot be reached lets nodes in, and they are gated within two seconds", async () => {
    await using fixture = await createAdmissionFixture(cluster, "down");
    await fixture.gate("net", atOnce);
    const { admission, port } = await webhookAt();
    await using link = await startTcpProxy({ target: { host: "127.0.0.1", port } });
    await fixture.start({ admission: { ...admission, spec: { ...admission.spec, url: link.url } } });
    await gatedAtCreation(cluster.client);
    link.resetAll();
    link.refuse();
    const tookMs = await quickest(2000, async (attempt) => {
      const made = await fixture.add(`n${attempt}`);
      const began = performance.now();
      expect(hasTaint(made)).toBe(false);
      await fixture.held(`n${attempt}`);
      return performance.now() - began;
    });
    expect(tookMs).toBeLessThan(2000);
    link.pass();
    await gatedAtCreation(cluster.client);
  });

  it("that is away keeps nodes out with Fail", async () => {
    await using fixture = await createAdmissionFixture(cluster, "away-fail");
    await fixture.gate("net", atOnce);
    const { admission } = await webhookAt({ failurePolicy: "Fail" });
    const berth = await fixture.start({ admission });
    await gatedAtCreation(cluster.client);
    await berth[Symbol.asyncDispose]();
    await expect(fixture.add("n")).rejects.toThrow(/failed calling webhook/);
    await fixture.start({ admission });
    await gatedAtCreation(cluster.client);
  });

  it.skipIf(!hasPolicies)("gives way to policies, and takes what it had set up away", async () => {
    await using fixture = await createAdmissionFixture(cluster, "change");
    await fixture.gate("net", atOnce);
    const { admission } = await webhookAt();
    const first = await fixture.start({ admission });
    await gatedAtCreation(cluster.client);
    await first[Symbol.asyncDispose]();
    await fixture.start({ admission: POLICY });
    await eventually(async () =>
      expect((await cluster.client.list(mutatingWebhookConfigurations)).items).toEqual([]),
    );
    await gatedAtCreation(cluster.client);
  });
});

describe("DaemonSets of a namespace that asks for it", () => {
  it.each(hasPolicies ? (["Policy", "Webhook"] as const) : (["Webhook"] as const))(
    "N-B10 tolerate the gates, each once, by %s, and others are left alone",
    async (mode) => {
      await using fixture = await createAdmissionFixture(cluster, `b10-${mode.toLowerCase()}`);
      const { client } = cluster;
      const asking = `asking-${mode.toLowerCase()}`;
      const labels = { "berth.dev/tolerate-startup-gates": "true" };
      await client.create(namespaces, { metadata: { name: asking, labels } });
      await fixture.gate("net", atOnce);
      await fixture.gate("gpu", { ...atOnce, taint: { key: "b10.test/gpu" } });
      const { admission } = await webhookAt();
      await fixture.start({ admission: mode === "Policy" ? POLICY : admission });
      await gatedAtCreation(client);
      await gatedAtCreation(client, "b10.test/gpu");
      const set = (namespace: string, name: string) => ({
        metadata: { namespace, name },
        spec: {
          selector: { matchLabels: { app: name } },
          template: {
            metadata: { labels: { app: name } },
            spec: { containers: [{ name: "main", image: "registry.test/agent:1" }] },
          },
        },
      });
      const tolerated = async (namespace: string, name: string): Promise<readonly string[]> => {
        const { spec } = await client.get(daemonSets, { namespace, name });
        return (spec?.template.spec?.tolerations ?? []).map(({ key }) => key ?? "");
      };
      // That of DaemonSets is another policy, which the API server may come to know later.
      await eventually(async () => {
        const { spec } = await client.create(daemonSets, set(asking, "tried"), {
          namespace: asking,
          dryRun: true,
        });
        expect(spec?.template.spec?.tolerations).toHaveLength(2);
      });
      await client.create(daemonSets, set("default", "left"), { namespace: "default" });
      await client.create(daemonSets, set(asking, "agent"), { namespace: asking });
      const both = [originalGate.taint.key, "b10.test/gpu"].toSorted();
      expect((await tolerated(asking, "agent")).toSorted()).toEqual(both);
      expect(await tolerated("default", "left")).toEqual([]);
      // Sent once more as its author keeps it, with another image.
      for (const image of ["registry.test/agent:2", "registry.test/agent:3"]) {
        const body = {
          spec: { template: { spec: { tolerations: null, containers: [{ name: "main", image }] } } },
        };
        await client.patch(daemonSets, { namespace: asking, name: "agent" }, { type: "merge", body });
        expect((await tolerated(asking, "agent")).toSorted()).toEqual(both);
      }
      for (const [namespace, name] of [
        ["default", "left"],
        [asking, "agent"],
      ] as const)
        await client.delete(daemonSets, { namespace, name });
    },
  );
});

describe("a process", () => {
  it("N-B9 serves new certificates of a folder without a restart, and ends within two seconds", async () => {
    await using fixture = await createAdmissionFixture(cluster, "b9");
    await fixture.gate("net", atOnce);
    const { path: certificates, rotate } = await certificateFolder(fixture);
    const { admission, url } = await webhookAt({ certificates });
    const documents = [{ kind: "AdmissionServer", spec: admission.spec }];
    const ca = cluster.authority.certificate;
    const tookMs = await quickest(2000, async () => {
      await using berth = await startBerthOn(cluster, { documents, args: ["--namespace", NAMESPACE] });
      await berth.ready();
      await gatedAtCreation(cluster.client);
      const { serial } = await ask(`${url}/readyz`, { ca });
      await rotate();
      await eventually(async () => expect((await ask(`${url}/readyz`, { ca })).serial).not.toBe(serial));
      await gatedAtCreation(cluster.client);
      const began = performance.now();
      await berth[Symbol.asyncDispose]();
      const stoppedMs = performance.now() - began;
      expect(await berth.ended).toBe(0);
      return stoppedMs;
    });
    expect(tookMs).toBeLessThan(2000);
  });
});

it("an API server without policies makes Auto choose the webhook", async () => {
  const resources = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
  const off = resources.map((it) => `admissionregistration.k8s.io/v1/${it}=false`).join(",");
  await using older = await startTestCluster({
    flags: {
      "kube-apiserver": ["--feature-gates=MutatingAdmissionPolicy=false", `--runtime-config=${off}`],
    },
  });
  await installCrds(older);
  await using fixture = await createAdmissionFixture(older, "older");
  await fixture.gate("net", atOnce);
  const { admission } = await webhookAt({ mode: "Auto" });
  const berth = await fixture.start({ admission });
  await gatedAtCreation(older.client);
  expect((await older.client.list(mutatingWebhookConfigurations)).items).toHaveLength(1);
  await eventually(() => expect(berth.problems()).toEqual([]));
  const node = await addGated(fixture);
  await fixture.pod(fixture.init(node), { ready: true });
  expect(hasTaint(await fixture.free(node))).toBe(false);
});

describe("pods that name a held node", () => {
  it("I-14 are refused unless they tolerate the gate, and so are bindings, but for those of the scheduler", async () => {
    await using fixture = await createAdmissionFixture(cluster, "i14");
    const { client } = cluster;
    const { admission } = await webhookAt();
    await fixture.gate("net", { ...atOnce, directBinding: "Refuse" });
    await fixture.start({ admission });
    await fixture.addHeld("held");
    await fixture.state("held", "held", "net");
    await fixture.add("open", (it) => it.labelled({ "node-role.kubernetes.io/control-plane": "" }));
    const [held, open] = [fixture.nodeName("held"), fixture.nodeName("open")];
    const gate = { key: originalGate.taint.key, operator: "Exists" } as const;
    const make = (pod: ReturnType<typeof aPod>, dryRun = false) =>
      client.create(pods, pod.build(), { namespace: "default", dryRun });
    const refused = /startup gate cluster\/net holds the node i14-held, and the pod does not tolerate/;
    await eventually(() => expect(make(aPod("named").on(held), true)).rejects.toThrow(refused));
    await make(aPod("elsewhere").on(open));
    await make(aPod("tolerating").on(held).tolerating(gate));
    await make(aPod("of-set").on(held).ofDaemonSet("agent", "u"));
    await make(aPod("waiting"));
    await make(aPod("tolerant").tolerating(gate));
    const bind = (name: string, { by = client, dryRun = false } = {}) => {
      const target = { apiVersion: "v1", kind: "Node", name: held };
      const binding = { apiVersion: "v1", kind: "Binding", metadata: { name }, target };
      return by.create(pods, binding, { namespace: "default", name, subresource: "binding", dryRun });
    };
    // In a dry run: a pod that Berth does not know yet is not refused.
    await eventually(() => expect(bind("waiting", { dryRun: true })).rejects.toThrow(refused));
    await expect(bind("waiting")).rejects.toThrow(refused);
    await bind("tolerant");
    const user = await cluster.user("system:kube-scheduler");
    await using scheduler = cluster.connect({ user });
    await bind("waiting", { by: scheduler });
    const reason = "AdmissionByWebhook";
    await saysCondition(fixture, "net", { type: "DirectBinding", status: "True", reason });
    await client.delete(startupGates, { name: "net" });
    await eventually(async () => {
      expect((await client.list(validatingWebhookConfigurations)).items).toEqual([]);
    });
  });
});
