/** What stands in examples works: the rules do on a node what examples/labels.md says, and gates, policies and footprints are in force. */
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fleetKind, leaseName, type Workload } from "@berth/fleet";
import { compileDocuments, type DocumentRules, type Documents } from "@berth/host";
import {
  architecturePolicyKind,
  architectureRules,
  descheduleRules,
  footprintPresets,
  footprintRules,
  gateRules,
  imageRegistriesKind,
  labelsOnce,
  mergeContributions,
  nodeFootprintKind,
  PR_134_POOLS,
  planNode,
  workerPoolsKind,
} from "@berth/placement";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { loadSettings } from "./config/settings.ts";
import { readRuleFiles } from "./session.ts";

const root = path.join(import.meta.dirname, "../../..");
const documented = await readFile(path.join(root, "examples/labels.md"), "utf8");
const rows = [...documented.matchAll(/^\| `(\S+)`\s*\| `(\S+)=(\S+)`/gm)].map(
  ([, file = "", key = "", value = ""]) => ({ file, key, value }),
);

/** The labels that the rules would set on a node with this label. */
async function labelsFor(label: string): Promise<Readonly<Record<string, string | undefined>>> {
  const files = await readRuleFiles({ labelDir: "examples/labels" }, { folder: root, environment: {} });
  const { facts } = await labelsOnce(files).read({ files, waiting: "act" });
  const capabilities = facts === undefined ? [] : [facts];
  const node = aNode("n")
    .labelled({ [label]: "true" })
    .stored({ uid: "u", resourceVersion: "1" })
    .build();
  const view = { node, owned: new Map() };
  const merged = mergeContributions(capabilities.map((capability) => capability.contribute(view, 0)));
  const { changes } = planNode({ node, merged, installation: "berth", now: 0 });
  return Object.fromEntries(changes.map(({ id, after }) => [id, after]));
}

describe("examples/labels", () => {
  it("documents rules", () =>
    expect(rows.map(({ file }) => file)).toEqual(["accelerators/edgetpu", "accelerators/ncs2"]));

  it.each(rows)(
    "$file sets $key=$value for each of its lines, and nothing else",
    async ({ file, key, value }) => {
      const lines = (await readFile(path.join(root, "examples/labels", file), "utf8")).trimEnd().split("\n");
      for (const line of lines) expect(await labelsFor(line)).toEqual({ [`label/${key}`]: value });
    },
  );

  it("leave a node without such a device alone", async () => {
    expect(await labelsFor("example.com/other")).toEqual({});
  });
});

/** Names of the files of a folder, and of those that its README tells of. */
async function listFiles(folder: string): Promise<Record<"files" | "documented", Set<string | undefined>>> {
  const text = await readFile(path.join(root, folder, "README.md"), "utf8");
  const files = (await readdir(path.join(root, folder))).filter((file) => file.endsWith(".yaml"));
  const documented = [...text.matchAll(/^\| `(\S+)`/gm)].map(([, file]) => file);
  return { files: new Set(files), documented: new Set(documented) };
}

const settingsOf = (folder: string, file: string): Promise<Documents> =>
  loadSettings({ config: [`${folder}/${file}`] }, root);

function inForceOf<S, T>(rules: DocumentRules<S, T>, settings: Documents): T | undefined {
  const config = settings.documentsOf(rules.kind);
  return compileDocuments(rules, { config, cluster: undefined }, undefined);
}

describe("examples/startup-gate", () => {
  it.each([
    ["nodetaintshandler.yaml", ["nodetaintshandler"]],
    ["network-and-gpus.yaml", ["network-and-gpus"]],
    ["two-phases.yaml", ["preinit", "warming"]],
  ])("%s is in force as it stands", async (file, names) => {
    const settings = await settingsOf("examples/startup-gate", file);
    const gates = inForceOf(gateRules, settings);
    expect(gates?.faults).toEqual([]);
    expect(gates?.gates.map(({ name }) => name)).toEqual(names);
  });
});

describe("examples/architecture", () => {
  const folder = "examples/architecture";
  const modes = {
    "affinity.yaml": ["Affinity"],
    "archaware-controller.yaml": ["Taint"],
    "both.yaml": ["Both"],
    "gke.yaml": ["Both"],
    "multiarch-tuning-operator.yaml": ["Affinity"],
    "overrides.yaml": ["Affinity"],
    "private-registries.yaml": [],
  };

  it("documents every file", async () => {
    const files = new Set(Object.keys(modes));
    expect(await listFiles(folder)).toEqual({ files, documented: files });
  });

  it.each(Object.entries(modes))("%s is in force as it stands", async (file, expected) => {
    const settings = await settingsOf(folder, file);
    const policies = inForceOf(architectureRules, settings);
    expect(policies?.faults).toEqual([]);
    expect(policies?.policies.map(({ spec }) => spec.mode)).toEqual(expected);
    expect(settings.specOf(imageRegistriesKind) === undefined).toBe(expected.length > 0);
  });

  it("goes on from archaware-controller by the same name, key and nodes", async () => {
    const policyOf = async (file: string) =>
      (await settingsOf(folder, file)).documentsOf(architecturePolicyKind)[0];
    const original = await policyOf("archaware-controller.yaml");
    const next = await policyOf("both.yaml");
    expect(next?.name).toBe(original?.name);
    expect(next?.spec.taint).toEqual(original?.spec.taint);
    expect(original?.spec.taint).toEqual({ key: "supported-arch", nodes: "Taint", nodeSelector: {} });
  });
});

