/** What Berth may do, and what it says when it may not, on a real API server with RBAC. */
import path from "node:path";
import { admissionServerSpec, documentOfFlag, ownerLabels, toDocuments } from "@berth/host";
import {
  clusterRoles,
  configMaps,
  customResourceDefinitions,
  type Deployment,
  daemonSets,
  deployments,
  events,
  leases,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  type Node,
  nodes,
  type PolicyRule,
  pods,
  priorityClasses,
  type Resource,
  replicaSets,
  secrets,
  serviceAccounts,
  services,
  validatingWebhookConfigurations,
} from "@berth/kube";
import {
  ARCHITECTURE_CONDITION,
  ARCHITECTURE_GATE,
  ARCHITECTURES_ANNOTATION,
  architecturePolicies,
  berthAs,
  buildDeployment,
  deschedulePolicies,
  labelRules,
  nodeFootprints,
  startupGates,
  workerPools,
  workerPoolsKind,
} from "@berth/placement";
import { createJsonLogger, systemClock } from "@berth/runtime";
import {
  type AuditFilter,
  type AuditMark,
  aNode,
  anImage,
  aPod,
  type ClusterSnapshot,
  eventually,
  findFreePort,
  REGISTRY_USER,
  startRegistry,
  type TestCluster,
} from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { hurriedClock } from "../../runtime/src/testing/hurried-clock.ts";
import { capabilityNames } from "./capability-names.ts";
import { type BerthOptions, type RunningBerth, startBerth } from "./composition.ts";
import { crds, documentKinds } from "./kinds.ts";
import type { ExtraRights } from "./manifests-rights.ts";
import {
  aDaemonSet,
  aDocument,
  among,
  becomes,
  clusterWithKinds,
  grant,
  hasPolicies,
  runPod,
} from "./testing/cluster.ts";
import { cli, itemsOf, type TestFolder, testFolder } from "./testing/harness.ts";
import { applyManifests, type Installed, installed, permissionsOf } from "./testing/installed.ts";
import { listing } from "./testing/registries.ts";
import {
  DEVICE,
  FOOTPRINTS,
  GATE,
  GATE_TAINT,
  HELD,
  heldGate,
  OWNER_KINDS,
  owned,
  ownerOf,
  POLICY,
  pullSecret,
  rightsOfFile,
  taintOf,
  untolerating,
} from "./testing/rights.ts";

const LABEL = "accelerators/one";
const namespace = "default";

let cluster: TestCluster;
let client: TestCluster["client"];
let asNew: ClusterSnapshot;
let begun: AuditMark;
beforeAll(async () => {
  cluster = await clusterWithKinds();
  client = cluster.client;
  asNew = await cluster.snapshot();
  begun = await cluster.audit.mark();
});
afterEach(() => cluster.restore(asNew));

/** What was granted to whom, by the name of the account. */
const grants = new Map<string, readonly PolicyRule[]>();

/** Whose use of rights is compared with the manifests in the end. */
async function measured(installation: string, rights?: ExtraRights): Promise<Installed> {
  const own = await installed(cluster, installation, rights);
  grants.set(own.user.name, own.rules);
  return own;
}

/** As a pod of that installation runs it. */
function start(own: Installed, options: Partial<BerthOptions>): Promise<RunningBerth> {
  const { client, installation, namespace } = own;
  const self = { apiVersion: "v1", kind: "Namespace", name: namespace, namespace };
  const lease = { namespace, name: namespace };
  return startBerth({ client, installation, namespace, self, lease, ...options });
}

const admissionOf = ({ namespace }: Installed, spec: object = {}): Pick<BerthOptions, "admission"> => ({
  admission: { spec: admissionServerSpec.parse({ bindAddress: "127.0.0.1:0", ...spec }), namespace },
});

const ruleFolder = (folder: TestFolder): Pick<BerthOptions, "labelFolder"> => ({
  labelFolder: { path: `${folder.path}/labels`, shown: "labels", options: { allowReserved: [] } },
});
const RULE_FOLDER = { [`labels/${LABEL}`]: `${DEVICE}\n` };

const nodeWith = (name: string, key = DEVICE): Node =>
  aNode(name)
    .labelled({ [key]: "x" })
    .build();

const labelled = (name: string): Promise<void> =>
  becomes(client, nodes, name, { metadata: { labels: { [LABEL]: "true" } } });

const tainted = (key: string): object => ({ taints: among(expect.objectContaining({ key })) });

