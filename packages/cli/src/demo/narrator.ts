import { type Cell, cellLine, cells, type WorkloadDeployment, workloadDeployments } from "@berth/fleet";
import { counted, type Style } from "@berth/host";
import {
  type DaemonSet,
  daemonSets,
  events,
  type KubeClient,
  type KubeEvent,
  type KubeObject,
  type Node,
  nodes,
  type Resource,
} from "@berth/kube";
import { recordOf } from "@berth/placement";
import {
  type Change,
  type Clock,
  clusterName,
  createInformer,
  createSilentLogger,
  type Informer,
  isInitial,
  type Running,
} from "@berth/runtime";

export interface Narration {
  readonly nodes: Informer<Node>;
  /** Resolves when the narration has stopped. */
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
 * Prints changes as the cluster reports them: labels and taints of Nodes, the nodes of pods, the spread of DaemonSets,
 * and Events of Berth.
 */
export async function narrate(options: NarratorOptions): Promise<Narration> {
  const { follow, ended } = followerOf(options);
  const [followed] = await Promise.all([
    follow(nodes, markLines),
    follow(events, eventLines),
    follow(daemonSets, spreadLines),
  ]);
  return { nodes: followed, ended: ended() };
}

/** Prints what a hub knows of its cells and of the deployments of its projects. */
export async function narrateFleet(options: NarratorOptions): Promise<Pick<Narration, "ended">> {
  const { follow, ended } = followerOf(options);
  await Promise.all([follow(cells, cellLines), follow(workloadDeployments, countLines)]);
  return { ended: ended() };
}

interface Follower {
  readonly follow: <T extends KubeObject>(
    resource: Resource<T>,
    linesOf: (change: Change<T>, style: Style) => readonly string[],
  ) => Promise<Informer<T>>;
  /** Resolves when all of them have ended. */
  readonly ended: () => Promise<unknown>;
}

function followerOf({ client, clock, say, style, signal }: NarratorOptions): Follower {
  const common = { client, clock, cluster: clusterName("demo"), log: createSilentLogger() };
  const running: Running[] = [];
  return {
    async follow(resource, linesOf) {
      const informer = createInformer({ ...common, resource });
      running.push(await informer.start(signal));
      informer.subscribe({ onChange: (change) => linesOf(change, style).forEach(say) });
      return informer;
    },
    ended: () => Promise.all(running.map(({ ended }) => ended)),
  };
}

/** Whether a cell is reached, when that changed. */
function cellLines(change: Change<Cell>): readonly string[] {
  if (change.type === "deleted") return [];
  const textOf = (cell: Cell): string => {
    const { name, city, reachable, reason } = cellLine(cell);
    return reachable === "True"
      ? `  ${name} in ${city} is heard`
      : `  ${name} in ${city} is not heard: ${reason}`;
  };
  const text = textOf(change.object);
  const isNews =
    change.object.status !== undefined && (change.type !== "updated" || textOf(change.old) !== text);
  return isNews ? [text] : [];
}

/** The counts of a deployment of a project, when they changed. */
function countLines(change: Change<WorkloadDeployment>, style: Style): readonly string[] {
  // The hub's own copies are beside them.
  if (change.type === "deleted" || change.object.metadata?.namespace !== "default") return [];
  const textOf = ({ spec, status }: WorkloadDeployment): string => {
    const { readyReplicas = 0, updatedReplicas = 0, unheard = 0 } = status ?? {};
    return `  ${spec?.cityCode}: ${readyReplicas} ready, ${updatedReplicas} up to date, ${unheard} not heard`;
  };
  const text = textOf(change.object);
  const isNews = change.type !== "updated" || textOf(change.old) !== text;
  return isNews ? [style.aside(text)] : [];
}

/** `+ edge-1  accelerators/edgetpu=true`, one for each label and taint that differs. */
function markLines(change: Change<Node>, style: Style): readonly string[] {
  if (change.type === "deleted" || isInitial(change)) return [];
  const { object } = change;
  const name = object.metadata?.name ?? "";
  // For a new node only taints are printed.
  const before = new Set(change.type === "updated" ? marksOf(change.old) : labelsOf(object));
  const after = new Set(marksOf(object));
  return [
    ...[...before.difference(after)].map((it) => style.removed(`- ${name}  ${it}`)),
    ...[...after.difference(before)].map(
      (it) => style.added(`+ ${name}  ${it}`) + style.aside(because(object, it)),
    ),
  ];
}

function labelsOf({ metadata }: Node): readonly string[] {
  return Object.entries(metadata?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
}

/** Labels and taints, without the taints of the control plane. */
function marksOf(node: Node): readonly string[] {
  const taints = (node.spec?.taints ?? []).filter(({ key }) => !key.startsWith("node.kubernetes.io/"));
  const texts = taints.map(({ key, value = "", effect }) => `taint ${key}=${value}:${effect}`);
  return [...labelsOf(node), ...texts];
}

/** The recorded rule of this label on the node. Empty for labels of other owners. */
function because(node: Node, text: string): string {
  const read = recordOf(node);
  const key = text.endsWith("=true") ? text.slice(0, -"=true".length) : "";
  const mark = read.state === "read" ? read.record.marks.get(`label/${key}`) : undefined;
  return mark === undefined ? "" : `  (berth: rule ${mark.rule})`;
}

/** The number of nodes where a DaemonSet is ready, when it changed. */
function spreadLines(change: Change<DaemonSet>): readonly string[] {
  if (change.type !== "updated") return [];
  const readyOf = ({ status }: DaemonSet): number => status?.numberReady ?? 0;
  const ready = readyOf(change.object);
  if (readyOf(change.old) === ready) return [];
  return [`  DaemonSet ${change.object.metadata?.name}: ready on ${counted(ready, "node")}`];
}

/** Events of Berth, and the nodes that the scheduler chooses for pods of users. */
function eventLines({ type, object }: Change<KubeEvent>, style: Style): readonly string[] {
  const { reason, reportingController = "", regarding, note = "" } = object;
  if (type === "deleted") return [];
  if (reason === "Scheduled" && regarding?.namespace === "default")
    return [style.aside(`  the scheduler: ${note}`)];
  if (!reportingController.includes("berth")) return [];
  return [style.aside(`  berth says ${reason} about ${regarding?.name ?? ""}: ${note}`)];
}
