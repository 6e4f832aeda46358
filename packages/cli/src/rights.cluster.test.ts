/** What Berth may do, and what it says when it may not, on a real API server with RBAC. Long because all roles are tried by the same means. */
import path from "node:path";
import {
  type ClusterRole,
  clusterRoleBindings,
  clusterRoles,
  configMaps,
  customResourceDefinitions,
  type DaemonSet,
  type Deployment,
  daemonSets,
  defineResource,
  deployments,
  events,
  type KubeClient,
  type KubeObject,
  leases,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  type PolicyRule,
  pods,
  type ReplicaSet,
  type Resource,
  replicaSets,
  roleBindings,
  roles,
  secrets,
  serviceAccounts,
  services,
} from "@berth/kube";
import {
  ARCHITECTURE_CONDITION,
  ARCHITECTURES_ANNOTATION,
  crds,
  labelRules,
  startupGates,
  workerPools,
} from "@berth/placement";
import { createJsonLogger } from "@berth/runtime";
import {
  aNode,
  anImage,
  aPod,
  eventually,
  findFreePort,
  REGISTRY_USER,
  sharedTestCluster,
  startRegistry,
  type TestCluster,
} from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { type BerthOptions, type RunningBerth, startBerth } from "./composition.ts";
import { admissionServerSpec } from "./config/admission-server.ts";
import { loadSettings } from "./config/settings.ts";
import { assembleReadDocuments } from "./document-session.ts";
import { footprintDocuments } from "./footprint/footprints.ts";
import { installManifests } from "./manifests.ts";
import { type ExtraRights, rightsOf } from "./manifests-rights.ts";
import { cli, type TestFolder, testFolder } from "./testing/harness.ts";

const DEVICE = "example.com/device";
const LABEL = "accelerators/one";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

const RESOURCES: readonly Resource[] = [
  namespaces,
  serviceAccounts,
  clusterRoles,
  clusterRoleBindings,
  roles,
  roleBindings,
  configMaps,
  deployments,
  services,
];

function resourceFor({ kind, apiVersion }: KubeObject): Resource {
  const found = RESOURCES.find((it) => it.kind === kind && apiVersion?.endsWith(it.version));
  if (found === undefined) throw new Error(`no resource for ${kind}`);
  return found;
}

const ruleFolder = (folder: TestFolder): Pick<BerthOptions, "labelFolder"> => ({
  labelFolder: { path: `${folder.path}/labels`, shown: "labels", options: { allowReserved: [] } },
});

async function nodeWithDevice(client: KubeClient, name: string): Promise<AsyncDisposable> {
  await client.create(
    nodes,
    aNode(name)
      .labelled({ [DEVICE]: "x" })
      .build(),
  );
  return { [Symbol.asyncDispose]: () => client.delete(nodes, { name }) };
}

/** A LabelRule for nodes with this label; resolves once the server serves the kind. */
async function ruleFor(client: KubeClient, key: string): Promise<AsyncDisposable> {
  const spec = { match: { all: [{ key }] }, labels: [{ key: "example.com/ruled" }] };
  const object = { apiVersion: "berth.dev/v1alpha1", kind: "LabelRule", metadata: { name: "rights" }, spec };
  await eventually(() => client.create(labelRules, object));
  return { [Symbol.asyncDispose]: () => client.delete(labelRules, { name: "rights" }) };
}

async function expectLabel(name: string, value: string | undefined): Promise<void> {
  await eventually(async () => {
    const node = await cluster.client.get(nodes, { name });
    expect(node.metadata?.labels?.[LABEL]).toBe(value);
  });
}

/** Gives a user a ClusterRole of its own until disposed. */
async function grant(user: string, name: string, rules: ClusterRole["rules"]): Promise<AsyncDisposable> {
  const { client } = cluster;
  const rbac = "rbac.authorization.k8s.io";
  await client.create(clusterRoles, { metadata: { name }, rules: rules ?? [] });
  await client.create(clusterRoleBindings, {
    metadata: { name },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name },
    subjects: [{ apiGroup: rbac, kind: "User", name: user }],
  });
  return {
    async [Symbol.asyncDispose]() {
      await client.delete(clusterRoleBindings, { name });
      await client.delete(clusterRoles, { name });
    },
  };
}

