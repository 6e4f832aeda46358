import { readYaml } from "@berth/host";
import type {
  ClusterRole,
  ConfigMap,
  CustomResourceDefinition,
  Deployment,
  KubeObject,
  NetworkPolicy,
  PolicyRule,
  Role,
  RoleBinding,
  RuntimeClass,
  Service,
} from "@berth/kube";
import { describe, expect, it } from "vitest";
import { exitCodes } from "./exit-codes.ts";
import { crds, foreignKinds, servedKinds } from "./kinds.ts";
import { installManifests } from "./manifests.ts";
import { toYaml } from "./output/data.ts";
import { cli, testFolder } from "./testing/harness.ts";

const OPTIONS = {
  image: "berth:1",
  namespace: "berth-system",
  installation: "berth",
  replicas: 1,
  rules: new Map(),
};

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
    const objects = installManifests({ ...OPTIONS, rules });
    const data = (objects.find(({ kind }) => kind === "ConfigMap") as ConfigMap).data ?? {};
    const pod = (objects.find(({ kind }) => kind === "Deployment") as Deployment).spec?.template.spec;
    const items = pod?.volumes?.[0]?.configMap?.items ?? [];
    expect(new Map(items.map(({ key, path }) => [path, data[key]]))).toEqual(rules);
    expect(Object.keys(data).every((key) => /^[-._a-zA-Z0-9]+$/.test(key))).toBe(true);
  });

  it("mounts documents where run is told to look for them, and nothing without them", () => {
    const documents = new Map([["registries.yaml", "kind: ImageRegistries\n"]]);
    const objects = installManifests({ ...OPTIONS, documents });
    const pod = (find(objects, "Deployment") as Deployment).spec?.template.spec;
    const [container] = pod?.containers ?? [];
    expect(container?.args).toContain("--config=/etc/berth/config");
    expect(container?.volumeMounts).toContainEqual({
      name: "config",
      mountPath: "/etc/berth/config",
      readOnly: true,
    });
    expect(pod?.volumes).toContainEqual({
      name: "config",
      configMap: { name: "berth-config", items: [{ key: "registries.yaml", path: "registries.yaml" }] },
    });
    expect(objects.filter(({ kind }) => kind === "ConfigMap").map(({ metadata }) => metadata?.name)).toEqual([
      "berth-labels",
      "berth-config",
    ]);
    expect(JSON.stringify(installManifests(OPTIONS))).not.toContain("config=");
  });

  it("S-1 closes the webhook to all but API servers where their addresses are given, and never by default", () => {
    const apiServerCidrs = ["10.0.0.0/28", "fd00::1/128"];
    const policy = find(installManifests({ ...OPTIONS, apiServerCidrs }), "NetworkPolicy") as NetworkPolicy;
    const { spec } = find(installManifests(OPTIONS), "Deployment") as Deployment;
    const ports = spec?.template.spec?.containers[0]?.ports ?? [];
    const rules = policy.spec?.ingress ?? [];
    expect(new Set(rules.flatMap((rule) => rule.ports?.map(({ port }) => port)))).toEqual(
      new Set(ports.map(({ name }) => name)),
    );
    expect(rules.map(({ from }) => from)).toEqual([
      apiServerCidrs.map((cidr) => ({ ipBlock: { cidr } })),
      undefined,
    ]);
    expect(installManifests(OPTIONS).map(({ kind }) => kind)).not.toContain("NetworkPolicy");
    for (const wrong of ["10.0.0.1", "10.0.0.0/33", "fd00::/129", "nowhere/8", "10.0.0.0/8/8", ""])
      expect(() => installManifests({ ...OPTIONS, apiServerCidrs: [wrong] })).toThrow("--api-server-cidr");
  });

  it("refuses rules that no ConfigMap can hold", () => {
    const rules = new Map([["a/b", "x".repeat(1_100_000)]]);
    expect(() => installManifests({ ...OPTIONS, rules })).toThrow(RangeError);
  });

  it("turns leader election on for several replicas only", () => {
    const argumentsOf = (replicas: number): readonly string[] => {
      const deployment = installManifests({ ...OPTIONS, replicas }).find(({ kind }) => kind === "Deployment");
      return (deployment as Deployment).spec?.template.spec?.containers[0]?.args ?? [];
    };
    expect(argumentsOf(1)).not.toContain("--leader-elect");
    expect(argumentsOf(2)).toContain("--leader-elect");
  });
});

function find(objects: readonly KubeObject[], kind: string): KubeObject | undefined {
  return objects.find((object) => object.kind === kind);
}

