import { readYaml } from "@berth/host";
import {
  type ClusterRole,
  type CustomResourceDefinition,
  clusterRoles,
  configMaps,
  deployments,
  type KubeObject,
  networkPolicies,
  podDisruptionBudgets,
  type Resource,
  type RoleBinding,
  services,
  validatingAdmissionPolicies,
} from "@berth/kube";
import { describe, expect, it } from "vitest";
import { capabilityNames } from "./capability-names.ts";
import { exitCodes } from "./exit-codes.ts";
import { crds, foreignKinds, servedKinds } from "./kinds.ts";
import { installManifests } from "./manifests.ts";
import { toYaml } from "./output/data.ts";
import { berthWith, itemsOf } from "./testing/harness.ts";
import { permissionsOf } from "./testing/installed.ts";

const OPTIONS = {
  image: "berth:1",
  namespace: "berth-system",
  installation: "berth",
  replicas: 1,
  rules: new Map(),
};

const installed = (options: Partial<Parameters<typeof installManifests>[0]> = {}): readonly KubeObject[] =>
  installManifests({ ...OPTIONS, ...options });

type Objects = readonly KubeObject[];
/** The first of this kind, and of this name. */
const find = <T extends KubeObject>(objects: Objects, { kind }: Resource<T>, name?: string): T =>
  objects.find((it) => it.kind === kind && (name === undefined || it.metadata?.name === name)) as T;
const namesOf = (objects: Objects, kind: string): readonly (string | undefined)[] =>
  objects.filter((it) => it.kind === kind).map(({ metadata }) => metadata?.name);
const podOf = (objects: Objects) => find(objects, deployments).spec?.template.spec;

const INSTALL = "manifests --image berth:1";
const REGISTRIES = `apiVersion: berth.dev/v1alpha1
kind: ImageRegistries
metadata: {name: default}
spec:
  registries: [{registry: registry.test, certificateAuthority: ca.pem}]
`;

describe("installManifests", () => {
  it("mounts each rule under its own path, whatever its key in the ConfigMap", () => {
    const rules = new Map([
      ["accelerators/edgetpu", "a\n"],
      ["accelerators_edgetpu", "b\n"],
      ["plain", "c\n"],
    ]);
    const objects = installed({ rules });
    const { data = {} } = find(objects, configMaps);
    const items = podOf(objects)?.volumes?.[0]?.configMap?.items ?? [];
    expect(new Map(items.map(({ key, path }) => [path, data[key]]))).toEqual(rules);
    expect(Object.keys(data).every((key) => /^[-._a-zA-Z0-9]+$/.test(key))).toBe(true);
  });

  it("mounts documents where run is told to look for them, and nothing without them", () => {
    const documents = new Map([["registries.yaml", "kind: ImageRegistries\n"]]);
    const objects = installed({ documents });
    const pod = podOf(objects);
    const [container] = pod?.containers ?? [];
    expect(container?.args).toContain("--config=/etc/berth/config");
    const mount = { name: "config", mountPath: "/etc/berth/config", readOnly: true };
    expect(container?.volumeMounts).toContainEqual(mount);
    expect(pod?.volumes).toContainEqual({
      name: "config",
      configMap: { name: "berth-config", items: [{ key: "registries.yaml", path: "registries.yaml" }] },
    });
    expect(namesOf(objects, "ConfigMap")).toEqual(["berth-labels", "berth-config"]);
    expect(JSON.stringify(installed())).not.toContain("config=");
  });

  it("S-1 closes the webhook to all but API servers where their addresses are given, and never by default", () => {
    const apiServerCidrs = ["10.0.0.0/28", "fd00::1/128"];
    const policy = find(installed({ apiServerCidrs }), networkPolicies);
    const ports = podOf(installed())?.containers[0]?.ports ?? [];
    const rules = policy.spec?.ingress ?? [];
    const opened = new Set(rules.flatMap((rule) => rule.ports?.map(({ port }) => port)));
    expect(opened).toEqual(new Set(ports.map(({ name }) => name)));
    const from = apiServerCidrs.map((cidr) => ({ ipBlock: { cidr } }));
    expect(rules.map((rule) => rule.from)).toEqual([from, undefined]);
    expect(namesOf(installed(), "NetworkPolicy")).toEqual([]);
    for (const wrong of ["10.0.0.1", "10.0.0.0/33", "fd00::/129", "nowhere/8", "10.0.0.0/8/8", ""])
      expect(() => installed({ apiServerCidrs: [wrong] })).toThrow("--api-server-cidr");
  });

  it("refuses rules that no ConfigMap can hold", () => {
    const rules = new Map([["a/b", "x".repeat(1_100_000)]]);
    expect(() => installed({ rules })).toThrow(RangeError);
  });

  it("turns leader election on for several replicas only", () => {
    const elects = [1, 2].map((replicas) => {
      const [container] = podOf(installed({ replicas }))?.containers ?? [];
      return container?.args?.includes("--leader-elect");
    });
    expect(elects).toEqual([false, true]);
  });
});