const GATE_TAINT = "readiness.k8s.io/rights";
const GATE = `apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: rights}
spec:
  nodeSelector: {matchLabels: {${DEVICE}: x}}
  taint: {key: ${GATE_TAINT}}
  stableFor: 0s
  signals:
    daemonSets: [{namespace: default, name: rights}]
`;

/** What the gate waits for. It tolerates the gate, as it has to. */
async function gatedDaemonSet(client: KubeClient): Promise<AsyncDisposable> {
  const labels = { app: "rights" };
  const containers = [{ name: "main", image: "registry.test/app:1" }];
  const tolerations = [{ operator: "Exists" }];
  await client.create(daemonSets, {
    metadata: { name: "rights", namespace: "default" },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers, tolerations } },
    },
  });
  const of = { namespace: "default", name: "rights" };
  return { [Symbol.asyncDispose]: () => client.delete(daemonSets, of) };
}

/** The pod of that DaemonSet on the node, started and ready. */
async function readyPod(client: KubeClient, node: string): Promise<AsyncDisposable> {
  const of = { namespace: "default", name: "rights-pod" };
  const { metadata } = await client.get(daemonSets, { namespace: "default", name: "rights" });
  const pod = aPod("rights-pod").on(node).labelled({ app: "rights" }).ofDaemonSet("rights", metadata?.uid);
  await client.create(pods, pod.build());
  const now = new Date().toISOString();
  const started = { name: "main", ready: true, restartCount: 0, image: "x", imageID: "x" };
  const containerStatuses = [{ ...started, state: { running: { startedAt: now } } }];
  const { status } = pod.ready().build();
  await client.patch(
    pods,
    of,
    { type: "merge", body: { status: { ...status, containerStatuses } } },
    { subresource: "status" },
  );
  return { [Symbol.asyncDispose]: () => client.delete(pods, of, { gracePeriodSeconds: 0 }) };
}

async function expectGate(name: string, holds: boolean): Promise<void> {
  await eventually(async () => {
    const { spec } = await cluster.client.get(nodes, { name });
    expect(spec?.taints?.some(({ key }) => key === GATE_TAINT) ?? false).toBe(holds);
  });
}

/** Applies what `berth manifests` prints, twice, and connects as the account that Berth has by it. */
async function installed(installation: string, rights: ExtraRights = {}): Promise<KubeClient> {
  const namespace = `berth-${installation}`;
  const objects = installManifests({
    image: "registry.example.com/berth:1",
    namespace,
    installation,
    replicas: 2,
    rules: new Map([[LABEL, `${DEVICE}\n`]]),
    rights,
    apiServerCidrs: ["10.0.0.0/28", "fd00::1/128"],
  });
  for (const object of [...objects, ...objects]) {
    const applied = await cluster.client.apply(resourceFor(object), object, { fieldManager: "installer" });
    // The server defaults and normalizes; what was asked for stands.
    expect(applied).toMatchObject({ metadata: { name: object.metadata?.name } });
  }
  const user = await cluster.user(`system:serviceaccount:${namespace}:${namespace}`, [
    "system:serviceaccounts",
    `system:serviceaccounts:${namespace}`,
    "system:authenticated",
  ]);
  const account = cluster.connect({ user });
  await using _last = await grant(user.name, `${namespace}-last`, [
    { apiGroups: [nothing.group], resources: [nothing.plural], verbs: ["list"] },
  ]);
  // Rights are known to the API server a moment after they were given, roles and bindings each in their order.
  await eventually(async () => {
    await expect(account.list(nothing)).rejects.toMatchObject({ failure: { kind: "notFound" } });
    await account.get(namespaces, { name: namespace });
  });
  return account;
}

/** What nobody has. Whoever may list it is told so. */
const nothing = defineResource({
  group: "rights.test",
  version: "v1",
  plural: "nothings",
  kind: "Nothing",
  namespaced: false,
});

/** What Berth leaves in admission when it ends: the next one takes it over. */
async function clearAdmission(client: KubeClient): Promise<void> {
  await client.deleteCollection(mutatingAdmissionPolicyBindings, {});
  await client.deleteCollection(mutatingAdmissionPolicies, {});
  await client.deleteCollection(mutatingWebhookConfigurations, {});
}

