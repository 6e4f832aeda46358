/** Label rules on a real API server. Every test has its own domain of label keys and its own installation name. */
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { nodes } from "@berth/kube";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { agentOf, forbidLabel, type Scene, setScene } from "./testing/scene.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

const scene = (name: string): Scene => setScene(cluster, name);

describe("label rules on a cluster", () => {
  it("L-P1, L-P3 labels the nodes that match in one patch each, and writes no other", async () => {
    const { key, run, create, expectLabels, labels, mark, patches } = scene("p1");
    await create("match", { [key("usb")]: "true" });
    await create("other", { [key("else")]: "true" });
    await using folder = await makeRuleFolder({ [key("edgetpu")]: `${key("pci")}\n${key("usb")}\n` });
    const start = await mark();
    await using _labels = await run(folder.path);
    await expectLabels("match", { usb: "true", edgetpu: "true" });
    await create("late", { [key("pci")]: "0" });
    await expectLabels("late", { pci: "0", edgetpu: "true" });
    expect(await labels("other")).toEqual({ else: "true" });
    expect(await patches(start)).toBe(2);
  });

  it("L-P2, L-P9 follows the labels of the node, and sets its own label back", async () => {
    const { key, run, create, label, expectLabels } = scene("p2");
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    await using running = await run(folder.path);
    await create("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", out: "true" });
    await label("n", { [key("out")]: null });
    await expectLabels("n", { in: "1", out: "true" });
    await label("n", { [key("out")]: "no" });
    await expectLabels("n", { in: "1", out: "true" });
    await label("n", { [key("in")]: null });
    await expectLabels("n", {});
    await eventually(() => {
      expect(running.events.map(({ reason }) => reason)).toEqual(["ValueRestored", "InputGone"]);
    });
  });

  it("L-P4, L-P5, L-P6, L-P7, L-P8, L-B7 follows the folder without a restart, down to its last file", async () => {
    const { key, run, create, expectLabels } = scene("p4");
    await using folder = await makeRuleFolder();
    await using running = await run(folder.path);
    await create("n", { [key("in")]: "1" });
    await folder.write(key("a"), key("in"));
    await expectLabels("n", { in: "1", a: "true" });
    await folder.write(key("b"), `${key("other")}\n`);
    await folder.write(key("a"), `${key("other")}\n`);
    await expectLabels("n", { in: "1" });
    await folder.write(key("b"), `${key("other")}\n${key("in")}`);
    await expectLabels("n", { in: "1", b: "true" });
    await rename(join(folder.path, key("b")), join(folder.path, key("c")));
    await expectLabels("n", { in: "1", c: "true" });
    await folder.remove("p4.example.com");
    await expectLabels("n", { in: "1" });
    await folder.write(key("again"), key("in"));
    await expectLabels("n", { in: "1", again: "true" });
    expect(running.problems).toEqual([]);
  });

  it("L-B1 writes nothing after a restart where all is settled, and clears what went away meanwhile", async () => {
    const { key, run, create, label, expectLabels, mark, patches } = scene("b1");
    await create("n", { [key("in")]: "1", [key("too")]: "1" });
    await create("same", { [key("stays")]: "1" });
    const stays = { [key("c")]: key("stays") };
    await using folder = await makeRuleFolder({ ...stays, [key("a")]: key("in"), [key("b")]: key("too") });
    {
      await using _first = await run(folder.path);
      await expectLabels("n", { in: "1", too: "1", a: "true", b: "true" });
      await expectLabels("same", { stays: "1", c: "true" });
    }
    await label("n", { [key("in")]: null });
    await folder.remove(key("b"));
    const start = await mark();
    await using second = await run(folder.path);
    await expectLabels("n", { too: "1" });
    await create("after", { [key("stays")]: "1" });
    await expectLabels("after", { stays: "1", c: "true" });
    expect(await patches(start, "same")).toBe(0);
    await eventually(() => {
      expect(second.events.map(({ reason }) => reason)).toEqual(["InputGone", "RuleGone"]);
    });
  });

  it("L-B2 follows a mounted ConfigMap through its symlink swap, without a flap", async () => {
    const { key, run, create, expectLabels, labels, mark, patches } = scene("b2");
    await create("n", { [key("in")]: "1" });
    await using folder = await makeRuleFolder();
    const publish = async (version: string, files: Readonly<Record<string, string>>): Promise<void> => {
      await mkdir(join(folder.path, `..${version}`, "b2.example.com"), { recursive: true });
      for (const [file, text] of Object.entries(files))
        await writeFile(join(folder.path, `..${version}`, file), text);
      await symlink(`..${version}`, join(folder.path, "..data_tmp"));
      await rename(join(folder.path, "..data_tmp"), join(folder.path, "..data"));
    };
    await publish("2026_01", { [key("a")]: key("in"), [key("stays")]: key("in") });
    await symlink("..data/b2.example.com", join(folder.path, "b2.example.com"));
    await using running = await run(folder.path);
    await expectLabels("n", { in: "1", a: "true", stays: "true" });
    const start = await mark();
    await publish("2026_02", { [key("b")]: key("in"), [key("stays")]: key("in") });
    await rm(join(folder.path, "..2026_01"), { recursive: true });
    await expectLabels("n", { in: "1", b: "true", stays: "true" });
    // A file that is gone is believed a moment after one that is there, so this may be two patches.
    expect(await patches(start)).toBeLessThanOrEqual(2);
    await eventually(() => {
      const removed = running.events.map(({ reason, note }) => `${reason} ${note.split(" ")[0]}`);
      expect(removed).toEqual([`RuleGone label/${key("a")}`]);
    });
    expect(running.problems).toEqual([]);
    expect(await labels("n")).toEqual({ in: "1", b: "true", stays: "true" });
  });

  it("L-B3 goes on with all other rules beside a bad file", async () => {
    const { key, run, create, expectLabels } = scene("b3");
    await create("n", { [key("in")]: "1" });
    const bad = [`${key("a")}/b`, key(".x.swp"), key("x".repeat(64)), "foo~"];
    await using folder = await makeRuleFolder({
      ...Object.fromEntries(bad.map((file) => [file, key("in")])),
      [key("good")]: key("in"),
    });
    await using running = await run(folder.path);
    await expectLabels("n", { in: "1", good: "true" });
    expect(running.problems.map(({ file, reason }) => `${file} ${reason}`).sort()).toEqual(
      bad.map((file) => `${file} InvalidLabelKey`).sort(),
    );
  });

  it("L-B3 lands all other labels when the server's own policy refuses one", async () => {
    const { key, nodeName, run, create, label, expectLabels } = scene("policy");
    await create("n");
    await using _policy = await forbidLabel(cluster, key("refused"));
    const probe = { type: "merge", body: { metadata: { labels: { [key("refused")]: "probe" } } } } as const;
    await eventually(async () => {
      const refused = cluster.client.patch(nodes, { name: nodeName("n") }, probe, { dryRun: true });
      await expect(refused).rejects.toMatchObject({ failure: { kind: "invalid" } });
    });
    await using folder = await makeRuleFolder(
      Object.fromEntries(["a", "b", "refused", "z"].map((of) => [key(of), key("in")])),
    );
    await using running = await run(folder.path);
    await label("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", a: "true", b: "true", z: "true" });
    await eventually(() => {
      const refused = running.events.filter(({ reason }) => reason === "WriteRefused");
      expect(refused.map(({ note }) => note.includes(key("refused")))).toEqual([true]);
    });
  });

  it("L-B4 clears the label although somebody else was faster", async () => {
    const { key, run, create, label, expectLabels, mark } = scene("b4");
    let meddle = 0;
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    await using _labels = await run(folder.path, {
      beforePatch: async (name) => {
        if (meddle === 0) return;
        meddle -= 1;
        const body = { metadata: { annotations: { meddled: String(meddle) } } };
        await cluster.client.patch(nodes, { name }, { type: "merge", body });
      },
    });
    await create("n", { [key("in")]: "1" });
    await expectLabels("n", { in: "1", out: "true" });
    meddle = 3;
    const start = await mark();
    await label("n", { [key("in")]: null });
    await expectLabels("n", {});
    const of = { verb: "patch", resource: "nodes", name: "b4-n", userAgent: agentOf("b4") };
    expect(await cluster.audit.countSince(start, { ...of, code: 409 })).toBe(3);
    expect(await cluster.audit.countSince(start, { ...of, code: 200 })).toBe(1);
  });

  it("L-B5 makes one pass of a storm of saves, and never takes a save in progress for an empty rule", async () => {
    const { key, run, create, expectLabels, labels, mark, patches } = scene("b5");
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    // No save takes that long, also on a machine that stands still in the middle of one.
    await using _labels = await run(folder.path, { settleMs: 60_000 });
    await create("n", { [key("in")]: "1" });
    await create("other", { [key("new")]: "1" });
    await expectLabels("n", { in: "1", out: "true" });
    const start = await mark();
    for (let save = 0; save < 20; save += 1) {
      await folder.write(key("out"), "");
      await folder.write(key("out"), `${key("in")}\n${save === 19 ? key("new") : key(`old${save}`)}\n`);
    }
    await expectLabels("other", { new: "1", out: "true" });
    expect(await labels("n")).toEqual({ in: "1", out: "true" });
    expect(await patches(start, "n")).toBe(0);
    expect(await patches(start, "other")).toBe(1);
  });

  it("labels a node that was deleted and made again under its name", async () => {
    const { key, run, create, nodeName, expectLabels, mark, patches } = scene("again");
    await using folder = await makeRuleFolder({ [key("out")]: key("in") });
    await using _labels = await run(folder.path);
    const start = await mark();
    for (let life = 0; life < 3; life += 1) {
      await create("n", { [key("in")]: "1" });
      await expectLabels("n", { in: "1", out: "true" });
      await cluster.client.delete(nodes, { name: nodeName("n") });
    }
    expect(await patches(start)).toBe(3);
  });
});

/** A folder of rules on disk that goes away with its owner. */
interface RuleFolder extends AsyncDisposable {
  readonly path: string;
  write(file: string, text: string): Promise<void>;
  remove(path: string): Promise<void>;
}

async function makeRuleFolder(files: Readonly<Record<string, string>> = {}): Promise<RuleFolder> {
  const path = await mkdtemp(join(tmpdir(), "berth-labels-"));
  const folder: RuleFolder = {
    path,
    async write(file, text) {
      await mkdir(dirname(join(path, file)), { recursive: true });
      await writeFile(join(path, file), text);
    },
    remove: (file) => rm(join(path, file), { recursive: true }),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
  for (const [file, text] of Object.entries(files)) await folder.write(file, text);
  return folder;
}
