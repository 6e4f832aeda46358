/**
 * A program with the token of a Berth that runs Instances, on a real API server. Whatever Pod it asks for, it gets one
 * that Berth itself would have made: docs/reference/security.md, S-12.
 */
import { buildPod, fleetKind, type Instance } from "@berth/fleet";
import { documentOfFlag, toDocuments } from "@berth/host";
import {
  type Container,
  type KubeClient,
  namespaces,
  type Pod,
  type PodSpec,
  pods,
  priorityClasses,
  runtimeClasses,
  type Volume,
} from "@berth/kube";
import { architecturePolicyKind } from "@berth/placement";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentKinds } from "../../packages/cli/src/kinds.ts";
import { type Installed, installed } from "../../packages/cli/src/testing/installed.ts";

const TENANT = "thief-tenant";
const OTHER = "thief-other";
const fleet = fleetKind.spec.parse({
  mode: "single",
  namespaceSelector: {
    matchLabels: { tenants: "yes" },
    matchExpressions: [{ key: "closed", operator: "DoesNotExist" }],
  },
  pods: {
    added: {
      images: ["mesh.test/proxy:*"],
      volumes: ["mesh-token", "mesh-data"],
      audiences: ["mesh"],
      keys: ["mesh.test/*"],
      priorityClasses: ["tenants"],
    },
  },
});
const taint = { key: "arch.test/only", nodeSelector: { matchLabels: { a: "b" } } };
const documents = toDocuments([], documentKinds, [
  documentOfFlag(fleetKind, fleet),
  documentOfFlag(architecturePolicyKind, architecturePolicyKind.spec.parse({ mode: "Both", taint })),
]).documents;

const container = { name: "app", image: "registry.test/app:1" };
const instance: Instance = {
  metadata: {
    namespace: TENANT,
    name: "w-us-dfw-0",
    uid: "6d1e4a52-7f0a-4d49-8a51-0d2f1f1f1f1f",
    labels: { team: "a", "compute.datumapis.com/instance-index": "0" },
    annotations: { plain: "b", "app.kubernetes.io/part-of": "shop" },
  },
  spec: {
    runtime: {
      resources: { instanceType: "datumcloud/d1-standard-2" },
      sandbox: {
        containers: [
          {
            ...container,
            env: [{ name: "KEY", valueFrom: { secretKeyRef: { name: "keys", key: "k" } } }],
            ports: [{ name: "http", port: 80 }],
            volumeAttachments: [{ name: "keys", mountPath: "/keys" }],
          },
        ],
        imagePullSecrets: [{ name: "registry" }],
      },
    },
    volumes: [
      { name: "keys", secret: { secretName: "keys" } },
      { name: "config", configMap: { name: "config" } },
    ],
    networkInterfaces: [{ network: { name: "default" } }],
  },
};
const built = (of: Instance): Pod => {
  const made = buildPod(of, fleet);
  if ("fault" in made) throw new Error(made.fault);
  return made.pod;
};
const pod = built(instance);
const spec: PodSpec = pod.spec ?? { containers: [] };
const [app = container]: readonly Container[] = spec.containers;
const [owner] = pod.metadata?.ownerReferences ?? [];

const proxy: Container = {
  name: "proxy",
  image: "mesh.test/proxy:1.2",
  args: ["proxy"],
  ports: [{ name: "metrics", containerPort: 15_090 }],
  readinessProbe: { httpGet: { path: "/ready", port: 15_021 } },
  resources: { requests: { cpu: "10m" } },
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] }, runAsUser: 1337 },
  volumeMounts: [{ name: "mesh-token", mountPath: "/var/run/secrets/tokens" }],
};
const proxyInit: Container = {
  name: "proxy-init",
  image: proxy.image ?? "",
  securityContext: {
    allowPrivilegeEscalation: false,
    capabilities: { add: ["NET_ADMIN", "NET_RAW"], drop: ["ALL"] },
    privileged: false,
    runAsUser: 0,
  },
};
const tokenFor = (audience?: string): Volume => ({
  name: "mesh-token",
  projected: { sources: [{ serviceAccountToken: { ...(audience && { audience }), path: "token" } }] },
});
const term = (key: string, values: readonly string[]) => ({
  nodeSelectorTerms: [{ matchExpressions: [{ key, operator: "In", values }] }],
});
const near = (required: object): NonNullable<PodSpec["affinity"]> => ({
  nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required as never },
});