const ARCHITECTURE_TAINT = "rights.example.com/arch";
const POLICY = `apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata: {name: rights}
spec:
  mode: Both
  podSelector: {matchLabels: {app: rights}}
  taint: {key: ${ARCHITECTURE_TAINT}, nodeSelector: {matchLabels: {${DEVICE}: x}}}
`;

/** A pod whose image takes a secret to be read. It is there before Berth: the API server asks nobody about it. */
async function privatePod(client: KubeClient, image: string): Promise<AsyncDisposable> {
  const namespace = "default";
  const { name: username, password } = REGISTRY_USER;
  const auths = { [image.slice(0, image.indexOf("/"))]: { username, password } };
  await client.create(secrets, {
    metadata: { name: "rights-pull", namespace },
    type: "kubernetes.io/dockerconfigjson",
    stringData: { ".dockerconfigjson": JSON.stringify({ auths }) },
  });
  const pod = aPod("rights-private")
    .image(image)
    .labelled({ app: "rights" })
    .with((it) => ({
      ...it,
      spec: { containers: [], ...it.spec, imagePullSecrets: [{ name: "rights-pull" }] },
    }));
  await client.create(pods, pod.build(), { namespace });
  return {
    async [Symbol.asyncDispose]() {
      await client.delete(pods, { namespace, name: "rights-private" }, { gracePeriodSeconds: 0 });
      await client.delete(secrets, { namespace, name: "rights-pull" });
    },
  };
}

describe("the manifests", () => {
  it("I-1 I-6 are accepted by the API server as they are, twice, and give exactly the rights that are needed", async () => {
    await using folder = await testFolder({
      [`labels/${LABEL}`]: `${DEVICE}\n`,
      "labels/bad key": "x\n",
      "gates.yaml": GATE,
    });
    const { client } = cluster;
    await using asAccount = await installed("rights");
    await using _node = await nodeWithDevice(client, "rights-1");
    for (const crd of crds()) await client.apply(customResourceDefinitions, crd);
    await using _rule = await ruleFor(client, DEVICE);
    await using _daemonSet = await gatedDaemonSet(client);
    const refusals: string[] = [];
    await using stack = new AsyncDisposableStack();
    const policy = { name: "berth-rights-gate-rights" };
    stack.defer(() => clearAdmission(client));
    await using berth = await startBerth({
      client: watchRefusals(asAccount, refusals),
      ...ruleFolder(folder),
      config: [{ path: `${folder.path}/gates.yaml`, shown: "gates.yaml" }],
      installation: "rights",
      admission: { spec: admissionServerSpec.parse({}), namespace: "berth-rights" },
      identity: "rights-0",
      self: { apiVersion: "v1", kind: "Namespace", name: "berth-rights", namespace: "berth-rights" },
      lease: { namespace: "berth-rights", name: "berth-rights" },
    });
    await expectLabel("rights-1", "true");
    await eventually(async () => {
      const found = await client.list(events, { namespace: "berth-rights" });
      expect(found.items.map(({ reason }) => reason)).toContain("InvalidLabelKey");
    });
    await eventually(async () => {
      const { status } = await client.get(labelRules, { name: "rights" });
      expect(status).toMatchObject({ matchedNodes: 1, labelledNodes: 1 });
    });
    // Backfill would taint a new node later: the policy must exist, and taint it at its creation.
    await eventually(() => client.get(mutatingAdmissionPolicies, policy));
    await eventually(async () => {
      const late = aNode("rights-late")
        .labelled({ [DEVICE]: "x" })
        .build();
      const { spec } = await client.create(nodes, late, { dryRun: true });
      expect(spec?.taints?.map(({ key }) => key)).toContain(GATE_TAINT);
    });
    // Policies and bindings are written together: no binding may be refused because its policy is new.
    await clearAdmission(client);
    await eventually(async () => {
      await client.get(mutatingAdmissionPolicies, policy);
      await client.get(mutatingAdmissionPolicyBindings, policy);
    });
    // This node was there before: that it is idle was asked, and its pods are watched.
    await expectGate("rights-1", true);
    await using _pod = await readyPod(client, "rights-1");
    await expectGate("rights-1", false);
    const lease = await client.get(leases, { namespace: "berth-rights", name: "berth-rights" });
    expect(lease.spec?.holderIdentity).toBe("rights-0");
    await asAccount.get(namespaces, { name: "berth-rights" });
    expect(berth.problems()).toEqual([]);
    expect(refusals).toEqual([]);
  });
});

