/**
 * Rule files that are wrong: each is named with its place as an Event, in the log and in a metric, all other rules go
 * on, and no label flaps.
 */
import { cp, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { type BerthProcess, startBerthProcess } from "./product.ts";
import { usualPorts } from "./usual-ports.ts";
import { createWorld, type World } from "./world.ts";

const cluster = await sharedTestCluster();

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

/** A node that two good rules label, and a Berth at work. */
async function running(name: string, options = {}): Promise<{ world: World; berth: BerthProcess }> {
  const world = await createWorld(cluster, name, options);
  await world.rules.write("good/one", "example.com/in");
  await world.rules.write("good/two", "example.com/in");
  await world.add("n", (it) => it.labelled({ "example.com/in": "true", "example.com/other": "true" }));
  const berth = await world.start();
  await world.right();
  expect(world.expected("n")).toMatchObject({ "good/one": "true", "good/two": "true" });
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

it("L-B3 L-B8 L-B9 every fault is told with its file and line, all other rules go on, and no label supports itself", async () => {
  const { world, berth } = await running("told", { allowReserved: ["node-role.kubernetes.io/edge"] });
  await using _world = world;
  const invalid = ["a/b/c", `ns/${"x".repeat(64)}`, ".x.swp", "Upper_Case/x"];
  const reserved = ["kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "deep.k8s.io/x"];
  const allowed = "node-role.kubernetes.io/edge";
  for (const file of [...invalid, ...reserved, allowed]) await world.rules.write(file, "example.com/in");
  await world.rules.write("good/lines", "# devices", "example.com/in", "example.com/x=true", "crlf\r");
  await world.rules.write("self/x", "example.com/in", "self/x");
  await world.rules.write("circle/a", "example.com/in", "circle/b");
  await world.rules.write("circle/b", "circle/a");
  for (const place of [
    ...invalid.map((file) => ({ reason: "InvalidLabelKey", file })),
    ...reserved.map((file) => ({ reason: "ReservedLabelKey", file })),
    ...[1, 3, 4].map((line) => ({ reason: "NeverMatches", file: "good/lines", line })),
    { reason: "CyclicRule", file: "self/x", line: 2 },
    { reason: "CyclicRule", file: "circle/a", line: 2 },
    { reason: "CyclicRule", file: "circle/b", line: 1 },
  ])
    await isTold(world, berth, place);
  await othersGoOn(world);
  const ours = ["good/lines", "self/x", "circle/a", "circle/b", allowed];
  for (const key of ours) expect(world.expected("n")).toHaveProperty([key], "true");
  expect(world.expected("n")).toHaveProperty(["kubernetes.io/hostname"], "told-n");
  await world.label("n", { "example.com/in": null });
  await world.right();
  for (const key of ours) expect(world.expected("n")).not.toHaveProperty([key]);
  for (const file of [...invalid, ...reserved, "good/lines", "self/x", "circle/a", "circle/b"])
    await world.rules.remove(file);
  await eventually(async () => expect(await berth.metric("berth_label_rule_problems")).toBe(0));
  await world.restful();
});

const incomplete = (berth: BerthProcess, times: number): Promise<void> =>
  eventually(async () =>
    expect(await berth.metric("berth_label_rule_problems", { reason: "FolderIncomplete" })).toBe(times),
  );

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

  it("L-B3 may have been a folder, or goes missing with the whole one: nothing is removed before it is back", async () => {
    const { world, berth } = await running("away");
    await using _world = world;
    const link = path.join(world.rules.path, "link");
    await symlink("nowhere", link);
    await incomplete(berth, 1);
    await world.rules.write("good/three", "example.com/other");
    await world.right();
    await rm(link);
    await othersGoOn(world);
    const mark = await cluster.audit.mark();
    // In one step each: half a folder is one that says less.
    const { path: folder } = world.rules;
    world.owns(() => rm(`${folder}.old`, { recursive: true, force: true }));
    await cp(folder, `${folder}.new`, { recursive: true });
    await rename(folder, `${folder}.old`);
    await incomplete(berth, 1);
    await rename(`${folder}.new`, folder);
    await incomplete(berth, 0);
    await world.restful();
    expect((await world.patchesSince(mark)).map(({ name }) => name)).toEqual(["away-canary"]);
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
      await world.add("n", (it) => it.labelled({ "usb.present": "true" }));
      await using berth = startBerthProcess({ args: ["-kubeconfig", "kubeconfig"], folder });
      await world.right();
      const metrics = await fetch("http://127.0.0.1:8080/metrics");
      expect(metrics.ok).toBe(true);
      expect(await berth.metric("berth_label_rules")).toBe(1);
    },
  );
});