const OPERATOR = `apiVersion: apiserver.config.datumapis.com/v1alpha1
kind: WorkloadOperator
metricsServer: {bindAddress: ":9090"}
`;
const QUOTA = "discovery: {quotaKubeconfigPath: /etc/quota-credentials/kubeconfig}\n";

describe("the Deployment of a fleet", () => {
  it("A24 has the file of the original, its flags, and the Secret that it names", async () => {
    const flags = "--enable-cell-controllers --feature-gates NetworkingIntegration=False";
    const line = `manifests --image berth:1 -o json --server-config conf/config.yaml ${flags}`;
    const result = await berthWith({ "conf/config.yaml": OPERATOR + QUOTA }, line);
    const objects = itemsOf(result);
    expect(result.stderr).toMatch(/^berth: conf\/config.yaml: discovery.clusterName is not set/);
    expect(find(objects, configMaps, "berth-operator").data).toEqual({ "config.yaml": OPERATOR + QUOTA });
    const { containers: [container] = [], volumes } = podOf(objects) ?? {};
    expect(container?.args).toEqual([
      "run",
      "--label-dir=/labels",
      "--server-config=/etc/berth/operator/config.yaml",
      "--enable-cell-controllers",
      "--feature-gates=NetworkingIntegration=False",
      "--namespace=berth-system",
      "--installation=berth",
      "--leader-elect",
    ]);
    expect(container?.volumeMounts?.slice(1)).toEqual([
      { name: "operator", mountPath: "/etc/berth/operator", readOnly: true },
      { name: "quota", mountPath: "/etc/quota-credentials", readOnly: true },
    ]);
    expect(volumes?.slice(1)).toEqual([
      {
        name: "operator",
        configMap: { name: "berth-operator", items: [{ key: "config.yaml", path: "config.yaml" }] },
      },
      { name: "quota", secret: { secretName: "compute-quota-credentials", optional: true } },
    ]);
    expect(container?.ports).toContainEqual({ name: "metrics", containerPort: 9090 });
    const rights = find(objects, clusterRoles, "berth-fleet").rules?.flatMap(({ resources }) => resources);
    expect(rights).toContain("instances");
    expect(rights).not.toContain("networkbindings");
  });

  it("has credentials among its documents where a document names them there, and none without quota", async () => {
    const fleet = (kubeconfig: string): string =>
      `apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {mode: cell, cell: a, quota: {from: Projects, kubeconfig: ${kubeconfig}}}\n`;
    const volumesOf = async (text: string, line: string) =>
      podOf(
        itemsOf(await berthWith({ "conf/a/fleet.yaml": text }, `${INSTALL} -o json --config ${line}`)),
      )?.volumes?.slice(1);
    const secret = { name: "mine", optional: true, items: [{ key: "quota", path: "a/quota" }] };
    const configMap = { name: "berth-config", items: [{ key: "a_fleet.yaml", path: "a/fleet.yaml" }] };
    expect(await volumesOf(fleet("quota"), "conf --quota-secret mine")).toEqual([
      { name: "config", projected: { sources: [{ configMap }, { secret }] } },
    ]);
    expect(await volumesOf(fleet("../quota/own"), "conf/a/fleet.yaml")).toMatchObject([
      { name: "config", configMap: {} },
      { name: "quota", secret: { secretName: "compute-quota-credentials" } },
    ]);
    const plain = "apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {mode: single}\n";
    expect(await volumesOf(plain, "conf")).toMatchObject([{ name: "config", configMap: {} }]);
  });

  it("has the kubeconfigs of its hub and of projects from one Secret, where the Fleet names them", async () => {
    const spec =
      "{mode: management, hub: {kubeconfig: /etc/hub/config}, projects: {kubeconfigs: [{path: web, kubeconfig: web}, {path: api, kubeconfig: /etc/hub/api}]}}";
    const document = `apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: {name: default}\nspec: ${spec}\n`;
    const line = `${INSTALL} --config conf.yaml --federation-secret planes`;
    const printed = await readBack(line, { "conf.yaml": document });
    const text = JSON.stringify(printed);
    expect(text.includes('"mountPath":"/etc/hub"')).toBe(true);
    // That of the project is beside the document.
    expect(text.includes('"secret":{"name":"planes","optional":true,"items":[{"key":"web"')).toBe(true);
    expect(text.includes('"secret":{"secretName":"planes"')).toBe(true);
  });

  it.each([
    ["--mode cell --cell dfw-01", ["--mode=cell", "--cell=dfw-01"], "compute-cell-dfw-01"],
    [
      "--mode management --federation-kubeconfig self",
      ["--mode=management", "--federation-kubeconfig=self"],
      "compute-management",
    ],
    [
      "--mode management --federation-kubeconfig /etc/hub/config",
      ["--mode=management", "--federation-kubeconfig=/etc/hub/config"],
      '"secretName":"berth-federation"',
    ],
  ])("runs a fleet without a document, with its rights: %s", async (flags, args, has) => {
    const printed = await readBack(`${INSTALL} ${flags}`);
    expect(podOf(printed as readonly KubeObject[])?.containers[0]?.args).toEqual(
      expect.arrayContaining(args),
    );
    expect(JSON.stringify(printed)).toContain(has);
  });

  it("serves its webhook with the certificate and at the port that the file names", async () => {
    const text = `${OPERATOR}webhookServer: {port: 9444, tls: {certDir: certs}}\n`;
    const printed = await berthWith(
      { "config.yaml": text },
      `${INSTALL} -o json --server-config config.yaml`,
    );
    const { containers: [container] = [], volumes } = podOf(itemsOf(printed)) ?? {};
    expect(container?.ports).toContainEqual({ name: "webhook", containerPort: 9444 });
    const items = ["tls.crt", "tls.key", "ca.crt"].map((key) => ({ key, path: `certs/${key}` }));
    const source = { secret: { name: "compute-webhook-cert", optional: true, items } };
    expect(volumes?.[1]?.projected?.sources?.[1]).toEqual(source);
  });

  it.each([
    ["--feature-gates Networking=false", exitCodes.usage, "there is no such gate"],
    ["--feature-gates NetworkingIntegration=false", exitCodes.usage, "needs --mode"],
    ["--server-config config.yaml --feature-gates NetworkingIntegration=no", exitCodes.faults, "expected"],
    ["--server-config config.yaml --config fleet.yaml", exitCodes.usage, "there is a document Fleet already"],
    ["--server-config none.yaml", exitCodes.faults, "there is no such file"],
  ])("is not printed with %s", async (flags, code, message) => {
    const fleet = "apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {mode: single}\n";
    const result = await berthWith({ "config.yaml": OPERATOR, "fleet.yaml": fleet }, `${INSTALL} ${flags}`);
    expect(result).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(message) });
  });
});