const HELD = "rights.example.com/held";

/** A StartupGate for nodes with this label, and whether the API server now puts its taint on a new one. */
async function heldGate(client: KubeClient): Promise<AsyncDisposable & { holds(): Promise<void> }> {
  const spec = {
    nodeSelector: { matchLabels: { [HELD]: "x" } },
    taint: { key: HELD },
    signals: { pods: [{}] },
  };
  const object = { apiVersion: "berth.dev/v1alpha1", kind: "StartupGate", metadata: { name: "held" }, spec };
  await eventually(() => client.create(startupGates, object));
  return {
    holds: () =>
      eventually(async () => {
        const node = aNode("rights-held")
          .labelled({ [HELD]: "x" })
          .build();
        const made = await client.create(nodes, node, { dryRun: true });
        expect(made.spec?.taints?.map(({ key }) => key)).toContain(HELD);
      }),
    [Symbol.asyncDispose]: () => client.delete(startupGates, { name: "held" }),
  };
}

describe("while the API server refuses policies", () => {
  it("I-1 I-2 I-5 startup gates use the webhook, other capabilities go on, and policies return", async () => {
    const { client } = cluster;
    const namespace = "berth-refused";
    await using asAccount = await installed("refused");
    for (const crd of crds()) await client.apply(customResourceDefinitions, crd);
    await using gate = await heldGate(client);
    const { rules } = await client.get(clusterRoles, { name: namespace });
    const mayWrite = async (resources: readonly string[] | undefined): Promise<void> => {
      const isOfPolicies = (rule: PolicyRule) => rule.resources?.includes("mutatingadmissionpolicies");
      const body = {
        rules: rules?.flatMap((rule) =>
          resources !== undefined && isOfPolicies(rule)
            ? [
                { ...rule, resources },
                { ...rule, verbs: ["list", "watch"] },
              ]
            : rule,
        ),
      };
      await client.patch(clusterRoles, { name: namespace }, { type: "merge", body });
      const policy = { metadata: { name: "tried" } };
      await eventually(() =>
        expect(asAccount.create(mutatingAdmissionPolicies, policy, { dryRun: true })).rejects.toMatchObject({
          failure: { kind: resources === undefined ? "invalid" : "forbidden" },
        }),
      );
    };
    await mayWrite(["mutatingwebhookconfigurations"]);
    await using _cleared = { [Symbol.asyncDispose]: () => clearAdmission(client) };
    const run = (mode: string, port: number): Promise<RunningBerth> => {
      const bindAddress = `127.0.0.1:${port}`;
      const spec = admissionServerSpec.parse({ mode, bindAddress, url: `https://${bindAddress}` });
      return startBerth({
        client: asAccount,
        installation: "refused",
        admission: { spec, namespace },
        healthProbeBindAddress: "127.0.0.1:0",
        metricsBindAddress: "127.0.0.1:0",
      });
    };
    {
      await using berth = await run("Policy", await findFreePort());
      const name = "startup-gate-admission";
      await eventually(async () => {
        const answer = await fetch(`${berth.healthUrl}/readyz?verbose`);
        expect(answer.status).toBe(200);
        expect(await answer.text()).toMatch(
          new RegExp(`^\\[!\\]${name}: .* on "mutatingadmissionpolicies`, "m"),
        );
      });
      const metrics = await (await fetch(`${berth.metricsUrl}/metrics`)).text();
      expect(metrics).toContain(`berth_component_problem{component="${name}"} 1\n`);
      expect(metrics).toContain('berth_component_problem{component="nodes"} 0\n');
    }
    await using berth = await run("Auto", await findFreePort());
    const says = (reason: string, message: RegExp): Promise<void> =>
      eventually(async () => {
        const { status } = await client.get(startupGates, { name: "held" });
        const said = status?.conditions?.find(({ type }) => type === "Admission");
        expect(said).toMatchObject({ status: "True", reason, message: expect.stringMatching(message) });
      });
    await gate.holds();
    await says("AdmissionByWebhook", /because .* on "mutatingadmissionpolicies/);
    await mayWrite(undefined);
    await says("AdmissionByPolicy", /the API server/);
    await eventually(async () => {
      expect((await client.list(mutatingAdmissionPolicyBindings)).items).toHaveLength(2);
      expect((await client.list(mutatingWebhookConfigurations)).items).toEqual([]);
    });
    await gate.holds();
    await eventually(() => expect(berth.problems()).toEqual([]));
  });
});

describe("the manifests for architecture policies", () => {
  it("give exactly the rights that are needed, pull secrets of pods among them when asked for", async () => {
    const { client } = cluster;
    await using folder = await testFolder({ "policies.yaml": POLICY });
    await using asAccount = await installed("architecture", { pullSecrets: true });
    await using registry = await startRegistry({ users: [REGISTRY_USER] });
    const { reference } = await registry.push(anImage("team/private:1").platforms("linux/arm64"));
    await using _node = await nodeWithDevice(client, "rights-2");
    for (const crd of crds()) await client.apply(customResourceDefinitions, crd);
    await client.create(daemonSets, untolerating, { namespace: "default" });
    await using stack = new AsyncDisposableStack();
    const of = { namespace: "default", name: "rights-agent" };
    stack.defer(async () => {
      await client.delete(daemonSets, of);
      await clearAdmission(client);
    });
    await using _pod = await privatePod(client, reference);
    const nowhere = aPod("rights-nowhere")
      .labelled({ app: "rights" })
      .annotated({ [ARCHITECTURES_ANNOTATION]: "amd64" })
      .selecting({ "kubernetes.io/arch": "arm64" });
    await client.create(pods, nowhere.build(), { namespace: "default" });
    stack.defer(async () => {
      await client.delete(pods, { namespace: "default", name: "rights-nowhere" });
    });
    const refusals: string[] = [];
    const namespace = "berth-architecture";
    const spec = admissionServerSpec.parse({ mode: "Webhook", bindAddress: "127.0.0.1:0" });
    {
      await using berth = await startBerth({
        client: watchRefusals(asAccount, refusals),
        config: [{ path: `${folder.path}/policies.yaml`, shown: "policies.yaml" }],
        installation: "architecture",
        namespace,
        admission: { spec, namespace },
        self: { apiVersion: "v1", kind: "Namespace", name: namespace, namespace },
        lease: { namespace, name: namespace },
      });
      await eventually(async () => {
        const { spec: pod } = await client.get(pods, { namespace: "default", name: "rights-private" });
        expect(pod?.tolerations).toContainEqual(tolerationOf("arm64"));
      });
      await eventually(async () => {
        const { status } = await client.get(pods, { namespace: "default", name: "rights-nowhere" });
        expect(status?.conditions?.map(({ type }) => type)).toContain(ARCHITECTURE_CONDITION);
      });
      await eventually(async () => {
        const { spec: set } = await client.get(daemonSets, of);
        expect(set?.template.spec?.tolerations).toContainEqual(tolerationOf("arm64"));
      });
      await eventually(async () => {
        const { spec: node } = await client.get(nodes, { name: "rights-2" });
        expect(node?.taints).toContainEqual(tolerationOf("amd64"));
      });
      await eventually(async () => {
        const { items } = await client.list(mutatingWebhookConfigurations);
        expect(items.map(({ metadata }) => metadata?.name)).toContain("berth-architecture-architecture");
      });
      await eventually(() => expect(berth.problems()).toEqual([]));
    }
    // What is known of images is kept at the end at the latest.
    const { items } = await client.list(configMaps, { namespace });
    expect(items.map(({ metadata }) => metadata?.name)).toContain("berth-architecture-image-facts-0");
    expect(refusals).toEqual([]);
  });
});

/** As `berth manifests --config` has them. */
async function rightsOfFile(file: string): Promise<ExtraRights> {
  const settings = await loadSettings({ config: [file] }, "/");
  const { inForce } = assembleReadDocuments(footprintDocuments, { settings, hasConfig: true }, undefined);
  return rightsOf(settings, inForce?.footprints ?? []);
}

const FOOTPRINTS = `apiVersion: berth.dev/v1alpha1
kind: WorkerPools
metadata: {name: default}
spec: {uidLabel: true}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: atelet}
spec:
  preset: agent-substrate/owner-uid
  agent: {daemonSet: {namespace: default, name: rights-atelet}, nodeSelector: Manage}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: storage}
spec:
  preset: csi
  workloads: [{csiDrivers: [csi.example.com], namespaceSelector: {matchLabels: {storage: "yes"}}}]
`;

describe("the manifests for footprints and WorkerPools", () => {
  it("give exactly the rights that are needed", async () => {
    const { client } = cluster;
    const namespace = "default";
    await using folder = await testFolder({ "footprints.yaml": FOOTPRINTS });
    await using asAccount = await installed(
      "footprint",
      await rightsOfFile(`${folder.path}/footprints.yaml`),
    );
    for (const crd of crds()) await client.apply(customResourceDefinitions, crd);
    await eventually(() => client.list(workerPools));
    await using stack = new AsyncDisposableStack();
    await client.create(nodes, aNode("rights-3").build());
    stack.defer(() => client.delete(nodes, { name: "rights-3" }));
    const agent = { ...untolerating, metadata: { name: "rights-atelet" } };
    await client.create(daemonSets, agent, { namespace });
    stack.defer(() => client.delete(daemonSets, { namespace, name: "rights-atelet" }));
    const pool = { namespace, name: "rights" };
    const spec = { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" } as const;
    const refusals: string[] = [];
    await using berth = await startBerth({
      client: watchRefusals(asAccount, refusals),
      config: [{ path: `${folder.path}/footprints.yaml`, shown: "footprints.yaml" }],
      installation: "footprint",
      namespace: "berth-footprint",
      lease: { namespace: "berth-footprint", name: "berth-footprint" },
    });
    const { metadata } = await client.create(workerPools, { metadata: pool, spec }, { namespace });
    const made = { namespace, name: "rights-deployment" };
    const deployment = await eventually(() => client.get(deployments, made));
    // As the Deployment controller would, which does not run here.
    const replicaSet = await client.create(replicaSets, replicaSetOf(deployment), { namespace });
    stack.defer(() => client.delete(replicaSets, { namespace, name: "rights" }));
    const { uid = "" } = replicaSet.metadata ?? {};
    const ownerReferences = [
      { apiVersion: "apps/v1", kind: "ReplicaSet", name: "rights", uid, controller: true },
    ];
    const pod = aPod("rights-ateom").on("rights-3").labelled({ "ate.dev/worker-pool": "rights" }).build();
    await client.create(pods, { ...pod, metadata: { ...pod.metadata, ownerReferences } }, { namespace });
    await eventually(async () => {
      const { metadata: marked } = await client.get(nodes, { name: "rights-3" });
      expect(marked?.labels?.["ate.dev/atelet"]).toBe("true");
      expect(marked?.annotations).toHaveProperty([`ate.dev/claim.${metadata?.uid ?? ""}`]);
    });
    await eventually(async () => {
      const { spec: set } = await client.get(daemonSets, { namespace, name: "rights-atelet" });
      expect(set?.template.spec?.nodeSelector).toEqual({ "ate.dev/atelet": "true" });
    });
    await client.delete(workerPools, pool);
    await eventually(async () => {
      const { items } = await client.list(deployments, { namespace });
      expect(items.map(({ metadata: it }) => it?.name)).not.toContain("rights-deployment");
    });
    await client.delete(pods, { namespace, name: "rights-ateom" }, { gracePeriodSeconds: 0 });
    await eventually(async () => {
      const { items } = await client.list(workerPools, { namespace });
      expect(items).toEqual([]);
    });
    expect(berth.problems()).toEqual([]);
    expect(refusals).toEqual([]);
  });
});

function replicaSetOf({ metadata: { name = "", uid = "" } = {}, spec }: Deployment): ReplicaSet {
  const owner = { apiVersion: "apps/v1", kind: "Deployment", name, uid, controller: true };
  return {
    metadata: { name: "rights", ownerReferences: [owner] },
    spec: {
      replicas: 0,
      selector: spec?.selector ?? {},
      ...(spec?.template && { template: spec.template }),
    },
  };
}

const tolerationOf = (value: string): object => ({
  key: ARCHITECTURE_TAINT,
  value,
  effect: "NoSchedule",
});

/** Its annotation says what it runs on. */
const untolerating: DaemonSet = {
  metadata: { name: "rights-agent" },
  spec: {
    selector: { matchLabels: { app: "rights" } },
    template: {
      metadata: { labels: { app: "rights" }, annotations: { [ARCHITECTURES_ANNOTATION]: "arm64" } },
      spec: { containers: [{ name: "main", image: "registry.test/agent:1" }] },
    },
  },
};

/** Notes every request that authorization refused. */
function watchRefusals(client: KubeClient, refusals: string[]): KubeClient {
  return new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]): unknown => {
        const answer: unknown = Reflect.apply(value, target, args);
        if (!(answer instanceof Promise)) return answer;
        return answer.catch((error: unknown) => {
          if (error instanceof Error && /forbidden/i.test(error.message)) refusals.push(error.message);
          throw error;
        });
      };
    },
  });
}

