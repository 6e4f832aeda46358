import type {
  ClusterRole,
  ConfigMap,
  CustomResourceDefinition,
  Deployment,
  KubeObject,
  PolicyRule,
  Role,
  Service,
} from "@berth/kube";
import { customKinds } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { readYaml } from "./config/yaml.ts";
import { exitCodes } from "./exit-codes.ts";
import { installManifests } from "./manifests.ts";
import { cli, testFolder } from "./testing/harness.ts";

const OPTIONS = {
  image: "berth:1",
  namespace: "berth-system",
  installation: "berth",
  replicas: 1,
  rules: new Map(),
};

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
    expect(documents).toHaveLength(9);
  });

  it("prints the CRDs, apart from what is installed after them", async () => {
    const { code, stdout } = await cli(["manifests", "crds"]);
    const { stdout: json } = await cli(["manifests", "crds", "-o", "json"]);
    const { documents, problems } = readYaml(stdout);
    expect([code, problems]).toEqual([0, []]);
    expect(documents.map(({ value }) => value)).toEqual((JSON.parse(json) as { items: unknown[] }).items);
    const kinds = documents.map(({ value }) => (value as CustomResourceDefinition).spec.names.kind);
    expect(kinds).toEqual(customKinds.map(({ resource }) => resource.kind));
  });

  it("needs an image to install", async () => {
    const { code, stderr } = await cli(["manifests"]);
    expect(code).toBe(exitCodes.usage);
    expect(stderr).toContain("--image");
  });
});

describe("the rights of the manifests", () => {
  const inNamespace = (rules: readonly PolicyRule[] | undefined, resource: string) =>
    (rules ?? []).filter(({ resources }) => resources?.includes(resource));

  it("reach one Secret and one switch by name, and no Secret of others", () => {
    for (const [installation, name] of [
      ["berth", "berth"],
      ["blue", "berth-blue"],
    ] as const) {
      const role = find(installManifests({ ...OPTIONS, installation }), "Role") as Role;
      for (const [resource, only] of [
        ["secrets", `${name}-webhook-tls`],
        ["serviceaccounts", `${name}-startup-gate`],
      ] as const) {
        const named = inNamespace(role.rules, resource).filter(({ resourceNames }) => resourceNames);
        expect(named.map(({ resourceNames }) => resourceNames)).toEqual([[only]]);
        const open = inNamespace(role.rules, resource).filter(({ resourceNames }) => !resourceNames);
        expect(open.flatMap(({ verbs }) => verbs)).not.toContain("get");
      }
    }
    const clusterWide = (find(installManifests(OPTIONS), "ClusterRole") as ClusterRole).rules;
    expect(inNamespace(clusterWide, "secrets")).toEqual([]);
  });

  it("let pods and DaemonSets be read and never written", () => {
    const { rules } = find(installManifests(OPTIONS), "ClusterRole") as ClusterRole;
    for (const resource of ["pods", "daemonsets"]) {
      expect(inNamespace(rules, resource).map(({ verbs }) => verbs)).toEqual([["get", "list", "watch"]]);
    }
  });

  it("cover every kind: to read it and to write its status, nothing else", () => {
    const role = installManifests(OPTIONS).find(({ kind }) => kind === "ClusterRole") as ClusterRole;
    const rules = role.rules?.filter(({ apiGroups }) => apiGroups?.includes("berth.dev"));
    expect(rules).toEqual(
      customKinds.flatMap(({ resource: { plural } }) => [
        { apiGroups: ["berth.dev"], resources: [plural], verbs: ["get", "list", "watch"] },
        { apiGroups: ["berth.dev"], resources: [`${plural}/status`], verbs: ["patch"] },
      ]),
    );
  });
});
