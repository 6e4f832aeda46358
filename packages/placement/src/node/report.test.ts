import { createMetricsRegistry } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { parseLabelFolder } from "../labels/index.ts";
import { labelGauges } from "../labels/metrics.ts";
import type { Change } from "./change.ts";
import { createDocumentGauges } from "./document-gauges.ts";
import { createMemory } from "./memory.ts";
import { createNodeReport } from "./report.ts";
import { folderOf } from "./testing/labels.ts";
import { makeNode } from "./testing/world.ts";

const change: Change = {
  id: "label/x",
  action: "add",
  capability: "labels",
  rule: "folder/x",
  after: "true",
  reason: "RuleMatched",
};

describe("metrics of the node writer", () => {
  it("count writes, changes and warnings by reason and never by node", async () => {
    const metrics = createMetricsRegistry({ processMetrics: false });
    const report = createNodeReport(undefined, metrics);
    const memory = createMemory("u");
    const subject = "label/x";
    const finding = { reason: "MarkConflict", severity: "warning", subject, message: "m" } as const;
    report.findings(makeNode(), memory, [finding, { ...finding, severity: "info" }]);
    report.findings(makeNode(), memory, [finding]);
    report.written(makeNode(), [change, change]);
    report.write("written");
    const { body } = await metrics.expose();
    expect(body).toContain('berth_node_writes_total{result="written"} 1');
    expect(body).toContain(
      'berth_mark_changes_total{capability="labels",action="add",reason="RuleMatched"} 2',
    );
    expect(body).toContain('berth_node_findings_total{reason="MarkConflict"} 1');
    expect(body).not.toContain("n1");
  });
});

describe("what the label rules report about themselves", () => {
  it("is how many are in force, and their faults by reason, back to 0 once mended", async () => {
    const metrics = createMetricsRegistry({ processMetrics: false });
    const taken = createDocumentGauges(metrics, labelGauges);
    const bad = parseLabelFolder(folderOf({ "a/b/c": "x", good: "y" }));
    taken(bad.rules.count, bad.problems);
    const before = (await metrics.expose()).body;
    expect(before).toContain("berth_label_rules 1");
    expect(before).toContain('berth_label_rule_problems{reason="InvalidLabelKey"} 1');
    const good = parseLabelFolder(folderOf({ good: "y" }));
    taken(good.rules.count, good.problems);
    expect((await metrics.expose()).body).toContain('berth_label_rule_problems{reason="InvalidLabelKey"} 0');
  });
});
