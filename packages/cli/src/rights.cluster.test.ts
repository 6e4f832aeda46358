/** What Berth may do, and what it says when it may not, on a real API server with RBAC. Long because all roles are tried by the same means. */

import path from "node:path";
import { admissionServerSpec, documentOfFlag, ownerLabels, toDocuments } from "@berth/host";
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
  networkPolicies,
  nodes,
  type PolicyRule,
  podDisruptionBudgets,
  pods,
  type ReplicaSet,
  type Resource,
  replicaSets,
  roleBindings,
  roles,
  secrets,
  serviceAccounts,
  services,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  validatingWebhookConfigurations,
} from "@berth/kube";
import {
  ARCHITECTURE_CONDITION,
  ARCHITECTURE_GATE,
  ARCHITECTURES_ANNOTATION,
  architecturePolicies,
  buildDeployment,
  labelRules,
  nodeFootprints,
  startupGates,
  workerPools,
  workerPoolsKind,
} from "@berth/placement";
import { createJsonLogger, systemClock } from "@berth/runtime";
import {
  type AuditMark,
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
import { loadSettings } from "./config/settings.ts";
import { crds, documentKinds, foreignKinds } from "./kinds.ts";
import { installManifests } from "./manifests.ts";
import type { ExtraRights } from "./manifests-rights.ts";
import { cli, type TestFolder, testFolder } from "./testing/harness.ts";
import { listing } from "./testing/registries.ts";

const DEVICE = "example.com/device";
const LABEL = "accelerators/one";

let cluster: TestCluster;
let begun: AuditMark;
beforeAll(async () => {
  cluster = await sharedTestCluster();
  begun = await cluster.audit.mark();
});

const RESOURCES: readonly Resource[] = [
  namespaces,
  networkPolicies,
  serviceAccounts,
  clusterRoles,
  clusterRoleBindings,
  roles,
  roleBindings,
  configMaps,
  deployments,
  services,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  podDisruptionBudgets,
  networkPolicies,
];

/** What was granted to whom, by the name of the account. */
const grants = new Map<string, readonly PolicyRule[]>();

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
  const account = `system:serviceaccount:${namespace}:${namespace}`;
  grants.set(
    account,
    objects.flatMap((it) => (it.kind?.endsWith("Role") ? ((it as ClusterRole).rules ?? []) : [])),
  );
  const user = await cluster.user(account, [
    "system:serviceaccounts",
    `system:serviceaccounts:${namespace}`,
    "system:authenticated",
  ]);
  const connection = cluster.connect({ user });
  await using _last = await grant(user.name, `${namespace}-last`, [
    { apiGroups: [nothing.group], resources: [nothing.plural], verbs: ["list"] },
  ]);
  // Rights are known to the API server a moment after they were given, roles and bindings each in their order.
  await eventually(async () => {
    await expect(connection.list(nothing)).rejects.toMatchObject({ failure: { kind: "notFound" } });
    await connection.get(namespaces, { name: namespace });
  });
  return connection;
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
    for (const crd of crds(foreignKinds)) await client.apply(customResourceDefinitions, crd);
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
      // What it looks at every fifteen seconds, every second.
      clock: {
        ...systemClock,
        schedule: (delayMs, callback) => systemClock.schedule(delayMs === 15_000 ? 1000 : delayMs, callback),
      },
      admission: {
        spec: admissionServerSpec.parse({ bindAddress: "127.0.0.1:0" }),
        namespace: "berth-rights",
      },
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
    const user = await cluster.user("system:serviceaccount:berth-rights:berth-rights");
    const kubeconfig = await folder.write("kubeconfig", cluster.kubeconfig({ user }));
    const own = ["--namespace", "berth-rights", "--installation", "rights"];
    const explained = await cli(["explain", "node", "rights-1", "--kubeconfig", kubeconfig, ...own], {
      folder: folder.path,
    });
    expect(explained).toMatchObject({ code: 0, stderr: "" });
    {
      await using held = await heldGate(client);
      await held.holds();
      await eventually(() =>
        client.get(validatingWebhookConfigurations, { name: "berth-rights-direct-binding" }),
      );
    }
    await eventually(async () => {
      const { items } = await client.list(mutatingAdmissionPolicies);
      expect(items.map((it) => it.metadata?.name)).not.toContain("berth-rights-gate-held");
      expect((await client.list(validatingWebhookConfigurations)).items).toEqual([]);
    });
    expect(berth.problems()).toEqual([]);
    expect(refusals).toEqual([]);
  });
});

