import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseRecord } from "../node/record.ts";
import { folderOf, labelsFrom, labelsOf, planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode } from "../node/testing/world.ts";

const edgetpu = "accelerators/edgetpu";
const RULES = folderOf({ [edgetpu]: "kkohtaka.org/edgetpu\nusb.present\npci.present\ndevicetree\n" });

describe("label rules on one node", () => {
  it.each(["kkohtaka.org/edgetpu", "usb.present", "pci.present", "devicetree"])(
    "L-P1 sets the label on a node that carries %s",
    (key) => {
      const after = settle(makeNode({ labels: { [key]: "true" } }), [labelsFrom(RULES)]);
      expect(labelsOf(after)).toEqual({ [key]: "true", [edgetpu]: "true" });
    },
  );

  it("L-P2 clears the label when what it depends on is gone", () => {
    const set = settle(makeNode({ labels: { "usb.present": "1", other: "x" } }), [labelsFrom(RULES)]);
    const gone = editNode(set, { labels: { "usb.present": null } });
    const plan = planWith(gone, [labelsFrom(RULES)]);
    expect(plan.changes).toMatchObject([{ action: "remove", reason: "InputGone", before: "true" }]);
    expect(labelsOf(settle(gone, [labelsFrom(RULES)]))).toEqual({ other: "x" });
  });

  it("L-P3 writes nothing to a node that matches no rule", () => {
    expect(planWith(makeNode({ labels: { other: "x" } }), [labelsFrom(RULES)]).patch).toBeUndefined();
    expect(planWith(makeNode(), [labelsFrom(RULES)]).patch).toBeUndefined();
  });

  it("L-P4, L-P8 sets what a new file or line asks for", () => {
    const node = makeNode({ labels: { x: "1" } });
    const before = settle(node, [labelsFrom(folderOf({ a: "y" }))]);
    const after = settle(before, [labelsFrom(folderOf({ a: "y\nx", b: "x" }))]);
    expect(labelsOf(after)).toEqual({ x: "1", a: "true", b: "true" });
  });

  it("L-P5, L-P7, L-P8 clears the label of a deleted, renamed or narrowed file", () => {
    const set = settle(makeNode({ labels: { x: "1" } }), [labelsFrom(folderOf({ a: "x", b: "x", c: "x" }))]);
    const rules = labelsFrom(folderOf({ "ns/a": "x", c: "y" }));
    const plan = planWith(set, [rules]);
    expect(plan.changes.map(({ id, action, reason }) => `${id} ${action} ${reason}`)).toEqual([
      "label/a remove RuleGone",
      "label/b remove RuleGone",
      "label/c remove InputGone",
      "label/ns/a add RuleMatched",
    ]);
    expect(labelsOf(settle(set, [rules]))).toEqual({ x: "1", "ns/a": "true" });
  });

  it("L-P6 sets and clears the labels of a whole namespace", () => {
    const full = labelsFrom(folderOf({ "ns/a": "x", "ns/b": "x", keep: "x" }));
    const set = settle(makeNode({ labels: { x: "1" } }), [full]);
    expect(labelsOf(set)).toEqual({ x: "1", "ns/a": "true", "ns/b": "true", keep: "true" });
    const without = settle(set, [labelsFrom(folderOf({ keep: "x" }))]);
    expect(labelsOf(without)).toEqual({ x: "1", keep: "true" });
  });

  it.each([
    ["deleted", null, "MarkRestored"],
    ["changed", "no", "ValueRestored"],
  ])("L-P9 sets the label back to true when it is %s by hand", (_what, value, reason) => {
    const set = settle(makeNode({ labels: { "usb.present": "1" } }), [labelsFrom(RULES)]);
    const edited = editNode(set, { labels: { [edgetpu]: value } });
    expect(planWith(edited, [labelsFrom(RULES)]).changes).toMatchObject([{ reason }]);
    expect(labelsOf(settle(edited, [labelsFrom(RULES)]))).toEqual(labelsOf(set));
  });

  it("L-P10 leaves a foreign label alone while its rule has never matched", () => {
    const node = makeNode({ labels: { [edgetpu]: "mine" } });
    expect(planWith(node, [labelsFrom(RULES)]).patch).toBeUndefined();
  });

  it("L-P10 overwrites it once the rule matches, and removes it later, as the original does", () => {
    const node = makeNode({ labels: { [edgetpu]: "mine", "usb.present": "1" } });
    const set = settle(node, [labelsFrom(RULES)]);
    expect(labelsOf(set)[edgetpu]).toBe("true");
    const gone = editNode(set, { labels: { "usb.present": null } });
    expect(labelsOf(settle(gone, [labelsFrom(RULES)]))).toEqual({});
  });

  it("L-P13 settles a chain of rules in one pass", () => {
    const chain = labelsFrom(folderOf({ c: "b", b: "a", a: "x", d: "nothing" }));
    const set = settle(makeNode({ labels: { x: "1" } }), [chain]);
    expect(labelsOf(set)).toEqual({ x: "1", a: "true", b: "true", c: "true" });
    const gone = editNode(set, { labels: { x: null } });
    expect(labelsOf(settle(gone, [chain]))).toEqual({});
  });

  it("L-P15 does not look at the value", () => {
    const after = settle(makeNode({ labels: { k: "false" } }), [labelsFrom(folderOf({ out: "k" }))]);
    expect(labelsOf(after)).toEqual({ k: "false", out: "true" });
  });

  it("L-B1 clears a label whose input went away while nobody was running", () => {
    const set = settle(makeNode({ labels: { "usb.present": "1" } }), [labelsFrom(RULES)]);
    const gone = editNode(set, { labels: { "usb.present": null } });
    expect(labelsOf(settle(gone, [labelsFrom(RULES)]))).toEqual({});
  });

  it("L-B7 clears every label of ours when the folder is empty", () => {
    const set = settle(makeNode({ labels: { x: "1", own: "2" } }), [
      labelsFrom(folderOf({ a: "x", b: "x" })),
    ]);
    const after = settle(set, [labelsFrom(folderOf({}))]);
    expect(labelsOf(after)).toEqual({ x: "1", own: "2" });
    expect(after.metadata?.annotations).toEqual({});
  });

  it("never matches a key that only the prototype has", () => {
    const node = makeNode({ labels: { a: "1" } });
    expect(
      planWith(node, [labelsFrom(folderOf({ out: "constructor", toString: "x" }))]).patch,
    ).toBeUndefined();
  });
});

