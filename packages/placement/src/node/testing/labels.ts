import type { Node } from "@berth/kube";
import { type LabelFolder, type LabelRules, labels, parseLabelFolder } from "../../labels/index.ts";
import { type BoundCapability, bindCapability } from "../capability.ts";
import { mergeContributions } from "../merge.ts";
import { effectiveRecord, type NodePlan, type PlanInput, planNode } from "../plan.ts";
import { ownedMarks } from "../record.ts";
import { patchNode } from "./world.ts";

/** 2026-01-01T00:00:00Z. */
export const NEW_YEAR = 1_767_225_600_000;

/** A folder as it was read. A value that is not text stands for a file that cannot be read. */
export function folderOf(files: Readonly<Record<string, string | undefined>>, complete = true): LabelFolder {
  const entries = Object.entries(files).map(
    ([path, text]) => [path, text === undefined ? { problem: "permission denied" } : { text }] as const,
  );
  return { complete, files: new Map(entries) };
}

/** The label rules of a folder, bound as the composition root binds them. */
export function labelsFrom(folder: LabelFolder): BoundCapability {
  const { rules } = parseLabelFolder(folder);
  return bindLabels(() => rules);
}

export function bindLabels(config: () => LabelRules | undefined): BoundCapability {
  return bindCapability(labels, { config, observe: (view) => view });
}

/** What the writer would do to this node now. Default of `declared`: all that is recorded as ours. */
export function planWith(
  node: Node,
  capabilities: readonly BoundCapability[],
  options: Partial<Pick<PlanInput, "lastRecord" | "now" | "installation" | "declared">> = {},
): NodePlan {
  const { installation = "berth", now = NEW_YEAR, lastRecord } = options;
  const owned = ownedMarks(effectiveRecord(node, lastRecord), installation);
  const merged = mergeContributions(capabilities.map((it) => it.contribute({ node, owned }, now)));
  const declared = options.declared ?? new Set(owned.keys());
  const last = lastRecord === undefined ? {} : { lastRecord };
  return planNode({ node, merged, installation, now, declared, ...last });
}

/** The node once the plan is carried out. */
export function settle(node: Node, capabilities: readonly BoundCapability[]): Node {
  const { patch } = planWith(node, capabilities);
  return patch === undefined ? node : patchNode(node, patch);
}

/** The node's labels, without anything else. */
export function labelsOf(node: Node): Readonly<Record<string, string>> {
  return node.metadata?.labels ?? {};
}