/** The API server puts this taint on a new node with this label. */
const taintsNew = (label: string, key: string): Promise<void> =>
  eventually(async () =>
    expect(await client.create(nodes, nodeWith("new", label), { dryRun: true })).toMatchObject({
      spec: tainted(key),
    }),
  );

const namesOf = async (kind: Resource, of = {}): Promise<readonly (string | undefined)[]> =>
  (await client.list(kind, of)).items.map(({ metadata }) => metadata?.name);

/** What Berth leaves in admission when it ends: the next one takes it over. */
async function clearAdmission(): Promise<void> {
  await client.deleteCollection(mutatingAdmissionPolicyBindings, {});
  await client.deleteCollection(mutatingAdmissionPolicies, {});
  await client.deleteCollection(mutatingWebhookConfigurations, {});
}

describe("the manifests", () => {
  it("I-1 I-6 are accepted by the API server as they are, twice, and give exactly the rights that are needed", async (context) => {
    context.skip(!hasPolicies);
    await using folder = await testFolder({ ...RULE_FOLDER, "labels/bad key": "x\n", "gates.yaml": GATE });
    await using own = await measured("rights");
    await client.create(nodes, nodeWith("rights-1"));
    const rule = { match: { all: [{ key: DEVICE }] }, labels: [{ key: "example.com/ruled" }] };
    await client.create(labelRules, aDocument(labelRules, "rights", rule));
    // It tolerates the gate, as it has to.
    const agent = aDaemonSet("rights", { tolerations: [{ operator: "Exists" }] });
    const { metadata: made } = await client.create(daemonSets, agent, { namespace });
    await using berth = await start(own, {
      ...ruleFolder(folder),
      ...admissionOf(own),
      config: [{ path: `${folder.path}/gates.yaml`, shown: "gates.yaml" }],
      // What it looks at every fifteen seconds, every second.
      clock: {
        ...systemClock,
        schedule: (delayMs, callback) => systemClock.schedule(delayMs === 15_000 ? 1000 : delayMs, callback),
      },
      identity: "rights-0",
    });
    await labelled("rights-1");
    await eventually(async () => {
      const found = await client.list(events, { namespace: own.namespace });
      expect(found.items.map(({ reason }) => reason)).toContain("InvalidLabelKey");
    });
    await becomes(client, labelRules, "rights", { status: { matchedNodes: 1, labelledNodes: 1 } });
    // Backfill would taint a new node later: the policy must exist, and taint it at its creation.
    await becomes(client, mutatingAdmissionPolicies, "berth-rights-gate-rights", {});
    await taintsNew(DEVICE, GATE_TAINT);
    // Policies and bindings are written together: no binding may be refused because its policy is new.
    await clearAdmission();
    for (const kind of [mutatingAdmissionPolicies, mutatingAdmissionPolicyBindings] as readonly Resource[])
      await becomes(client, kind, "berth-rights-gate-rights", {});
    // This node was there before: that it is idle was asked, and its pods are watched.
    await becomes(client, nodes, "rights-1", { spec: tainted(GATE_TAINT) });
    const pod = aPod("rights-pod").on("rights-1").labelled({ app: "rights" });
    await runPod(client, pod.ofDaemonSet("rights", made?.uid));
    await becomes(client, nodes, "rights-1", { spec: expect.not.objectContaining(tainted(GATE_TAINT)) });
    await becomes(client, leases, "berth-rights/berth-rights", { spec: { holderIdentity: "rights-0" } });
    await folder.write("kubeconfig", cluster.kubeconfig({ user: own.user }));
    const explain = "explain node rights-1 --kubeconfig kubeconfig";
    const explained = await folder.berth(`${explain} --namespace berth-rights --installation rights`);
    expect(explained).toMatchObject({ code: 0, stderr: "" });
    await client.create(startupGates, heldGate());
    await taintsNew(HELD, HELD);
    for (const name of ["direct-binding", "documents"])
      await becomes(client, validatingWebhookConfigurations, `berth-rights-${name}`, {});
    await client.delete(startupGates, { name: "held" });
    await eventually(async () => {
      expect(await namesOf(mutatingAdmissionPolicies)).not.toContain("berth-rights-gate-held");
      expect(await namesOf(validatingWebhookConfigurations)).toEqual([]);
    });
    expect(berth.problems()).toEqual([]);
  });

  it("S-8 for labels alone are enough for labels, and allow no patch of a pod", async () => {
    await using folder = await testFolder(RULE_FOLDER);
    await using own = await installed(cluster, "narrow", { capabilities: ["labels"] });
    await client.create(nodes, nodeWith("narrow-1"));
    await using berth = await start(own, { ...ruleFolder(folder), ...admissionOf(own) });
    await labelled("narrow-1");
    expect(berth.problems()).toEqual([]);
    for (const resource of [pods, daemonSets] as readonly Resource[])
      await expect(
        own.client.patch(resource, { namespace, name: "none" }, { type: "merge", body: {} }),
      ).rejects.toMatchObject({ failure: { kind: "forbidden" } });
  });

  it("for architecture policies give exactly the rights that are needed, pull secrets of pods among them when asked for", async () => {
    await using folder = await testFolder({ "policies.yaml": POLICY });
    await using own = await measured("architecture", { flags: new Set(["pullSecrets"]) });
    await using registry = await startRegistry({ users: [REGISTRY_USER] });
    const { reference } = await registry.push(anImage("team/private:1").platforms("linux/arm64"));
    await client.create(nodes, nodeWith("rights-2"));
    await client.create(daemonSets, untolerating("rights-agent"), { namespace });
    // These pods are older than the webhook, so the API server never asked Berth about them.
    await client.create(secrets, pullSecret(reference), { namespace });
    const imagePullSecrets = [{ name: "rights-pull" }];
    const aRightsPod = (name: string) => aPod(name).labelled({ app: "rights" });
    for (const pod of [
      aRightsPod("rights-private")
        .image(reference)
        .with((it) => ({ ...it, spec: { containers: [], ...it.spec, imagePullSecrets } })),
      aRightsPod("rights-nowhere")
        .annotated({ [ARCHITECTURES_ANNOTATION]: "amd64" })
        .selecting({ "kubernetes.io/arch": "arm64" }),
      // It finds its pull secret by its service account.
      aRightsPod("rights-account").image(reference),
    ])
      await client.create(pods, pod.build(), { namespace });
    // Berth finds a certificate that is none.
    const certificate = `${own.namespace}-webhook-tls`;
    const labels = {
      ...ownerLabels(berthAs("architecture"), "startup-gate"),
      "app.kubernetes.io/managed-by": "berth",
    };
    const type = "kubernetes.io/tls";
    const data = { "tls.crt": "", "tls.key": "" };
    await client.create(secrets, {
      metadata: { namespace: own.namespace, name: certificate, labels },
      type,
      data,
    });
    const nothing = { mode: "Affinity", podSelector: { matchLabels: { app: "none" } } };
    await client.create(architecturePolicies, aDocument(architecturePolicies, "rights-nothing", nothing));
    {
      await using berth = await start(own, {
        ...admissionOf(own, { mode: "Webhook" }),
        config: [{ path: `${folder.path}/policies.yaml`, shown: "policies.yaml" }],
        registries: await listing(registry),
      });
      const tolerations = among(taintOf("arm64"));
      await becomes(client, pods, "default/rights-private", { spec: { tolerations } });
      const conditions = among(expect.objectContaining({ type: ARCHITECTURE_CONDITION }));
      await becomes(client, pods, "default/rights-nowhere", { status: { conditions } });
      await becomes(client, daemonSets, "default/rights-agent", {
        spec: { template: { spec: { tolerations } } },
      });
      await becomes(client, nodes, "rights-2", { spec: { taints: among(taintOf("amd64")) } });
      await becomes(client, mutatingWebhookConfigurations, "berth-architecture-architecture", {});
      await becomes(client, architecturePolicies, "rights-nothing", {
        status: { conditions: expect.anything() },
      });
      const filled = { "tls.crt": expect.stringMatching(/./) };
      await becomes(client, secrets, `${own.namespace}/${certificate}`, { data: filled });
      await eventually(() => expect(berth.problems()).toEqual([]));
    }
    // What is known of images is kept at the end at the latest.
    const kept = await namesOf(configMaps, { namespace: own.namespace });
    expect(kept).toContain("berth-architecture-image-facts-0");
  });

  it("for footprints and WorkerPools give exactly the rights that are needed", async () => {
    await using folder = await testFolder({ "footprints.yaml": FOOTPRINTS });
    await using own = await measured("footprint", await rightsOfFile(`${folder.path}/footprints.yaml`));
    const grouped = {
      workloads: [{ podSelector: { matchLabels: { app: "grouped" } } }],
      node: { label: { key: "example.com/grouped" }, claims: { annotationPrefix: "example.com/grouped." } },
      group: { by: "OwnerUID", owner: { group: "example.com", kind: "Top" } },
    };
    await client.create(nodeFootprints, aDocument(nodeFootprints, "grouped", grouped));
    for (const [at, [apiVersion, kind]] of OWNER_KINDS.entries()) {
      const gone = { metadata: { name: "gone", uid: `00000000-0000-4000-8000-00000000000${at}` } };
      const pod = aPod(`rights-of-${at}`).labelled({ app: "grouped" });
      await client.create(pods, owned(pod, ownerOf(apiVersion, kind, gone)));
    }
    await client.create(nodes, aNode("rights-3").build());
    await client.create(daemonSets, untolerating("rights-atelet"), { namespace });
    await using berth = await start(own, {
      config: [{ path: `${folder.path}/footprints.yaml`, shown: "footprints.yaml" }],
    });
    const pool = { namespace, name: "rights" };
    const stopped = { namespace, name: "rights-stopped" };
    const spec = { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" } as const;
    const theirs = { ...spec, ateomImage: "evil.test/ateom:1" };
    await client.create(workerPools, { metadata: stopped, spec: theirs });
    await becomes(client, workerPools, "default/rights-stopped", {
      status: { conditions: [{ type: "Allowed", status: "False", reason: "WorkerPoolNotAllowed" }] },
    });
    await client.delete(workerPools, stopped);
    const { metadata } = await client.create(workerPools, { metadata: pool, spec });
    const made = { namespace, name: "rights-deployment" };
    const deployment = await eventually(() => client.get(deployments, made));
    // As the Deployment controller would, which does not run here.
    const { selector = {}, template = {} } = deployment.spec ?? {};
    const ofDeployment = { ...pool, ownerReferences: [ownerOf("apps/v1", "Deployment", deployment)] };
    const replicas = { metadata: ofDeployment, spec: { replicas: 0, selector, template } };
    const replicaSet = await client.create(replicaSets, replicas);
    const ateom = aPod("rights-ateom").labelled({ "ate.dev/worker-pool": "rights" });
    await client.create(pods, owned(ateom, ownerOf("apps/v1", "ReplicaSet", replicaSet)));
    const marks = {
      labels: { "ate.dev/atelet": "true" },
      annotations: { [`ate.dev/claim.${metadata?.uid ?? ""}`]: expect.anything() },
    };
    await becomes(client, nodes, "rights-3", { metadata: marks });
    await becomes(client, daemonSets, "default/rights-atelet", {
      spec: { template: { spec: { nodeSelector: { "ate.dev/atelet": "true" } } } },
    });
    await becomes(client, nodeFootprints, "grouped", { status: { conditions: expect.anything() } });
    await client.delete(workerPools, pool);
    await eventually(async () =>
      expect(await namesOf(deployments, { namespace })).not.toContain("rights-deployment"),
    );
    await client.delete(pods, { namespace, name: "rights-ateom" }, { gracePeriodSeconds: 0 });
    await eventually(async () => expect(await namesOf(workerPools, { namespace })).toEqual([]));
    expect(berth.problems()).toEqual([]);
  });

  it("D-G23 for descheduling give exactly the rights that are needed", async () => {
    await using own = await measured("deschedule");
    const priorityThreshold = { name: "rights" };
    const spec = { keys: ["example.com/rights"], for: "0s", requireFit: "False", priorityThreshold };
    await client.create(priorityClasses, { metadata: priorityThreshold, value: 1_000 });
    await client.create(deschedulePolicies, aDocument(deschedulePolicies, "rights", spec));
    await client.create(nodes, aNode("rights-3").build());
    const pod = aPod("rights-lost").selecting({ "example.com/rights": "true" });
    const owner = ownerOf("apps/v1", "ReplicaSet", { metadata: { name: "gone", uid: "rights-lost" } });
    await client.create(pods, owned(pod, owner));
    // It evicts nothing in its first ten seconds.
    await using berth = await start(own, { clock: hurriedClock(10) });
    await becomes(client, pods, "default/rights-lost", {
      metadata: { deletionTimestamp: expect.anything() },
    });
    await becomes(client, deschedulePolicies, "rights", { status: { conditions: expect.anything() } });
    expect(berth.problems()).toEqual([]);
  });

  it("I-12 with a patch of the pod template put Berth behind the Service of nodetaintshandler, with its account, in kube-system", async () => {
    const namespace = "kube-system";
    // What the original has there.
    await client.create(serviceAccounts, { metadata: { namespace, name: "nodetaintshandler" } });
    const selector = { app: "nodetaintshandler" };
    const service = { namespace, name: "node-startup-webhook" };
    const ports = [{ port: 443, targetPort: 8443 }];
    await client.create(services, { metadata: service, spec: { selector, ports } });
    const example = path.join(import.meta.dirname, "../../../examples/startup-gate/nodetaintshandler");
    const given = ["--config", `${example}.yaml`, "--patch", `${example}-pod.yaml`, "--image", "berth:1"];
    const shown = await cli(["manifests", "-n", namespace, ...given, "-o", "json"]);
    const items = itemsOf(shown);
    expect(items.filter(({ kind }) => kind === "Namespace" || kind === "ServiceAccount")).toEqual([]);
    await applyManifests(client, items);
    // As the controllers of Deployments would, which do not run here.
    const { spec } = await client.get(deployments, { namespace, name: "berth" });
    const { metadata, ...template } = spec?.template ?? {};
    await client.create(pods, { ...template, metadata: { ...metadata, namespace, name: "berth-pod" } });
    const found = await client.list(pods, { namespace, labelSelector: "app=nodetaintshandler" });
    expect(found.items).toMatchObject([
      { metadata: { name: "berth-pod" }, spec: { serviceAccountName: "nodetaintshandler" } },
    ]);
    const [container] = found.items[0]?.spec?.containers ?? [];
    expect(container?.ports?.map(({ containerPort }) => containerPort)).toContain(8443);
    expect(container?.volumeMounts).toContainEqual({ name: "tls", mountPath: "/tls", readOnly: true });
    const user = await cluster.user("system:serviceaccount:kube-system:nodetaintshandler");
    await using asAccount = cluster.connect({ user });
    await eventually(() => asAccount.list(nodes));
  });
});

describe.skipIf(!hasPolicies)("while the API server refuses policies", () => {
  it("I-1 I-2 I-5 startup gates use the webhook, other capabilities go on, and policies return", async () => {
    await using own = await measured("refused");
    await client.create(startupGates, heldGate());
    const name = own.namespace;
    const { rules } = await client.get(clusterRoles, { name });
    const mayWritePolicies = async (may: boolean): Promise<void> => {
      const narrowed = rules?.flatMap((rule): readonly PolicyRule[] => {
        if (!rule.resources?.includes("mutatingadmissionpolicies")) return [rule];
        const webhooks = { ...rule, resources: ["mutatingwebhookconfigurations"] };
        return [webhooks, { ...rule, verbs: ["list", "watch"] }];
      });
      const body = { rules: may ? rules : narrowed };
      await client.patch(clusterRoles, { name }, { type: "merge", body });
      const policy = { metadata: { name: "tried" } };
      await eventually(() =>
        expect(own.client.create(mutatingAdmissionPolicies, policy, { dryRun: true })).rejects.toMatchObject({
          failure: { kind: may ? "invalid" : "forbidden" },
        }),
      );
    };
    await mayWritePolicies(false);
    const run = async (mode: string): Promise<RunningBerth> => {
      const bindAddress = `127.0.0.1:${await findFreePort()}`;
      return start(own, {
        ...admissionOf(own, { mode, bindAddress, url: `https://${bindAddress}` }),
        clock: hurriedClock(4),
        healthProbeBindAddress: "127.0.0.1:0",
        metricsBindAddress: "127.0.0.1:0",
      });
    };
    {
      await using berth = await run("Policy");
      const component = "startup-gate-admission";
      await eventually(async () => {
        const answer = await fetch(`${berth.healthUrl}/readyz?verbose`);
        expect(answer.status).toBe(200);
        expect(await answer.text()).toMatch(
          new RegExp(`^\\[!\\]${component}: .* on "mutatingadmissionpolicies`, "m"),
        );
      });
      const metrics = await (await fetch(`${berth.metricsUrl}/metrics`)).text();
      expect(metrics).toContain(`berth_component_problem{component="${component}"} 1\n`);
      expect(metrics).toContain('berth_component_problem{component="nodes"} 0\n');
    }
    await using berth = await run("Auto");
    const says = (reason: string, message: RegExp): Promise<void> => {
      const said = { type: "Admission", status: "True", reason, message: expect.stringMatching(message) };
      const conditions = among(expect.objectContaining(said));
      return becomes(client, startupGates, "held", { status: { conditions } });
    };
    await taintsNew(HELD, HELD);
    await says("AdmissionByWebhook", /because .* on "mutatingadmissionpolicies/);
    await mayWritePolicies(true);
    await says("AdmissionByPolicy", /the API server/);
    await eventually(async () => {
      expect(await namesOf(mutatingAdmissionPolicyBindings)).toHaveLength(2);
      expect(await namesOf(mutatingWebhookConfigurations)).toEqual([]);
    });
    await taintsNew(HELD, HELD);
    await eventually(() => expect(berth.problems()).toEqual([]));
  });
});

describe("without a right", () => {
  it.each([
    {
      to: "read",
      has: "get nodes",
      problems: expect.arrayContaining([
        expect.stringMatching(/(?:list|watch) nodes.*forbidden|authorization/),
      ]),
      lacks: "list watch patch nodes",
    },
    {
      to: "write",
      has: "get list watch nodes",
      problems: [expect.stringContaining('verb "patch" on "nodes"')],
      lacks: "patch nodes",
    },
  ])(
    "to $to nodes names what is missing, and goes on once it is granted",
    async ({ to, has, problems, lacks }) => {
      await using folder = await testFolder(RULE_FOLDER);
      await client.create(nodes, nodeWith(`${to}-1`));
      await using asUser = cluster.connect({ user: await cluster.user(to) });
      await using _has = await grant(client, to, has);
      await using berth = await startBerth({ client: asUser, ...ruleFolder(folder), installation: to });
      await eventually(() => expect(berth.problems()).toEqual(problems));
      const { metadata } = await client.get(nodes, { name: `${to}-1` });
      expect(metadata?.labels).not.toHaveProperty([LABEL]);
      await using _granted = await grant(client, to, lacks);
      await labelled(`${to}-1`);
      await eventually(() => expect(berth.problems()).toEqual([]));
    },
  );

  it("I-10 of k8s-auto-labeller's own role, says once how to grant patch, and labels once that is done", async () => {
    await using folder = await testFolder(RULE_FOLDER);
    for (const name of ["labeller-1", "labeller-2"]) await client.create(nodes, nodeWith(name));
    const name = "system:serviceaccount:kube-system:auto-labeller";
    await using asUser = cluster.connect({ user: await cluster.user(name) });
    await using _theirs = await grant(client, name, "list watch update get nodes");
    const lines: string[] = [];
    const log = createJsonLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });
    const options = { client: asUser, ...ruleFolder(folder), installation: "labeller", log };
    await using berth = await startBerth(options);
    await eventually(() => expect(berth.problems()).toHaveLength(1));
    const role = "berth-patch-nodes";
    const granting = (): readonly object[] =>
      lines.map((line) => JSON.parse(line) as { readonly grant?: string }).filter(({ grant }) => grant);
    await eventually(() => expect(granting()).toHaveLength(1));
    const command =
      `kubectl create clusterrole ${role} --verb=patch --resource=nodes && ` +
      `kubectl create clusterrolebinding ${role} --clusterrole=${role} --serviceaccount=kube-system:auto-labeller`;
    expect(granting()).toMatchObject([{ level: "warn", grant: command }]);
    await using _granted = await grant(client, name, "patch nodes");
    await labelled("labeller-1");
    await labelled("labeller-2");
  });

  it("to write nodes still forgets those that are gone", async () => {
    const match = { all: [{ key: DEVICE }] };
    const labels = [{ key: "counter.example.com/out" }];
    await client.create(labelRules, aDocument(labelRules, "counter", { match, labels }));
    await client.create(nodes, nodeWith("counter-1"));
    await using asUser = cluster.connect({ user: await cluster.user("counter") });
    await using _reads = await grant(
      client,
      "counter",
      "get list watch nodes",
      "get list watch labelrules.berth.dev",
      "patch labelrules/status.berth.dev",
    );
    await using berth = await startBerth({ client: asUser, installation: "counter" });
    await eventually(() => expect(berth.problems()).toHaveLength(1));
    await becomes(client, labelRules, "counter", { status: { matchedNodes: 1 } });
    await client.delete(nodes, { name: "counter-1" });
    await becomes(client, labelRules, "counter", { status: { matchedNodes: 0 } });
  });
});