describe("not seeing", () => {
  const set = settle(makeNode({ labels: { x: "1" } }), [labelsFrom(folderOf({ a: "x", b: "a" }))]);

  it("keeps the label of a file that cannot be read, and what follows from it", () => {
    const gone = editNode(set, { labels: { x: null } });
    const plan = planWith(gone, [labelsFrom(folderOf({ a: undefined, b: "a" }))]);
    expect(plan.patch).toBeUndefined();
    expect(plan.stays).toMatchObject([{ id: "label/a", reason: "RuleUnreadable" }]);
  });

  it("keeps what might follow from a label that was removed while its rule cannot be read", () => {
    const gone = editNode(set, { labels: { a: null, x: null } });
    const plan = planWith(gone, [labelsFrom(folderOf({ a: undefined, b: "a" }))]);
    expect(plan.patch).toBeUndefined();
    expect(plan.stays.map(({ id }) => id)).toEqual(["label/a", "label/b"]);
  });

  it("does not set the label of a file that cannot be read", () => {
    const node = makeNode({ labels: { x: "1" } });
    expect(planWith(node, [labelsFrom(folderOf({ a: undefined }))]).patch).toBeUndefined();
  });

  it("removes nothing while the folder is missing or was not seen whole", () => {
    const gone = editNode(set, { labels: { x: null } });
    for (const folder of [folderOf({}, false), folderOf({ b: "a" }, false)]) {
      const plan = planWith(gone, [labelsFrom(folder)]);
      expect(plan.patch).toBeUndefined();
    }
    expect(planWith(gone, [labelsFrom(folderOf({}, false))]).stays).toMatchObject([
      { id: "label/a", reason: "SourceNotRead" },
      { id: "label/b", reason: "SourceNotRead" },
    ]);
  });
});

