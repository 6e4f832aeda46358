import { describe, expect, it } from "vitest";
import { fleetOfFlags } from "./flags.ts";
import { readOperator } from "./operator.ts";
import { leaseName } from "./settings.ts";

const HEAD = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n";
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
    const flags = { featureGates: "Other=true,NetworkingIntegration=false" };
    expect(read("", flags)).toMatchObject({ settings: { fleet: { networking: "Off" } } });
  });

  it("listens where the original listens", () => {
    expect(
      read("metricsServer:\n  bindAddress: :8080\nwebhookServer:\n  tls:\n    certDir: certs\n"),
    ).toMatchObject({
      settings: {
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
      "discovery of projects",
      "discovery:\n  mode: milo\n",
      /^config\.yaml:4:9: discovery\.mode: only single/,
    ],
    ["quota without a name for the cluster", "discovery:\n  quotaKubeconfigPath: a\n", /project/],
    ["no YAML", "discovery: [\n", /^config\.yaml:\d+:\d+: /],
  ])("refuses %s, with its place", (_what, content, expected) => {
    const found = read(content);
    const [fault] = "faults" in found ? found.faults : [];
    const { file, line, column, message } = fault ?? {};
    const at = [file, line, column].filter((it) => it !== undefined).join(":");
    expect(`${at}: ${message}`).toMatch(expected);
  });
});

describe("flags", () => {
  it("need the name of a cell, and have a Lease of its own", () => {
    expect(fleetOfFlags({ mode: "cell" }, undefined)).toEqual({
      problem: "--mode cell: cell a cell needs its name",
    });
    const found = fleetOfFlags({ mode: "cell", cell: "dfw-01" }, undefined);
    expect(found !== undefined && "spec" in found && leaseName(found.spec)).toBe("compute-cell-dfw-01");
  });

  it("do not contradict the document", () => {
    const document = fleetOfFlags({ mode: "single" }, undefined);
    if (document === undefined || !("spec" in document)) throw new Error("the flag must make a fleet");
    expect(leaseName(document.spec)).toBe("compute-single");
    expect(fleetOfFlags({ mode: "cell" }, document.spec)).toEqual({
      problem: "--mode cell: the document Fleet says single",
    });
    expect(fleetOfFlags({}, undefined)).toBeUndefined();
  });
});
