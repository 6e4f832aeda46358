import { rename } from "node:fs/promises";
import path from "node:path";
import { eventually } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { follow } from "../testing/followed.ts";
import { type TestFolder, testFolder } from "../testing/harness.ts";

const documentFor = (folder: string): string =>
  `apiVersion: berth.dev/v1alpha1\nkind: LabelFolder\nmetadata: {name: one}\nspec: {path: ${folder}}\n`;

/** As a careful editor saves. */
async function save(folder: TestFolder, file: string, text: string): Promise<void> {
  const draft = await folder.write(`.draft/${path.basename(file)}`, text);
  await rename(draft, path.join(folder.path, file));
}

describe("files and the label folder that they name", () => {
  it("has the rules of a folder once it has started, and follows it", async () => {
    await using folder = await testFolder({ "labels/a/b": "x\n" });
    await using rules = await follow({ folder: path.join(folder.path, "labels") });
    expect(rules.keys()).toEqual(["a/b"]);
    await folder.write("labels/c/d", "y\n");
    await eventually(() => expect(rules.keys()).toEqual(["a/b", "c/d"]));
  });

  it("is not ready before the folder has been seen for the first time", async () => {
    await using folder = await testFolder();
    await using rules = await follow({ folder: path.join(folder.path, "labels") });
    expect(rules.source.problem()).toContain("missing");
    await folder.write("labels/a/b", "x\n");
    await eventually(() => expect(rules.source.problem()).toBeUndefined());
  });

  it("tells a fault once while it lasts, and again after it was gone", async () => {
    await using folder = await testFolder({ "labels/a/b": "x\n", "labels/bad key": "x\n" });
    await using rules = await follow({ folder: path.join(folder.path, "labels") });
    const told = (): number => rules.faults.filter(({ reason }) => reason === "InvalidLabelKey").length;
    expect(told()).toBe(1);
    await folder.write("labels/c/d", "x\n");
    await eventually(() => expect(rules.keys()).toHaveLength(2));
    expect(told()).toBe(1);
    await rename(path.join(folder.path, "labels/bad key"), path.join(folder.path, "labels/good"));
    await eventually(() => expect(rules.problems()).toEqual([]));
    await folder.write("labels/bad key", "x\n");
    await eventually(() => expect(told()).toBe(2));
  });

  it("goes from one folder to another as the configuration says", async () => {
    await using folder = await testFolder({
      "conf/berth.yaml": documentFor("../one"),
      "one/a/b": "x\n",
      "two/c/d": "x\n",
    });
    await using rules = await follow({ config: path.join(folder.path, "conf") });
    expect(rules.keys()).toEqual(["a/b"]);
    await save(folder, "conf/berth.yaml", documentFor("../two"));
    await eventually(() => expect(rules.keys()).toEqual(["c/d"]));
  });

  it("keeps the last good configuration while there are errors in it", async () => {
    await using folder = await testFolder({ "conf/berth.yaml": documentFor("../one"), "one/a/b": "x\n" });
    await using rules = await follow({ config: path.join(folder.path, "conf") });
    await save(folder, "conf/berth.yaml", "kind: Nonsense\n");
    await eventually(() => expect(rules.faults.map(({ reason }) => reason)).toEqual(["UnknownKind"]));
    expect([rules.keys(), rules.times()]).toEqual([["a/b"], 1]);
    await folder.write("one/c/d", "x\n");
    await eventually(() => expect(rules.keys()).toEqual(["a/b", "c/d"]));
  });

  it("has no rules at all, rather than empty ones, when no document names a folder any more", async () => {
    await using folder = await testFolder({ "conf/berth.yaml": documentFor("../one"), "one/a/b": "x\n" });
    await using rules = await follow({ config: path.join(folder.path, "conf") });
    await save(folder, "conf/berth.yaml", "# nothing\n");
    await eventually(() => expect(rules.keys()).toBeUndefined());
  });
});