let cluster: TestCluster;
let admin: KubeClient;
let own: Installed;
const owned = new AsyncDisposableStack();
beforeAll(async () => {
  cluster = await sharedTestCluster();
  admin = cluster.client;
  own = owned.use(await installed(cluster, "thief", { documents }));
  const labels = { tenants: "yes" };
  await admin.create(namespaces, { metadata: { name: TENANT, labels } });
  await admin.create(namespaces, { metadata: { name: OTHER, labels: { ...labels, closed: "x" } } });
  // So that the policy is asked at all: Pod Security would refuse some before.
  const privileged = { "pod-security.kubernetes.io/enforce": "privileged" };
  const relabel = { type: "merge", body: { metadata: { labels: privileged } } } as const;
  await admin.patch(namespaces, { name: own.namespace }, relabel);
  await admin.create(runtimeClasses, { metadata: { name: "root" }, handler: "root" });
  await admin.create(priorityClasses, { metadata: { name: "tenants" }, value: 5 });
  await admin.create(priorityClasses, { metadata: { name: "first" }, value: 1_000_000 });
  // The API server knows a policy a moment after it was made.
  await eventually(async () => {
    const answer = await create({ spec: { nodeName: "n" } }).catch(String);
    if (typeof answer !== "string") throw new Error("the API server does not know the policy yet");
  });
});
afterAll(() => owned.disposeAsync());

const REFUSED = {
  failure: { kind: "invalid" },
  message: expect.stringContaining("Berth's account may not make"),
};

interface Change {
  readonly namespace?: string;
  readonly metadata?: Pod["metadata"];
  readonly spec?: Loose<PodSpec>;
  /** Of the only container. */
  readonly app?: Loose<Container>;
}
type Loose<T> = { readonly [K in keyof T]?: T[K] | undefined };

function create({ namespace = TENANT, metadata, spec: change, app: other }: Change): Promise<Pod> {
  const changed = { ...spec, ...(other && { containers: [{ ...app, ...other }] }), ...change };
  const body = { ...pod, metadata: { ...pod.metadata, namespace, ...metadata }, spec: changed };
  return own.client.create(pods, JSON.parse(JSON.stringify(body)) as Pod, { dryRun: true });
}
const secured = (change: Container["securityContext"]): Change => ({
  app: { securityContext: { ...app.securityContext, ...change } },
});
const volume = (one: Volume): Change => ({
  spec: { serviceAccountName: "default", volumes: [...(spec.volumes ?? []), one] },
});
const beside = (change: Partial<Container>): Change => ({
  spec: { ...volume(tokenFor("mesh")).spec, containers: [app, { ...proxy, ...change }] },
});
const limited = (limits: Readonly<Record<string, string>>): Change => ({ app: { resources: { limits } } });

it.each<[string, Change]>([
  ["what Berth makes", {}],
  [
    "several containers that share a size",
    { spec: built({ ...instance, spec: severalContainers() }).spec ?? {} },
  ],
  [
    "what a mesh adds that the Fleet lists",
    {
      metadata: {
        annotations: { ...pod.metadata?.annotations, "mesh.test/status": "injected" },
        labels: { ...pod.metadata?.labels, "mesh.test/revision": "1" },
      },
      spec: {
        initContainers: [proxyInit, { ...proxy, name: "native", restartPolicy: "Always" }],
        containers: [app, proxy],
        serviceAccountName: "default",
        volumes: [...(spec.volumes ?? []), tokenFor("mesh"), { name: "mesh-data", emptyDir: {} }],
      },
    },
  ],
  [
    "what Berth's architecture policies add",
    {
      spec: {
        schedulingGates: [{ name: "berth.dev/architecture" }],
        affinity: {
          nodeAffinity: {
            ...near(term("kubernetes.io/arch", ["arm64"])).nodeAffinity,
            preferredDuringSchedulingIgnoredDuringExecution: [
              {
                weight: 1,
                preference: {
                  matchExpressions: [{ key: "kubernetes.io/arch", operator: "In", values: ["arm64"] }],
                },
              },
            ],
          },
        },
        tolerations: [
          { key: "arch.example.com", value: "arm64", effect: "NoSchedule" },
          { key: taint.key, operator: "Exists", effect: "NoSchedule" },
        ],
      },
    },
  ],
  ["a priority class that the Fleet lists", { spec: { priorityClassName: "tenants" } }],
])("A24 Berth's token may create %s", async (_, change) => {
  await expect(create(change)).resolves.toHaveProperty("spec");
});

function severalContainers(): NonNullable<Instance["spec"]> {
  const { spec: own } = instance;
  if (own === undefined) throw new TypeError("the Instance has a spec");
  const containers = ["app", "second"].map((name) => ({ name, image: container.image }));
  return { ...own, runtime: { ...own.runtime, sandbox: { containers } } };
}

