/** What stands in examples works: the rules do on a node what examples/labels.md says, and the gates are in force. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { mergeContributions, planNode } from "@berth/placement";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
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
