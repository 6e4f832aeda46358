import path from "node:path";
import { describe, expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { berthWith, cli, testFolder } from "../testing/harness.ts";

const DOCUMENT =
  "apiVersion: berth.dev/v1alpha1\nkind: LabelFolder\nmetadata: {name: a}\nspec: {path: labels}\n";

describe("berth validate", () => {
  it("lists the faults of all files at once, with line and column", async () => {
    await using folder = await testFolder({
      "labels/accelerators/good": "example.com/device\n",
      "labels/accelerators/odd": "example.com/device\nnot a key\nexample.com/x=true\n",
      "labels/a/b/c": "x\n",
      "labels/kubernetes.io/hostname": "x\n",
      "labels/loop/self": "loop/self\n",
      "berth.yaml":
        "apiVersion: berth.dev/v1alpha1\nkind: LabelFolder\nmetadata: {name: a}\nspec:\n  pth: x\n",
    });
    const { code, stdout, stderr } = await folder.berth("validate labels berth.yaml");
    expect([code, stderr]).toEqual([exitCodes.faults, ""]);
    expect(stdout).toMatchInlineSnapshot(`
      "berth.yaml:5:3: error: spec.path: is required (InvalidDocument)
      berth.yaml:5:3: error: spec.pth: there is no such field (InvalidDocument)
      labels/a/b/c: error: the path is not a valid label key: a label key has at most one \`/\`; the file is ignored (InvalidLabelKey)
      labels/accelerators/odd:2:1: warning: no node can carry "not a key": the name must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\` (NeverMatches)
      labels/accelerators/odd:3:14: warning: no node can carry "example.com/x=true": a line is a label key alone; values are not compared (NeverMatches)
      labels/kubernetes.io/hostname: error: the domain is reserved for Kubernetes; allow kubernetes.io/hostname explicitly to let this rule write it (ReservedLabelKey)
      labels/loop/self:1:1: warning: loop/self names its own label: a label that Berth sets never supports itself; the other lines work (CyclicRule)
      4 errors, 3 warnings
      "
    `);
  });

  it("is content with what works", async () => {
    const files = { "labels/a/b": "x\n", "berth.yaml": DOCUMENT };
    const { code, stdout } = await berthWith(files, "validate labels berth.yaml");
    expect([code, stdout]).toEqual([exitCodes.done, "2 paths checked: no faults\n"]);
  });

  it("follows a document to its folder", async () => {
    const files = { "labels/.x.swp": "x\n", "berth.yaml": DOCUMENT };
    const { code, stdout } = await berthWith(files, "validate berth.yaml -o json");
    expect(code).toBe(exitCodes.faults);
    expect(JSON.parse(stdout)).toMatchObject({ valid: false, faults: [{ reason: "InvalidLabelKey" }] });
  });

  it("finds what is wrong with startup gates beyond their schema, where it stands", async () => {
    const gate = (name: string, more: string): string =>
      `apiVersion: berth.dev/v1alpha1\nkind: StartupGate\nmetadata: {name: ${name}}\nspec:\n  minimumHold: 1s\n${more}`;
    const text = [gate("a", ""), gate("b", ""), gate("c", "  after: [c]\n  taint: {key: example.com/c}\n")];
    const { code, stdout } = await berthWith({ "gates.yaml": text.join("---\n") }, "validate gates.yaml");
    expect(code).toBe(exitCodes.faults);
    expect(stdout).toMatch(/^gates\.yaml:11:\d+: error: b: .*config\/a has the same taint/m);
    expect(stdout).toMatch(/^gates\.yaml:18:\d+: error: c: spec\.after: it waits for itself/m);
  });

  it("warns about a gate that never opens, unless the document or the command silences it", async () => {
    const gate = (annotations: string): string =>
      `apiVersion: berth.dev/v1alpha1\nkind: StartupGate\nmetadata: {name: g, annotations: {${annotations}}}\nspec: {signals: {conditions: [{type: A}, {type: A, status: "False"}]}}\n`;
    const validated = await berthWith({ "g.yaml": gate("") }, "validate g.yaml");
    expect([validated.code, validated.stdout]).toEqual([
      exitCodes.done,
      "g.yaml:4:17: warning: g: spec.signals: no node can pass the gate: condition A cannot be both True and False (GateNeverOpens)\n0 errors, 1 warning\n",
    ]);
    const quiet = "1 path checked: no faults\n";
    const byCommand = await berthWith({ "g.yaml": gate("") }, "validate --silence GateNeverOpens g.yaml");
    expect(byCommand.stdout).toBe(quiet);
    const own = gate('berth.dev/silence: "Other, GateNeverOpens"');
    expect((await berthWith({ "g.yaml": own }, "validate g.yaml")).stdout).toBe(quiet);
  });

  it("checks one rule by the folder it is in", async () => {
    const { code, stdout } = await berthWith({ "labels/a/b": "x\n#comment\n" }, "validate labels/a/b");
    expect(code).toBe(exitCodes.done);
    expect(stdout).toMatch(/^labels\/a\/b:2:1: warning: /);
  });

  it("lets reserved keys be allowed", async () => {
    const files = { "labels/kubernetes.io/role": "x\n" };
    const allowed = await berthWith(files, "validate labels --allow-reserved kubernetes.io");
    expect(allowed.code).toBe(exitCodes.done);
    expect((await berthWith(files, "validate labels")).code).toBe(exitCodes.faults);
  });

  it("names fields by their whole path, whatever finds the fault", async () => {
    const document = (spec: string): string =>
      `---\napiVersion: berth.dev/v1alpha1\nkind: NodeFootprint\nmetadata: {name: f}\nspec: ${spec}\n`;
    const said = async (spec: string) =>
      (await berthWith({ "a.yaml": document(spec) }, "validate a.yaml")).stdout;
    expect(await said("{preset: none}")).toContain(": spec.preset: ");
    const beyond = await said("{preset: log, workloads: [{podSelector: {}}]}");
    expect(beyond).toContain(": spec.workloads.0: it selects every pod");
  });

  it("tells what is not there", async () => {
    const { code, stdout } = await berthWith({}, "validate nowhere");
    expect(code).toBe(exitCodes.faults);
    expect(stdout).toContain("nowhere: error: there is no such file or folder");
  });
});

it("the examples have no faults", async () => {
  const folder = path.join(import.meta.dirname, "../../../..");
  const { code, stdout } = await cli(["validate", "examples/labels", "examples/config"], { folder });
  expect([code, stdout]).toEqual([exitCodes.done, "2 paths checked: no faults\n"]);
});
