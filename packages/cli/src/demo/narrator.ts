import type { Style } from "@berth/host";
import {
  type DaemonSet,
  daemonSets,
  events,
  type KubeClient,
  type KubeEvent,
  type Node,
  nodes,
} from "@berth/kube";
import { recordOf } from "@berth/placement";
import {
  type Change,
  type Clock,
  clusterName,
  createInformer,
  createSilentLogger,
  type Informer,
} from "@berth/runtime";

export interface Narration {
  readonly nodes: Informer<Node>;
  /** Stops telling. */
  readonly ended: Promise<unknown>;
}

export interface NarratorOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly style: Style;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

/**
 * Tells, as the cluster shows it, which labels change on Nodes, where pods go, on how many nodes DaemonSets run, and what
 * Berth says about it in Events.
 */
export async function narrate(options: NarratorOptions): Promise<Narration> {
  const { client, clock, say, style, signal } = options;
  const common = { client, clock, cluster: clusterName("demo"), log: createSilentLogger() };
  const nodeInformer = createInformer<Node>({ ...common, resource: nodes });
  const eventInformer = createInformer<KubeEvent>({ ...common, resource: events });
  const setInformer = createInformer<DaemonSet>({ ...common, resource: daemonSets });
  const running = await Promise.all(
    [nodeInformer, eventInformer, setInformer].map((informer) => informer.start(signal)),
  );
  nodeInformer.subscribe({
    onChange: (change) => {
      for (const line of [...labelChanges(change, style), ...taintChanges(change, style)]) say(line);
    },
  });
  eventInformer.subscribe({
    onChange: (change) => {
      const line = change.type === "deleted" ? undefined : eventLine(change.object, style);
      if (line !== undefined) say(line);
    },
  });
  setInformer.subscribe({
    onChange: (change) => {
      const line = spreadLine(change);
      if (line !== undefined) say(line);
    },
  });
  return { nodes: nodeInformer, ended: Promise.all(running.map(({ ended }) => ended)) };
}

/** `+ edge-1  accelerators/edgetpu=true`, one for each label that differs. */
function labelChanges(change: Change<Node>, style: Style): readonly string[] {
  if (change.type !== "updated") return [];
  const name = change.object.metadata?.name ?? "";
  const before = change.old.metadata?.labels ?? {};
  const after = change.object.metadata?.labels ?? {};
  const lines: string[] = [];
  for (const key of [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted()) {
    if (before[key] === after[key]) continue;
    if (key in before) lines.push(style.removed(`- ${name}  ${key}=${before[key]}`));
    if (key in after)
      lines.push(style.added(`+ ${name}  ${key}=${after[key]}`) + style.aside(because(change.object, key)));
  }
  return lines;
}

/** The same for taints, those of the control plane left out. */
function taintChanges(change: Change<Node>, style: Style): readonly string[] {
  const textsOf = ({ spec }: Node): ReadonlySet<string> =>
    new Set(
      (spec?.taints ?? [])
        .filter(({ key }) => !key.startsWith("node.kubernetes.io/"))
        .map(({ key, value = "", effect }) => `${key}=${value}:${effect}`),
    );
  if (change.type === "deleted" || (change.type === "added" && change.initial)) return [];
  const name = change.object.metadata?.name ?? "";
  const before = change.type === "updated" ? textsOf(change.old) : new Set<string>();
  const after = textsOf(change.object);
  return [
    ...[...before.difference(after)].map((taint) => style.removed(`- ${name}  taint ${taint}`)),
    ...[...after.difference(before)].map((taint) => style.added(`+ ${name}  taint ${taint}`)),
  ];
}

/** The rule that Berth has recorded on the node for this label; nothing for labels of others. */
function because(node: Node, key: string): string {
  const read = recordOf(node);
  const mark = read.state === "read" ? read.record.marks.get(`label/${key}`) : undefined;
  return mark === undefined || node.metadata?.labels?.[key] !== "true" ? "" : `  (berth: rule ${mark.rule})`;
}

/** On how many nodes a DaemonSet is ready, when that differs. */
function spreadLine(change: Change<DaemonSet>): string | undefined {
  if (change.type !== "updated") return undefined;
  const readyOf = ({ status }: DaemonSet): number => status?.numberReady ?? 0;
  const ready = readyOf(change.object);
  if (readyOf(change.old) === ready) return undefined;
  return `  DaemonSet ${change.object.metadata?.name}: ready on ${ready} ${ready === 1 ? "node" : "nodes"}`;
}

/** What Berth says, and where the scheduler puts pods of users. */
function eventLine(event: KubeEvent, style: Style): string | undefined {
  const { reason, reportingController = "", regarding, note = "" } = event;
  if (reason === "Scheduled" && regarding?.namespace === "default")
    return style.aside(`  the scheduler: ${note}`);
  if (!reportingController.includes("berth")) return undefined;
  return style.aside(`  berth says ${reason} about ${regarding?.name ?? ""}: ${note}`);
}
