/** A forecast as text for people. */
import { counted, formatColumns, MOST_LISTED, type Style } from "@berth/host";
import { unreadText } from "./facts.ts";
import type {
  Amounts,
  CellForecast,
  DeploymentForecast,
  InstanceStep,
  WorkloadForecast,
} from "./forecast.ts";

/** `+` creates, `~` replaces, `-` deletes. Ends with a line feed. */
export function formatForecast(forecast: WorkloadForecast, style: Style): string {
  const { workload, isNew, deployments, findings, unread, warnings } = forecast;
  const shown = deployments.filter(({ is, steps, stops }) => is !== "kept" || steps.length > 0 || stops);
  const blocks = shown.map((it) => `\n${formatDeployment(it, forecast, style)}`);
  const remarks = [...unread.map(unreadText), ...findings].map((it) => style.warning(`! ${it}\n`));
  const heading = style.heading(`Workload ${workload}${isNew ? " (new)" : ""}`);
  const told = warnings.map(({ code, message }) => `${workload}: ${message} (${code}).\n`);
  return `${heading}\n${remarks.join("")}${blocks.join("")}\n${summary(forecast)}\n${told.join("")}`;
}

function formatDeployment(
  { name, placement, city, is, cell, steps, stops }: DeploymentForecast,
  { needsClaims }: WorkloadForecast,
  style: Style,
): string {
  const listed = steps.slice(0, MOST_LISTED);
  const rows = listed.map((step, at) => [
    `${at + 1}.`,
    `${SIGNS[step.do]} ${step.instance}`,
    sizeText(step.takes ?? step.frees),
    needsClaims === true ? CLAIMS[step.do] : "",
  ]);
  const more = steps.length - listed.length;
  const rest = [
    ...(more > 0 ? [`  … and ${counted(more, "more step")}\n`] : []),
    ...(stops === undefined ? [] : [style.warning(`  ! ${stops}\n`)]),
  ];
  const where =
    cell === undefined || cell.names.length === 0
      ? ""
      : `${is === "created" ? "" : ","} in ${cellText(cell)}`;
  return `${placement} in ${city}: ${name}${is === "kept" ? "" : ` is ${is}`}${where}\n${formatColumns(rows, "  ")}${rest.join("")}`;
}

/** `cell dfw-01: it has 3 replicas, the fewest` */
function cellText({ names, why }: CellForecast): string {
  return `${names.length === 1 ? "cell" : "one of"} ${names.join(", ")}: ${why}`;
}

const SIGNS: Readonly<Record<InstanceStep["do"], string>> = { create: "+", roll: "~", delete: "-" };
const CLAIMS: Readonly<Record<InstanceStep["do"], string>> = {
  create: "needs a ResourceClaim",
  roll: "needs a new ResourceClaim",
  delete: "frees its ResourceClaim",
};

/** `1 vCPU, 2048 MiB`; nothing for an Instance whose size no catalog has. */
function sizeText(amounts: Amounts | undefined): string {
  if (amounts === undefined || (amounts.vcpus === 0 && amounts.memory === 0)) return "size not known";
  return `${counted(amounts.vcpus / 1000, "vCPU")}, ${amounts.memory} MiB`;
}

function summary({ totals, quota, deployments, unread }: WorkloadForecast): string {
  const parts = [
    [totals.create, "to create"],
    [totals.roll, "to roll"],
    [totals.delete, "to delete"],
  ] as const;
  const what = parts.filter(([count]) => count > 0).map(([count, words]) => `${count} ${words}`);
  if (what.length === 0 && unread.length > 0) return "What follows is not known.";
  if (what.length === 0)
    return deployments.some(({ is }) => is !== "kept") ? "No Instance changes." : "No changes.";
  const signed = (amount: number): string => (amount > 0 ? `+${amount}` : String(amount));
  const { instances, vcpus, memory } = quota;
  const isSame = instances === 0 && vcpus === 0 && memory === 0;
  const balance = isSame
    ? "as now"
    : `${signed(instances)} Instances, ${signed(vcpus / 1000)} vCPUs, ${signed(memory)} MiB`;
  return `Instances: ${what.join(", ")}, one after the other in each city. Quota: ${balance}.${unread.length > 0 ? " The rest is not known." : ""}`;
}

/** Does anything follow? */
export function isChanging({ deployments }: WorkloadForecast): boolean {
  return deployments.some(({ is, steps }) => is !== "kept" || steps.length > 0);
}
