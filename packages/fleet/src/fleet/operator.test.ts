import { describe, expect, it } from "vitest";
import { fleetKind } from "./document.ts";
import { readFeatureGates } from "./feature-gates.ts";
import { fleetOfFlags } from "./flags.ts";
import { readOperator } from "./operator.ts";
import { leaseName } from "./settings.ts";

const HEAD = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n";
/** As published with the original. */
const PRODUCTION = `metricsServer:
  bindAddress: "0"
discovery:
  quotaKubeconfigPath: /etc/quota-credentials/kubeconfig
featureFlags:
  enableReferencedDataGate: true
`;
const TESTS = `metricsServer:
  bindAddress: "0"
  secureServing: false
featureFlags:
  enableReferencedDataGate: true
`;
const UNKNOWN =
  "--feature-gates NetworkingIntergation: there is no such gate; Berth has NetworkingIntegration and ContainerResources";
const read = (content: string, flags = {}) =>
  readOperator({ file: "config.yaml", content: HEAD + content }, flags, "/etc/compute");

describe("WorkloadOperator", () => {
  it("A24 is a single cluster without quota when it says nothing else", () => {
    expect(read("")).toMatchObject({
      settings: { fleet: { mode: "single", cell: "single", networking: "Auto", provider: "external" } },
    });
  });

  it("becomes a cell whose claims are in the control planes of projects", () => {
    const content =
      "discovery:\n  mode: single\n  clusterName: dfw-01\n  quotaKubeconfigPath: quota/config\n";
    expect(read(content, { enableCellControllers: true })).toMatchObject({
      settings: {
        fleet: {
          mode: "cell",
          cell: "dfw-01",
          quota: { from: "Projects", kubeconfig: "/etc/compute/quota/config" },
        },
      },
    });
  });

  it("R28 has no networks with NetworkingIntegration=false", () => {
    const flags = { featureGates: "ContainerResources=1,NetworkingIntegration=false" };
    const fleet = { networking: "Off", featureGates: { ContainerResources: true } };
    expect(read("", flags)).toMatchObject({ settings: { fleet } });
  });

  it("listens at the address of the file, and says whose certificate it serves in mode single", () => {
    const content = "webhookServer: {host: 127.0.0.1, port: 9444, tls: {secretRef: {name: theirs}}}\n";
    expect(read(content)).toMatchObject({
      settings: {
        webhook: { bindAddress: "127.0.0.1:9444" },
        notes: [
          "webhookServer.tls.secretRef: Berth does not read Secret theirs: Berth makes its own certificate",
          expect.stringContaining("quotaKubeconfigPath"),
        ],
      },
    });
    const quota = "project: {id: web}\ndiscovery: {quotaKubeconfigPath: q}\n";
    expect(read(quota)).toMatchObject({ settings: { fleet: { cell: "single" }, notes: [] } });
  });

  it("has one document", () => {
    const found = readOperator({ file: "a.yaml", content: "" }, {}, "/");
    expect(found).toMatchObject({
      faults: [{ severity: "error", message: "must have one WorkloadOperator" }],
    });
  });

  it.each([
    ["its production cell", PRODUCTION, ["enableReferencedDataGate has no effect", "clusterName is not set"]],
    ["its cell for tests", TESTS, ["enableReferencedDataGate has no effect", "every Instance is granted"]],
    [
      "that of its development",
      "webhookServer: {tls: {secretRef: {name: compute-webhook-cert, namespace: kube-system}}}\n",
      ["Berth does not read Secret compute-webhook-cert: a cell has no webhook", "every Instance is granted"],
    ],
    [
      "one with limits of what it copies",
      "metricsServer: {tls: {secretRef: {name: a}}}\nreferencedData: {aggregateLimitBytes: 1, perObjectLimitBytes: 0}\n",
      ["referencedData has no effect", "metricsServer.tls has no effect", "every Instance is granted"],
    ],
    [
      "one that asks for nothing else",
      "referencedData: {}\ndiscovery: {clusterName: a, quotaKubeconfigPath: b}\n",
      [],
    ],
  ])("starts as a cell with %s, and says what has no effect", (_what, content, notes) => {
    const found = read(content, { enableCellControllers: true });
    expect(found).toMatchObject({ settings: { fleet: { mode: "cell", provider: "external" } } });
    const said = "settings" in found ? found.settings.notes : [];
    expect(said).toEqual(notes.map((note) => expect.stringContaining(note)));
  });

  it("takes the project that pays in mode single from the file or a flag, and no other", () => {
    const quota = "discovery: {quotaKubeconfigPath: /q}\n";
    const paid = {
      settings: { fleet: { mode: "single", project: { id: "web" }, quota: { from: "Projects" } } },
    };
    expect(read(`${quota}project: {id: web}\n`)).toMatchObject(paid);
    expect(read(quota, { project: "web" })).toMatchObject(paid);
    expect(read(`${quota}project: {id: web}\n`, { project: "shop" })).toMatchObject({
      faults: [{ message: "--project shop: config.yaml says web" }],
    });
  });

  it("listens where the original listens", () => {
    expect(
      read("metricsServer:\n  bindAddress: :8080\nwebhookServer:\n  tls:\n    certDir: certs\n"),
    ).toMatchObject({
      settings: {
        notes: ["discovery.quotaKubeconfigPath is not set: every Instance is granted"],
        metricsBindAddress: ":8080",
        webhook: { bindAddress: ":9443", certificates: "/etc/compute/certs" },
      },
    });
  });

  it.each([
    [
      "an unknown field",
      "discovery:\n  modus: single\n",
      /^config\.yaml:4:3: discovery\.modus: there is no such field$/,
    ],
    [
      "an unknown way of discovery",
      "discovery:\n  mode: kind\n",
      /^config\.yaml:4:9: discovery\.mode: must be single or milo/,
    ],
    ["quota without a name for the cluster", "discovery:\n  quotaKubeconfigPath: a\n", /project/],
    ["no YAML", "discovery: [\n", /^config\.yaml:\d+:\d+: /],
    ["two documents", "---\na: b\n", /^config\.yaml: must have one WorkloadOperator$/],
  ])("refuses %s, with its place", (_what, content, expected) => {
    const found = read(content);
    const [fault] = "faults" in found ? found.faults : [];
    const { file, line, column, message } = fault ?? {};
    const at = [file, line, column].filter((it) => it !== undefined).join(":");
    expect(`${at}: ${message}`).toMatch(expected);
  });
});