describe("the Service of the webhook", () => {
  it("leads to the pods of its installation, to a port that they have", () => {
    const objects = installManifests({ ...OPTIONS, installation: "blue" });
    const { metadata, spec } = find(objects, "Service") as Service;
    const { template } = (find(objects, "Deployment") as Deployment).spec ?? {};
    expect(metadata?.name).toBe("berth-blue-webhook");
    expect(template?.metadata?.labels).toMatchObject(spec?.selector ?? { none: "none" });
    const [port] = spec?.ports ?? [];
    expect([port?.port, port?.targetPort]).toEqual([443, "webhook"]);
    expect(template?.spec?.containers[0]?.ports).toContainEqual({ name: "webhook", containerPort: 8443 });
  });
});

describe("berth manifests", () => {
  it("prints one YAML document for each object, which reads back as it is", async () => {
    await using folder = await testFolder({ "labels/a/b": "yes\n" });
    const given = ["manifests", "--image", "berth:1", "--label-dir", "labels"];
    const { code, stdout } = await cli(given, { folder: folder.path });
    const { stdout: json } = await cli([...given, "-o", "json"], { folder: folder.path });
    const { documents, problems } = readYaml(stdout);
    expect([code, problems]).toEqual([0, []]);
    expect(documents.map(({ value }) => value)).toEqual((JSON.parse(json) as { items: unknown[] }).items);
    expect(documents).toHaveLength(16);
  });

  it("puts documents and certificates of a folder into a ConfigMap, and no credentials", async () => {
    await using folder = await testFolder({
      "conf/registries.yaml": REGISTRIES,
      "conf/ca.pem": "pem",
      "conf/config.json": "{}",
      "conf/tls.key": "key",
    });
    const given = ["manifests", "--image", "berth:1", "--config", "conf", "-o", "json"];
    const { stdout, stderr } = await cli(given, { folder: folder.path });
    expect(stderr).toBe("");
    const { items } = JSON.parse(stdout) as { items: readonly KubeObject[] };
    const found = items.find(({ metadata }) => metadata?.name === "berth-config") as ConfigMap;
    expect(found.data).toEqual({ "registries.yaml": REGISTRIES, "ca.pem": "pem" });
  });

  it("prints the CRDs, apart from what is installed after them", async () => {
    const { code, stdout } = await cli(["manifests", "crds"]);
    const { stdout: json } = await cli(["manifests", "crds", "-o", "json"]);
    const { documents, problems } = readYaml(stdout);
    expect([code, problems]).toEqual([0, []]);
    expect(documents.map(({ value }) => value)).toEqual((JSON.parse(json) as { items: unknown[] }).items);
    const kinds = documents.map(({ value }) => (value as CustomResourceDefinition).spec.names.kind);
    expect(kinds).toEqual(servedKinds.map(({ resource }) => resource.kind));
    // What `kubectl apply` writes down of an object, and an annotation has room for.
    for (const { value } of documents) expect(JSON.stringify(value).length).toBeLessThan(200_000);
  });

  it("prints the CRD of WorkerPool, which belongs to another project, on request", async () => {
    const { stdout } = await cli(["manifests", "crds", "--worker-pool"]);
    expect(crds(foreignKinds).map(toYaml).join("---\n")).toBe(stdout);
    expect(stdout).toContain("kind: WorkerPool\n");
  });

  it.each([
    ["kube-system", false],
    ["default", false],
    ["berth-system", true],
  ])("I-12 into %s prints a Namespace: %s", (namespace, isPrinted) => {
    const found = find(installManifests({ ...OPTIONS, namespace }), "Namespace");
    expect(found !== undefined).toBe(isPrinted);
  });

  it("I-12 binds the roles to the account of a patch, which is there already", () => {
    const patch = { spec: { serviceAccountName: "theirs" } };
    const objects = installManifests({ ...OPTIONS, patch });
    expect(find(objects, "ServiceAccount")).toBeUndefined();
    const bindings = objects.flatMap((it) =>
      it.kind?.endsWith("RoleBinding") ? [it as unknown as RoleBinding] : [],
    );
    expect(JSON.stringify(find(objects, "ValidatingAdmissionPolicy"))).toContain(
      "system:serviceaccount:berth-system:theirs",
    );
    expect(bindings.length).toBeGreaterThan(1);
    for (const { subjects } of bindings) expect(subjects).toMatchObject([{ name: "theirs" }]);
    expect(find(objects, "Deployment")).toMatchObject({
      spec: { template: { spec: { serviceAccountName: "theirs" } } },
    });
  });

  it("I-12 names the faults of a patch, and a file that is not there", async () => {
    await using folder = await testFolder({ "pod.yaml": "spec:\n  nodeSelectors: {}\n" });
    const patched = (file: string) =>
      cli(["manifests", "--image", "berth:1", "--patch", file], { folder: folder.path });
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
    const given = ["manifests", "--image", "berth:1"];
    const { stdout } = await cli([
      ...given,
      "--capabilities",
      "labels,gates",
      "--no-confinement",
      "-o",
      "json",
    ]);
    const { items } = JSON.parse(stdout) as { readonly items: readonly KubeObject[] };
    const kinds = items.map(({ kind }) => kind);
    expect(kinds.filter((it) => it === "ClusterRole")).toHaveLength(1);
    expect(kinds).not.toContain("ValidatingAdmissionPolicy");
    const { code, stderr } = await cli([...given, "--capabilities", "labels,all"]);
    expect([code, stderr]).toEqual([
      exitCodes.usage,
      expect.stringContaining("labels,gates,architecture,footprint"),
    ]);
  });

  it("S-11 prints two replicas that stand in for each other, by default", async () => {
    const { stdout } = await cli(["manifests", "--image", "berth:1", "-o", "json"]);
    const { items } = JSON.parse(stdout) as { readonly items: readonly KubeObject[] };
    const selector = { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": "berth" };
    expect(find(items, "PodDisruptionBudget")).toMatchObject({
      spec: { maxUnavailable: 1, selector: { matchLabels: selector } },
    });
    const { spec } = find(items, "Deployment") as Deployment;
    expect(spec).toMatchObject({ replicas: 2, strategy: { type: "RollingUpdate" } });
    expect(spec?.template.spec).toMatchObject({
      priorityClassName: "system-cluster-critical",
      topologySpreadConstraints: [
        { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: selector } },
        { topologyKey: "topology.kubernetes.io/zone", labelSelector: { matchLabels: selector } },
      ],
      containers: [{ args: expect.arrayContaining(["--leader-elect"]) }],
    });
  });

  it("needs an image to install", async () => {
    const { code, stderr } = await cli(["manifests"]);
    expect(code).toBe(exitCodes.usage);
    expect(stderr).toContain("--image");
  });
});

