/**
 * Rule files that are wrong: each is named with its place as an Event, in the log and in a metric, all other rules go
 * on, and no label flaps. And a Berth that is away while rules or nodes change.
 */
import { cp, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { type BerthProcess, startBerthProcess } from "./product.ts";
import { usualPorts } from "./usual-ports.ts";
import { createWorld, type World } from "./world.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

/** A fault, and where it is: the file, and the line if it is about one. */
interface Place {
  readonly reason: string;
  readonly file: string;
  readonly line?: number;
}

/** Resolves once the fault is told in all three ways. */
async function isTold(world: World, berth: BerthProcess, { reason, file, line }: Place): Promise<void> {
  const full = path.join(world.rules.path, file);
  const at = line === undefined ? `${full}:` : `${full}:${line}:`;
  await eventually(async () => {
    const notes = (await world.events(reason)).map(({ note = "", type }) => `${type} ${note}`);
    expect(notes).toContainEqual(expect.stringContaining(`Warning ${at}`));
    const logged = berth.log.filter((entry) => entry["reason"] === reason);
    expect(logged).toContainEqual(expect.objectContaining({ file: full, ...(line && { line }) }));
    expect(await berth.metric("berth_label_rule_problems", { reason })).toBeGreaterThan(0);
  });
}

/** A node that two good rules label. */
async function prepared(name: string, options = {}): Promise<World> {
  const world = await createWorld(cluster, name, options);
  await world.rules.write("good/one", "example.com/in");
  await world.rules.write("good/two", "example.com/in");
  await world.add("n", { "example.com/in": "true", "example.com/other": "true" });
  return world;
}

async function labelled(world: World): Promise<void> {
  await world.right();
  expect(world.expected("n")).toMatchObject({ "good/one": "true", "good/two": "true" });
}

/** The same, and a Berth at work. */
async function running(name: string, options = {}): Promise<{ world: World; berth: BerthProcess }> {
  const world = await prepared(name, options);
  const berth = await world.start();
  await labelled(world);
  return { world, berth };
}

/** The other rules go on: one changes, one comes, one goes. */
async function othersGoOn(world: World): Promise<void> {
  await world.rules.write("good/one", "example.com/nobody");
  await world.rules.write("good/three", "example.com/other");
  await world.right();
  expect(world.expected("n")).toHaveProperty(["good/three"], "true");
  expect(world.expected("n")).not.toHaveProperty(["good/one"]);
  await world.restful();
}

describe("a file that is no rule", () => {
  it("L-B3 is told with its name, and all others go on", async () => {
    const { world, berth } = await running("b3");
    await using _world = world;
    const files = ["a/b/c", `ns/${"x".repeat(64)}`, ".x.swp", "Upper_Case/x"];
    for (const file of files) await world.rules.write(file, "example.com/in");
    for (const file of files) await isTold(world, berth, { reason: "InvalidLabelKey", file });
    await othersGoOn(world);
    for (const file of files) await world.rules.remove(file);
    await eventually(async () => expect(await berth.metric("berth_label_rule_problems")).toBe(0));
    await world.restful();
  });

  it("L-B8 under a reserved domain is refused, unless it is allowed by name", async () => {
    const { world, berth } = await running("b8", { allowReserved: ["node-role.kubernetes.io/edge"] });
    await using _world = world;
    const refused = ["kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "deep.k8s.io/x"];
    for (const file of refused) await world.rules.write(file, "example.com/in");
    await world.rules.write("node-role.kubernetes.io/edge", "example.com/in");
    for (const file of refused) await isTold(world, berth, { reason: "ReservedLabelKey", file });
    await othersGoOn(world);
    expect(world.expected("n")).toHaveProperty(["node-role.kubernetes.io/edge"], "true");
    expect(world.expected("n")).toHaveProperty(["kubernetes.io/hostname"], "b8-n");
    await world.rules.write("node-role.kubernetes.io/edge", "example.com/nobody");
    await world.restful();
    expect(world.expected("n")).not.toHaveProperty(["node-role.kubernetes.io/edge"]);
  });
});

describe("a file that cannot be read", () => {
  it("L-B3 keeps its label as it is, and all others go on", async () => {
    const { world, berth } = await running("half");
    await using _world = world;
    await world.rules.spoil("good/two");
    await isTold(world, berth, { reason: "FileUnreadable", file: "good/two" });
    await othersGoOn(world);
    await world.rules.write("good/two", "example.com/nobody");
    await world.right();
    expect(world.expected("n")).not.toHaveProperty(["good/two"]);
    await world.restful();
  });

  it("L-B3 stops removals when it may have been a folder, and they are made up for once it is whole", async () => {
    const { world, berth } = await running("gap");
    await using _world = world;
    const link = path.join(world.rules.path, "link");
    await symlink("nowhere", link);
    await eventually(async () =>
      expect(await berth.metric("berth_label_rule_problems", { reason: "FolderIncomplete" })).toBe(1),
    );
    await world.rules.write("good/three", "example.com/other");
    await world.right();
    await rm(link);
    await othersGoOn(world);
  });

  it("L-B5 is not believed empty while it is being written", async () => {
    // Ten times as slow as it is: an empty file is believed after ten seconds.
    const world = await prepared("slow");
    await using _world = world;
    await world.startInProcess({ pace: 0.1 });
    await labelled(world);
    const file = path.join(world.rules.path, "good/two");
    const mark = await cluster.audit.mark();
    // Cut to nothing, and read so: a rule that came after it is in force. Then the text.
    await writeFile(file, "");
    await world.rules.write("good/three", "example.com/other");
    await world.right();
    expect(world.expected("n")).toMatchObject({ "good/two": "true", "good/three": "true" });
    await world.rules.write("good/two", "example.com/in");
    await world.restful();
    expect((await world.patchesSince(mark)).map(({ name }) => name)).toEqual(["slow-n", "slow-canary"]);
  });

  it("L-B3 goes missing with the whole folder, and nothing is removed before it is back", async () => {
    const { world, berth } = await running("away");
    await using _world = world;
    const mark = await cluster.audit.mark();
    // In one step each: half a folder is one that says less.
    const { path: folder } = world.rules;
    world.owns(() => rm(`${folder}.old`, { recursive: true, force: true }));
    await cp(folder, `${folder}.new`, { recursive: true });
    await rename(folder, `${folder}.old`);
    await eventually(async () =>
      expect(await berth.metric("berth_label_rule_problems", { reason: "FolderIncomplete" })).toBe(1),
    );
    await rename(`${folder}.new`, folder);
    await eventually(async () =>
      expect(await berth.metric("berth_label_rule_problems", { reason: "FolderIncomplete" })).toBe(0),
    );
    await world.restful();
    expect((await world.patchesSince(mark)).map(({ name }) => name)).toEqual(["away-canary"]);
    await othersGoOn(world);
  });
});

describe("a line that is wrong", () => {
  it("L-B3 is told with its line, and the other lines work", async () => {
    const { world, berth } = await running("line");
    await using _world = world;
    await world.rules.write("good/lines", "# devices", "example.com/in", "example.com/x=true", "crlf\r");
    for (const line of [1, 3, 4])
      await isTold(world, berth, { reason: "NeverMatches", file: "good/lines", line });
    await world.right();
    expect(world.expected("n")).toHaveProperty(["good/lines"], "true");
    await othersGoOn(world);
  });

  it("L-B9 names its own label, or a circle of rules: told with its line, and no label supports itself", async () => {
    const { world, berth } = await running("b9");
    await using _world = world;
    await world.rules.write("self/x", "example.com/in", "self/x");
    await world.rules.write("circle/a", "example.com/in", "circle/b");
    await world.rules.write("circle/b", "circle/a");
    await isTold(world, berth, { reason: "CyclicRule", file: "self/x", line: 2 });
    await isTold(world, berth, { reason: "CyclicRule", file: "circle/a", line: 2 });
    await isTold(world, berth, { reason: "CyclicRule", file: "circle/b", line: 1 });
    await world.right();
    expect(world.expected("n")).toMatchObject({ "self/x": "true", "circle/a": "true", "circle/b": "true" });
    await world.restful();
    await world.label("n", { "example.com/in": null });
    await world.right();
    expect(world.expected("n")).not.toHaveProperty(["circle/b"]);
    await world.restful();
  });
});

describe("a Berth that was away", () => {
  it("L-B1 clears what lost its support while it was dead: by a node, a rule, a renamed file", async () => {
    const { world, berth } = await running("b1");
    await using _world = world;
    await world.rules.write("gone/rule", "example.com/other");
    await world.rules.write("gone/renamed", "example.com/other");
    await world.add("second", { "example.com/in": "true" });
    await world.right();
    await berth.kill();
    await world.label("second", { "example.com/in": null });
    await world.rules.remove("gone/rule");
    await world.rules.rename("gone/renamed", "good/renamed");
    await world.start();
    await world.right();
    expect(world.expected("second")).not.toHaveProperty(["good/one"]);
    expect(world.expected("n")).not.toHaveProperty(["gone/rule"]);
    await world.restful();
  });
});

describe("the original's command line", () => {
  const limit = { timeout: 360_000 };
  it(
    "L-P14 works as it is: -kubeconfig, the folder `labels`, metrics on port 8080",
    limit,
    async ({ skip }) => {
      await using ports = await usualPorts();
      if (ports.taken !== undefined) skip(`port ${ports.taken} of this machine is in use`);
      await using world = await createWorld(cluster, "p14");
      const folder = await mkdtemp(path.join(tmpdir(), "berth-original-"));
      world.owns(() => rm(folder, { recursive: true }));
      await mkdir(path.join(folder, "labels/accelerators"), { recursive: true });
      await writeFile(path.join(folder, "labels/accelerators/edgetpu"), "usb.present\n");
      await writeFile(path.join(folder, "kubeconfig"), cluster.kubeconfig(), { mode: 0o600 });
      world.followRules(() => new Map([["accelerators/edgetpu", "usb.present\n"]]));
      await world.add("n", { "usb.present": "true" });
      await using berth = startBerthProcess({ args: ["-kubeconfig", "kubeconfig"], folder });
      await world.right();
      const metrics = await fetch("http://127.0.0.1:8080/metrics");
      expect(metrics.ok).toBe(true);
      expect(await berth.metric("berth_label_rules")).toBe(1);
    },
  );
});
