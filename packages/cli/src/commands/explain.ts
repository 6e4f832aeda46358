import { isApiError, type Node, nodes } from "@berth/kube";
import { explainNode, type MarkExplanation, type NodeExplanation } from "@berth/placement";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { formatColumns } from "../output/columns.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { type Style, styleFor } from "../output/style.ts";
import {
  assembleReadRules,
  fetchClusterRules,
  openSession,
  readRuleFiles,
  type Session,
} from "../session.ts";
import type { Surroundings } from "../surroundings.ts";

export interface ExplainOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly name: string;
  readonly output?: DataFormat;
}

/** Explains every mark of a node by one live read, `managedFields` included. */
export async function explain(options: ExplainOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, clock } = surroundings;
  const files = await readRuleFiles(options, surroundings);
  await using session = await openSession(options, surroundings);
  const cluster = await fetchClusterRules(session, surroundings);
  const { capabilities, given } = assembleReadRules(files, cluster, "wait");
  const node = await readNode(session, options.name, surroundings.signal);
  const { installation, output } = options;
  const explanation = explainNode({ node, capabilities, installation, now: clock.now() });
  if (output) {
    const { plan: _, ...data } = explanation;
    printData(stdout, data, output);
  } else stdout.write(formatExplanation(explanation, given, styleFor(stdout)));
  return exitCodes.done;
}

async function readNode({ client }: Session, name: string, signal: AbortSignal): Promise<Node> {
  try {
    return await client.get(nodes, { name }, { signal });
  } catch (error) {
    if (!isApiError(error, "notFound")) throw error;
    throw new CommandError(`there is no node ${name} on ${client.server}`);
  }
}

/** For people. Without rules, what is wanted cannot be known, and that is said. */
export function formatExplanation(
  { node, marks, findings }: NodeExplanation,
  rulesGiven: boolean,
  style: Style,
): string {
  const parts = marks.map((mark) => formatMark(mark, style));
  const none = rulesGiven ? "no rule wants a mark on it" : "nothing is recorded on it";
  const said = findings.length > 0;
  const body = parts.length > 0 ? parts.join("\n") : said ? "" : `${none}\n`;
  const remarks = findings.map(({ severity, subject, reason, message }) => {
    const line = `${reason}: ${subject}: ${message}\n`;
    return severity === "warning" ? style.warning(line) : line;
  });
  const hint = rulesGiven
    ? ""
    : "\nGive --label-dir or --config to see what the rules want and which inputs they found.\n";
  const remarked = remarks.length === 0 ? "" : `${body === "" ? "" : "\n"}${remarks.join("")}`;
  return `${style.heading(`node ${node}`)}\n\n${body}${remarked}${hint}`;
}

function formatMark(mark: MarkExplanation, style: Style): string {
  const { id, standing, wanted, since, inputs, alsoHeldBy, next, delayMs } = mark;
  const value = standing ?? wanted;
  const rows: (readonly string[])[] = [
    ["why", `${mark.reason}${next === undefined ? "" : ` (${whatNext(next, delayMs)})`}`],
    ["rule", mark.rule || "none"],
    ["inputs", inputs.length === 0 ? "none" : inputs.join(", ")],
    ["since", since ?? "not recorded as ours"],
    [
      "held by",
      standing === undefined
        ? "nobody"
        : alsoHeldBy.length === 0
          ? "berth alone"
          : alsoHeldBy.map(holder).join(", "),
    ],
  ];
  const state = standing === undefined ? style.aside("  (does not stand)") : "";
  return `${style.heading(value === undefined ? id : `${id}=${value}`)}${state}\n${formatColumns(rows, "  ")}`;
}

function whatNext(next: NonNullable<MarkExplanation["next"]>, delayMs: number | undefined): string {
  if (delayMs === undefined) return `the next write will ${NEXT[next]}`;
  return `berth will ${NEXT[next]} ${delayMs / 1000} s after the inputs went, unless removals of the rule are frozen`;
}

const NEXT: Readonly<Record<NonNullable<MarkExplanation["next"]>, string>> = {
  add: "set it",
  overwrite: "replace its value",
  remove: "remove it",
  adopt: "record it as ours",
  record: "change its record",
};

function holder({ manager, time }: MarkExplanation["alsoHeldBy"][number]): string {
  return time === undefined ? `also ${manager}` : `also ${manager} (since ${time})`;
}
