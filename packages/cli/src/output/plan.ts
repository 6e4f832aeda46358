import { counted, displayWidth, oneLine, type Style } from "@berth/host";
import type { Finding, NodeDiff, PlanDiff, StayingMark } from "@berth/placement";

/** A change, and the inputs from the node that caused it. */
type PlannedChange = NodeDiff["changes"][number] & { readonly inputs?: readonly string[] };

/** One line of the diff: its sign, its subject and its reason. */
interface Line {
  readonly sign: "+" | "-" | "=" | " " | "!";
  readonly text: string;
  readonly why: string;
}

/**
 * Formats the plan as a diff with a heading for each node. `+` marks an addition, `-` a removal, and both a new value.
 * `=` marks a change of only the record. The reason and the rule follow in aligned columns.
 */
export function formatPlan(diff: PlanDiff, style: Style, verb: "would" | "will" = "would"): string {
  const lines = diff.nodes.map(({ changes, stays, findings }) => [
    ...changes.flatMap(linesOf),
    ...stays.map(stayingLine),
    ...findings.map(findingLine),
  ]);
  const width = Math.max(0, ...lines.flat().map(({ text }) => displayWidth(oneLine(text))));
  const blocks = diff.nodes.map(({ node }, at) => {
    const body = (lines[at] ?? []).map((line) => `${formatLine(line, width, style)}\n`).join("");
    return `${style.heading(`node ${node}`)}\n${body}`;
  });
  return `${blocks.join("\n")}${blocks.length > 0 ? "\n" : ""}${summary(diff, verb)}\n`;
}

function linesOf({ id, action, before, after, reason, rule, inputs = [] }: PlannedChange): readonly Line[] {
  const found = inputs.length === 0 ? "" : `  by ${inputs.join(", ")}`;
  const why = rule === "" ? reason : `${reason}  ${rule}${found}`;
  if (action === "add") return [{ sign: "+", text: withValue(id, after), why }];
  if (action === "remove") return [{ sign: "-", text: withValue(id, before), why }];
  if (action !== "overwrite") return [{ sign: "=", text: withValue(id, after ?? before), why }];
  return [
    { sign: "-", text: withValue(id, before), why: "" },
    { sign: "+", text: withValue(id, after), why },
  ];
}

function withValue(id: string, value: string | undefined): string {
  return value === undefined ? id : `${id}=${value}`;
}

function stayingLine({ id, reason, recorded }: StayingMark): Line {
  return { sign: " ", text: id, why: `stays: ${reason}  ${recorded.rule} of ${recorded.by}` };
}

function findingLine({ severity, reason, subject, message }: Finding): Line {
  return { sign: severity === "warning" ? "!" : " ", text: subject, why: `${reason}: ${message}` };
}

const PAINT: Partial<Record<Line["sign"], keyof Style>> = { "+": "added", "-": "removed", "!": "warning" };

function formatLine({ sign, ...rest }: Line, width: number, style: Style): string {
  const [text, why] = [oneLine(rest.text), oneLine(rest.why)];
  const padded = why === "" ? text : text + " ".repeat(width - displayWidth(text));
  const line = `  ${sign} ${padded}`;
  const paint = PAINT[sign];
  const painted = paint === undefined ? line : style[paint](line);
  return why === "" ? painted : `${painted}   ${style.aside(why)}`;
}

function summary({ looked, written, totals }: PlanDiff, verb: string): string {
  if (written === 0) return `No changes of nodes: ${looked} looked at.`;
  const parts = [
    [totals.add, "to set"],
    [totals.overwrite, "to replace"],
    [totals.remove, "to remove"],
    [totals.adopt + totals.record, "to record"],
  ] as const;
  const what = parts.filter(([count]) => count > 0).map(([count, words]) => `${count} ${words}`);
  return `${written} of ${counted(looked, "node")} ${verb} be written: ${what.join(", ")}.`;
}
