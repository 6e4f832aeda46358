/** The chart of helm, and `berth manifests`: both print the same objects. */
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readYaml } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { toYaml } from "../../packages/cli/src/output/data.ts";
import { berthWith, itemsOf, testFolder } from "../../packages/cli/src/testing/harness.ts";
import { VERSION } from "../../packages/cli/src/version.ts";
import { root } from "../run-tool.ts";
import { helmFolder } from "./helm.ts";
import { components, kustomizations, printedWith } from "./kustomize.ts";
import { CHART, helm, rendered } from "./rendered.ts";
import { generated } from "./write.ts";

it.each([...generated()])("%s is what make generate writes", (name, text) => {
  expect(readFileSync(join(CHART, name), "utf8")).toBe(text);
});

/** Labels that helm's users expect, and that `berth manifests` does not print. */
const HELM_LABELS = new Set(["helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"]);

const nameOf = ({ kind, metadata }: KubeObject): string => `${kind}/${metadata?.name}`;

/** Without what the chart has for helm alone: hooks, labels, CRDs, and the policy by which images are pulled. */
function comparable(objects: readonly KubeObject[]): Readonly<Record<string, unknown>> {
  const own = objects.filter(
    ({ kind, metadata }) =>
      !/^(?:Namespace|CustomResourceDefinition)$/.test(kind ?? "") &&
      !metadata?.annotations?.["helm.sh/hook"],
  );
  return Object.fromEntries(own.map((it) => [nameOf(it), withoutHelm(it)] as const));
}

function withoutHelm(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutHelm);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, it]) =>
      HELM_LABELS.has(key) || key === "imagePullPolicy" ? [] : [[key, withoutHelm(it)]],
    ),
  );
}

interface Case {
  readonly values: Readonly<Record<string, unknown>>;
  readonly line?: string;
  /** Of `--label-dir`, `--config`, `--patch` and `--server-config`. */
  readonly files?: Readonly<Record<string, string>>;
}

const document = (kind: string, name: string, spec: object) => ({
  apiVersion: "berth.dev/v1alpha1",
  kind,
  metadata: { name },
  spec,
});

/** Documents as values, and as the file that `--config` reads. */
function documents(...all: readonly object[]): Case {
  const text = all.map(toYaml).join("---\n");
  return { values: { documents: all }, line: "--config conf", files: { "conf/documents.yaml": text } };
}

function fleet(spec: object): Case {
  return {
    values: { fleet: spec },
    line: "--config conf",
    files: { "conf/documents.yaml": toYaml(document("Fleet", "default", spec)) },
  };
}

/** A certificate beside the documents. */
function withFile({ values, files, ...rest }: Case, name: string): Case {
  return {
    ...rest,
    values: { ...values, files: { [name]: "pem" } },
    files: { ...files, [`conf/${name}`]: "pem" },
  };
}

const registries = document("ImageRegistries", "default", {
  registries: [{ registry: "registry.test", certificateAuthority: "registry.pem" }],
});
const workloads = [{ podSelector: { matchLabels: { a: "b" } } }];
const hold = (resource: string, onDelete: string, ownedResources: readonly object[]) => ({
  finalizer: `example.com/${resource}`,
  resource: { group: "example.com", version: "v1", resource },
  onDelete,
  ownedResources,
});
const group = { by: "OwnerUID", owner: { group: "example.com", kind: "Train" } };
const jobs = { group: "batch", version: "v1", resource: "jobs" };