const POOLS = {
  workerPoolUid: false,
  allow: { images: ["registry.test/"], namespaces: [namespace], priorityClasses: [] },
};

describe("a program with Berth's token", () => {
  it("S-8 S-9 can write the fields that Berth writes, and no other", async () => {
    const { documents } = toDocuments([], documentKinds, [documentOfFlag(workerPoolsKind, POOLS)]);
    const rights = { documents };
    await using own = await installed(cluster, "confined", rights);
    const thief = own.client;
    const of = { namespace, name: "victim" };
    const gates = [{ name: ARCHITECTURE_GATE }, { name: "example.com/theirs" }];
    const pod = aPod("victim").with((it) => ({
      ...it,
      metadata: { ...it.metadata, finalizers: ["example.com/theirs"] },
      spec: { containers: [], ...it.spec, schedulingGates: gates },
    }));
    await client.create(pods, pod.build());
    await client.create(daemonSets, untolerating("victim"), { namespace });
    // The API server fills in what it does not ask for.
    await client.create(deployments, aDaemonSet("victim"), { namespace });
    await client.create(nodes, aNode("victim").build());
    const spec = { replicas: 0, ateomImage: "registry.test/a:1" };
    await client.create(workerPools, { metadata: of, spec });
    const uid = "6d1e4a52-7f0a-4d49-8a51-0d2f1f1f1f1f";
    const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name: "p", uid };
    const template = (spec: object): object => ({ spec: { template: { spec } } });
    const image = { containers: [{ name: "main", image: "evil.test/app:1" }] };
    const hostPath = { name: "root", hostPath: { path: "/" } };
    const attacks: readonly (readonly [Resource, object, "status"?])[] = [
      [pods, { spec: { containers: [{ name: "main", image: "evil.test/app:1" }] } }],
      [pods, { spec: { activeDeadlineSeconds: 1 } }],
      [pods, { spec: { schedulingGates: [{ name: "example.com/theirs", $patch: "delete" }] } }],
      [pods, { metadata: { labels: { app: "stolen" } } }],
      [pods, { metadata: { annotations: { "example.com/a": "b" } } }],
      [pods, { metadata: { finalizers: ["example.com/new"] } }],
      [pods, { metadata: { ownerReferences: [owner] } }],
      [pods, { metadata: { labels: { app: "stolen" } } }, "status"],
      [pods, { status: { phase: "Running" } }, "status"],
      [pods, { status: { conditions: [{ type: "Ready", status: "True" }] } }, "status"],
      [daemonSets, template(image)],
      [daemonSets, template({ volumes: [hostPath] })],
      [daemonSets, template({ hostNetwork: true })],
      [daemonSets, template({ serviceAccountName: "admin" })],
      [daemonSets, { spec: { template: { metadata: { labels: { more: "x" } } } } }],
      [daemonSets, { spec: { updateStrategy: { type: "OnDelete" } } }],
      [nodes, { spec: { podCIDR: "10.9.0.0/24", podCIDRs: ["10.9.0.0/24"] } }],
      [nodes, { spec: { providerID: "evil://1" } }],
      [nodes, { metadata: { finalizers: ["example.com/new"] } }],
      [deployments, template(image)],
      [deployments, { spec: { replicas: 0 } }],
      [deployments, { metadata: { ownerReferences: [owner] }, ...template(image) }],
      [workerPools, { spec: { ateomImage: "registry.test/root:1" } }],
      [workerPools, { metadata: { labels: { a: "b" } } }],
    ];
    const attack = async ([resource, body, subresource]: (typeof attacks)[number]): Promise<void> => {
      const name = resource === nodes ? { name: "victim" } : of;
      const type = resource === workerPools ? "merge" : "strategic";
      const options = { ...(subresource && { subresource }), dryRun: true };
      await expect(thief.patch(resource, name, { type, body }, options)).rejects.toMatchObject(refused);
    };
    const refused = {
      failure: { kind: "invalid" },
      message: expect.stringContaining("Berth's account may not"),
    };
    // The API server knows a policy a moment after it was made.
    await eventually(() => attack([pods, { spec: { activeDeadlineSeconds: 1 } }]));
    for (const one of attacks) await attack(one);
    await expect(thief.delete(deployments, of, { dryRun: true })).rejects.toMatchObject(refused);

    const pool = { name: "p", namespace, uid, spec: { replicas: 1, ateomImage: "registry.test/ateom:1" } };
    const body = buildDeployment(pool, POOLS);
    const make = (change: object, more: object = {}): Promise<unknown> => {
      const { template } = body.spec;
      const made = { ...body.spec, template: { ...template, spec: { ...template.spec, ...change } } };
      const metadata = { namespace, ...body.metadata, ...more };
      return thief.create(deployments, { ...body, metadata, spec: made } as Deployment, { dryRun: true });
    };
    const [worker] = body.spec.template.spec?.containers ?? [];
    const volumes = body.spec.template.spec?.volumes ?? [];
    await make({});
    const forgeries: readonly (readonly [object, object?])[] = [
      [{ containers: [{ ...worker, image: "registry.test.evil/ateom:1" }] }],
      [{ containers: [{ ...worker, command: ["sh"] }] }],
      [{ containers: [{ ...worker, args: ["sh"] }] }],
      [{ containers: [worker, { ...worker, name: "second" }] }],
      [{ initContainers: [{ name: "init", image: "registry.test/app:1" }] }],
      [{ volumes: [...volumes, hostPath] }],
      [{ hostPID: true }],
      [{ serviceAccountName: "admin" }],
      [{ priorityClassName: "system-node-critical" }],
      [{}, { namespace: "kube-system" }],
      [{}, { ownerReferences: [] }],
    ];
    for (const one of forgeries) await expect(make(...one)).rejects.toMatchObject(refused);
  });
});