describe("the manifests with a patch of the pod template", () => {
  it("I-12 put Berth behind the Service of nodetaintshandler, with its account, in kube-system", async () => {
    const { client } = cluster;
    const namespace = "kube-system";
    await using stack = new AsyncDisposableStack();
    // What the original has there.
    const account = { namespace, name: "nodetaintshandler" };
    await client.create(serviceAccounts, { metadata: account }, { namespace });
    stack.defer(() => client.delete(serviceAccounts, account));
    const selector = { app: "nodetaintshandler" };
    const service = { namespace, name: "node-startup-webhook" };
    const ports = [{ port: 443, targetPort: 8443 }];
    await client.create(services, { metadata: service, spec: { selector, ports } }, { namespace });
    stack.defer(() => client.delete(services, service));

    const example = path.join(import.meta.dirname, "../../../examples/startup-gate/nodetaintshandler");
    const given = ["--config", `${example}.yaml`, "--patch", `${example}-pod.yaml`, "--image", "berth:1"];
    const { stdout } = await cli(["manifests", "-n", namespace, ...given, "-o", "json"]);
    const { items } = JSON.parse(stdout) as { readonly items: readonly KubeObject[] };
    expect(items.map(({ kind }) => kind)).not.toContain("Namespace");
    expect(items.map(({ kind }) => kind)).not.toContain("ServiceAccount");
    for (const object of items) {
      await client.apply(resourceFor(object), object, { fieldManager: "installer" });
      const { name = "", namespace: space } = object.metadata ?? {};
      const of = { name, ...(space !== undefined && { namespace: space }) };
      stack.defer(() => client.delete(resourceFor(object), of));
    }
    // As the controllers of Deployments would, which do not run here.
    const { spec } = await client.get(deployments, { namespace, name: "berth" });
    const { metadata, spec: template } = spec?.template ?? {};
    const pod = { metadata: { ...metadata, name: "berth-pod" }, ...(template && { spec: template }) };
    await client.create(pods, pod, { namespace });
    stack.defer(() => client.delete(pods, { namespace, name: "berth-pod" }, { gracePeriodSeconds: 0 }));
    const found = await client.list(pods, { namespace, labelSelector: "app=nodetaintshandler" });
    expect(found.items).toMatchObject([
      { metadata: { name: "berth-pod" }, spec: { serviceAccountName: account.name } },
    ]);
    const [container] = found.items[0]?.spec?.containers ?? [];
    expect(container?.ports?.map(({ containerPort }) => containerPort)).toContain(8443);
    expect(container?.volumeMounts).toContainEqual({ name: "tls", mountPath: "/tls", readOnly: true });

    const user = await cluster.user("system:serviceaccount:kube-system:nodetaintshandler");
    await using asAccount = cluster.connect({ user });
    await eventually(() => asAccount.list(nodes));
  });
});

