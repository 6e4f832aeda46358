/**
 * Rule files that are wrong: each is named with its place as an Event, in the log and in a metric, all other rules go
 * on, and no label flaps.
 */
import { cp, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createLabelFixture, type LabelFixture } from "./label-fixture.ts";
import { type BerthProcess, startBerthProcess } from "./product.ts";
import { usualPorts } from "./usual-ports.ts";

const cluster = await sharedTestCluster();

/** A fault, and where it is: the file, and the line if it is about one. */
interface Place {
  readonly reason: string;
  readonly file: string;
  readonly line?: number;
}

/** Resolves once the fault is told in all three ways. */
async function isTold(
  fixture: LabelFixture,
  berth: BerthProcess,
  { reason, file, line }: Place,
): Promise<void> {
  const full = path.join(fixture.rules.path, file);
  const at = line === undefined ? `${full}:` : `${full}:${line}:`;
  await eventually(async () => {
    const notes = (await fixture.events(reason)).map(({ note = "", type }) => `${type} ${note}`);
    expect(notes).toContainEqual(expect.stringContaining(`Warning ${at}`));
    const logged = berth.log.filter((entry) => entry["reason"] === reason);
    expect(logged).toContainEqual(expect.objectContaining({ file: full, ...(line && { line }) }));
    expect(await berth.metric("berth_label_rule_problems", { reason })).toBeGreaterThan(0);
  });
}

/** A node that two good rules label, and a Berth at work. */
async function running(name: string, options = {}): Promise<{ fixture: LabelFixture; berth: BerthProcess }> {
  const fixture = await createLabelFixture(cluster, name, options);
  await fixture.rules.write("good/one", "example.com/in");
  await fixture.rules.write("good/two", "example.com/in");
  await fixture.add("n", (it) => it.labelled({ "example.com/in": "true", "example.com/other": "true" }));
  const berth = await fixture.start();
  await fixture.right();
  expect(fixture.expected("n")).toMatchObject({ "good/one": "true", "good/two": "true" });
  return { fixture, berth };
}

/** The other rules go on: one changes, one comes, one goes. */
async function othersGoOn(fixture: LabelFixture): Promise<void> {
  await fixture.rules.write("good/one", "example.com/nobody");
  await fixture.rules.write("good/three", "example.com/other");
  await fixture.right();
  expect(fixture.expected("n")).toHaveProperty(["good/three"], "true");
  expect(fixture.expected("n")).not.toHaveProperty(["good/one"]);
  await fixture.restful();
}

it("L-B3 L-B8 L-B9 every fault is told with its file and line, all other rules go on, and no label supports itself", async () => {
  const { fixture, berth } = await running("told", { allowReserved: ["node-role.kubernetes.io/edge"] });
  await using _world = fixture;
  const invalid = ["a/b/c", `ns/${"x".repeat(64)}`, ".x.swp", "Upper_Case/x"];
  const reserved = ["kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "deep.k8s.io/x"];
  const allowed = "node-role.kubernetes.io/edge";
  for (const file of [...invalid, ...reserved, allowed]) await fixture.rules.write(file, "example.com/in");
  await fixture.rules.write("good/lines", "# devices", "example.com/in", "example.com/x=true", "crlf\r");
  await fixture.rules.write("self/x", "example.com/in", "self/x");
  await fixture.rules.write("circle/a", "example.com/in", "circle/b");
  await fixture.rules.write("circle/b", "circle/a");
  for (const place of [
    ...invalid.map((file) => ({ reason: "InvalidLabelKey", file })),
    ...reserved.map((file) => ({ reason: "ReservedLabelKey", file })),
    ...[1, 3, 4].map((line) => ({ reason: "NeverMatches", file: "good/lines", line })),
    { reason: "CyclicRule", file: "self/x", line: 2 },
    { reason: "CyclicRule", file: "circle/a", line: 2 },
    { reason: "CyclicRule", file: "circle/b", line: 1 },
  ])
    await isTold(fixture, berth, place);
  await othersGoOn(fixture);
  const ours = ["good/lines", "self/x", "circle/a", "circle/b", allowed];
  for (const key of ours) expect(fixture.expected("n")).toHaveProperty([key], "true");
  expect(fixture.expected("n")).toHaveProperty(["kubernetes.io/hostname"], "told-n");
  await fixture.label("n", { "example.com/in": null });
  await fixture.right();
  for (const key of ours) expect(fixture.expected("n")).not.toHaveProperty([key]);
  for (const file of [...invalid, ...reserved, "good/lines", "self/x", "circle/a", "circle/b"])
    await fixture.rules.remove(file);
  await eventually(async () => expect(await berth.metric("berth_label_rule_problems")).toBe(0));
  await fixture.restful();
});

const incomplete = (berth: BerthProcess, times: number): Promise<void> =>
  eventually(async () =>
    expect(await berth.metric("berth_label_rule_problems", { reason: "FolderIncomplete" })).toBe(times),
  );

describe("a file that cannot be read", () => {
  it("L-B3 keeps its label as it is, and all others go on", async () => {
    const { fixture, berth } = await running("half");
    await using _world = fixture;
    await fixture.rules.spoil("good/two");
    await isTold(fixture, berth, { reason: "FileUnreadable", file: "good/two" });
    await othersGoOn(fixture);
    await fixture.rules.write("good/two", "example.com/nobody");
    await fixture.right();
    expect(fixture.expected("n")).not.toHaveProperty(["good/two"]);
    await fixture.restful();
  });

  it("L-B3 may have been a folder, or goes missing with the whole one: nothing is removed before it is back", async () => {
    const { fixture, berth } = await running("away");
    await using _world = fixture;
    const link = path.join(fixture.rules.path, "link");
    await symlink("nowhere", link);
    await incomplete(berth, 1);
    await fixture.rules.write("good/three", "example.com/other");
    await fixture.right();
    await rm(link);
    await othersGoOn(fixture);
    const mark = await cluster.audit.mark();
    // In one step each: half a folder is one that says less.
    const { path: folder } = fixture.rules;
    fixture.owns(() => rm(`${folder}.old`, { recursive: true, force: true }));
    await cp(folder, `${folder}.new`, { recursive: true });
    await rename(folder, `${folder}.old`);
    await incomplete(berth, 1);
    await rename(`${folder}.new`, folder);
    await incomplete(berth, 0);
    await fixture.restful();
    expect((await fixture.patchesSince(mark)).map(({ name }) => name)).toEqual(["away-canary"]);
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
      await using fixture = await createLabelFixture(cluster, "p14");
      const folder = await mkdtemp(path.join(tmpdir(), "berth-original-"));
      fixture.owns(() => rm(folder, { recursive: true }));
      await mkdir(path.join(folder, "labels/accelerators"), { recursive: true });
      await writeFile(path.join(folder, "labels/accelerators/edgetpu"), "usb.present\n");
      await writeFile(path.join(folder, "kubeconfig"), cluster.kubeconfig(), { mode: 0o600 });
      fixture.followRules(() => new Map([["accelerators/edgetpu", "usb.present\n"]]));
      await fixture.add("n", (it) => it.labelled({ "usb.present": "true" }));
      await using berth = startBerthProcess({ args: ["-kubeconfig", "kubeconfig"], folder });
      await fixture.right();
      const metrics = await fetch("http://127.0.0.1:8080/metrics");
      expect(metrics.ok).toBe(true);
      expect(await berth.metric("berth_label_rules")).toBe(1);
    },
  );
});