describe("the manifests for labels alone", () => {
  it("S-8 are enough for labels, and let nobody patch a pod", async () => {
    await using folder = await testFolder({ [`labels/${LABEL}`]: `${DEVICE}\n` });
    await using asAccount = await installed("narrow", { capabilities: ["labels"] });
    grants.delete("system:serviceaccount:berth-narrow:berth-narrow");
    await using _node = await nodeWithDevice(cluster.client, "narrow-1");
    await using berth = await startBerth({
      client: asAccount,
      ...ruleFolder(folder),
      installation: "narrow",
      namespace: "berth-narrow",
      admission: {
        spec: admissionServerSpec.parse({ bindAddress: "127.0.0.1:0" }),
        namespace: "berth-narrow",
      },
    });
    await expectLabel("narrow-1", "true");
    expect(berth.problems()).toEqual([]);
    const nothingChanged = { type: "merge", body: {} } as const;
    for (const resource of [pods, daemonSets] as readonly Resource[])
      await expect(
        asAccount.patch(resource, { namespace: "default", name: "none" }, nothingChanged),
      ).rejects.toMatchObject({ failure: { kind: "forbidden" } });
  });
});

const HELD = "rights.example.com/held";

/** A StartupGate for nodes with this label, and whether the API server now puts its taint on a new one. */
async function heldGate(client: KubeClient): Promise<AsyncDisposable & { holds(): Promise<void> }> {
  const spec = {
    nodeSelector: { matchLabels: { [HELD]: "x" } },
    taint: { key: HELD },
    directBinding: "Refuse",
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
    for (const crd of crds(foreignKinds)) await client.apply(customResourceDefinitions, crd);
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
    await using asAccount = await installed("architecture", { flags: new Set(["pullSecrets"]) });
    await using registry = await startRegistry({ users: [REGISTRY_USER] });
    const { reference } = await registry.push(anImage("team/private:1").platforms("linux/arm64"));
    await using _node = await nodeWithDevice(client, "rights-2");
    for (const crd of crds(foreignKinds)) await client.apply(customResourceDefinitions, crd);
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
    // It finds its pull secret by its service account, and Berth a certificate that is none.
    await client.create(pods, aPod("rights-account").image(reference).labelled({ app: "rights" }).build(), {
      namespace: "default",
    });
    stack.defer(() => client.delete(pods, { namespace: "default", name: "rights-account" }));
    const refusals: string[] = [];
    const namespace = "berth-architecture";
    const tls = { "tls.crt": "", "tls.key": "" };
    const labels = {
      ...ownerLabels("architecture", "startup-gate"),
      "app.kubernetes.io/managed-by": "berth",
    };
    const secret = {
      metadata: { name: `${namespace}-webhook-tls`, labels },
      type: "kubernetes.io/tls",
      data: tls,
    };
    await client.create(secrets, secret, { namespace });
    await client.create(architecturePolicies, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "ArchitecturePolicy",
      metadata: { name: "rights-nothing" },
      spec: { mode: "Affinity", podSelector: { matchLabels: { app: "none" } } },
    });
    stack.defer(() => client.delete(architecturePolicies, { name: "rights-nothing" }));
    const spec = admissionServerSpec.parse({ mode: "Webhook", bindAddress: "127.0.0.1:0" });
    {
      await using berth = await startBerth({
        client: watchRefusals(asAccount, refusals),
        config: [{ path: `${folder.path}/policies.yaml`, shown: "policies.yaml" }],
        installation: "architecture",
        registries: await listing(registry),
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
      await eventually(async () => {
        const { status } = await client.get(architecturePolicies, { name: "rights-nothing" });
        expect(status?.conditions).toBeDefined();
        const { data } = await client.get(secrets, { namespace, name: `${namespace}-webhook-tls` });
        expect(data?.["tls.crt"]).not.toBe("");
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
  return { documents: settings };
}

const FOOTPRINTS = `apiVersion: berth.dev/v1alpha1
kind: WorkerPools
metadata: {name: default}
spec: {allow: {images: [registry.test/], namespaces: [default]}, uidLabel: true}
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

/** Every kind that Berth looks for an owner behind. */
const OWNER_KINDS = [
  ...["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"].map((kind) => ({
    apiVersion: "apps/v1",
    kind,
  })),
  ...["Job", "CronJob"].map((kind) => ({ apiVersion: "batch/v1", kind })),
  { apiVersion: "v1", kind: "ReplicationController" },
];

describe("the manifests for footprints and WorkerPools", () => {
  it("give exactly the rights that are needed", async () => {
    const { client } = cluster;
    const namespace = "default";
    await using folder = await testFolder({ "footprints.yaml": FOOTPRINTS });
    await using asAccount = await installed(
      "footprint",
      await rightsOfFile(`${folder.path}/footprints.yaml`),
    );
    for (const crd of crds(foreignKinds)) await client.apply(customResourceDefinitions, crd);
    await eventually(() => client.list(workerPools));
    await using stack = new AsyncDisposableStack();
    await client.create(nodeFootprints, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "NodeFootprint",
      metadata: { name: "grouped" },
      spec: {
        workloads: [{ podSelector: { matchLabels: { app: "grouped" } } }],
        node: { label: { key: "example.com/grouped" }, claims: { annotationPrefix: "example.com/grouped." } },
        group: { by: "OwnerUID", owner: { group: "example.com", kind: "Top" } },
      },
    });
    stack.defer(() => client.delete(nodeFootprints, { name: "grouped" }));
    for (const [at, { apiVersion, kind }] of OWNER_KINDS.entries()) {
      const owner = {
        apiVersion,
        kind,
        name: "gone",
        uid: `00000000-0000-4000-8000-00000000000${at}`,
        controller: true,
      };
      const of = { namespace, name: `rights-of-${at}` };
      const owned = aPod(of.name).on("rights-3").labelled({ app: "grouped" }).build();
      await client.create(
        pods,
        { ...owned, metadata: { ...owned.metadata, ownerReferences: [owner] } },
        { namespace },
      );
      stack.defer(() => client.delete(pods, of, { gracePeriodSeconds: 0 }));
    }
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
    const stopped = { namespace, name: "rights-stopped" };
    const theirs = { ...spec, ateomImage: "evil.test/ateom:1" };
    await client.create(workerPools, { metadata: stopped, spec: theirs }, { namespace });
    await eventually(async () => {
      const { status } = await client.get(workerPools, stopped);
      expect(status?.conditions).toMatchObject([
        { type: "Allowed", status: "False", reason: "WorkerPoolNotAllowed" },
      ]);
    });
    await client.delete(workerPools, stopped);
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
    await eventually(async () => {
      const { status } = await client.get(nodeFootprints, { name: "grouped" });
      expect(status?.conditions).toBeDefined();
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
    for (const crd of crds(foreignKinds)) await cluster.client.apply(customResourceDefinitions, crd);
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

/** Only as the API server stores a Deployment that asks for nothing: with what it fills in. */
const foreign: Deployment = {
  metadata: { name: "foreign" },
  spec: {
    selector: { matchLabels: { app: "foreign" } },
    template: {
      metadata: { labels: { app: "foreign" } },
      spec: { containers: [{ name: "main", image: "registry.test/app:1" }] },
    },
  },
};

const POOLS = {
  workerPoolUid: false,
  allow: { images: ["registry.test/"], namespaces: ["default"], priorityClasses: [] },
};

describe("a program with Berth's token", () => {
  it("S-8 S-9 can write the fields that Berth writes, and no other", async () => {
    const { client } = cluster;
    const namespace = "default";
    const { documents } = toDocuments([], documentKinds, [documentOfFlag(workerPoolsKind, POOLS)]);
    await using thief = await installed("confined", { documents });
    grants.delete("system:serviceaccount:berth-confined:berth-confined");
    await using stack = new AsyncDisposableStack();
    const gates = [{ name: ARCHITECTURE_GATE }, { name: "example.com/theirs" }];
    const pod = aPod("victim")
      .image("registry.test/app:1")
      .with((it) => ({
        ...it,
        metadata: { ...it.metadata, finalizers: ["example.com/theirs"] },
        spec: { containers: [], ...it.spec, schedulingGates: gates },
      }));
    await client.create(pods, pod.build(), { namespace });
    stack.defer(() =>
      client
        .patch(pods, of, { type: "merge", body: { metadata: { finalizers: null } } })
        .then(() => client.delete(pods, of, { gracePeriodSeconds: 0 })),
    );
    await client.create(daemonSets, { ...untolerating, metadata: { name: "victim" } }, { namespace });
    await client.create(deployments, { ...foreign, metadata: { name: "victim" } }, { namespace });
    await client.create(nodes, aNode("victim").build());
    const of = { namespace, name: "victim" };
    stack.defer(() => client.delete(daemonSets, of));
    stack.defer(() => client.delete(deployments, of));
    stack.defer(() => client.delete(nodes, { name: "victim" }));
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
    ];
    const nameOf = (resource: Resource) => (resource === nodes ? { name: "victim" } : of);
    const attack = ([resource, body, subresource]: (typeof attacks)[number]): Promise<unknown> =>
      thief.patch(
        resource,
        nameOf(resource),
        { type: "strategic", body },
        { ...(subresource && { subresource }), dryRun: true },
      );
    const refused = {
      failure: { kind: "invalid" },
      message: expect.stringContaining("Berth's account may not"),
    };
    // The API server knows a policy a moment after it was made.
    await eventually(() =>
      expect(attack(attacks[0] as (typeof attacks)[number])).rejects.toMatchObject(refused),
    );
    for (const one of attacks) await expect(attack(one)).rejects.toMatchObject(refused);
    await expect(thief.delete(deployments, of, { dryRun: true })).rejects.toMatchObject(refused);
    const stored = {
      metadata: { name: "p", namespace },
      spec: { replicas: 0, ateomImage: "registry.test/a:1" },
    };
    await client.create(workerPools, { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", ...stored });
    stack.defer(() => client.delete(workerPools, { name: "p", namespace }));
    const steal = (body: object): Promise<unknown> =>
      thief.patch(workerPools, { name: "p", namespace }, { type: "merge", body }, { dryRun: true });
    await expect(steal({ spec: { ateomImage: "registry.test/root:1" } })).rejects.toMatchObject(refused);
    await expect(steal({ metadata: { labels: { a: "b" } } })).rejects.toMatchObject(refused);

    const pool = { name: "p", namespace, uid, spec: { replicas: 1, ateomImage: "registry.test/ateom:1" } };
    const body = buildDeployment(pool, POOLS);
    const make = (change: object, more: object = {}): Promise<unknown> => {
      const spec = {
        ...body.spec,
        template: { ...body.spec.template, spec: { ...body.spec.template.spec, ...change } },
      };
      const made = { ...body, ...more, metadata: { ...body.metadata, ...more }, spec } as Deployment;
      return thief.create(deployments, made, {
        namespace: made.metadata?.namespace ?? namespace,
        dryRun: true,
      });
    };
    const [worker] = body.spec.template.spec?.containers ?? [];
    const volumes = body.spec.template.spec?.volumes ?? [];
    await make({});
    for (const change of [
      { containers: [{ ...worker, image: "registry.test.evil/ateom:1" }] },
      { containers: [{ ...worker, command: ["sh"] }] },
      { containers: [{ ...worker, args: ["sh"] }] },
      { containers: [worker, { ...worker, name: "second" }] },
      { initContainers: [{ name: "init", image: "registry.test/app:1" }] },
      { volumes: [...volumes, hostPath] },
      { hostPID: true },
      { serviceAccountName: "admin" },
      { priorityClassName: "system-node-critical" },
    ])
      await expect(make(change)).rejects.toMatchObject(refused);
    await expect(make({}, { namespace: "kube-system" })).rejects.toMatchObject(refused);
    await expect(make({}, { ownerReferences: [] })).rejects.toMatchObject(refused);
  });
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

describe("what the manifests grant", () => {
  it("S-8 is used, every verb of it, and nothing else is asked for", async () => {
    const entries = (await cluster.audit.entriesSince(begun)).filter(({ user }) => grants.has(user));
    // One is without rights on purpose.
    const denied = entries.filter(({ code, user }) => code === 403 && !user.endsWith("berth-refused"));
    expect(denied.map(({ verb, requestUri }) => `${verb} ${requestUri}`)).toEqual([]);

    const short = (name: string): string =>
      name.replace(/^berth-(?:rights|refused|architecture|footprint)(?=-|$)/, "berth");
    const used = new Set(
      entries.flatMap(({ verb, resource, subresource, name }) => {
        const key = `${verb} ${resource}${subresource && `/${subresource}`}`;
        return [key, `${key} ${short(name)}`];
      }),
    );
    // What is watched is listed first where the API server does not stream what there is (before 1.34).
    for (const key of used) if (key.startsWith("watch ")) used.add(key.replace("watch", "list"));
    const unused = [...grants.values()]
      .flat()
      .flatMap(({ verbs, resources = [], apiGroups = [], resourceNames }) =>
        verbs.flatMap((verb) =>
          resources.flatMap((it) => {
            const [resource = "", subresource] = it.split("/");
            const full = [resource, ...apiGroups.filter((group) => group !== "")].join(".");
            const key = `${verb} ${full}${subresource === undefined ? "" : `/${subresource}`}`;
            const keys = resourceNames?.map((name) => `${key} ${short(name)}`) ?? [key];
            return keys.some((one) => used.has(one)) ? [] : [keys[0]];
          }),
        ),
      );
    expect(new Set(unused)).toEqual(CHECKED_BY_THE_SERVER);
  });
});