describe("the Service of the webhook", () => {
  it("leads to the pods of its installation, to a port that they have", () => {
    const objects = installed({ installation: "blue" });
    const { metadata, spec } = find(objects, services);
    const { template } = find(objects, deployments).spec ?? {};
    expect(metadata?.name).toBe("berth-blue-webhook");
    expect(template?.metadata?.labels).toMatchObject(spec?.selector ?? { none: "none" });
    const [port] = spec?.ports ?? [];
    expect([port?.port, port?.targetPort]).toEqual([443, "webhook"]);
    expect(template?.spec?.containers[0]?.ports).toContainEqual({ name: "webhook", containerPort: 8443 });
  });
});

/** The documents that are printed as YAML, which are those that are printed as JSON. */
async function readBack(line: string, files = {}): Promise<readonly unknown[]> {
  const { code, stdout } = await berthWith(files, line);
  const { documents, problems } = readYaml(stdout);
  const values = documents.map(({ value }) => value);
  expect([code, problems]).toEqual([0, []]);
  expect(values).toEqual(itemsOf(await berthWith(files, `${line} -o json`)));
  return values;
}

describe("berth manifests", () => {
  it("prints one YAML document for each object, which reads back as it is", async () => {
    expect(await readBack(`${INSTALL} --label-dir labels`, { "labels/a/b": "yes\n" })).toHaveLength(18);
  });

  it("refuses to let rules write a key that is not reserved", async () => {
    const { code, stderr } = await berthWith({}, `${INSTALL} --allow-reserved example.com`);
    expect([code, stderr]).toEqual([
      exitCodes.usage,
      "berth: --allow-reserved example.com: must be a label key or a domain under kubernetes.io or k8s.io\n",
    ]);
  });

  it("puts documents and certificates of a folder into a ConfigMap, and no credentials", async () => {
    const providers = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";
    const registries = {
      "conf/registries.yaml": REGISTRIES,
      "conf/ca.pem": "pem",
      "conf/providers.yaml": providers,
    };
    const files = { ...registries, "conf/config.json": "{}", "conf/tls.key": "key" };
    const result = await berthWith(files, `${INSTALL} --config conf -o json`);
    expect(result.stderr).toBe("");
    const found = find(itemsOf(result), configMaps, "berth-config");
    expect(found.data).toEqual({
      "registries.yaml": REGISTRIES,
      "ca.pem": "pem",
      "providers.yaml": providers,
    });
  });

  it("prints the CRDs, apart from what is installed after them", async () => {
    const printedCrds = (await readBack("manifests crds")) as readonly CustomResourceDefinition[];
    const kinds = printedCrds.map(({ spec }) => spec.names.kind);
    expect(kinds).toEqual(servedKinds.map(({ resource }) => resource.kind));
  });

  it("prints the CRD of WorkerPool, which belongs to another project, on request", async () => {
    const { stdout } = await berthWith({}, "manifests crds --worker-pool");
    expect(
      crds(foreignKinds(["worker-pools"]))
        .map((crd) => `---\n${toYaml(crd)}`)
        .join(""),
    ).toBe(stdout);
    expect(stdout).toContain("kind: WorkerPool\n");
  });

  it.each([
    ["cell", ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]],
    ["project", ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]],
    ["hub", []],
    ["karmada", []],
    ["write-back", []],
  ])("prints what lets a hub use a %s, and the rights before the token", async (plane, policies) => {
    const objects = (await readBack(`manifests access --to ${plane} -n hub`)) as readonly KubeObject[];
    const rights = [
      "ClusterRole",
      "ClusterRoleBinding",
      ...(plane === "cell" ? ["Role", "RoleBinding"] : []),
    ];
    const kinds = ["Namespace", "ServiceAccount", ...policies, ...rights, "Secret"];
    expect(objects.map(({ kind }) => kind)).toEqual(kinds);
    const { stdout } = await berthWith({}, `manifests access --to ${plane} -n hub --no-confinement`);
    expect(stdout).not.toContain("ValidatingAdmissionPolicy");
  });

  it.each([
    ["kube-system", false],
    ["default", false],
    ["berth-system", true],
  ])("I-12 into %s prints a Namespace: %s", (namespace, isPrinted) => {
    expect(namesOf(installed({ namespace }), "Namespace")).toHaveLength(isPrinted ? 1 : 0);
  });

  it("I-12 binds the roles to the account of a patch, which is there already", () => {
    const objects = installed({ patch: { spec: { serviceAccountName: "theirs" } } });
    expect(namesOf(objects, "ServiceAccount")).toEqual([]);
    const bindings = objects.flatMap((it) =>
      it.kind?.endsWith("RoleBinding") ? [it as unknown as RoleBinding] : [],
    );
    expect(JSON.stringify(find(objects, validatingAdmissionPolicies))).toContain(
      "system:serviceaccount:berth-system:theirs",
    );
    expect(bindings.length).toBeGreaterThan(1);
    for (const { subjects } of bindings) expect(subjects).toMatchObject([{ name: "theirs" }]);
    expect(podOf(objects)?.serviceAccountName).toBe("theirs");
  });

  it("I-12 names the faults of a patch, and a file that is not there", async () => {
    const patched = (file: string) =>
      berthWith({ "pod.yaml": "spec:\n  nodeSelectors: {}\n" }, `${INSTALL} --patch ${file}`);
    expect(await patched("pod.yaml")).toMatchObject({
      code: exitCodes.faults,
      stdout: "",
      stderr: expect.stringContaining("pod.yaml:2:3: spec.nodeSelectors: there is no such field"),
    });
    expect(await patched("none.yaml")).toMatchObject({
      code: exitCodes.faults,
      stderr: expect.stringMatching(/^berth: --patch none.yaml: ENOENT/),
    });
  });

  it("S-8 takes capabilities by name, and prints no policy where that is not wanted", async () => {
    const narrow = await berthWith({}, `${INSTALL} --capabilities labels,gates --no-confinement -o json`);
    expect(namesOf(itemsOf(narrow), "ClusterRole")).toHaveLength(1);
    expect(namesOf(itemsOf(narrow), "ValidatingAdmissionPolicy")).toEqual([]);
    const { code, stderr } = await berthWith({}, `${INSTALL} --capabilities labels,all`);
    expect([code, stderr]).toEqual([
      exitCodes.usage,
      expect.stringContaining(capabilityNames.optional.join()),
    ]);
  });

  it("S-11 prints two replicas that stand in for each other, by default", async () => {
    const items = itemsOf(await berthWith({}, `${INSTALL} -o json`));
    const selector = { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": "berth" };
    expect(find(items, podDisruptionBudgets)).toMatchObject({
      spec: { maxUnavailable: 1, selector: { matchLabels: selector } },
    });
    const { spec } = find(items, deployments);
    expect(spec).toMatchObject({ replicas: 2, strategy: { type: "RollingUpdate" } });
    expect(spec?.template.spec).toMatchObject({
      priorityClassName: "system-cluster-critical",
      topologySpreadConstraints: [
        {
          topologyKey: "kubernetes.io/hostname",
          whenUnsatisfiable: "DoNotSchedule",
          labelSelector: { matchLabels: selector },
        },
        {
          topologyKey: "topology.kubernetes.io/zone",
          whenUnsatisfiable: "ScheduleAnyway",
          labelSelector: { matchLabels: selector },
        },
      ],
      containers: [{ args: expect.arrayContaining(["--leader-elect"]) }],
    });
  });

  it("gives a replica two minutes to start, and three seconds for each answer", async () => {
    const [container] = podOf(itemsOf(await berthWith({}, `${INSTALL} -o json`)))?.containers ?? [];
    const { startupProbe, livenessProbe, readinessProbe } = container ?? {};
    expect([startupProbe, livenessProbe, readinessProbe]).toMatchObject([
      { httpGet: { path: "/healthz" }, periodSeconds: 5, failureThreshold: 24, timeoutSeconds: 3 },
      { httpGet: { path: "/healthz" }, timeoutSeconds: 3 },
      { httpGet: { path: "/readyz" }, timeoutSeconds: 3 },
    ]);
  });

  it("leaves a lost node after five minutes, and tolerates for ever only what gates of Berth put on", async () => {
    const gate = (name: string, effect: string): string =>
      `{apiVersion: berth.dev/v1alpha1, kind: StartupGate, metadata: {name: ${name}}, spec: {taint: {key: example.com/${name}, effect: ${effect}}, signals: {labelsSettled: true}}}\n`;
    const files = { "c.yaml": `${gate("a", "NoSchedule")}---\n${gate("b", "NoExecute")}` };
    const items = itemsOf(await berthWith(files, "manifests --image berth:1 --config c.yaml -o json"));
    const exists = { operator: "Exists", effect: "NoExecute" };
    expect(podOf(items)?.tolerations).toEqual([
      { operator: "Exists", effect: "NoSchedule" },
      { ...exists, key: "startup.k8s.io/initializing" },
      { ...exists, key: "example.com/b" },
      { ...exists, key: "node.kubernetes.io/not-ready", tolerationSeconds: 300 },
      { ...exists, key: "node.kubernetes.io/unreachable", tolerationSeconds: 300 },
    ]);
  });
});