describe("without a right", () => {
  it("names what is missing to read nodes, and goes on once it is granted", async () => {
    await using folder = await testFolder({ [`labels/${LABEL}`]: `${DEVICE}\n` });
    await using _node = await nodeWithDevice(cluster.client, "reader-1");
    const user = await cluster.user("reader");
    await using client = cluster.connect({ user });
    await using berth = await startBerth({ client, ...ruleFolder(folder), installation: "reader" });
    await eventually(() =>
      expect(berth.problems().join("\n")).toMatch(/(?:list|watch) nodes.*forbidden|authorization/),
    );
    await using _rights = await grant("reader", "berth-test-reader", [
      { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch", "patch"] },
    ]);
    await expectLabel("reader-1", "true");
    await eventually(() => expect(berth.problems()).toEqual([]));
  });

  it("names what is missing to write nodes, and goes on once it is granted", async () => {
    await using folder = await testFolder({ [`labels/${LABEL}`]: `${DEVICE}\n` });
    await using _node = await nodeWithDevice(cluster.client, "writer-1");
    const user = await cluster.user("writer");
    await using client = cluster.connect({ user });
    await using _reads = await grant("writer", "berth-test-writer-reads", [
      { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch"] },
    ]);
    await using berth = await startBerth({ client, ...ruleFolder(folder), installation: "writer" });
    await eventually(() =>
      expect(berth.problems()).toEqual([expect.stringContaining('verb "patch" on "nodes"')]),
    );
    await expectLabel("writer-1", undefined);
    await using _writes = await grant("writer", "berth-test-writer-writes", [
      { apiGroups: [""], resources: ["nodes"], verbs: ["patch"] },
    ]);
    await expectLabel("writer-1", "true");
    await eventually(() => expect(berth.problems()).toEqual([]));
  });

  it("I-10 of k8s-auto-labeller's own role, says once how to grant patch, and labels once that is done", async () => {
    await using folder = await testFolder({ [`labels/${LABEL}`]: `${DEVICE}\n` });
    await using _node = await nodeWithDevice(cluster.client, "labeller-1");
    await using _other = await nodeWithDevice(cluster.client, "labeller-2");
    const name = "system:serviceaccount:kube-system:auto-labeller";
    await using client = cluster.connect({ user: await cluster.user(name) });
    await using _theirs = await grant(name, "berth-test-auto-labeller", [
      { apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch", "update", "get"] },
    ]);
    const lines: string[] = [];
    const log = createJsonLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });
    await using berth = await startBerth({ client, ...ruleFolder(folder), installation: "labeller", log });
    await eventually(() => expect(berth.problems()).toHaveLength(1));
    const role = "berth-patch-nodes";
    const granting = (): readonly { readonly grant?: string }[] =>
      lines.map((line) => JSON.parse(line) as { readonly grant?: string }).filter(({ grant }) => grant);
    await eventually(() => expect(granting()).toHaveLength(1));
    expect(granting()).toEqual([
      expect.objectContaining({
        level: "warn",
        grant:
          `kubectl create clusterrole ${role} --verb=patch --resource=nodes && ` +
          `kubectl create clusterrolebinding ${role} --clusterrole=${role} --serviceaccount=kube-system:auto-labeller`,
      }),
    ]);
    await using _granted = await grant(name, role, [
      { apiGroups: [""], resources: ["nodes"], verbs: ["patch"] },
    ]);
    await expectLabel("labeller-1", "true");
    await expectLabel("labeller-2", "true");
  });

  it("to write nodes still forgets those that are gone", async () => {
    for (const crd of crds()) await cluster.client.apply(customResourceDefinitions, crd);
    const match = { all: [{ key: "counter.example.com/in" }] };
    const metadata = { name: "counter" };
    await eventually(() =>
      cluster.client.create(labelRules, {
        apiVersion: "berth.dev/v1alpha1",
        kind: "LabelRule",
        metadata,
        spec: { match, labels: [{ key: "counter.example.com/out" }] },
      }),
    );
    await using stack = new AsyncDisposableStack();
    stack.defer(async () => {
      await cluster.client.delete(labelRules, metadata);
    });
    await cluster.client.create(
      nodes,
      aNode("counter-1").labelled({ "counter.example.com/in": "1" }).build(),
    );
    const user = await cluster.user("counter");
    await using client = cluster.connect({ user });
    await using _reads = await grant("counter", "berth-test-counter", [
      { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch"] },
      { apiGroups: ["berth.dev"], resources: ["labelrules"], verbs: ["get", "list", "watch"] },
      { apiGroups: ["berth.dev"], resources: ["labelrules/status"], verbs: ["patch"] },
    ]);
    await using berth = await startBerth({ client, installation: "counter" });
    const matched = (count: number): Promise<void> =>
      eventually(async () => {
        const { status } = await cluster.client.get(labelRules, metadata);
        expect(status?.matchedNodes).toBe(count);
      });
    await eventually(() => expect(berth.problems()).toHaveLength(1));
    await matched(1);
    await cluster.client.delete(nodes, { name: "counter-1" });
    await matched(0);
  });
});