describe("L-B9 rules that depend on themselves", () => {
  it("do not keep their own label alive", () => {
    for (const folder of [folderOf({ a: "x\na" }), folderOf({ a: "x\nb", b: "a" })]) {
      const set = settle(makeNode({ labels: { x: "1" } }), [labelsFrom(folder)]);
      expect(labelsOf(set)["a"]).toBe("true");
      const gone = editNode(set, { labels: { x: null } });
      expect(labelsOf(settle(gone, [labelsFrom(folder)]))).toEqual({});
    }
  });

  it("take a label that somebody else set as support for the others, and leave it to them", () => {
    const folder = folderOf({ a: "b", b: "a" });
    const set = settle(makeNode({ labels: { a: "theirs" } }), [labelsFrom(folder)]);
    expect(labelsOf(set)).toEqual({ a: "theirs", b: "true" });
    expect(planWith(set, [labelsFrom(folder)]).patch).toBeUndefined();
    const gone = editNode(set, { labels: { a: null } });
    expect(labelsOf(settle(gone, [labelsFrom(folder)]))).toEqual({});
  });

  it("take over such a label once something outside the cycle asks for it", () => {
    const folder = folderOf({ a: "b\nx", b: "a" });
    const set = settle(makeNode({ labels: { a: "theirs", x: "1" } }), [labelsFrom(folder)]);
    expect(labelsOf(set)).toEqual({ a: "true", b: "true", x: "1" });
  });
});

const key = fc.constantFrom("a", "b", "c", "d", "x", "y", "z");
const someLabels = fc.dictionary(key, fc.constantFrom("true", "other"), { maxKeys: 5 });
const someRules = fc.dictionary(
  fc.constantFrom("a", "b", "c", "d"),
  fc.option(fc.uniqueArray(key, { maxLength: 3 }), { freq: 8, nil: undefined }),
);
const someFolder = someRules.map((rules) =>
  folderOf(Object.fromEntries(Object.entries(rules).map(([path, lines]) => [path, lines?.join("\n")]))),
);

describe("any rules on any node", () => {
  it("settle after one write, from every state that rules and other writers can leave behind", () => {
    const step = fc.record({
      folder: someFolder,
      edit: fc.dictionary(key, fc.constantFrom("true", "x", null), { maxKeys: 3 }),
    });
    fc.assert(
      fc.property(someLabels, fc.array(step, { minLength: 1, maxLength: 6 }), (labels, steps) => {
        let node = makeNode({ labels });
        for (const { folder, edit } of steps) {
          node = settle(editNode(node, { labels: edit }), [labelsFrom(folder)]);
          expect(planWith(node, [labelsFrom(folder)]).changes).toEqual([]);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("remove every label of theirs, and no other, when the folder becomes empty", () => {
    fc.assert(
      fc.property(someLabels, someFolder, (labels, folder) => {
        const node = makeNode({ labels });
        const set = settle(node, [labelsFrom(folder)]);
        const after = settle(set, [labelsFrom(folderOf({}))]);
        expect(after.metadata?.annotations?.["berth.dev/marks"]).toBeUndefined();
        for (const [name, value] of Object.entries(labelsOf(after))) expect(labels[name]).toBe(value);
        for (const name of Object.keys(labels)) {
          const record = parseRecord(set.metadata?.annotations?.["berth.dev/marks"] ?? "");
          const taken = record.state === "read" && record.record.marks.has(`label/${name}`);
          expect(Object.hasOwn(labelsOf(after), name)).toBe(!taken);
        }
      }),
      { numRuns: 500 },
    );
  });
});