describe("berth manifests runtime-class", () => {
  const given = "manifests runtime-class arm64 amd64 arm64 --handler runc";

  it("prints one for each architecture, that tolerates the taints which are named", async () => {
    const result = await berthWith({}, `${given} --taint-key supported-arch -o json`);
    const items = itemsOf(result);
    expect([result.code, namesOf(items, "RuntimeClass")]).toEqual([0, ["berth-amd64", "berth-arm64"]]);
    expect(items[1]).toMatchObject({
      handler: "runc",
      scheduling: {
        nodeSelector: { "kubernetes.io/arch": "arm64" },
        tolerations: [{ key: "supported-arch", value: "arm64", effect: "NoSchedule" }],
      },
    });
  });

  it.each([
    ["manifests", "--image"],
    ["manifests runtime-class arm64", "--handler"],
    ["manifests runtime-class --handler runc", "architectures"],
    ["manifests runtime-class ARM_64 --handler runc", "ARM_64 is no architecture"],
    [`${given} --taint-key no/key/`, "--taint-key no/key/"],
    ["manifests crds arm64", "takes no architectures"],
  ])("refuses what is missing or wrong: %s", async (line, said) => {
    const { code, stderr, stdout } = await berthWith({}, line);
    expect([code, stdout]).toEqual([exitCodes.usage, ""]);
    expect(stderr).toContain(said);
  });
});

