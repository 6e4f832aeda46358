/** What stands in examples works: the rules do on a node what examples/labels.md says, and gates and policies are in force. */
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { mergeContributions, planNode } from "@berth/placement";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { assembleArchitecture } from "./architecture-policies.ts";
import { loadSettings } from "./config/settings.ts";
import { assembleReadRules, readRuleFiles } from "./session.ts";
import { assembleGates } from "./startup-gates.ts";

const root = path.join(import.meta.dirname, "../../..");
const documented = await readFile(path.join(root, "examples/labels.md"), "utf8");
const rows = [...documented.matchAll(/^\| `(\S+)`\s*\| `(\S+)=(\S+)`/gm)].map(
  ([, file = "", key = "", value = ""]) => ({
    file,
    key,
    value,
  }),
);

/** The labels that the rules would set on a node with this label. */
async function labelsFor(label: string): Promise<Readonly<Record<string, string | undefined>>> {
  const files = await readRuleFiles({ labelDir: "examples/labels" }, { folder: root });
  const { capabilities } = assembleReadRules(files, undefined, "act");
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

describe("examples/startup-gate", () => {
  it.each([
    ["nodetaintshandler.yaml", ["nodetaintshandler"]],
    ["network-and-gpus.yaml", ["network-and-gpus"]],
    ["two-phases.yaml", ["preinit", "warming"]],
  ])("%s is in force as it stands", async (file, names) => {
    const { startupGates } = await loadSettings({ config: [`examples/startup-gate/${file}`] }, root);
    const gates = assembleGates(startupGates, undefined);
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
    const text = await readFile(path.join(root, folder, "README.md"), "utf8");
    const documented = [...text.matchAll(/^\| `(\S+)`/gm)].map(([, file]) => file);
    const files = (await readdir(path.join(root, folder))).filter((file) => file.endsWith(".yaml"));
    expect(new Set(documented)).toEqual(new Set(files));
    expect(new Set(Object.keys(modes))).toEqual(new Set(files));
  });

  it.each(Object.entries(modes))("%s is in force as it stands", async (file, expected) => {
    const settings = await loadSettings({ config: [`${folder}/${file}`] }, root);
    const policies = assembleArchitecture(settings.architecturePolicies, undefined);
    expect(policies?.faults).toEqual([]);
    expect(policies?.policies.map(({ spec }) => spec.mode)).toEqual(expected);
    expect(settings.imageRegistries === undefined).toBe(expected.length > 0);
  });

  it("goes on from archaware-controller by the same name, key and nodes", async () => {
    const config = ["archaware-controller.yaml", "both.yaml"].map((file) => `${folder}/${file}`);
    const [original, next] = await Promise.all(
      config.map(async (file) => (await loadSettings({ config: [file] }, root)).architecturePolicies[0]),
    );
    expect(next?.name).toBe(original?.name);
    expect(next?.spec.taint).toEqual(original?.spec.taint);
    expect(original?.spec.taint).toEqual({ key: "supported-arch", nodes: "Taint", nodeSelector: {} });
  });
});