describe("WorkloadOperator, with flags that say something else", () => {
  it.each([
    [{ cell: "b" }, "discovery: {clusterName: a}\n", "--cell b: config.yaml says a"],
    [{ mode: "single", enableCellControllers: true }, "", "--mode single: config.yaml says cell"],
    [
      { mode: "cell" },
      "project: {id: web}\n",
      "project: a cell reads the project from the labels of each namespace",
    ],
    [{ project: "Web" }, "", "project.id: must be a DNS label"],
    [{}, "discovery: {mode: milo}\n", "discovery.mode: milo needs --enable-management-controllers"],
    [{ featureGates: "NetworkingIntergation=false" }, "", UNKNOWN],
  ])("is refused: %j", (flags, content, message) => {
    expect(read(content, flags)).toMatchObject({ faults: [{ file: "config.yaml", message }] });
  });
});

describe("R27 WorkloadOperator of a management process", () => {
  const management = { mode: "management", federationKubeconfig: "/etc/hub" };

  it("has the hub of the flags, and the projects that Milo has", () => {
    const content = "discovery: {mode: milo, discoveryKubeconfigPath: milo/config, quotaKubeconfigPath: q}\n";
    expect(read(content, { ...management, federationContext: "karmada" })).toMatchObject({
      settings: {
        fleet: {
          mode: "management",
          driver: "karmada",
          hub: { kubeconfig: "/etc/hub", context: "karmada" },
          projects: { milo: { kubeconfig: "/etc/compute/milo/config" } },
        },
        notes: ["discovery.quotaKubeconfigPath has no effect: cells ask for quota"],
      },
    });
  });

  it("has this cluster as its project without discovery", () => {
    expect(read("", management)).toMatchObject({ settings: { fleet: { projects: "self" }, notes: [] } });
  });

  it.each([
    ["without a hub", { mode: "management" }, "mode: single", /needs --federation-kubeconfig/],
    ["without the address of Milo", management, "mode: milo", /needs discoveryKubeconfigPath/],
    [
      "with projects elsewhere than below Milo",
      management,
      "mode: milo, discoveryKubeconfigPath: a, projectKubeconfigPath: b",
      /projectKubeconfigPath: must be discoveryKubeconfigPath/,
    ],
    ["with Milo inside its own cluster", management, "internalServiceDiscovery: true", /is not supported/],
  ])("does not start %s", (_what, flags, discovery, message) => {
    expect(read(`discovery: {${discovery}}\n`, flags)).toMatchObject({
      faults: [{ message: expect.stringMatching(message) }],
    });
  });
});