const cases: Readonly<Record<string, Case>> = {
  "nothing but the image": { values: {} },
  "one replica": { values: { replicaCount: 1 }, line: "--replicas 1" },
  "labels alone, unconfined": {
    values: {
      confinement: false,
      capabilities: { gates: false, architecture: false, footprint: false, deschedule: false },
    },
    line: "--no-confinement --capabilities labels",
  },
  "gates and evictions": {
    values: { capabilities: { labels: false, architecture: false, footprint: false } },
    line: "--capabilities gates,deschedule",
  },
  "another installation, with pull secrets and worker pools": {
    values: { installation: "blue", pullSecrets: true, workerPools: true },
    line: "--installation blue --pull-secrets --worker-pools",
  },
  "label files": {
    values: { labelFiles: { "accelerators/edge_tpu": "a\nb\n", plain: "c" } },
    line: "--label-dir labels",
    files: { "labels/accelerators/edge_tpu": "a\nb\n", "labels/plain": "c" },
  },
  "label selectors in files, and rules for reserved keys": {
    values: { labelFormat: "extended", allowReserved: ["feature.node.kubernetes.io", "k8s.io/a"] },
    line: "--allow-reserved feature.node.kubernetes.io --allow-reserved k8s.io/a --label-format extended",
  },
  "API servers": {
    values: { apiServerCidrs: ["10.0.0.0/28", "fd00::1/128"] },
    line: "--api-server-cidr 10.0.0.0/28 --api-server-cidr fd00::1/128",
  },
  "a patched pod": {
    values: {
      podLabels: { team: "a" },
      podAnnotations: { "example.com/owner": "platform" },
      serviceAccount: { create: false, name: "theirs" },
      imagePullSecrets: [{ name: "registry" }],
      nodeSelector: { "example.com/pool": "system" },
      tolerations: [{ key: "a", operator: "Exists" }],
      affinity: { nodeAffinity: {} },
      priorityClassName: "mine",
      resources: { requests: { cpu: "1" }, limits: { memory: "1Gi", cpu: "2" } },
      env: [{ name: "STARTUP_BACKFILL", value: "1" }],
      volumes: [{ name: "tls", secret: { secretName: "s" } }],
      volumeMounts: [{ name: "tls", mountPath: "/tls", readOnly: true }],
    },
    line: "--patch pod.yaml",
    files: {
      "pod.yaml": `metadata: {labels: {team: a}, annotations: {example.com/owner: platform}}
spec:
  serviceAccountName: theirs
  imagePullSecrets: [{name: registry}]
  nodeSelector: {example.com/pool: system}
  tolerations: [{key: a, operator: Exists}]
  affinity: {nodeAffinity: {}}
  priorityClassName: mine
  volumes: [{name: tls, secret: {secretName: s}}]
  containers:
    - name: berth
      env: [{name: STARTUP_BACKFILL, value: "1"}]
      resources: {requests: {cpu: "1"}, limits: {memory: 1Gi, cpu: "2"}}
      volumeMounts: [{name: tls, mountPath: /tls, readOnly: true}]
`,
    },
  },
  "a gate that evicts, and one that does not": documents(
    document("StartupGate", "a", {
      taint: { key: "example.com/a", effect: "NoExecute" },
      signals: { labelsSettled: true },
    }),
    document("StartupGate", "b", {
      taint: { key: "example.com/b", effect: "NoSchedule" },
      signals: { labelsSettled: true },
    }),
  ),
  "an admission server that adopts a configuration": documents(
    document("AdmissionServer", "default", {
      bindAddress: "0.0.0.0:9443",
      configuration: { name: "theirs", webhook: "a.b.c" },
    }),
  ),
  "documents with certificates": withFile(documents(registries), "registry.pem"),
  "footprints that hold and manage": documents(
    document("NodeFootprint", "b", {
      workloads,
      group,
      hold: hold("trains", "Wait", [jobs]),
      node: { label: { key: "example.com/b" } },
    }),
    document("NodeFootprint", "a", {
      workloads,
      group,
      hold: hold("trains", "DeleteOwned", [jobs, { group: "", version: "v1", resource: "pods" }]),
      node: { label: { key: "example.com/a" } },
      agent: { daemonSet: { namespace: "a", name: "b" }, nodeSelector: "Manage" },
    }),
  ),
  "agent-substrate": documents(
    document("NodeFootprint", "atelet", { preset: "agent-substrate/owner-uid" }),
    document("WorkerPools", "default", {}),
  ),
  "worker pools that are allowed": documents(
    document("WorkerPools", "default", {
      allow: { images: ["registry.test/ateom"], namespaces: ["agents", "more"], priorityClasses: ["high"] },
      uidLabel: true,
      wait: { port: 8086 },
    }),
  ),
  "policies that evict and tell": documents(
    document("NodeNotifier", "a", { keys: ["example.com/*"], job: { namespace: "n", cronJob: "one" } }),
    document("NodeNotifier", "b", { keys: ["a"], job: { namespace: "n", cronJob: "two" } }),
    document("ArchitecturePolicy", "c", { mode: "Taint", taint: { key: "example.com/arch" } }),
  ),
  "a fleet in a single cluster": fleet({ mode: "single" }),
  "a fleet with quota here": fleet({
    mode: "single",
    project: { id: "web" },
    quota: { from: "Cluster" },
    networking: "Off",
    namespaceSelector: {
      matchLabels: { team: "a" },
      matchExpressions: [
        { key: "x", operator: "NotIn", values: ["1", "2"] },
        { key: "y", operator: "DoesNotExist" },
        { key: "z", operator: "Exists" },
      ],
    },
    pods: {
      capabilities: ["CHOWN"],
      added: {
        images: ["registry.test/mesh/*", "docker.io/istio/proxyv2:1.*"],
        volumes: ["istio-envoy", "istio-data"],
        audiences: ["istio-ca"],
        keys: ["istio.io/*"],
        priorityClasses: ["default"],
      },
    },
  }),
  "a hub that is the project": fleet({ mode: "management", hub: "self", projects: "self" }),
  "a hub elsewhere, with one project here": {
    ...fleet({ mode: "management", hub: { kubeconfig: "/etc/federation/hub" }, projects: "self" }),
    values: {
      federationSecret: "planes",
      installation: "blue",
      fleet: { mode: "management", hub: { kubeconfig: "/etc/federation/hub" }, projects: "self" },
    },
    line: "--config conf --federation-secret planes --installation blue",
  },
  "a hub here, with projects elsewhere": fleet({
    mode: "management",
    hub: "self",
    projects: {
      kubeconfigs: ["web", "api"].map((it) => ({ path: it, kubeconfig: `/etc/federation/${it}` })),
    },
  }),
  "a cell with quota of projects, in a folder of its own": fleet({
    mode: "cell",
    cell: "dfw-01",
    quota: { from: "Projects", kubeconfig: "/etc/quota-credentials/kubeconfig" },
  }),
  "a cell with quota beside its document, for another provider": {
    ...fleet({
      mode: "cell",
      cell: "dfw-02",
      provider: "external",
      quota: { from: "Kubeconfig", kubeconfig: "quota" },
    }),
    values: {
      quotaSecret: "mine",
      installation: "blue",
      fleet: {
        mode: "cell",
        cell: "dfw-02",
        provider: "external",
        quota: { from: "Kubeconfig", kubeconfig: "quota" },
      },
    },
    line: "--config conf --quota-secret mine --installation blue",
  },
  "the configuration of datum-cloud/compute": {
    values: {
      enableCellControllers: true,
      featureGates: "NetworkingIntegration=false",
      serverConfig: {
        apiVersion: "apiserver.config.datumapis.com/v1alpha1",
        kind: "WorkloadOperator",
        metricsServer: { bindAddress: ":9090" },
        webhookServer: { port: 9444, tls: { certDir: "certs" } },
        discovery: { clusterName: "dfw-01", quotaKubeconfigPath: "/etc/quota-credentials/kubeconfig" },
      },
    },
    line: "--server-config config.yaml --enable-cell-controllers --feature-gates NetworkingIntegration=false",
    files: {
      "config.yaml": `apiVersion: apiserver.config.datumapis.com/v1alpha1
discovery:
  clusterName: dfw-01
  quotaKubeconfigPath: /etc/quota-credentials/kubeconfig
kind: WorkloadOperator
metricsServer:
  bindAddress: :9090
webhookServer:
  port: 9444
  tls:
    certDir: certs
`,
    },
  },
};

