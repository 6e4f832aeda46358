/** Formats descheduling for people: for `plan` and `explain pod`. */
import { counted, formatColumns, MOST_LISTED, type Style } from "@berth/host";
import type { PodDescheduling } from "./explain.ts";
import type { PodForecast } from "./forecast.ts";

/** The text of `plan` below the nodes. */
export function formatEvictions(pods: readonly PodForecast[], style: Style): string {
  const going = pods.filter(({ step }) => step !== undefined);
  const staying = pods.filter(({ step }) => step === undefined);
  const listed = (title: string, rows: readonly (readonly string[])[]): string => {
    if (rows.length === 0) return "";
    const more = rows.length > MOST_LISTED ? `  and ${rows.length - MOST_LISTED} more\n` : "";
    return `${title}\n${formatColumns(rows.slice(0, MOST_LISTED), "  ")}${more}`;
  };
  const steps = going.map(({ step, pod, node, to, after, message, policy, dryRun }) => [
    `${step}.`,
    pod,
    `${node} -> ${to ?? "any node"}`,
    `after ${after}`,
    message,
    style.aside(dryRun ? `${policy} (dry run)` : policy),
  ]);
  const stays = staying.map(({ pod, node, reason, message, policy }) => [
    pod,
    node,
    `${reason}: ${message}`,
    style.aside(policy),
  ]);
  return [
    listed(style.removed(`${counted(going.length, "pod")} would be evicted, in this order:`), steps),
    listed(style.warning(`${counted(staying.length, "pod")} would stay on a wrong node:`), stays),
  ].join("");
}

/** The section of `explain pod` about one policy. */
export function formatDescheduling(said: readonly PodDescheduling[], style: Style): readonly string[] {
  return said.map(({ policy, state, reason, message }) => {
    const rows = [["state", `${state}${reason === undefined ? "" : `: ${reason}`}: ${message}`]];
    return `${style.heading(`descheduling ${policy}`)}\n${formatColumns(rows, "  ")}`;
  });
}
