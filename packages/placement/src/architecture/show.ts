/** Formats architecture policies for people: for `plan`, `explain node` and `explain pod`. */
import { counted, firstOf, formatAge, formatColumns, MOST_LISTED, type Style } from "@berth/host";
import { tolerationText } from "../node/tolerations.ts";
import type { ArchitecturePhase } from "./capability.ts";
import type { ArchitectureNodes, Contradiction, ImageExplanation, PodExplanation } from "./explain.ts";
import type { ArchitectureForecast, WorkloadRemark } from "./forecast.ts";

/** The state of a node for a policy that selects it for its taint. */
export interface NodeArchitecture {
  /** `cluster/default`. */
  readonly policy: string;
  /** The wanted taint, `supported-arch=arm64:NoSchedule`. Without a value while the node reports no architecture. */
  readonly taint: string;
  readonly node: ArchitecturePhase;
  /** The phase in the status of the policy. Absent for a policy from a file. */
  readonly phase?: string;
  readonly message?: string;
}

/** The text of `plan` below the nodes. */
export function formatArchitecturePlan(forecast: ArchitectureForecast, style: Style): string {
  const { policies, pods, daemonSets, uncovered, stuck } = forecast;
  const lines = policies.map(
    ({ policy, mode, bootstrap }) => `${policy} (${mode}): ${bootstrap.phase}: ${bootstrap.message}`,
  );
  if (pods.length > 0) lines.push(`${counted(pods.length, "pod")} would be changed: ${firstOf(pods)}`);
  if (daemonSets.length > 0) {
    lines.push(
      `${counted(daemonSets.length, "DaemonSet")} would get tolerations, which rolls out its pods: ${firstOf(daemonSets)}`,
    );
  }
  const listed = (title: string, remarks: readonly WorkloadRemark[]): void => {
    if (remarks.length === 0) return;
    const rows = remarks.map(({ workload, reason, message }) => [workload, `${reason}: ${message}`]);
    const more = rows.length > MOST_LISTED ? `  and ${rows.length - MOST_LISTED} more` : "";
    const shown = formatColumns(rows.slice(0, MOST_LISTED), "  ");
    lines.push("", style.warning(title), `${shown}${more}`.trimEnd());
  };
  listed("These keep nodes from being tainted:", uncovered);
  listed("These stay pending:", stuck);
  return lines.map((line) => `${line}\n`).join("");
}

const STANDS: Readonly<Record<NodeArchitecture["node"], string>> = {
  Tainted: "set, by berth",
  TaintedByOthers: "set, by another writer",
  Untainted: "not set",
};

/** The section of `explain node` about one policy. */
export function formatNodeArchitecture(it: NodeArchitecture, style: Style): string {
  const rows = [
    ["taint", `${it.taint}: ${STANDS[it.node]}`],
    ...(it.phase === undefined ? [] : [["phase", `${it.phase}${it.message ? `: ${it.message}` : ""}`]]),
  ];
  return `${style.heading(`architecture ${it.policy}`)}\n${formatColumns(rows, "  ")}`;
}

/** The section of `explain node` about a node that has two architectures. */
export function formatContradiction({ nodeInfo, label }: Contradiction, style: Style): string {
  const rows = [
    ["status.nodeInfo", `${nodeInfo}: berth uses it, for taints and to count the nodes of a pod`],
    [
      "kubernetes.io/arch",
      `${label}: the scheduler uses this label, for the node affinity that berth gives to pods`,
    ],
  ];
  return `${style.heading("two architectures")}\n${formatColumns(rows, "  ")}`;
}

/** The first section of `explain pod`. @param hasPolicies without any policy, none is spoken of. */
export function formatPod(it: PodExplanation, style: Style, hasPolicies: boolean): string {
  const rows: (readonly string[])[] = [];
  if (hasPolicies) {
    rows.push(["policy", it.policy ?? "none governs it"]);
    rows.push(["verdict", `${it.verdict}: ${it.reason}: ${it.message}`]);
  }
  if (it.node !== undefined) {
    const where = it.misplaced === undefined ? it.node : `${it.node}, though ${it.misplaced}`;
    rows.push(["node", `${where}: berth does not change it any more`]);
  }
  if (it.held !== undefined) rows.push(["held", heldText(it.held)]);
  if (it.otherGates.length > 0) rows.push(["other gates", `${it.otherGates.join(", ")}: not of berth`]);
  if (it.missingTolerations.length > 0)
    rows.push(["lacks", it.missingTolerations.map(tolerationText).join(", ")]);
  if (it.next !== undefined) {
    const what = it.next === "release" ? "berth is about to release it" : "berth is about to change it";
    const retry = `while that is refused, it tries again within ${formatAge(it.retryMs ?? 0)}`;
    rows.push(["next", `${what}; ${retry}`]);
  }
  const images = it.images.map((image) => [`  ${image.where}`, image.image, imageText(image)]);
  const nodes = it.nodes.map((one) => [`  ${one.platform}`, nodesText(one)]);
  return [
    `${style.heading(`pod ${it.pod}`)}\n${formatColumns(rows, "  ")}`,
    ...(images.length > 0 ? [`${style.heading("images")}\n${formatColumns(images)}`] : []),
    ...(nodes.length > 0 ? [`${style.heading("nodes")}\n${formatColumns(nodes)}`] : []),
  ].join("\n");
}

function heldText({ since, forMs, maxHoldMs }: NonNullable<PodExplanation["held"]>): string {
  const limit =
    maxHoldMs === undefined ? "" : `; for ${formatAge(maxHoldMs)} at most, unless the policy keeps it`;
  return `since ${since} (${formatAge(forMs)} ago)${limit}`;
}

function imageText({ architectures, excludes, source, problem }: ImageExplanation): string {
  if (problem !== undefined) return `${problem.reason}: ${problem.message}`;
  if (architectures === undefined) {
    return source === "none" ? "not known yet" : "does not restrict where the pod runs";
  }
  const by = source === "policy" ? ", by the policy" : "";
  const excluded = excludes.length === 0 ? "" : `; excludes ${excludes.join(", ")}`;
  return `runs on ${architectures.length === 0 ? "none of these" : architectures.join(", ")}${by}${excluded}`;
}

function nodesText({ nodes, left, first, because }: ArchitectureNodes): string {
  const names = left === 0 ? "" : ` (${first.join(", ")}${left > first.length ? ", …" : ""})`;
  const why = because.map((one) => `${one.why} (${one.nodes})`).join("; ");
  return `${left} of ${counted(nodes, "node")} left${names}${why === "" ? "" : `: ${why}`}`;
}
