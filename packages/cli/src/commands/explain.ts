import { baseName, formatColumns, formatFault, type Style, styleFor } from "@berth/host";
import {
  berthAs,
  type ExplainingCapability,
  explainNode,
  factsOf,
  type MarkExplanation,
  type NodeExplanation,
  type NodeSection,
  ownedMarks,
  readDeclaredPlaces,
  reasons,
  recordOf,
} from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { DOCUMENTS_PATH, LABELS_PATH } from "../manifests-pod.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { readCapabilities } from "../read-capabilities.ts";
import { explainedNodes, openSession, readExplained, readRuleFiles } from "../session.ts";

export interface ExplainOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly namespace?: string;
  /** Name of the node, or `namespace/name` of the pod. */
  readonly name: string;
  readonly from?: string;
  readonly output?: DataFormat;
}

/** Explains every mark of a node from one live read with `managedFields`, and its state in each capability. */
export async function explain(options: ExplainOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr } = deps;
  const { installation, output, name } = options;
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  const { clock } = session;
  await using owned = new AsyncDisposableStack();
  const read = await readCapabilities({ files, session, waiting: "wait" }, "nodes");
  const node = await readExplained(explainedNodes(), { name }, session);
  const facts = factsOf(read);
  const seen: ExplainingCapability[] = [];
  for (const one of read) {
    const found = await one.explain?.({ run: session, owned, facts, only: name, node });
    await found?.lookUp?.(node);
    if (found !== undefined) seen.push(found);
  }
  const now = clock.now();
  const explanation = explainNode({
    node,
    capabilities: seen.map(({ capability }) => capability),
    installation,
    now,
    declared: await readDeclaredPlaces(session),
  });
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const sections = seen.flatMap(({ section }) => section?.(view, now) ?? []);
  const faults = read.flatMap((it) => it.faults);
  if (output) {
    const { plan: _, ...data } = explanation;
    const more = sections.flatMap((it) => Object.entries(it.data));
    const beside = more.length > 0 ? { ...Object.fromEntries(more), faults } : {};
    printData(stdout, { ...data, ...beside }, output);
  } else {
    for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
    const isGiven = facts.every((it) => it.isGiven);
    stdout.write(formatExplanation(explanation, { sections, isGiven, installation }, styleFor(stdout)));
  }
  return exitCodes.done;
}

interface Beside {
  readonly sections: readonly NodeSection[];
  /** Did the user pass the rules that set the marks which others wait for? */
  readonly isGiven: boolean;
  readonly installation: string;
}

/** The text for people. Without rules it says that the wanted marks are not known. */
function formatExplanation(
  { node, marks, findings }: NodeExplanation,
  { sections, isGiven, installation }: Beside,
  style: Style,
): string {
  const parts = [
    ...marks.map((mark) => formatMark(mark, style)),
    ...sections.flatMap(({ blocks }) => blocks(style)),
  ];
  const none = isGiven ? "no rule wants a mark on it" : "nothing is recorded on it";
  const remarks = findings
    .filter((finding) => !sections.some(({ tells }) => tells?.(finding)))
    .map((it) => remark(it, style));
  const body = parts.length > 0 ? parts.join("\n") : remarks.length > 0 ? "" : `${none}\n`;
  const hint = isGiven
    ? ""
    : "\nGive --label-dir or --config to see what the rules want and which inputs they found.\n";
  const notGiven = marks.filter(isNotGiven).map(({ rule }) => rule);
  const remarked = remarks.length === 0 ? "" : `${body === "" ? "" : "\n"}${remarks.join("")}`;
  return `${style.heading(`node ${node}`)}\n\n${body}${remarked}${notGiven.length > 0 ? hintOf(notGiven, node, installation) : hint}`;
}

/** Explains how to pass the running Berth's rules in files to this command. */
function hintOf(rules: readonly string[], node: string, installation: string): string {
  const needs = (source: string): boolean => rules.some((rule) => rule.startsWith(source));
  const flags = [
    ...(needs("folder/") ? [`--label-dir ${LABELS_PATH}`] : []),
    ...(needs("config/") ? [`--config ${DOCUMENTS_PATH}`] : []),
    ...(installation === "berth" ? [] : [`--installation ${installation}`]),
  ].join(" ");
  const pod = `kubectl -n berth-system exec deploy/${baseName(berthAs(installation))} -- node /berth/berth.js`;
  return (
    "\nThe running Berth set the marks with SourceNotGiven by rules from files, which this command did not get. Give it the same\n" +
    "--label-dir (rules folder/…) and --config (rules config/…) to see whether the rules still want it and from which\n" +
    `inputs. As installed by \`berth manifests\`:\n\n  ${pod} explain node ${node} ${flags}\n`
  );
}

type Finding = NodeExplanation["findings"][number];

function remark({ severity, subject, reason, message }: Finding, style: Style): string {
  const line = `${reason}: ${subject}: ${message}\n`;
  return severity === "warning" ? style.warning(line) : line;
}

function formatMark(mark: MarkExplanation, style: Style): string {
  const { id, standing, wanted, since, inputs, alsoHeldBy } = mark;
  const value = standing ?? wanted;
  const rows: (readonly string[])[] = [
    ["why", `${mark.reason}${whyText(mark)}`],
    ["rule", mark.rule || "none"],
    ["inputs", inputs.length > 0 ? inputs.join(", ") : isNotGiven(mark) ? "not known" : "none"],
    ["since", since ?? "not recorded as ours"],
    ["held by", standing === undefined ? "no writer" : alsoHeldBy.map(holder).join(", ") || "berth alone"],
  ];
  const state = standing === undefined ? style.aside("  (not set)") : "";
  return `${style.heading(value === undefined ? id : `${id}=${value}`)}${state}\n${formatColumns(rows, "  ")}`;
}

const isNotGiven = ({ reason }: MarkExplanation): boolean => reason === reasons.SourceNotGiven;

function whyText(mark: MarkExplanation): string {
  const { next, delayMs } = mark;
  if (isNotGiven(mark)) return ": the node records it, and this command did not get the source of its rule";
  return next === undefined ? "" : ` (${whatNext(next, delayMs)})`;
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
