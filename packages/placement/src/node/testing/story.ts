import type { Node } from "@berth/kube";
import type { BoundCapability } from "../capability.ts";
import { planWith } from "./labels.ts";
import { editNode, patchNode } from "./world.ts";

type Edit = Parameters<typeof editNode>[1];

/** Plays a story on one node, plan after plan until nothing is left to do, and writes it down for people to review. */
export interface Story {
  readonly node: Node;
  /** Something happens, told in words; then the rules act on it. */
  happens(
    what: string,
    happening: { readonly edit?: Edit; readonly rules?: readonly BoundCapability[] },
  ): void;
  /** The transcript so far. */
  tell(): string;
}

export function tellStory(start: Node, rules: readonly BoundCapability[]): Story {
  const lines: string[] = [];
  let node = start;
  let inForce = rules;
  /** More rounds than any story needs: a story that does not settle is a fault. */
  const maxRounds = 5;
  const act = (): void => {
    for (let round = 1; ; round += 1) {
      const plan = planWith(node, inForce);
      for (const { id, recorded, reason } of plan.stays)
        lines.push(`    ${id} stays (${recorded.rule}): ${reason}`);
      for (const { reason, message } of plan.findings) lines.push(`    ${reason}: ${message}`);
      if (plan.patch === undefined) break;
      if (round > maxRounds) throw new Error("the story does not settle");
      lines.push(`  patch ${round}`);
      for (const { id, action, rule, before, after, reason } of plan.changes) {
        lines.push(`    ${action} ${id}: ${before ?? "-"} -> ${after ?? "-"} (${rule}): ${reason}`);
      }
      node = patchNode(node, plan.patch);
    }
    const labels = Object.entries(node.metadata?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
    lines.push(`  labels: ${labels.sort().join(" ") || "none"}`);
  };
  act();
  return {
    get node() {
      return node;
    },
    happens(what, { edit, rules }) {
      lines.push(what);
      if (edit !== undefined) node = editNode(node, edit);
      if (rules !== undefined) inForce = rules;
      act();
    },
    tell: () => `${lines.join("\n")}\n`,
  };
}