describe("the rights of the manifests", () => {
  /** `patch pods/status`, of all roles of this kind, or the one of this name. */
  const permissions = (objects: Objects, kind = "ClusterRole", name?: string): readonly string[] => {
    const found = objects.filter(
      (it) => it.kind === kind && (name ?? it.metadata?.name) === it.metadata?.name,
    );
    return permissionsOf(found.flatMap((it) => (it as ClusterRole).rules ?? [])).flat();
  };
  const on = (resource: string, all: readonly string[]): readonly string[] =>
    all.filter((it) => it.split(" ")[1] === resource);

  it.each([
    [{}, "berth-webhook-tls"],
    [{ installation: "blue" }, "berth-blue-webhook-tls"],
  ])("reach one Secret by name, no Secret of others and no ServiceAccount: %j", (options, secret) => {
    const objects = installed(options);
    const secrets = on("secrets", permissions(objects, "Role"));
    expect(secrets).not.toContain("get secrets");
    const names = secrets.flatMap((it) => it.split(" ").slice(2));
    expect(new Set(names)).toEqual(new Set([secret]));
    const others = permissions(objects).filter((it) => it.includes("secrets"));
    expect([...others, ...on("serviceaccounts", permissions(objects, "Role"))]).toEqual([]);
  });

  it("let pods be evicted for deschedule policies alone, by a role that can be left out", () => {
    const evicting = (name?: string) => on("pods/eviction", permissions(installed(), "ClusterRole", name));
    expect(evicting("berth-deschedule")).toEqual(["create pods/eviction"]);
    expect(evicting()).toEqual(["create pods/eviction"]);
  });

  it("let pods and DaemonSets be written for architecture policies alone, by a role that can be left out", () => {
    for (const resource of ["pods", "daemonsets.apps"]) {
      const common = on(resource, permissions(installed(), "ClusterRole", "berth"));
      expect(common).toEqual([`list ${resource}`, `watch ${resource}`]);
      const more = on(resource, permissions(installed(), "ClusterRole", "berth-architecture"));
      expect(more).toEqual([`patch ${resource}`]);
    }
  });

  const always = ["nodes", "events", ...servedKinds.map(({ resource }) => `${resource.plural}/status`)];
  const webhook = (name: string) => `mutatingwebhookconfigurations berth-${name}`;
  const documents = "validatingwebhookconfigurations berth-documents";
  const gates = [
    webhook("startup-gate"),
    "validatingwebhookconfigurations berth-direct-binding",
    documents,
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
  ];
  const architecture = [webhook("architecture"), documents, "pods", "pods/status", "daemonsets"];
  it.each<readonly [readonly string[], readonly string[]]>([
    [["labels"], []],
    [["gates"], gates],
    [["labels", "architecture"], architecture],
    [["footprint"], [webhook("footprint"), documents]],
    [["deschedule"], ["pods/eviction"]],
    [capabilityNames.optional, [...gates, ...architecture, webhook("footprint"), "pods/eviction"]],
  ])(
    "S-8 are narrowed to %j: only those that patch pods and DaemonSets, or evict, may",
    (capabilities, more) => {
      const written = permissions(installed({ rights: { capabilities } }))
        .filter((it) => /^(?:create|patch|delete) /.test(it))
        .map((it) => it.replace(/^\w+ (\w+)[^/ ]*/, "$1"));
      expect(new Set(written)).toEqual(new Set([...always, ...more]));
    },
  );

  it("are those of all capabilities by default", () => {
    const rights = { capabilities: capabilityNames.optional };
    expect(permissions(installed())).toEqual(permissions(installed({ rights })));
  });

  it("reach pull secrets only when that is asked for", () => {
    expect(permissions(installed(), "ClusterRole", "berth-pull-secrets")).toEqual([]);
    const asked = installed({ installation: "blue", rights: { flags: new Set(["pullSecrets"]) } });
    const found = permissions(asked, "ClusterRole", "berth-blue-pull-secrets");
    expect(found).toEqual(["get secrets", "get serviceaccounts"]);
    const parts = ["", "-architecture", "-pull-secrets", "-footprint", "-deschedule"];
    const bound = parts.map((part) => `berth-blue${part}`);
    expect(namesOf(asked, "ClusterRoleBinding")).toEqual(bound);
  });

  it("reach Deployments only when that is asked for", () => {
    expect(new Set(on("deployments.apps", permissions(installed())))).toEqual(
      new Set(["get deployments.apps"]),
    );
    const asked = permissions(installed({ rights: { flags: new Set(["workerPools"]) } }));
    const verbs = ["get", "list", "watch", "patch", "create", "delete"];
    expect(new Set(on("deployments.apps", asked))).toEqual(
      new Set(verbs.map((it) => `${it} deployments.apps`)),
    );
    expect(on("workerpools.ate.dev", asked)).not.toEqual([]);
  });

  it("cover every kind: to read it and to write its status, nothing else", () => {
    const found = permissions(installed(), "ClusterRole", "berth").filter((it) =>
      /^\w+ \w+\.berth\.dev/.test(it),
    );
    const expected = servedKinds.flatMap(({ resource: { plural } }) => {
      const kind = `${plural}.berth.dev`;
      return [`list ${kind}`, `watch ${kind}`, `patch ${kind}/status`];
    });
    expect(found).toEqual(expected);
  });
});
