import { describe, expect, it } from "vitest";
import { folderOf, labelsFrom, NEW_YEAR, planWith, settle } from "../testing/labels.ts";
import { editNode, makeNode } from "../testing/world.ts";
import { toPlanDiff } from "./diff.ts";
import { explainNode } from "./node.ts";

const rules = labelsFrom(
  folderOf({ "accelerators/edgetpu": "usb.present\npci.present", b: "accelerators/edgetpu" }),
);
const base = { capabilities: [rules], installation: "berth", now: NEW_YEAR };

describe("explaining a node", () => {
  it("says for each mark which rule, since when, from what, and who else holds it", () => {
    const node = settle(makeNode({ labels: { "usb.present": "1" } }), [rules]);
    const fieldsV1 = { "f:metadata": { "f:labels": { "f:b": {} } } };
    const managedFields = [
      { manager: "nfd", fieldsV1 },
      { manager: "berth", fieldsV1 },
    ];
    const { marks } = explainNode({ ...base, node, managedFields });
    expect(marks).toEqual([
      {
        id: "label/accelerators/edgetpu",
        standing: "true",
        wanted: "true",
        capability: "labels",
        rule: "folder/accelerators/edgetpu",
        since: "2026-01-01T00:00:00Z",
        reason: "RuleMatched",
        inputs: ["label/usb.present"],
        alsoHeldBy: [],
      },
      {
        id: "label/b",
        standing: "true",
        wanted: "true",
        capability: "labels",
        rule: "folder/b",
        since: "2026-01-01T00:00:00Z",
        reason: "RuleMatched",
        inputs: ["label/accelerators/edgetpu"],
        alsoHeldBy: [{ manager: "nfd" }],
      },
    ]);
  });

  it("says what the next write does and why", () => {
    const set = settle(makeNode({ labels: { "usb.present": "1" } }), [rules]);
    const gone = editNode(set, { labels: { "usb.present": null } });
    expect(explainNode({ ...base, node: gone }).marks).toMatchObject([
      { id: "label/accelerators/edgetpu", next: "remove", reason: "InputGone", inputs: [] },
      { id: "label/b", next: "remove", reason: "InputGone" },
    ]);
  });

  it("I-5 claims no fault about a mark of a rule whose source was not given, and says what the node records", () => {
    const set = settle(makeNode({ labels: { "usb.present": "1" } }), [rules]);
    const { marks } = explainNode({ ...base, capabilities: [], node: set });
    const reason = "SourceNotGiven";
    expect(marks).toMatchObject([
      { reason, rule: "folder/accelerators/edgetpu", since: "2026-01-01T00:00:00Z", standing: "true" },
      { reason, rule: "folder/b", since: "2026-01-01T00:00:00Z" },
    ]);
  });

  it("says why a mark stays", () => {
    const set = settle(makeNode({ labels: { "usb.present": "1" } }), [rules]);
    const record = set.metadata?.annotations?.["berth.dev/marks"] ?? "";
    const annotations = { "berth.dev/marks": record.replaceAll("folder/", "cluster/") };
    const node = editNode(set, { annotations });
    // A command reads the rules of the cluster without being told to.
    const { marks } = explainNode({ ...base, capabilities: [], node });
    expect(marks).toMatchObject([{ reason: "SourceNotRead" }, { reason: "SourceNotRead" }]);
  });

  it("lists what may be a leftover of a lost record", () => {
    const node = makeNode({ labels: { b: "true" } });
    expect(explainNode({ ...base, node }).findings).toMatchObject([
      { reason: "Unrecorded", subject: "label/b" },
    ]);
  });

  it("names who holds what may be a leftover", () => {
    const node = makeNode({ labels: { b: "true" } });
    const managedFields = [{ manager: "nfd", fieldsV1: { "f:metadata": { "f:labels": { "f:b": {} } } } }];
    const [finding] = explainNode({ ...base, node, managedFields }).findings;
    expect(finding?.message).toMatch(/; held by nfd$/);
  });
});

describe("the diff of a plan", () => {
  it("names only the nodes about which there is something to say, and counts all", () => {
    const nodes = [
      makeNode({ name: "n3", labels: { "usb.present": "1" } }),
      makeNode({ name: "n1" }),
      settle(makeNode({ name: "n2", labels: { "pci.present": "1" } }), [rules]),
    ];
    const diff = toPlanDiff(nodes.map((node) => planWith(node, [rules])));
    expect(diff).toMatchObject({
      looked: 3,
      written: 1,
      totals: { add: 2, overwrite: 0, remove: 0, adopt: 0, record: 0 },
    });
    expect(diff.nodes.map(({ node, changes }) => [node, ...changes.map(({ id }) => id)])).toEqual([
      ["n3", "label/accelerators/edgetpu", "label/b"],
    ]);
    expect(JSON.parse(JSON.stringify(diff))).toEqual(diff);
  });
});