it("has the version of the program", () => {
  const [chart] = readYaml(readFileSync(join(CHART, "Chart.yaml"), "utf8")).documents;
  expect(chart?.value).toMatchObject({ version: VERSION, appVersion: VERSION });
});

/** The values of version 0.0.1 of its chart, as published. */
const AUTO_LABELLER = {
  replicaCount: 1,
  image: { repository: "adaptant/k8s-auto-labeller", pullPolicy: "Always", tag: "latest" },
  imagePullSecrets: [],
  nameOverride: "a",
  fullnameOverride: "b",
  serviceAccount: { create: true, annotations: {}, name: "auto-labeller" },
  labels: { "addonmanager.kubernetes.io/mode": "Reconcile" },
  podAnnotations: {},
  podSecurityContext: { fsGroup: 1 },
  securityContext: { runAsUser: 1 },
  ingress: { enabled: false },
  resources: {},
  autoscaling: { enabled: false, minReplicas: 1, maxReplicas: 100, targetCPUUtilizationPercentage: 80 },
  nodeSelector: {},
  tolerations: [],
  affinity: {},
};

it("takes the values of the chart of k8s-auto-labeller, its label files on request, and names what means nothing", () => {
  const objects = rendered({ ...AUTO_LABELLER, defaultLabelFiles: true });
  const find = (name: string) => objects.find((it) => nameOf(it) === name);
  const [files, deployment] = [find("ConfigMap/berth-labels"), find("Deployment/berth")];
  expect(Object.keys((files as { data: object }).data)).toEqual([
    "accelerators_edgetpu",
    "accelerators_ncs2",
  ]);
  expect(find("ServiceAccount/auto-labeller")?.metadata?.labels).toMatchObject(AUTO_LABELLER.labels);
  expect(JSON.stringify(deployment)).toContain(`"image":"localhost/berth:${VERSION}"`);
  const notes = helm(
    ["install", "berth", CHART, "--dry-run=client", "-f", "-"],
    JSON.stringify(AUTO_LABELLER),
  );
  const named = [...notes.matchAll(/^(\w+) is .*k8s-auto-labeller\. It means nothing here\.$/gm)].map(
    ([, it]) => it,
  );
  const meaningless = "nameOverride fullnameOverride podSecurityContext securityContext ingress autoscaling";
  expect(named).toEqual(["image", ...meaningless.split(" ")]);
});

