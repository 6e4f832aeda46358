/** What it means to give up a Cell. Pure, but for the reads at the end. */
import { counted, formatAge, keepFields, listObjects, MOST_LISTED, type OneShotRun } from "@berth/host";
import { type KubeObject, type Namespace, namespaces } from "@berth/kube";
import { findCondition, fromTime } from "@berth/runtime";
import type { Cell } from "../../api/cell.ts";
import { claimName, annotations as keys, labels, projectOfNamespace } from "../../api/keys.ts";
import { parsePlacement, targetsOf } from "../../api/placement.ts";
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
} from "../../api/workload.ts";
import { cellLine } from "./list.ts";

/** What the hub knows of one Cell. */
export interface ForgetView {
  readonly cell: Cell;
  /** Of the hub: all. */
  readonly deployments: readonly WorkloadDeployment[];
  /** Of the hub: all copies. */
  readonly copies: readonly Instance[];
  readonly namespaces: readonly Namespace[];
}

export interface Forgetting {
  readonly cell: string;
  readonly city: string;
  /** It is heard now: what runs there goes on, beside what replaces it. */
  readonly isHeard: boolean;
  readonly since?: string;
  /** `web/default/hello-us-dfw`: its project, namespace and name. */
  readonly deployments: readonly string[];
  /** `web/default/instance-hello-us-dfw-0`: they stay granted until a person deletes them. */
  readonly claims: readonly string[];
}

export function forgettingOf({ cell, deployments, copies, namespaces: all }: ForgetView): Forgetting {
  const { name, city, reachable, since } = cellLine(cell);
  const uid = cell.spec?.uid;
  const byName = new Map(all.map((it) => [it.metadata?.name ?? "", it]));
  const placed = deployments.filter(({ metadata }) =>
    targetsOf(parsePlacement(metadata?.annotations?.[keys.placement])).some((it) => it.uid === uid),
  );
  const granted = copies.filter(
    ({ metadata, status }) =>
      metadata?.annotations?.[keys.cellUid] === uid &&
      findCondition(status?.conditions, "QuotaGranted")?.reason === "QuotaAvailable",
  );
  return {
    cell: name,
    city,
    isHeard: reachable === "True",
    ...(since !== undefined && { since }),
    deployments: placed.map((it) => pathIn(byName, it)).sort(),
    claims: granted.map((it) => pathIn(byName, it, claimName(it.metadata?.name ?? ""))).sort(),
  };
}

/** `web/default/hello-us-dfw`: the project, the namespace there, and the name. @param namespaces of the hub. */
export function pathIn(
  namespaces: ReadonlyMap<string, KubeObject>,
  { metadata }: KubeObject,
  last: string = metadata?.name ?? "",
): string {
  const namespace = namespaces.get(metadata?.namespace ?? "") ?? {};
  const upstream = namespace.metadata?.labels?.[labels.upstreamNamespace] ?? metadata?.namespace ?? "";
  return [projectOfNamespace(namespace), upstream, last].filter((it) => it !== undefined).join("/");
}

/** Ends with a line feed. @param nowMs wall clock. */
export function formatForgetting(
  { cell, city, isHeard, since, deployments, claims }: Forgetting,
  nowMs: number,
  verb: "would" | "will",
): string {
  const heard = isHeard
    ? "is heard now: stop it first. What runs there goes on beside what replaces it"
    : since === undefined
      ? "is not heard"
      : `was heard last ${formatAge(nowMs - (fromTime(since) ?? nowMs))} ago`;
  const replaced =
    deployments.length === 0
      ? "  nothing is placed there\n"
      : `  ${counted(deployments.length, "deployment")} ${verb} go to another cell of ${city}:\n${listed(deployments)}`;
  const granted =
    claims.length === 0
      ? ""
      : `  ${counted(claims.length, "ResourceClaim")} ${verb} stay granted, until you delete them:\n${listed(claims)}`;
  return `Cell ${cell} in ${city} ${heard}.\n${replaced}${granted}`;
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, MOST_LISTED).map((it) => `    ${it}\n`);
  const rest = names.length - shown.length;
  return `${shown.join("")}${rest > 0 ? `    … and ${rest} more\n` : ""}`;
}

const copyFields = keepFields<Instance>([
  "metadata.name",
  "metadata.namespace",
  "metadata.annotations",
  "status.conditions",
]);
const deploymentFields = keepFields<WorkloadDeployment>([
  "metadata.name",
  "metadata.namespace",
  "metadata.annotations",
]);

/** @param run on the hub. */
export async function readForgetting(cell: Cell, run: OneShotRun): Promise<Forgetting> {
  const consequence = "what the cell has is not complete";
  const deployments = await listObjects<WorkloadDeployment>(
    { resource: workloadDeployments, project: deploymentFields, consequence },
    run,
  );
  const copies = await listObjects<Instance>({ resource: instances, project: copyFields, consequence }, run);
  const found = await listObjects<Namespace>({ resource: namespaces, metadataOnly: true, consequence }, run);
  return forgettingOf({
    cell,
    deployments: deployments ?? [],
    copies: copies ?? [],
    namespaces: found ?? [],
  });
}