it("2.8 a cell of the original writes its Instances to the hub of the flags", () => {
  const flags = {
    enableCellControllers: true,
    federationKubeconfig: "/etc/hub",
    federationContext: "karmada",
  };
  expect(read("discovery: {clusterName: dfw-01}\n", flags)).toMatchObject({
    settings: { fleet: { mode: "cell", hub: { kubeconfig: "/etc/hub", context: "karmada" } } },
  });
});

describe("feature gates", () => {
  it.each([
    ["", {}],
    [",NetworkingIntegration=0,", { NetworkingIntegration: false }],
    [
      " NetworkingIntegration = False , ContainerResources=T",
      { NetworkingIntegration: false, ContainerResources: true },
    ],
    ["ContainerResources=TRUE,ContainerResources=f", { ContainerResources: false }],
  ])("reads %j as Go does", (list, gates) => {
    expect(readFeatureGates(list)).toEqual({ gates });
  });

  it.each([
    [true, "1 t T TRUE true True"],
    [false, "0 f F FALSE false False"],
  ])("are %s with %s", (ContainerResources, spellings) => {
    for (const value of spellings.split(" "))
      expect(readFeatureGates(`ContainerResources=${value}`)).toEqual({ gates: { ContainerResources } });
  });

  it.each([
    [
      "NetworkingIntergation=false",
      /^--feature-gates NetworkingIntergation: there is no such gate; Berth has /,
    ],
    ["networkingintegration=true", /^--feature-gates networkingintegration: there is no such gate/],
    [
      "NetworkingIntegration=no",
      /^--feature-gates NetworkingIntegration=no: expected NetworkingIntegration=true or/,
    ],
    ["NetworkingIntegration=tRUE", /expected/],
    ["NetworkingIntegration=true=", /expected/],
    ["NetworkingIntegration", /expected/],
  ])("refuses %j", (list, problem) => {
    expect(readFeatureGates(list)).toEqual({ problem: expect.stringMatching(problem) });
    expect(fleetOfFlags({ mode: "single", featureGates: list }, undefined)).toHaveProperty("problem");
    expect(fleetOfFlags({ featureGates: list }, undefined)).toHaveProperty("problem");
  });

  it("R28 R29 make a fleet with --mode, and agree with a document", () => {
    const off = { featureGates: "NetworkingIntegration=F" };
    const asked = fleetOfFlags({ mode: "single", project: "web", ...off }, undefined);
    expect(asked).toMatchObject({ spec: { networking: "Off", project: { id: "web" }, cities: [] } });
    if (asked === undefined || !("spec" in asked)) throw new Error("the flags must make a fleet");
    expect(fleetOfFlags(off, asked.spec)).toEqual(asked);
    for (const [gate, is] of [
      ["NetworkingIntegration=true", "NetworkingIntegration=false"],
      ["ContainerResources=true", "ContainerResources=false"],
    ] as const)
      expect(fleetOfFlags({ featureGates: gate }, asked.spec)).toEqual({
        problem: `--feature-gates ${gate}: the document Fleet says ${is}`,
      });
    const auto = fleetKind.spec.parse({ mode: "single" });
    expect(fleetOfFlags({ featureGates: "NetworkingIntegration=true" }, auto)).toEqual({ spec: auto });
    const paid = { ...asked.spec, project: undefined };
    expect(fleetOfFlags({ project: "web" }, paid)).toEqual({
      problem: "--project web: the document Fleet says nothing",
    });
    for (const flag of [{ project: "web" }, off])
      expect(fleetOfFlags(flag, undefined)).toEqual({
        problem: expect.stringMatching(/^--\S+ \S+ needs --mode, --server-config or a document Fleet$/),
      });
    expect(fleetOfFlags({ cell: "a" }, undefined)).toEqual({ problem: "--cell a needs --mode cell" });
    // A pod of the original has arguments without a value.
    expect(fleetOfFlags({ cell: "", project: "", featureGates: "" }, undefined)).toBeUndefined();
  });
});

