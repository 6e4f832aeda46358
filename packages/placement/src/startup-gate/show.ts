/** Startup gates as text for people. */
import { counted, countedNames, formatAge, formatColumns, MOST_LISTED, type Style } from "@berth/host";
import { tolerationText } from "../node/tolerations.ts";
import type { GateExplanation, TimeExplanation, TimeoutExplanation } from "./explain.ts";
import type { HeldNode } from "./explain-pod.ts";
import type { BlockedDaemonSet, GateChanges } from "./forecast.ts";

/** The part of a plan about startup gates, without the nodes themselves. */
export interface GatePlan {
  readonly gates: readonly GateChanges[];
  /** DaemonSets that get no pod on nodes while a gate holds them; absent when they could not be read. */
  readonly daemonSets?: readonly BlockedDaemonSet[];
  /** Hints for the settings of autoscalers, in lines. */
  readonly autoscaler: readonly string[];
}

/** The section of `explain` about one gate. */
export function formatGate(it: GateExplanation, now: number, style: Style): string {
  const rows: (readonly string[])[] = [["phase", phaseOf(it)]];
  if (it.since !== undefined) rows.push([it.held ? "held since" : "let go", withAge(it.since, now)]);
  else if (it.held) rows.push(["held since", "not written on the node yet"]);
  if (it.dryRun) rows.push(["dry run", "the gate writes nothing on the node"]);
  if (it.note !== undefined) rows.push(["note", JSON.stringify(it.note)]);
  if (it.after.length > 0) rows.push(["waits for", it.after.map((name) => `gate ${name}`).join(", ")]);
  for (const { signal, state, reason, message, since } of it.signals) {
    const age = since === undefined ? "" : `, since ${withAge(since, now)}`;
    rows.push([`signal ${state}`, `${signal}: ${reason}: ${message}${age}`]);
  }
  for (const wait of [...timesOf(it), ...it.timeouts.map(timeoutText)]) rows.push(["waits", wait]);
  return `${style.heading(`gate ${it.gate}`)}\n${formatColumns(rows, "  ")}`;
}

/** The section of `explain pod`. */
export function formatHeldNodes(held: readonly HeldNode[], style: Style): string {
  const [first] = held;
  const rows = held
    .slice(0, MOST_LISTED)
    .map(({ node, gates }) => [node, `gate ${gates.join(", ")} holds it`]);
  const more = held.length > MOST_LISTED ? `  and ${held.length - MOST_LISTED} more\n` : "";
  const hint = `  berth explain node ${first?.node ?? ""}: what the gate waits for\n`;
  return `${style.heading("nodes that it waits for")}\n${formatColumns(rows, "  ")}${more}${hint}`;
}

function phaseOf({ phase, reason, next }: GateExplanation): string {
  const what = next === "hold" ? "set its taint" : "remove its taint";
  return `${phase}${reason === undefined ? "" : `: ${reason}`}${next === undefined ? "" : ` (the next write will ${what})`}`;
}

function timesOf({ stable, minimumHold }: GateExplanation): readonly string[] {
  return [
    ...(stable === undefined ? [] : [`all signals hold, ${passed(stable)}`]),
    ...(minimumHold === undefined ? [] : [`held at least: ${passed(minimumHold)}`]),
  ];
}

function passed({ passedMs, ofMs }: TimeExplanation): string {
  return passedMs === undefined
    ? `and must for ${formatAge(ofMs)}; not every object records since when`
    : `for ${formatAge(Math.min(passedMs, ofMs))} of ${formatAge(ofMs)}`;
}

const POLICIES: Readonly<Record<TimeoutExplanation["policy"], string>> = {
  Keep: "the node stays held, with a warning",
  Release: "the node is released",
  Cordon: "the node stays held and is cordoned",
};

function timeoutText({ timeout, passedMs, ofMs, policy }: TimeoutExplanation): string {
  const left = ofMs - passedMs;
  const when = left > 0 ? `in ${formatAge(left)}` : `since ${formatAge(-left)}`;
  return `timeout ${timeout} of ${formatAge(ofMs)} ${when}: ${POLICIES[policy]}`;
}

/** Adds in words everything that the node waits for; empty when it waits for nothing. */
export type GateWaits = GateExplanation & { readonly waitsFor: readonly string[] };

export function withWaits(it: GateExplanation): GateWaits {
  return { ...it, waitsFor: it.held || it.phase === "WouldHold" ? waitsFor(it) : [] };
}

function waitsFor(it: GateExplanation): readonly string[] {
  const { after, signals, next } = it;
  if (after.length > 0) return after.map((name) => `gate ${name}`);
  const missing = signals.filter(({ state }) => state !== "holds");
  if (missing.length > 0) return missing.map(({ signal, message }) => `${signal}: ${message}`);
  return next === "release" ? ["nothing: it is about to be released"] : timesOf(it);
}

/** The text of `plan` below the nodes; empty when the plan concerns no gate. */
export function formatGatePlan({ gates, daemonSets = [] }: GatePlan, style: Style): string {
  const lines = gates.map(gateLine);
  if (daemonSets.length > 0) {
    lines.push(
      "",
      style.warning("These DaemonSets get no pod on a node that a gate holds (`berth gate tolerate`):"),
    );
    const rows = daemonSets.map(({ namespace, name, missing }) => [
      `${namespace}/${name}`,
      missing.map(tolerationText).join(", "),
    ]);
    lines.push(formatColumns(rows, "  ").trimEnd());
  }
  return lines.map((line) => `${line}\n`).join("");
}

/** A block for those who keep the autoscaler; none without hints. */
export function autoscalerText({ autoscaler }: Pick<GatePlan, "autoscaler">): readonly string[] {
  if (autoscaler.length === 0) return [];
  const lines = [
    "Autoscalers have to know the taints of the gates:",
    ...autoscaler.map((line) => `  ${line}`),
  ];
  return [lines.map((line) => `${line}\n`).join("")];
}

function gateLine({ gate, selected, held, hold, release, pending, dryRun }: GateChanges): string {
  const parts = [
    ...(hold.length > 0 ? [`would be put on ${countedNames(hold)}`] : []),
    ...(release.length > 0 ? [`would be removed from ${countedNames(release)}`] : []),
  ];
  const young = pending === 0 ? "" : ` It would hold ${counted(pending, "young one")} as well, if idle.`;
  const what = parts.length === 0 ? "" : `; its taint ${parts.join(" and ")}`;
  const trial = dryRun ? " It is in dry run: nothing of this will be written." : "";
  return `${gate} selects ${counted(selected, "node")} and holds ${held}${what}.${young}${trial}`;
}

function withAge(timestamp: string, now: number): string {
  return `${timestamp} (${formatAge(now - Date.parse(timestamp))} ago)`;
}