describe("S-12 a thief of Berth's token may not create a Pod", () => {
  const exists = (key?: string, effect?: string) => ({
    spec: { tolerations: [{ ...(key && { key }), operator: "Exists", ...(effect && { effect }) } as never] },
  });
  it.each<[string, Change]>([
    ["in kube-system", { namespace: "kube-system" }],
    ["in Berth's namespace", { namespace: "berth-thief" }],
    ["in a namespace without the labels", { namespace: "default" }],
    ["in a namespace that the selector excludes", { namespace: OTHER }],
    ["of nobody", { metadata: { ownerReferences: [] } }],
    [
      "of an owner that does not control it",
      { metadata: { ownerReferences: [{ ...owner, controller: false } as never] } },
    ],
    ["of a Node", { metadata: { ownerReferences: [{ ...owner, apiVersion: "v1", kind: "Node" } as never] } }],
    [
      "of two owners",
      { metadata: { ownerReferences: [owner, { ...owner, controller: false, uid: "other" }] as never } },
    ],
    ["of an Instance with another name", { metadata: { name: "other" } }],
    ["with a finalizer", { metadata: { finalizers: ["example.com/stay"] } }],
    ["with another network", { metadata: { annotations: { "k8s.v1.cni.cncf.io/networks": "host" } } }],
    ["with a label that a mesh reads", { metadata: { labels: { "sidecar.istio.io/inject": "true" } } }],
    ["that asks Berth", { metadata: { annotations: { "berth.dev/architectures": "*" } } }],
    [
      "without AppArmor, by annotation",
      { metadata: { annotations: { "container.apparmor.security.beta.kubernetes.io/app": "unconfined" } } },
    ],
    ["with the token of default", { spec: { automountServiceAccountToken: true } }],
    ["with the default of the token", { spec: { automountServiceAccountToken: undefined } }],
    ["of another account", { spec: { serviceAccountName: "admin" } }],
    ["on a node of its choice", { spec: { nodeName: "n" } }],
    ["on nodes of its choice", { spec: { nodeSelector: { "kubernetes.io/hostname": "n" } } }],
    ["near a hostname", { spec: { affinity: near(term("kubernetes.io/hostname", ["n"])) } }],
    [
      "near a node by its field",
      {
        spec: {
          affinity: near({
            nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] }],
          }),
        },
      },
    ],
    [
      "near other pods",
      {
        spec: {
          affinity: {
            podAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: [
                { topologyKey: "kubernetes.io/hostname", labelSelector: {} },
              ],
            },
          },
        },
      },
    ],
    ["that tolerates everything", exists()],
    ["that tolerates the control plane", exists("node-role.kubernetes.io/control-plane", "NoSchedule")],
    ["that tolerates eviction", exists("example.com/drain", "NoExecute")],
    ["of a runtime class", { spec: { runtimeClassName: "root" } }],
    ["of a system's priority", { spec: { priorityClassName: "system-node-critical" } }],
    ["of another priority", { spec: { priorityClassName: "first" } }],
    ["in the network of the node", { spec: { hostNetwork: true } }],
    ["among the processes of the node", { spec: { hostPID: true } }],
    ["with the memory of the node", { spec: { hostIPC: true } }],
    ["that shares its processes", { spec: { shareProcessNamespace: true } }],
    ["with other hosts", { spec: { hostAliases: [{ ip: "10.0.0.1", hostnames: ["a"] }] } }],
    ["with another DNS", { spec: { dnsPolicy: "None", dnsConfig: { nameservers: ["10.0.0.1"] } } }],
    ["of another scheduler", { spec: { schedulerName: "mine" } }],
    ["with a gate of others", { spec: { schedulingGates: [{ name: "example.com/a" }] } }],
    ["that is slow to end", { spec: { terminationGracePeriodSeconds: 86_400 } }],
    ["that ends", { spec: { restartPolicy: "Never" } }],
    ["with variables of Services", { spec: { enableServiceLinks: true } }],
    ["without seccomp", { spec: { securityContext: { seccompProfile: { type: "Unconfined" } } } }],
    ["with no word about seccomp", { spec: { securityContext: {} } }],
    [
      "without AppArmor",
      { spec: { securityContext: { ...spec.securityContext, appArmorProfile: { type: "Unconfined" } } } },
    ],
    ["with a group of files", { spec: { securityContext: { ...spec.securityContext, fsGroup: 0 } } }],
    [
      "with sysctls",
      {
        spec: {
          securityContext: {
            ...spec.securityContext,
            sysctls: [{ name: "net.ipv4.ping_group_range", value: "0 1" }],
          },
        },
      },
    ],
    ["with a container without seccomp", secured({ seccompProfile: { type: "Unconfined" } })],
    ["with a container without AppArmor", secured({ appArmorProfile: { type: "Unconfined" } })],
    ["with a privileged container", secured({ privileged: true, allowPrivilegeEscalation: true })],
    ["that escalates privileges", secured({ allowPrivilegeEscalation: true })],
    ["that may do anything", secured({ capabilities: { add: ["SYS_ADMIN"] } })],
    ["that may change its network", secured({ capabilities: { add: ["NET_ADMIN"], drop: ["ALL"] } })],
    ["that says nothing about privileges", { app: { securityContext: undefined } }],
    ["with a port of the node", { app: { ports: [{ containerPort: 80, hostPort: 80 }] } }],
    ["with another command", { app: { command: ["sh"] } }],
    ["with all variables of a Secret", { app: { envFrom: [{ secretRef: { name: "a" } }] } }],
    ["with a probe of another host", { app: { livenessProbe: { httpGet: { host: "10.0.0.1", port: 80 } } } }],
    ["with a hook", { app: { lifecycle: { preStop: { exec: { command: ["sh"] } } } } }],
    [
      "with mounts that spread",
      { app: { volumeMounts: [{ name: "keys", mountPath: "/k", mountPropagation: "HostToContainer" }] } },
    ],
    ["without limits", { app: { resources: undefined } }],
    ["without a limit of memory", limited({ cpu: "1", "ephemeral-storage": "1Gi" })],
    ["without a limit of storage", limited({ cpu: "1", memory: "1Gi" })],
    ["with a limit of 0, which is none", limited({ cpu: "0m", memory: "1Gi", "ephemeral-storage": "1Gi" })],
    ["with GPUs", limited({ cpu: "1", memory: "1Gi", "ephemeral-storage": "1Gi", "nvidia.com/gpu": "1" })],
    ["with another container first", { spec: { initContainers: [{ ...app, name: "init" }] } }],
    ["with a volume of the node", volume({ name: "root", hostPath: { path: "/" } })],
    ["with a directory", volume({ name: "data", emptyDir: {} })],
    ["with a token", volume({ ...tokenFor(), name: "token" })],
    ["with a driver", volume({ name: "data", csi: { driver: "vault.test" } })],
    ["with a claimed disk", volume({ name: "data", persistentVolumeClaim: { claimName: "a" } })],
    ["with a share", volume({ name: "data", nfs: { server: "10.0.0.1", path: "/" } })],
    ["with the node's disk in a listed volume", volume({ name: "mesh-data", hostPath: { path: "/" } })],
    ["with a driver in a listed volume", volume({ name: "mesh-data", csi: { driver: "vault.test" } })],
    ["with a token for the API server in a listed volume", volume(tokenFor())],
    ["with a token for others in a listed volume", volume(tokenFor("https://kubernetes.default.svc"))],
    ["with a container of an image that is like a listed one", beside({ image: "mesh.test/proxyevil:1" })],
    [
      "with a container of an image that ends like a listed one",
      beside({ image: "evil.test/mesh.test/proxy:1" }),
    ],
    ["with a listed container that is privileged", beside({ securityContext: { privileged: true } })],
    ["with a listed container that escalates", beside({ securityContext: {} })],
    [
      "with a listed container that may do anything",
      beside({ securityContext: { ...proxy.securityContext, capabilities: { add: ["SYS_PTRACE"] } } }),
    ],
    [
      "with a listed container without seccomp",
      beside({ securityContext: { ...proxy.securityContext, seccompProfile: { type: "Unconfined" } } }),
    ],
    [
      "with a listed container without AppArmor",
      beside({ securityContext: { ...proxy.securityContext, appArmorProfile: { type: "Unconfined" } } }),
    ],
    [
      "with a listed container and a port of the node",
      beside({ ports: [{ containerPort: 80, hostPort: 80 }] }),
    ],
    [
      "with a listed container that probes a host",
      beside({ livenessProbe: { tcpSocket: { host: "10.0.0.1", port: 22 } } }),
    ],
    [
      "with a listed container and a hook to a host",
      beside({ lifecycle: { postStart: { httpGet: { host: "169.254.169.254", port: 80 } } } }),
    ],
    ["with a listed container and GPUs", beside({ resources: { limits: { "nvidia.com/gpu": "1" } } })],
  ])("%s", async (_, change) => {
    await expect(create(change)).rejects.toMatchObject(REFUSED);
  });
});

it("S-12 Berth's token deletes Pods of Instances, and no other", async () => {
  const of = (name: string) => ({ namespace: OTHER, name });
  const containers = [container];
  await admin.create(pods, { metadata: of("foreign"), spec: { containers } });
  await admin.create(pods, {
    metadata: { ...of("w-us-dfw-0"), ownerReferences: owner ? [owner] : [] },
    spec: { containers },
  });
  const refused = {
    failure: { kind: "invalid" },
    message: expect.stringContaining("Berth's account may not delete"),
  };
  await expect(own.client.delete(pods, of("foreign"))).rejects.toMatchObject(refused);
  await own.client.delete(pods, of("w-us-dfw-0"), { dryRun: true });
});
