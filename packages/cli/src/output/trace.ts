/** What decisions compared, as text. Pure. */
import { countedNames, formatColumns, type Style } from "@berth/host";
import { type Comparison, firstFailed, type RuleTrace } from "@berth/placement";

/** The part of a rule's answer about one node. */
export function formatTrace({ rule, marks, phase, places }: RuleTrace, style: Style): string {
  const what = marks.length === 0 ? "wants nothing on the node" : `wants ${marks.join(", ")}`;
  const heading = style.heading(`rule ${rule}`);
  const blocks = places.map(({ place, comparisons }) =>
    comparisons.length === 0 ? "" : `${place}\n${formatComparisons(comparisons)}`,
  );
  return `${heading} ${what}${phase === undefined ? "" : ` (${phase})`}\n${blocks.join("")}`;
}

export function formatComparisons(comparisons: readonly Comparison[]): string {
  return formatColumns(rowsOf(comparisons, 0), "  ");
}

function rowsOf(comparisons: readonly Comparison[], depth: number): readonly (readonly string[])[] {
  return comparisons.flatMap(({ what, value, holds, parts }) => {
    const answer = holds === "unknown" ? holds : holds ? "yes" : "NO";
    const row = [answer, `${"  ".repeat(depth)}${what}`, value ?? ""];
    return [row, ...rowsOf(parts ?? [], depth + 1)];
  });
}

/** How many nodes each comparison keeps from a rule. */
export interface RuleSummary {
  readonly rule: string;
  readonly nodes: number;
  /** Nodes on which it wants something. */
  readonly wanted: number;
  /** By the first comparison that failed, most nodes first. */
  readonly because: readonly { readonly what: string; readonly nodes: readonly string[] }[];
}

export class RuleCount {
  readonly #rules = new Map<string, { nodes: number; wanted: number; because: Map<string, string[]> }>();

  add(node: string, { rule, marks, places }: RuleTrace): void {
    const found = this.#rules.get(rule) ?? { nodes: 0, wanted: 0, because: new Map<string, string[]>() };
    this.#rules.set(rule, found);
    found.nodes += 1;
    if (marks.length > 0) {
      found.wanted += 1;
      return;
    }
    const failed = firstFailed(places.flatMap(({ comparisons }) => comparisons));
    const what = failed?.what ?? "nothing failed: it has nothing to do there";
    found.because.set(what, [...(found.because.get(what) ?? []), node]);
  }

  summaries(): readonly RuleSummary[] {
    return Array.from(this.#rules, ([rule, { nodes, wanted, because }]) => ({
      rule,
      nodes,
      wanted,
      because: Array.from(because, ([what, names]) => ({ what, nodes: names })).toSorted(
        (a, b) => b.nodes.length - a.nodes.length,
      ),
    }));
  }
}

export function formatSummary({ rule, nodes, wanted, because }: RuleSummary, style: Style): string {
  const rows = because.map((it) => [it.what, countedNames(it.nodes)]);
  const heading = `${style.heading(`rule ${rule}`)} wants something on ${wanted} of ${nodes} nodes\n`;
  return `${heading}${rows.length === 0 ? "" : formatColumns([["FAILED FIRST", "NODES"], ...rows], "  ")}`;
}
