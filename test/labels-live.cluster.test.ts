/**
 * The contract of derived labels on the whole product: `berth run` as a process, a folder that is edited while it
 * runs, and a real API server. What needs no running product is tested beside the rules in packages/placement.
 */
import { sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createLabelFixture, type LabelFixture } from "./label-fixture.ts";
import { mountConfigMap } from "./rule-folder.ts";

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
async function withDevices(name: string): Promise<LabelFixture> {
  const fixture = await createLabelFixture(cluster, name);
  await fixture.rules.write(RULE, ...EDGETPU);
  await fixture.add("usb", (it) => it.labelled({ [USB]: "true" }));
  await fixture.add("both", (it) => it.labelled({ [USB]: "true", [PCI]: "false" }));
  await fixture.add("plain", (it) =>
    it.labelled({ "example.com/pool": "blue" }).annotated({ "example.com/owner": "ops" }),
  );
  return fixture;
}

/** The same with a Berth that has labelled them. */
async function running(name: string): Promise<LabelFixture> {
  const fixture = await withDevices(name);
  await fixture.start();
  await fixture.right();
  expect(fixture.expected("usb")).toHaveProperty([RULE], "true");
  expect(fixture.expected("plain")).not.toHaveProperty([RULE]);
  return fixture;
}

describe("nodes change", () => {
  it("L-P1 sets the label on a node with any one of the keys, L-P3 and writes to no other, whatever happens to it", async () => {
    await using fixture = await createLabelFixture(cluster, "p1");
    await fixture.rules.write(RULE, ...EDGETPU);
    for (const [index, key] of EDGETPU.entries())
      await fixture.add(`with-${index}`, (it) => it.labelled({ [key]: "true" }));
    await fixture.add("without", (it) =>
      it.labelled({ "example.com/pool": "blue" }).annotated({ "example.com/owner": "ops" }),
    );
    const mark = await cluster.audit.mark();
    await fixture.start();
    await fixture.right();
    await fixture.label("without", { "example.com/pool": "green", "example.com/new": "" });
    await fixture.annotate("without", { "example.com/owner": null });
    await fixture.add("later");
    await fixture.restful();
    const written = (await fixture.patchesSince(mark)).map(({ name }) => name).toSorted();
    expect(written).toEqual(["p1-canary", ...EDGETPU.map((_, index) => `p1-with-${index}`)]);
  });

  it("L-P2 clears the label when the last of the keys is gone, L-P9 restores it, L-P15 does not look at values", async () => {
    await using fixture = await running("p2");
    await fixture.tamper("usb", { labels: { [RULE]: null } });
    await fixture.tamper("both", { labels: { [RULE]: "broken" } });
    await fixture.right();
    expect(fixture.expected("both")).toHaveProperty([RULE], "true");
    await fixture.tamper("both", { annotations: { "berth.dev/marks": null } });
    await fixture.right();
    await fixture.label("both", { [PCI]: null });
    await fixture.label("usb", { [USB]: null });
    await fixture.right();
    expect(fixture.expected("both")).toHaveProperty([RULE]);
    expect(fixture.expected("usb")).not.toHaveProperty([RULE]);
    // A node made again under its name is a new one.
    await fixture.remove("both");
    await fixture.add("both");
    await fixture.add("off", (it) => it.labelled({ [USB]: "false" }));
    await fixture.right();
    expect(fixture.expected("off")).toHaveProperty([RULE], "true");
    await fixture.restful();
  });
});

describe("the folder changes", () => {
  it("L-P4 takes up a file, L-P5 L-P6 L-P7 L-P8 follows what changes, is renamed and goes; L-P11 L-P12", async () => {
    await using fixture = await running("p4");
    await fixture.rules.write("pools/blue", "example.com/pool");
    await fixture.rules.write("pools/any", "example.com/pool", USB);
    await fixture.rules.writeText("blue", "\n\nexample.com/other\n\nexample.com/pool");
    await fixture.rules.write(RULE, ...EDGETPU, "example.com/pool");
    await fixture.right();
    expect(fixture.expected("plain")).toMatchObject({ "pools/blue": "true", blue: "true", [RULE]: "true" });
    await fixture.rules.rename("pools", "teams");
    await fixture.rules.write(RULE, PCI);
    await fixture.right();
    expect(fixture.expected("plain")).toMatchObject({ "teams/blue": "true", "teams/any": "true" });
    expect(fixture.expected("usb")).not.toHaveProperty([RULE]);
    await fixture.rules.rename(RULE, "accelerators/tpu");
    await fixture.rules.remove("teams");
    await fixture.right();
    expect(fixture.expected("both")).toHaveProperty(["accelerators/tpu"], "true");
    expect(fixture.expected("both")).not.toHaveProperty([RULE]);
    expect(fixture.expected("plain")).not.toHaveProperty(["teams/any"]);
    await fixture.restful();
  });

  it("L-B2 follows a mounted ConfigMap through its swaps, and sees none of kubelet's own files", async () => {
    await using fixture = await createLabelFixture(cluster, "b2");
    const canary = { "canary/output": "canary/input\n" };
    await using volume = await mountConfigMap(
      { ...canary, [RULE]: EDGETPU.join("\n"), blue: "example.com/pool\n" },
      () => fixture.noteChange(),
    );
    fixture.followRules(() => volume.files);
    await fixture.add("usb", (it) => it.labelled({ [USB]: "true", "example.com/pool": "1" }));
    const berth = await fixture.start({ labelFolder: volume.path });
    await fixture.right();
    expect(fixture.expected("usb")).toMatchObject({ blue: "true", [RULE]: "true" });
    await volume.update({ ...canary, [RULE]: `${PCI}\n`, blue: "example.com/pool\n", "more/any": USB });
    await fixture.right();
    expect(fixture.expected("usb")).not.toHaveProperty([RULE]);
    await volume.update({ ...canary, [RULE]: `${USB}\n` });
    await fixture.right();
    expect(fixture.expected("usb")).toHaveProperty([RULE], "true");
    await fixture.restful();
    expect(await berth.metric("berth_label_rule_problems")).toBe(0);
  });

  it("L-B7 clears every label of ours when the last file goes, stays up, and takes up the next one", async () => {
    await using fixture = await withDevices("b7");
    const berth = await fixture.start();
    await fixture.changeCanary();
    await fixture.right();
    for (const file of fixture.rules.files.keys()) await fixture.rules.remove(file);
    await fixture.right();
    expect(fixture.expected("canary")).not.toHaveProperty(["canary/output"]);
    await expect(berth.ready()).resolves.toBeUndefined();
    await fixture.rules.write(RULE, USB);
    await fixture.right();
    expect(fixture.expected("both")).toHaveProperty([RULE], "true");
  });
});
