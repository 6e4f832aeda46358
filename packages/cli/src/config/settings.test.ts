import path from "node:path";
import { documentOfFlag, formatFault, readConfigFiles, toDocuments } from "@berth/host";
import { labelFolderKind, labelRuleKind } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { documentKinds } from "../kinds.ts";
import { testFolder } from "../testing/harness.ts";
import { loadSettings } from "./settings.ts";

const documentFor = (name: string, folder: string): string =>
  `apiVersion: berth.dev/v1alpha1\nkind: LabelFolder\nmetadata: {name: ${name}}\nspec: {path: ${folder}}\n`;

const RULE = {
  apiVersion: "berth.dev/v1alpha1",
  kind: "LabelRule",
  spec: { match: {}, labels: [{ key: "example.com/a" }] },
};
const ruleFor = (name: string): string =>
  `apiVersion: berth.dev/v1alpha1\nkind: LabelRule\nmetadata: {name: ${name}}\nspec: {match: {}, labels: [{key: example.com/a}]}\n`;

describe("settings", () => {
  it("take the label folder of a flag, relative to the working directory", async () => {
    const settings = await loadSettings({ labelDir: "labels", allowReserved: ["k8s.io"] }, "/srv");
    expect(settings.specOf(labelFolderKind)).toEqual({
      path: path.resolve("/srv/labels"),
      shown: "labels",
      options: { allowReserved: ["k8s.io"], format: "Plain" },
    });
  });

  it("take the label folder of a document, relative to the file that holds it", async () => {
    const files = { "conf/a.yaml": documentFor("one", "../labels"), "conf/notes.txt": "no" };
    await using folder = await testFolder(files);
    const fromFolder = await loadSettings({ config: ["conf"] }, folder.path);
    const fromFile = await loadSettings({ config: ["conf/a.yaml"] }, folder.path);
    expect(fromFolder.specOf(labelFolderKind)?.path).toBe(path.join(folder.path, "labels"));
    expect(fromFile.specOf(labelFolderKind)?.path).toBe(fromFolder.specOf(labelFolderKind)?.path);
  });

  it("do not look into what kubelet keeps beside the files of a mounted ConfigMap", async () => {
    const text = documentFor("one", "x");
    await using folder = await testFolder({ "..2026_11_21/a.yaml": text, "a.yaml": text });
    const { faults } = toDocuments(await readConfigFiles(["."], folder.path), documentKinds);
    expect(faults).toEqual([]);
  });

  it("have at most one label folder, whether from files or a flag", async () => {
    const text = `${documentFor("one", "x")}---\n${documentFor("two", "other")}`;
    await using folder = await testFolder({ "a.yaml": text });
    const files = await readConfigFiles(["a.yaml"], folder.path);
    expect(toDocuments(files, documentKinds).faults.map(formatFault)).toEqual([
      "a.yaml:7:7: error: two: there can be one label folder, and there is already x (a.yaml) (TooManyLabelFolders)",
    ]);
    const flag = { path: "/z", shown: "z", options: { allowReserved: [] } };
    const both = toDocuments(files, documentKinds, [documentOfFlag(labelFolderKind, flag)]);
    expect(both.faults).toHaveLength(2);
    expect(both.documents.specOf(labelFolderKind)?.shown).toBe("z");
  });

  it("hold the rules of all files and documents, with the way back to each place", async () => {
    await using folder = await testFolder({
      "a.yaml": `${ruleFor("two")}---\n${documentFor("one", "x")}---\n${ruleFor("one")}`,
      "sub/b.json": JSON.stringify({ ...RULE, metadata: { name: "three" } }),
    });
    const { documents, faults } = toDocuments(await readConfigFiles(["."], folder.path), documentKinds);
    expect(faults).toEqual([]);
    expect(documents.specOf(labelFolderKind)?.shown).toBe("x (a.yaml)");
    const rules = documents.documentsOf(labelRuleKind);
    expect(rules.map(({ file, line, name }) => ({ file, line, name }))).toEqual([
      { file: "a.yaml", line: 2, name: "two" },
      { file: "a.yaml", line: 12, name: "one" },
      { file: "sub/b.json", line: 1, name: "three" },
    ]);
    expect(rules[1]?.positionOf(["labels", 0, "key"])).toEqual({ line: 14, column: 34 });
  });

  it("hold one rule of a name, and tell the other", async () => {
    await using folder = await testFolder({ "a.yaml": `${ruleFor("one")}---\n${ruleFor("one")}` });
    const { documents, faults } = toDocuments(await readConfigFiles(["a.yaml"], folder.path), documentKinds);
    expect(faults.map(formatFault)).toEqual([
      "a.yaml:7:7: error: LabelRule one is already in a.yaml:2 (DuplicateDocument)",
    ]);
    expect(documents.documentsOf(labelRuleKind).map(({ line }) => line)).toEqual([2]);
  });

  it("take the format of a label folder from a document or a flag", async () => {
    await using folder = await testFolder({ "a.yaml": documentFor("one", "x, format: Extended") });
    const fromFile = await loadSettings({ config: ["a.yaml"] }, folder.path);
    const fromFlag = await loadSettings({ labelDir: "x", labelFormat: "extended" }, folder.path);
    for (const settings of [fromFile, fromFlag])
      expect(settings.specOf(labelFolderKind)?.options.format).toBe("Extended");
  });

  it("cannot be loaded with errors, all of which are told", async () => {
    await using folder = await testFolder({ "a.yaml": "kind: X\n---\nkind: Y\n" });
    await expect(loadSettings({ config: ["a.yaml"] }, folder.path)).rejects.toMatchObject({
      exitCode: 3,
      message: expect.stringMatching(/ 2 errors:\n  a.yaml:1.*\n  a.yaml:3/),
    });
    await expect(loadSettings({ config: ["missing"] }, folder.path)).rejects.toMatchObject({ exitCode: 3 });
  });
});