describe("berth manifests runtime-class", () => {
  const given = ["manifests", "runtime-class", "arm64", "amd64", "arm64", "--handler", "runc"];

  it("prints one for each architecture, that tolerates the taints which are named", async () => {
    const { code, stdout } = await cli([...given, "--taint-key", "supported-arch", "-o", "json"]);
    const { items } = JSON.parse(stdout) as { items: readonly RuntimeClass[] };
    expect([code, items.map(({ metadata }) => metadata?.name)]).toEqual([0, ["berth-amd64", "berth-arm64"]]);
    expect(items[1]).toMatchObject({
      handler: "runc",
      scheduling: {
        nodeSelector: { "kubernetes.io/arch": "arm64" },
        tolerations: [{ key: "supported-arch", value: "arm64", effect: "NoSchedule" }],
      },
    });
  });

  it.each([
    [["manifests", "runtime-class", "arm64"], "--handler"],
    [["manifests", "runtime-class", "--handler", "runc"], "architectures"],
    [["manifests", "runtime-class", "ARM 64", "--handler", "runc"], "ARM 64 is no architecture"],
    [[...given, "--taint-key", "no key"], "--taint-key no key"],
    [["manifests", "crds", "arm64"], "takes no architectures"],
  ])("refuses what is missing or wrong: %j", async (line, said) => {
    const { code, stderr, stdout } = await cli(line);
    expect([code, stdout]).toEqual([exitCodes.usage, ""]);
    expect(stderr).toContain(said);
  });
});

