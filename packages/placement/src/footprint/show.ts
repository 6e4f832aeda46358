/** Text about footprints for `plan`, `explain node` and `explain pod`. */

import {
  counted,
  countedNames,
  firstOf,
  formatAge,
  formatColumns,
  MOST_LISTED,
  type Style,
} from "@berth/host";
import type { FootprintExplanation, FootprintOfPod } from "./explain.ts";
import type { FootprintChanges } from "./forecast/forecast.ts";
import type { FootprintEffects } from "./held-once.ts";

/** What `plan` prints about changes to objects other than nodes. Empty when there are none. */
export function formatFootprintEffects({ owners }: FootprintEffects): string {
  const more = owners.length - MOST_LISTED;
  const lines = owners
    .slice(0, MOST_LISTED)
    .map((it) => `${it.owner}: the finalizer ${it.finalizer} would be put on\n`);
  return [...lines, ...(more > 0 ? [`and ${more} more owners\n`] : [])].join("");
}

/** What `plan` prints below the nodes. */
export function formatFootprintPlan(footprints: readonly FootprintChanges[], style: Style): string {
  const lines = footprints.flatMap((it) => [
    changesLine(it),
    ...(it.goesOn ? [style.warning("  Its document has a fault: it stays in force as it was before.")] : []),
    ...agentLines(it, style),
    ...unservedLines(it, style),
  ]);
  return lines.map((line) => `${line}\n`).join("");
}

function changesLine(it: FootprintChanges): string {
  const { footprint, nodes, needed, unknown, gain, lose, delayMs } = it;
  const changes = [
    ...(gain.length > 0 ? [`the label would be set on ${countedNames(gain)}`] : []),
    ...(lose.length > 0
      ? [
          `${gain.length > 0 ? "" : "the label "}would be removed from ${countedNames(lose)}${delayMs === undefined ? "" : ` after ${formatAge(delayMs)}`}`,
        ]
      : []),
  ];
  const open =
    unknown === 0 ? "" : ` ${counted(unknown, "node")} not known yet: berth changes nothing there.`;
  const what = changes.length === 0 ? "" : `; ${changes.join(" and ")}`;
  return `${footprint}: ${needed} of ${counted(nodes, "node")} ${needed === 1 ? "needs" : "need"} its agent${what}.${open}`;
}

function agentLines({ label, agent }: FootprintChanges, style: Style): readonly string[] {
  if (agent === undefined) return [];
  const { daemonSet, saved, follows, selector, problems } = agent;
  const lines: string[] = [];
  const on = (nodes: readonly string[]): string => `${counted(nodes.length, "node")} (${firstOf(nodes)})`;
  if (saved.length > 0) {
    const verb = follows ? "saves" : "would save, once it follows the label,";
    lines.push(`  ${daemonSet} ${verb} its pod on ${on(saved)}`);
  }
  if (selector?.waits !== undefined)
    lines.push(`  DaemonSet ${daemonSet} is not made to ask for ${label} yet: ${selector.waits}`);
  else if (selector !== undefined) {
    const ends = selector.ends.length > 0 ? `: its pods on ${on(selector.ends)} would end at once` : "";
    lines.push(style.warning(`  DaemonSet ${daemonSet} would be made to ask for ${label}${ends}`));
  }
  return [...lines, ...problems.map(({ reason, message }) => style.warning(`  ${reason}: ${message}`))];
}

function unservedLines({ agent }: FootprintChanges, style: Style): readonly string[] {
  const unserved = agent?.unserved ?? [];
  if (unserved.length === 0) return [];
  const rows = unserved
    .slice(0, MOST_LISTED)
    .map(({ node, reason, message }) => [node, `${reason}: ${message}`]);
  const more = unserved.length > MOST_LISTED ? `\n    and ${unserved.length - MOST_LISTED} more` : "";
  return [
    style.warning("  These nodes need it, and it cannot run there:"),
    `${formatColumns(rows, "    ").trimEnd()}${more}`,
  ];
}

/** The section of `explain node` about one footprint. */
export function formatFootprint(it: FootprintExplanation, style: Style): string {
  const { footprint, phase, label, standing, pods, claims, agent } = it;
  const rows: (readonly string[])[] = [
    ["phase", PHASES[phase]],
    ["label", `${label}: ${standingText(standing)}`],
  ];
  if (pods === undefined) rows.push(["pods", "not known: they could not be read"]);
  for (const pod of (pods ?? []).slice(0, MOST_LISTED)) rows.push([`pod ${pod.pod}`, podText(pod)]);
  if (pods !== undefined && pods.length > MOST_LISTED)
    rows.push(["pods", `and ${pods.length - MOST_LISTED} more`]);
  for (const { key, stands, pods: by } of claims) {
    const whose = by.length === 0 ? "no known pod" : firstOf(by);
    rows.push([`claim ${key}`, `by ${whose}${stands ? "" : ", not written yet"}`]);
  }
  if (agent !== undefined)
    rows.push(["agent", `${agent.daemonSet}${agent.problem === undefined ? "" : `: ${agent.problem}`}`]);
  return `${style.heading(`footprint ${footprint}`)}\n${formatColumns(rows, "  ")}`;
}

function standingText(standing: string | undefined): string {
  return standing === undefined ? "not set" : `set to ${JSON.stringify(standing)}`;
}

/** The section of `explain pod`. */
export function formatPodFootprints(all: readonly FootprintOfPod[], style: Style): readonly string[] {
  const rows = all.map(({ footprint, node, ...use }) => {
    const where =
      node === undefined
        ? ""
        : `; on ${node.name}, ${node.label}: ${standingText(node.standing)} (${node.phase})`;
    return [footprint, `${podText(use)}${where}`];
  });
  return rows.length === 0 ? [] : [`${style.heading("footprints")}\n${formatColumns(rows, "  ")}`];
}

const PHASES: Readonly<Record<FootprintExplanation["phase"], string>> = {
  Needed: "Needed: a pod needs the agent",
  Pending: "Pending: a pod needs the agent, and the label is not written yet",
  Idle: "Idle: no pod needs the agent",
  Unknown: "Unknown: berth changes nothing until it is known",
  Excluded: "Excluded: the footprint leaves the node alone",
  Foreign: "Foreign: it has marks that berth did not set",
};

function podText({ is, group, why }: Pick<FootprintOfPod, "is" | "group" | "why">): string {
  const whose = group === undefined ? "" : `, for ${group}`;
  if (is === "Counts") return `needs the agent${whose}`;
  if (is === "Unknown") return "not known yet: its owner, namespace or volumes have not been read";
  if (is === "Ownerless") return `has lost its owner, and counts until the pod ends${whose}`;
  return `does not count${why === undefined ? "" : `: ${why}`}`;
}