it("B12 a CRD that is installed while Berth runs is seen through the watch of CRDs", async () => {
  await using own = await measured("rights");
  const crd = crds().find(({ spec }) => spec.names.kind === labelRules.kind);
  await client.create(nodes, nodeWith("rights-1"));
  await client.delete(customResourceDefinitions, { name: crd?.metadata?.name ?? "" });
  await eventually(() => expect(client.list(labelRules)).rejects.toThrow(/not found/));
  const mark = await cluster.audit.mark();
  const asked = (of: AuditFilter): Promise<number> =>
    cluster.audit.countSince(mark, { user: own.user.name, ...of });
  await using _berth = await start(own, {
    identity: "rights-0",
    // The first look at discovery, which opens the watch, is soon. Without the watch, the second is in an hour.
    clock: {
      ...systemClock,
      schedule: (delayMs, callback) =>
        systemClock.schedule({ 5_000: 200 }[delayMs] ?? (delayMs < 10_000 ? delayMs : 3_600_000), callback),
    },
  });
  const watched = { verb: "watch", resource: "customresourcedefinitions.apiextensions.k8s.io" };
  await eventually(async () => expect(await asked(watched)).toBe(1));
  if (crd !== undefined) await client.apply(customResourceDefinitions, crd);
  const rule = { match: { all: [{ key: DEVICE }] }, labels: [{ key: LABEL }] };
  await eventually(() => client.create(labelRules, aDocument(labelRules, "late", rule)));
  await labelled("rights-1");
  expect(await asked(watched)).toBe(1);
});