it.each([...(await kustomizations())])("kustomize/%s is what make generate writes", (name, text) => {
  expect(readFileSync(join(root, "kustomize", name), "utf8")).toBe(text);
});

/** The order of items says nothing to the API server, but for arguments, of which each stands for itself. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value))
    return value.map(sorted).toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, it]) => [key, sorted(it)]));
}

it.each([
  [],
  ["single"],
  ["management"],
  ["management", "federation-kubeconfig"],
  ["cell"],
  ["cell", "quota-credentials"],
])("kustomize makes of the base and %j what berth manifests prints", async (...names: readonly string[]) => {
  await using folder = await testFolder({
    "kustomization.yaml": toYaml({
      resources: ["kustomize/base"],
      components: names.map((it) => `kustomize/components/${it}`),
    }),
  });
  cpSync(join(root, "kustomize"), join(folder.path, "kustomize"), { recursive: true });
  const printed = execFileSync(join(helmFolder(), "kubectl"), ["kustomize", folder.path], {
    encoding: "utf8",
  });
  const made = readYaml(printed).documents.map(({ value }) => value as KubeObject);
  const expected = await printedWith(components[names.at(-1) ?? ""]?.fleet);
  expect(sorted(comparable(made))).toEqual(sorted(comparable(expected)));
});

/** What Berth writes itself is in no chart, as docs/guides/gitops.md says. */
const OWN =
  /^(?:\w+WebhookConfiguration|MutatingAdmission\w+|Secret|Lease|DaemonSet)\/|-(?:declared-places|image-facts.*)$/;

describe("berth manifests and the chart print the same", () => {
  it.each(Object.entries(cases))("with %s", async (_, { values, line = "", files = {} }) => {
    const words = `manifests --image localhost/berth:${VERSION} ${line} -o json`.split(" ").filter(Boolean);
    const printed = comparable(itemsOf(await berthWith(files, words)));
    const objects = rendered(values);
    expect(withReadDocuments(comparable(objects))).toEqual(withReadDocuments(printed));
    expect(objects.map(nameOf).filter((name) => OWN.test(name))).toEqual([]);
  });
});

/** The keys of a document have no order. */
function withReadDocuments(objects: Readonly<Record<string, unknown>>): unknown {
  const config = Object.entries(objects).find(([name]) => name.endsWith("-config"))?.[1] as
    | { data: Record<string, string> }
    | undefined;
  const text = config?.data["documents.yaml"];
  if (config === undefined || text === undefined) return objects;
  const { documents: read } = readYaml(text);
  return {
    ...objects,
    config: read.map(({ value }) => value),
    [nameOf(config as KubeObject)]: { ...config, data: { ...config.data, "documents.yaml": "" } },
  };
}
