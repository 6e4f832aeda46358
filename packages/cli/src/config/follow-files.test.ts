import { rename } from "node:fs/promises";
import path from "node:path";
import { createConfigFollower, type Fault } from "@berth/host";
import { LabelFolderFollower, labelFolderKind, type ParsedFolder } from "@berth/placement";
import { createSilentLogger, systemClock } from "@berth/runtime";
import { eventually } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { documentKinds } from "../kinds.ts";
import { type TestFolder, testFolder } from "../testing/harness.ts";

interface Followed extends AsyncDisposable {
  readonly source: LabelFolderFollower;
  readonly faults: Fault[];
  /** Label keys of the rules in force; `undefined` for none at all. */
  keys(): readonly string[] | undefined;
  /** Reasons of what is wrong with the rules in force. */
  problems(): readonly string[] | undefined;
  /** How often rules came into force. */
  times(): number;
}

async function follow(options: { readonly folder?: string; readonly config?: string }): Promise<Followed> {
  const stop = new AbortController();
  const faults: Fault[] = [];
  let current: ParsedFolder | undefined;
  let times = 0;
  const common = {
    clock: systemClock,
    log: createSilentLogger(),
    onFault: (fault: Fault) => void faults.push(fault),
  };
  const files = createConfigFollower({
    ...common,
    config: options.config === undefined ? [] : [{ path: options.config, shown: "conf" }],
    kinds: documentKinds,
    onDocuments: (documents) => source.follow(documents.specOf(labelFolderKind)),
  });
  const source = new LabelFolderFollower({
    ...common,
    whenTold: files.firstReading,
    onRules: (parsed) => {
      current = parsed;
      times += 1;
    },
  });
  if (options.folder !== undefined)
    source.follow({ path: options.folder, shown: "labels", options: { allowReserved: [] } });
  const [following, running] = await Promise.all([files.start(stop.signal), source.start(stop.signal)]);
  return {
    source,
    faults,
    keys: () => (current === undefined ? undefined : [...current.rules.byKey.keys()]),
    problems: () => current?.problems.map(({ reason }) => reason),
    times: () => times,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all([following.ended, running.ended]);
    },
  };
}

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