describe("the rights of the manifests", () => {
  const inNamespace = (rules: readonly PolicyRule[] | undefined, resource: string) =>
    (rules ?? []).filter(({ resources }) => resources?.includes(resource));

  it("reach one Secret by name, no Secret of others and no ServiceAccount", () => {
    for (const [installation, name] of [
      ["berth", "berth"],
      ["blue", "berth-blue"],
    ] as const) {
      const role = find(installManifests({ ...OPTIONS, installation }), "Role") as Role;
      const named = inNamespace(role.rules, "secrets").filter(({ resourceNames }) => resourceNames);
      expect(named.map(({ resourceNames }) => resourceNames)).toEqual([[`${name}-webhook-tls`]]);
      const open = inNamespace(role.rules, "secrets").filter(({ resourceNames }) => !resourceNames);
      expect(open.flatMap(({ verbs }) => verbs)).not.toContain("get");
      expect(inNamespace(role.rules, "serviceaccounts")).toEqual([]);
    }
    const clusterWide = (find(installManifests(OPTIONS), "ClusterRole") as ClusterRole).rules;
    expect(inNamespace(clusterWide, "secrets")).toEqual([]);
    const all = installManifests(OPTIONS).flatMap((object) => (object as ClusterRole).rules ?? []);
    expect(inNamespace(all, "pods/eviction")).toEqual([]);
  });

  const roleNamed = (objects: readonly KubeObject[], name: string): ClusterRole | undefined =>
    objects.find(({ kind, metadata }) => kind === "ClusterRole" && metadata?.name === name);

  it("let pods and DaemonSets be written for architecture policies alone, by a role that can be left out", () => {
    const objects = installManifests(OPTIONS);
    const common = roleNamed(objects, "berth")?.rules;
    const architecture = roleNamed(objects, "berth-architecture")?.rules;
    for (const resource of ["pods", "daemonsets"]) {
      expect(inNamespace(common, resource).map(({ verbs }) => verbs)).toEqual([["list", "watch"]]);
      expect(inNamespace(architecture, resource).map(({ verbs }) => verbs)).toEqual([["patch"]]);
    }
  });

  it("S-8 are narrowed to capabilities: only those that patch pods and DaemonSets may", () => {
    const written = (capabilities?: readonly string[]): ReadonlySet<string> =>
      new Set(
        installManifests({ ...OPTIONS, rights: { ...(capabilities && { capabilities }) } })
          .flatMap((object) => (object.kind === "ClusterRole" ? ((object as ClusterRole).rules ?? []) : []))
          .filter(({ verbs }) => verbs.some((it) => ["create", "patch", "delete"].includes(it)))
          .flatMap(({ resources = [], resourceNames = [""] }) =>
            resources.flatMap((it) => resourceNames.map((name) => `${it} ${name}`.trim())),
          ),
      );
    const always = ["nodes", "events", ...servedKinds.map(({ resource }) => `${resource.plural}/status`)];
    const webhook = (name: string) => `mutatingwebhookconfigurations berth-${name}`;
    const gates = [
      webhook("startup-gate"),
      "validatingwebhookconfigurations berth-direct-binding",
      "mutatingadmissionpolicies",
      "mutatingadmissionpolicybindings",
    ];
    const architecture = [webhook("architecture"), "pods", "pods/status", "daemonsets"];
    expect(written(["labels"])).toEqual(new Set(always));
    expect(written(["gates"])).toEqual(new Set([...always, ...gates]));
    expect(written(["labels", "architecture"])).toEqual(new Set([...always, ...architecture]));
    expect(written(["footprint"])).toEqual(new Set([...always, webhook("footprint")]));
    expect(written()).toEqual(new Set([...always, ...gates, ...architecture, webhook("footprint")]));
  });

  it("reach pull secrets only when that is asked for", () => {
    expect(roleNamed(installManifests(OPTIONS), "berth-pull-secrets")).toBeUndefined();
    const asked = installManifests({
      ...OPTIONS,
      installation: "blue",
      rights: { flags: new Set(["pullSecrets"]) },
    });
    const { rules } = roleNamed(asked, "berth-blue-pull-secrets") ?? {};
    expect(rules).toEqual([{ apiGroups: [""], resources: ["secrets", "serviceaccounts"], verbs: ["get"] }]);
    const bindings = asked.filter(({ kind }) => kind === "ClusterRoleBinding");
    expect(bindings.map(({ metadata }) => metadata?.name)).toEqual([
      "berth-blue",
      "berth-blue-architecture",
      "berth-blue-pull-secrets",
      "berth-blue-footprint",
    ]);
  });

  it("reach Deployments only when that is asked for", () => {
    const deploymentVerbs = (objects: readonly KubeObject[]): ReadonlySet<string> =>
      new Set(
        objects
          .filter(({ kind }) => kind === "ClusterRole")
          .flatMap((role) => inNamespace((role as ClusterRole).rules, "deployments"))
          .flatMap(({ verbs }) => verbs),
      );
    expect(deploymentVerbs(installManifests(OPTIONS))).toEqual(new Set(["get"]));
    const asked = installManifests({ ...OPTIONS, rights: { flags: new Set(["workerPools"]) } });
    expect(deploymentVerbs(asked)).toEqual(new Set(["get", "list", "watch", "patch", "create", "delete"]));
    expect(inNamespace(roleNamed(asked, "berth-worker-pools")?.rules, "workerpools")).toHaveLength(1);
  });

  it("cover every kind: to read it and to write its status, nothing else", () => {
    const role = installManifests(OPTIONS).find(({ kind }) => kind === "ClusterRole") as ClusterRole;
    const rules = role.rules?.filter(({ apiGroups }) => apiGroups?.includes("berth.dev"));
    expect(rules).toEqual(
      servedKinds.flatMap(({ resource: { plural } }) => [
        { apiGroups: ["berth.dev"], resources: [plural], verbs: ["list", "watch"] },
        { apiGroups: ["berth.dev"], resources: [`${plural}/status`], verbs: ["patch"] },
      ]),
    );
  });
});
