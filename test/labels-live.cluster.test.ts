/**
 * The contract of derived labels on the whole product: `berth run` as a process, a folder that is edited while it
 * runs, and a real API server. What needs no running product is tested beside the rules in packages/placement.
 */
import { sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { mountConfigMap } from "./rule-folder.ts";
import { createWorld, type World } from "./world.ts";

const EDGETPU = [
  "kkohtaka.org/edgetpu",
  "feature.node.kubernetes.io/usb-fe_1a6e_089a.present",
  "feature.node.kubernetes.io/pci-0880_1ac1.present",
  "beta.devicetree.org/fsl-imx8mq-phanbell",
];
const [USB = "", PCI = ""] = EDGETPU.slice(1);
const RULE = "accelerators/edgetpu";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

/** Two nodes with a device and one without, and the rule for it. */
async function withDevices(name: string): Promise<World> {
  const world = await createWorld(cluster, name);
  await world.rules.write(RULE, ...EDGETPU);
  await world.add("usb", { [USB]: "true" });
  await world.add("both", { [USB]: "true", [PCI]: "false" });
  await world.add("plain", { "example.com/pool": "blue" }, { "example.com/owner": "ops" });
  return world;
}

/** The same with a Berth that has labelled them. */
async function running(name: string): Promise<World> {
  const world = await withDevices(name);
  await world.start();
  await world.right();
  expect(world.expected("usb")).toHaveProperty([RULE], "true");
  expect(world.expected("plain")).not.toHaveProperty([RULE]);
  return world;
}

describe("nodes change", () => {
  it("L-P1 sets the label on a node with any one of the keys, L-P3 and writes to no other", async () => {
    await using world = await createWorld(cluster, "p1");
    await world.rules.write(RULE, ...EDGETPU);
    for (const [index, key] of EDGETPU.entries()) await world.add(`with-${index}`, { [key]: "true" });
    await world.add("without");
    const mark = await cluster.audit.mark();
    await world.start();
    await world.right();
    await world.restful();
    const written = (await world.patchesSince(mark)).map(({ name }) => name).toSorted();
    expect(written).toEqual(["p1-canary", ...EDGETPU.map((_, index) => `p1-with-${index}`)]);
  });

  it("L-P2 clears the label when the last of the keys is gone, and no sooner", async () => {
    await using world = await running("p2");
    await world.label("both", { [PCI]: null });
    await world.label("usb", { [USB]: null });
    await world.right();
    expect(world.expected("both")).toHaveProperty([RULE]);
    expect(world.expected("usb")).not.toHaveProperty([RULE]);
    await world.restful();
  });

  it("L-P3 leaves a node alone that matches nothing, whatever else happens to it", async () => {
    await using world = await running("p3");
    const mark = await cluster.audit.mark();
    await world.label("plain", { "example.com/pool": "green", "example.com/new": "" });
    await world.annotate("plain", { "example.com/owner": null });
    await world.add("later");
    await world.restful();
    const written = (await world.patchesSince(mark)).map(({ name }) => name);
    expect(written).toEqual(["p3-canary"]);
  });

  it("L-P9 restores a label that is deleted by hand, or set to another value", async () => {
    await using world = await running("p9");
    await world.tamper("usb", { labels: { [RULE]: null } });
    await world.tamper("both", { labels: { [RULE]: "broken" } });
    await world.right();
    expect(world.expected("both")).toHaveProperty([RULE], "true");
    await world.tamper("usb", { annotations: { "berth.dev/marks": null } });
    await world.right();
    await world.restful();
  });

  it("L-P10 leaves a foreign label alone until its rule matches, then takes it over", async () => {
    await using world = await createWorld(cluster, "p10");
    await world.rules.write(RULE, ...EDGETPU);
    await world.add("foreign", { [RULE]: "mine" });
    await world.start();
    await world.singCanary();
    await world.right();
    expect(world.expected("foreign")).toHaveProperty([RULE], "mine");
    await world.restful();
    await world.label("foreign", { [USB]: "true" });
    await world.right();
    expect(world.expected("foreign")).toHaveProperty([RULE], "true");
    await world.label("foreign", { [USB]: null });
    await world.right();
    expect(world.expected("foreign")).not.toHaveProperty([RULE]);
    await world.restful();
  });

  it("L-P13 carries a chain of rules through in one write for a node, and back", async () => {
    await using world = await running("p13");
    await world.rules.write("class/inference", RULE);
    await world.rules.write("class/any", "class/training", "class/inference");
    await world.right();
    const mark = await cluster.audit.mark();
    await world.add("late", { [USB]: "true" });
    await world.right();
    expect(world.expected("late")).toMatchObject({ "class/any": "true", "class/inference": "true" });
    expect(await world.patchesSince(mark)).toHaveLength(1);
    await world.label("late", { [USB]: null });
    await world.right();
    expect(world.expected("late")).not.toHaveProperty(["class/any"]);
    expect(await world.patchesSince(mark)).toHaveLength(2);
    await world.restful();
  });

  it("L-P15 does not look at values, and a node made again under its name is a new one", async () => {
    await using world = await running("p15");
    await world.add("off", { [USB]: "false" });
    await world.right();
    expect(world.expected("off")).toHaveProperty([RULE], "true");
    await world.remove("off");
    await world.add("off", { [PCI]: "" });
    await world.remove("both");
    await world.add("both");
    await world.right();
    await world.restful();
  });
});

describe("the folder changes", () => {
  it("L-P4 takes up a new file without a restart, and L-P5 clears the label of a deleted one from all nodes", async () => {
    await using world = await running("p4");
    await world.rules.write("pools/blue", "example.com/pool");
    await world.right();
    expect(world.expected("plain")).toHaveProperty(["pools/blue"], "true");
    await world.rules.remove(RULE);
    await world.right();
    expect(world.expected("both")).not.toHaveProperty([RULE]);
    await world.restful();
  });

  it("L-P6 follows a folder that appears with its files, and one that goes with them", async () => {
    await using world = await running("p6");
    await world.rules.write("pools/blue", "example.com/pool");
    await world.rules.write("pools/any", "example.com/pool", USB);
    await world.right();
    await world.rules.rename("pools", "teams");
    await world.right();
    expect(world.expected("plain")).toMatchObject({ "teams/blue": "true", "teams/any": "true" });
    await world.rules.remove("teams");
    await world.right();
    expect(world.expected("plain")).not.toHaveProperty(["teams/any"]);
    await world.restful();
  });

  it("L-P7 clears the old label and sets the new one when a file is renamed", async () => {
    await using world = await running("p7");
    const mark = await cluster.audit.mark();
    await world.rules.rename(RULE, "accelerators/tpu");
    await world.right();
    expect(world.expected("usb")).toHaveProperty(["accelerators/tpu"], "true");
    expect(world.expected("usb")).not.toHaveProperty([RULE]);
    await world.restful();
    expect((await world.patchesSince(mark)).length).toBeLessThanOrEqual(5);
  });

  it("L-P8 follows a line that is added and removed; L-P12 a file at the top has no domain, L-P11 a blank line no meaning", async () => {
    await using world = await running("p8");
    await world.rules.write(RULE, ...EDGETPU, "example.com/pool");
    await world.rules.writeText("blue", "\n\nexample.com/other\n\nexample.com/pool");
    await world.right();
    expect(world.expected("plain")).toMatchObject({ [RULE]: "true", blue: "true" });
    await world.rules.write(RULE, PCI);
    await world.right();
    expect(world.expected("usb")).not.toHaveProperty([RULE]);
    expect(world.expected("both")).toHaveProperty([RULE], "true");
    await world.restful();
  });

  it("L-B2 follows a mounted ConfigMap through its swaps, and sees none of kubelet's own files", async () => {
    await using world = await createWorld(cluster, "b2");
    const canary = { "canary/output": "canary/input\n" };
    await using volume = await mountConfigMap(
      { ...canary, [RULE]: EDGETPU.join("\n"), blue: "example.com/pool\n" },
      () => world.noteChange(),
    );
    world.followRules(() => volume.files);
    await world.add("usb", { [USB]: "true", "example.com/pool": "1" });
    const berth = await world.start({ labelFolder: volume.path });
    await world.right();
    expect(world.expected("usb")).toMatchObject({ blue: "true", [RULE]: "true" });
    await volume.update({ ...canary, [RULE]: `${PCI}\n`, blue: "example.com/pool\n", "more/any": USB });
    await world.right();
    expect(world.expected("usb")).not.toHaveProperty([RULE]);
    await volume.update({ ...canary, [RULE]: `${USB}\n` });
    await world.right();
    expect(world.expected("usb")).toHaveProperty([RULE], "true");
    await world.restful();
    expect(await berth.metric("berth_label_rule_problems")).toBe(0);
  });

  it("L-B5 makes one pass of a storm of twenty saves, and writes to no node that stays the same", async () => {
    await using world = await running("b5");
    await world.add("third", { "example.com/pool": "blue" });
    await world.right();
    const mark = await cluster.audit.mark();
    for (let save = 1; save < 20; save++) {
      await world.rules.write(RULE, ...EDGETPU, `example.com/draft-${save}`);
    }
    await world.rules.write(RULE, ...EDGETPU, "example.com/pool");
    await world.right();
    await world.restful();
    const written = (await world.patchesSince(mark)).map(({ name }) => name).toSorted();
    expect(written).toEqual(["b5-canary", "b5-plain", "b5-third"]);
  });

  it("L-B7 clears every label of ours when the last file goes, stays up, and takes up the next one", async () => {
    await using world = await withDevices("b7");
    const berth = await world.start();
    await world.singCanary();
    await world.right();
    for (const file of world.rules.files.keys()) await world.rules.remove(file);
    await world.right();
    expect(world.expected("canary")).not.toHaveProperty(["canary/output"]);
    await expect(berth.ready()).resolves.toBeUndefined();
    await world.rules.write(RULE, USB);
    await world.right();
    expect(world.expected("both")).toHaveProperty([RULE], "true");
  });
});