describe("flags", () => {
  it("need the name of a cell, and have a Lease of its own", () => {
    expect(fleetOfFlags({ mode: "cell" }, undefined)).toEqual({
      problem: "--mode cell: cell a cell needs its name",
    });
    const found = fleetOfFlags({ mode: "cell", cell: "dfw-01" }, undefined);
    expect(found !== undefined && "spec" in found && leaseName(found.spec, "berth")).toBe(
      "compute-cell-dfw-01",
    );
  });

  it("8.7 of a hub name its kubeconfig, and this cluster is the project", () => {
    const file = { federationKubeconfig: "/etc/hub" };
    expect(fleetOfFlags({ mode: "management", ...file }, undefined)).toMatchObject({
      spec: { hub: { kubeconfig: "/etc/hub" }, projects: "self" },
    });
    expect(
      fleetOfFlags({ mode: "management", ...file, federationContext: "karmada" }, undefined),
    ).toMatchObject({
      spec: { hub: { context: "karmada" } },
    });
    expect(fleetOfFlags({ mode: "management", federationContext: "karmada" }, undefined)).toEqual({
      problem: "--federation-context karmada needs --federation-kubeconfig",
    });
    expect(fleetOfFlags({ mode: "management" }, undefined)).toEqual({
      problem: "--mode management needs --federation-kubeconfig: a file, or self",
    });
    expect(fleetOfFlags({ mode: "management", federationKubeconfig: "self" }, undefined)).toMatchObject({
      spec: { hub: "self", projects: "self" },
    });
    const self = fleetKind.spec.parse({ mode: "management", hub: "self", projects: "self" });
    expect(fleetOfFlags(file, self)).toEqual({
      problem: "--federation-kubeconfig /etc/hub: the document Fleet says self",
    });
  });

  it.each<[object, RegExp]>([
    [{ mode: "single", hub: "self" }, /mode single has no hub/],
    [{ mode: "cell", cell: "a", hub: "self" }, /a cell is no hub/],
    [{ mode: "cell", cell: "a", driver: "karmada" }, /only mode management brings deployments/],
    [{ mode: "single", projects: "self" }, /only mode management has projects/],
    [{ mode: "management", hub: "self" }, /must be self, or have kubeconfigs/],
    [
      { mode: "management", hub: "self", projects: "self", quota: { from: "Cluster" } },
      /cells ask for quota/,
    ],
    [
      {
        mode: "management",
        hub: "self",
        projects: {
          kubeconfigs: ["acme/web", "shop/web"].map((it) => ({ path: it, kubeconfig: "a" })),
        },
      },
      /two projects are called web/,
    ],
  ])("8.7 R15 %j is refused", (spec, problem) => {
    expect(fleetKind.spec.safeParse(spec).error?.message).toMatch(problem);
  });

  it("do not contradict the document", () => {
    const document = fleetOfFlags({ mode: "single" }, undefined);
    if (document === undefined || !("spec" in document)) throw new Error("the flag must make a fleet");
    expect(leaseName(document.spec, "berth")).toBe("compute-single");
    expect(fleetOfFlags({ mode: "cell" }, document.spec)).toEqual({
      problem: "--mode cell: the document Fleet says single",
    });
    expect(fleetOfFlags({}, undefined)).toBeUndefined();
  });
});
