/**
 * The contract of derived labels on the whole product: `berth run` as a process, a folder that is edited while it
 * runs, and a real API server. What needs no running product is tested beside the rules in packages/placement.
 */
import { sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
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

const cluster = await sharedTestCluster();

/** Two nodes with a device and one without, and the rule for it. */
async function withDevices(name: string): Promise<World> {
  const world = await createWorld(cluster, name);
  await world.rules.write(RULE, ...EDGETPU);
  await world.add("usb", (it) => it.labelled({ [USB]: "true" }));
  await world.add("both", (it) => it.labelled({ [USB]: "true", [PCI]: "false" }));
  await world.add("plain", (it) =>
    it.labelled({ "example.com/pool": "blue" }).annotated({ "example.com/owner": "ops" }),
  );
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
  it("L-P1 sets the label on a node with any one of the keys, L-P3 and writes to no other, whatever happens to it", async () => {
    await using world = await createWorld(cluster, "p1");
    await world.rules.write(RULE, ...EDGETPU);
    for (const [index, key] of EDGETPU.entries())
      await world.add(`with-${index}`, (it) => it.labelled({ [key]: "true" }));
    await world.add("without", (it) =>
      it.labelled({ "example.com/pool": "blue" }).annotated({ "example.com/owner": "ops" }),
    );
    const mark = await cluster.audit.mark();
    await world.start();
    await world.right();
    await world.label("without", { "example.com/pool": "green", "example.com/new": "" });
    await world.annotate("without", { "example.com/owner": null });
    await world.add("later");
    await world.restful();
    const written = (await world.patchesSince(mark)).map(({ name }) => name).toSorted();
    expect(written).toEqual(["p1-canary", ...EDGETPU.map((_, index) => `p1-with-${index}`)]);
  });

  it("L-P2 clears the label when the last of the keys is gone, L-P9 restores it, L-P15 does not look at values", async () => {
    await using world = await running("p2");
    await world.tamper("usb", { labels: { [RULE]: null } });
    await world.tamper("both", { labels: { [RULE]: "broken" } });
    await world.right();
    expect(world.expected("both")).toHaveProperty([RULE], "true");
    await world.tamper("both", { annotations: { "berth.dev/marks": null } });
    await world.right();
    await world.label("both", { [PCI]: null });
    await world.label("usb", { [USB]: null });
    await world.right();
    expect(world.expected("both")).toHaveProperty([RULE]);
    expect(world.expected("usb")).not.toHaveProperty([RULE]);
    // A node made again under its name is a new one.
    await world.remove("both");
    await world.add("both");
    await world.add("off", (it) => it.labelled({ [USB]: "false" }));
    await world.right();
    expect(world.expected("off")).toHaveProperty([RULE], "true");
    await world.restful();
  });
});

describe("the folder changes", () => {
  it("L-P4 takes up a file, L-P5 L-P6 L-P7 L-P8 follows what changes, is renamed and goes; L-P11 L-P12", async () => {
    await using world = await running("p4");
    await world.rules.write("pools/blue", "example.com/pool");
    await world.rules.write("pools/any", "example.com/pool", USB);
    await world.rules.writeText("blue", "\n\nexample.com/other\n\nexample.com/pool");
    await world.rules.write(RULE, ...EDGETPU, "example.com/pool");
    await world.right();
    expect(world.expected("plain")).toMatchObject({ "pools/blue": "true", blue: "true", [RULE]: "true" });
    await world.rules.rename("pools", "teams");
    await world.rules.write(RULE, PCI);
    await world.right();
    expect(world.expected("plain")).toMatchObject({ "teams/blue": "true", "teams/any": "true" });
    expect(world.expected("usb")).not.toHaveProperty([RULE]);
    await world.rules.rename(RULE, "accelerators/tpu");
    await world.rules.remove("teams");
    await world.right();
    expect(world.expected("both")).toHaveProperty(["accelerators/tpu"], "true");
    expect(world.expected("both")).not.toHaveProperty([RULE]);
    expect(world.expected("plain")).not.toHaveProperty(["teams/any"]);
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
    await world.add("usb", (it) => it.labelled({ [USB]: "true", "example.com/pool": "1" }));
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