describe("examples/deschedule", () => {
  const folder = "examples/deschedule";
  const keys = {
    "architectures.yaml": [[]],
    "careful.yaml": [["nvidia.com/gpu.product", "feature.node.kubernetes.io/pci-10de.present"]],
    "default.yaml": [undefined],
    "notifiers.yaml": [],
  };

  it("documents every file", async () => {
    const files = new Set(Object.keys(keys));
    expect(await listFiles(folder)).toEqual({ files, documented: files });
  });

  it.each(Object.entries(keys))("%s is in force as it stands", async (file, expected) => {
    const policies = inForceOf(descheduleRules, await settingsOf(folder, file));
    expect(policies?.faults).toEqual([]);
    expect(policies?.policies.map(({ spec }) => spec.keys)).toEqual(expected);
  });
});

describe("examples/fleet", () => {
  const folder = "examples/fleet";
  const leases = {
    "cell.yaml": "compute-cell-dfw-01",
    "external-provider.yaml": "compute-single",
    "management.yaml": "compute-management",
    "quota.yaml": "compute-single",
    "single.yaml": "compute-single",
  };

  it("documents every file", async () => {
    const files = new Set([...Object.keys(leases), "workload.yaml", "workload-two-cities.yaml"]);
    expect(await listFiles(folder)).toEqual({ files, documented: files });
  });

  it.each(Object.entries(leases))("%s is a Fleet as it stands", async (file, lease) => {
    const spec = (await settingsOf(folder, file)).specOf(fleetKind);
    expect(spec && leaseName(spec, "berth")).toBe(lease);
  });

  it.each([
    ["workload.yaml", ["DFW"]],
    ["workload-two-cities.yaml", ["DFW", "ORD"]],
  ])("%s names cities and a size of single.yaml", async (file, cities) => {
    const fleet = (await settingsOf(folder, "single.yaml")).specOf(fleetKind);
    const text = await readFile(path.join(root, folder, file), "utf8");
    const { spec } = parse(text) as Workload;
    expect(spec?.placements.flatMap(({ cityCodes }) => cityCodes)).toEqual(cities);
    expect(fleet?.cities).toEqual(expect.arrayContaining(cities));
    expect(Object.keys(fleet?.catalog ?? {})).toContain(spec?.template.spec.runtime.resources.instanceType);
  });
});

describe("examples/footprint", () => {
  const folder = "examples/footprint";
  const expected = {
    "agent-substrate-owner-uid.yaml": { label: "ate.dev/atelet", by: "OwnerUID", claims: "ate.dev/claim." },
    "agent-substrate-pr-134.yaml": { label: "ate.dev/atelet", by: "PodLabel", claims: "ate.dev/claim." },
    "csi.yaml": byNameOf("efs-csi-node", "Namespace"),
    "gpu.yaml": { label: "footprint.berth.dev/dcgm-exporter", by: "None", claims: undefined },
    "image-warmer.yaml": byNameOf("image-warmer", "OwnerUID"),
    "log.yaml": byNameOf("apm-agent", "Namespace"),
  };

  function byNameOf(name: string, by: string): object {
    const label = `footprint.berth.dev/${name}`;
    return { label, by, claims: `${label}_` };
  }

  it("documents every file", async () => {
    const files = new Set(Object.keys(expected));
    expect(await listFiles(folder)).toEqual({ files, documented: files });
  });

  it.each(Object.entries(expected))("%s is in force as it stands", async (file, marks) => {
    const settings = await settingsOf(folder, file);
    const inForce = inForceOf(footprintRules, settings);
    expect(inForce?.faults).toEqual([]);
    expect(
      inForce?.footprints.map(({ label, grouping, claims }) => ({
        label: label.key,
        by: grouping.by,
        claims: claims?.annotationPrefix,
      })),
    ).toEqual([marks]);
  });

  it("have the preset that their file is named for, and each preset has one", async () => {
    const presets = new Set<string | undefined>();
    for (const file of Object.keys(expected)) {
      const preset = (await settingsOf(folder, file)).specOf(nodeFootprintKind)?.preset;
      expect(`${preset?.replace("/", "-")}.yaml`).toBe(file);
      presets.add(preset);
    }
    expect(presets).toEqual(new Set(footprintPresets));
  });

  it("makes the Deployments of WorkerPools as pull request 134 does, and otherwise leaves them alone", async () => {
    const allow = { images: ["registry.example/"], namespaces: ["agents"], priorityClasses: [] };
    for (const file of Object.keys(expected)) {
      const isOfPullRequest = file === "agent-substrate-pr-134.yaml";
      const config = (await settingsOf(folder, file)).specOf(workerPoolsKind);
      expect(config).toEqual(isOfPullRequest ? { allow, ...PR_134_POOLS } : undefined);
    }
  });
});
