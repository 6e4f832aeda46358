import { type Fault, formatFault } from "@berth/host";
import {
  baseName,
  explainGates,
  explainNode,
  footprintRules,
  type GateExplanation,
  gateRules,
  type MarkExplanation,
  type NodeExplanation,
  ownedMarks,
  reasons,
  recordOf,
} from "@berth/placement";
import { type NodeArchitecture, viewNodeArchitecture } from "../architecture-session.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { assembleReadRules, fetchClusterRules, readDocuments } from "../document-session.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { explainFootprints, type FootprintExplanation } from "../footprint/explanation.ts";
import { viewFootprints } from "../footprint/session.ts";
import { viewGates } from "../gate-session.ts";
import { DOCUMENTS_PATH, LABELS_PATH } from "../manifests.ts";
import { formatNodeArchitecture } from "../output/architecture.ts";
import { formatColumns } from "../output/columns.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatFootprint } from "../output/footprints.ts";
import { formatGate, withWaits } from "../output/gates.ts";
import { type Style, styleFor } from "../output/style.ts";
import { readDeclaredPlaces } from "../place-config-map.ts";
import { openSession, readNode, readRuleFiles } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";

export interface ExplainOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly namespace?: string;
  /** Of the node, or `namespace/name` of the pod. */
  readonly name: string;
  readonly output?: DataFormat;
}

/**
 * Explains every mark of a node by one live read, `managedFields` included, and where it stands with startup gates,
 * architecture policies and footprints.
 */
export async function explain(options: ExplainOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr, clock } = surroundings;
  const { installation, output, name } = options;
  const files = await readRuleFiles(options, surroundings);
  await using session = await openSession(options, surroundings);
  const { capabilities, given } = assembleReadRules(
    files,
    await fetchClusterRules(session, surroundings),
    "wait",
  );
  const ofGates = await readDocuments(gateRules, files, { session, surroundings });
  const node = await readNode(session, name, surroundings.signal);
  const gates = await viewGates(ofGates.inForce, {
    session,
    surroundings,
    installation,
    labels: { capability: capabilities[0], known: given },
    node: name,
  });
  await gates.askIdle(node);
  const architecture = await viewNodeArchitecture(node, files, { session, surroundings, installation });
  const ofFootprints = await readDocuments(footprintRules, files, { session, surroundings });
  const { inForce: footprints } = ofFootprints;
  await using needs = await viewFootprints(footprints, { session, surroundings, node: name });
  const now = clock.now();
  const explanation = explainNode({
    node,
    capabilities: [...capabilities, gates.capability, architecture.capability, needs.capability],
    installation,
    now,
    declared: await readDeclaredPlaces(options, { session, surroundings }),
  });
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const looks = gates.capability.look(view, now);
  const { outcomes = [] } = needs.capability.contribute(view, now).decision;
  const faults = [...ofGates.faults, ...architecture.faults, ...ofFootprints.faults];
  const said: Said = {
    explanation,
    gates: explainGates(looks),
    architecture: architecture.policies,
    footprints:
      footprints === undefined
        ? []
        : explainFootprints(node, footprints, { sight: needs.sight, installation, outcomes }),
    faults,
  };
  if (output) {
    const { plan: _, ...data } = explanation;
    const gated = ofGates.inForce === undefined ? {} : { gates: said.gates.map(withWaits) };
    const policies = architecture.given ? { architecture: said.architecture } : {};
    const needing = footprints === undefined ? {} : { footprints: said.footprints };
    const isMore = ofGates.inForce !== undefined || architecture.given || footprints !== undefined;
    printData(stdout, isMore ? { ...data, ...gated, ...policies, ...needing, faults } : data, output);
  } else {
    for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
    stdout.write(formatExplanation(said, { rulesGiven: given, now, installation }, styleFor(stdout)));
  }
  return exitCodes.done;
}

interface Said {
  readonly explanation: NodeExplanation;
  readonly gates: readonly GateExplanation[];
  readonly architecture: readonly NodeArchitecture[];
  readonly footprints: readonly FootprintExplanation[];
  readonly faults: readonly Fault[];
}

interface Given {
  readonly rulesGiven: boolean;
  readonly now: number;
  readonly installation: string;
}

/** For people. Without rules, what is wanted cannot be known, and that is said. */
function formatExplanation(
  { explanation: { node, marks, findings }, gates, architecture, footprints }: Said,
  { rulesGiven, now, installation }: Given,
  style: Style,
): string {
  const parts = [
    ...marks.map((mark) => formatMark(mark, style)),
    ...gates.map((it) => formatGate(it, now, style)),
    ...architecture.map((it) => formatNodeArchitecture(it, style)),
    ...footprints.map((it) => formatFootprint(it, style)),
  ];
  const none = rulesGiven ? "no rule wants a mark on it" : "nothing is recorded on it";
  const remarks = findings.filter((finding) => !isInGate(finding, gates)).map((it) => remark(it, style));
  const body = parts.length > 0 ? parts.join("\n") : remarks.length > 0 ? "" : `${none}\n`;
  const hint = rulesGiven
    ? ""
    : "\nGive --label-dir or --config to see what the rules want and which inputs they found.\n";
  const notGiven = marks.filter(({ reason }) => reason === reasons.SourceNotGiven).map(({ rule }) => rule);
  const remarked = remarks.length === 0 ? "" : `${body === "" ? "" : "\n"}${remarks.join("")}`;
  return `${style.heading(`node ${node}`)}\n\n${body}${remarked}${notGiven.length > 0 ? hintOf(notGiven, node, installation) : hint}`;
}

/** How this command is given the rules of files that the running Berth has. */
function hintOf(rules: readonly string[], node: string, installation: string): string {
  const needs = (source: string): boolean => rules.some((rule) => rule.startsWith(source));
  const flags = [
    ...(needs("folder/") ? [`--label-dir ${LABELS_PATH}`] : []),
    ...(needs("config/") ? [`--config ${DOCUMENTS_PATH}`] : []),
    ...(installation === "berth" ? [] : [`--installation ${installation}`]),
  ].join(" ");
  const pod = `kubectl -n berth-system exec deploy/${baseName(installation)} -- node /berth/berth.js`;
  return (
    "\nThe running Berth set what is SourceNotGiven by rules from files, which this command was not given. Give it the same\n" +
    "--label-dir (rules folder/…) and --config (rules config/…) to see whether the rules still want it and from which\n" +
    `inputs. As installed by \`berth manifests\`:\n\n  ${pod} explain node ${node} ${flags}\n`
  );
}

type Finding = NodeExplanation["findings"][number];

/** The section of the gate says it already. */
function isInGate({ severity, subject, reason }: Finding, gates: readonly GateExplanation[]): boolean {
  const isOfGate = gates.some(({ gate, held }) => gate === subject && held);
  return isOfGate && severity === "info" && reason !== reasons.BackfillPending;
}

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

function isNotGiven({ reason }: MarkExplanation): boolean {
  return reason === reasons.SourceNotGiven;
}

function whyText(mark: MarkExplanation): string {
  const { next, delayMs } = mark;
  if (isNotGiven(mark))
    return ": the node records it, and the source of its rule was not given to this command";
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