/** What the audit log does not show: the API server asks for it by itself when an object is applied that is not there. */
const CHECKED_BY_THE_SERVER: ReadonlySet<string> = new Set([
  "create deployments.apps",
  "create mutatingadmissionpolicybindings.admissionregistration.k8s.io",
  "create mutatingwebhookconfigurations.admissionregistration.k8s.io berth-startup-gate",
  "create validatingwebhookconfigurations.admissionregistration.k8s.io berth-direct-binding",
  // Counts an equal event, ten seconds after the first at the soonest: a test of `events.ts` shows it.
  "patch events.events.k8s.io",
  // To block the deletion of an owner.
  "update workerpools.ate.dev/finalizers",
]);

// The stories above that are skipped use the rights on policies.
describe.skipIf(!hasPolicies)("what the manifests grant", () => {
  it("S-8 is used, every verb of it, and nothing else is asked for", async () => {
    const entries = (await cluster.audit.entriesSince(begun)).filter(({ user }) => grants.has(user));
    // One is without rights on purpose.
    const denied = entries.filter(({ code, user }) => code === 403 && !user.endsWith("berth-refused"));
    expect(denied.map(({ verb, requestUri }) => `${verb} ${requestUri}`)).toEqual([]);

    const installations = ["rights", "refused", ...capabilityNames.optional].join("|");
    const installation = new RegExp(` berth-(?:${installations})(?=-|$)`);
    const shortened = (one: string): string => one.replace(installation, " berth");
    const used = new Set(
      entries.flatMap(({ verb, resource, subresource, name }) => {
        const key = `${verb} ${resource}${subresource && `/${subresource}`}`;
        return [key, shortened(`${key} ${name}`)];
      }),
    );
    // What is watched is listed first where the API server does not stream what there is (before 1.34).
    for (const key of used) if (key.startsWith("watch ")) used.add(key.replace("watch", "list"));
    const unused = permissionsOf([...grants.values()].flat()).filter(
      (alternatives) => !alternatives.some((one) => used.has(shortened(one))),
    );
    expect(new Set(unused.map(([one = ""]) => shortened(one)))).toEqual(CHECKED_BY_THE_SERVER);
  });
});
