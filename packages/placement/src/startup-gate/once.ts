/** Startup gates in a one-shot command, which reads once and does not watch. */
import {
  counted,
  keepFields,
  type OneShotRun,
  readObjects,
  readViews,
  type Section,
  type Style,
  type View,
} from "@berth/host";
import {
  type CollectionScope,
  type DaemonSet,
  type KubeObject,
  type Node,
  type Pod,
  pathOf,
  pods,
} from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { type DocumentWarning, warn } from "../api/warnings.ts";
import { isRuleKnown, unreadPolicy } from "../node/capability.ts";
import { daemonSetsRead } from "../node/daemonsets.ts";
import type { PlanDiff } from "../node/explain/diff.ts";
import {
  type LookAt,
  type NodeFacts,
  type NodeOnce,
  type PodAt,
  podsOn,
  type SeenCapability,
} from "../node/once.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { autoscalerHints } from "./autoscaler.ts";
import { bindGates, type GateCapability, marksSettled } from "./capability.ts";
import { gatesClean } from "./clean.ts";
import { GateClocks } from "./clocks.ts";
import { explainGates } from "./explain.ts";
import { heldNodesFor } from "./explain-pod.ts";
import { type AwaitedDaemonSet, GateForecast } from "./forecast.ts";
import { GATES, type Gates } from "./gate.ts";
import { neverOpens } from "./never-opens.ts";
import { gateObservations, gateReads } from "./reads.ts";
import { autoscalerText, formatGate, formatGatePlan, formatHeldNodes, withWaits } from "./show.ts";

export interface GateView extends Required<SeenCapability> {
  readonly capability: GateCapability;
  readonly daemonSets: View<DaemonSet>;
}

const UNKNOWN = "what startup gates see of them is unknown";

/**
 * Reads the objects that the signals of the gates need: pods, and the DaemonSets if a gate needs them. If it may not read
 * some, it reports that and treats them as unknown.
 *
 * @param allDaemonSets reads the DaemonSets even if no gate needs them.
 */
export async function viewGates(
  gates: Gates | undefined,
  at: LookAt,
  allDaemonSets = false,
): Promise<GateView> {
  const { run, owned, facts, only } = at;
  const { clock, installation } = run;
  const { daemonSets, pods: podsRead } = gateReads;
  const all = { ...daemonSets, ...daemonSetsRead<Gates>(GATES, ({ gates: them }) => them.length > 0) };
  const informers = only === undefined ? run.informers : podsOn(only, run.informers);
  const views = await readViews(
    { pods: podsRead, daemonSets: allDaemonSets ? all : daemonSets },
    gates ?? { gates: [], policy: unreadPolicy, faults: [] },
    { run, owned, informers },
  );
  /** Nodes that a gate asked about, whether they are idle, and the pods of those that were listed. */
  const asked = new Set<string>();
  const listed = new Map<string, readonly KubeObject[]>();
  const labelsSettled = (node: Node): boolean | undefined => {
    const at = { installation, now: clock.now() };
    const settled = facts.map((one) => isSettled(node, one, at));
    return settled.every((it) => it === true) || (settled.includes(false) ? false : undefined);
  };
  const capability = bindGates({
    gates: () => gates,
    sources: {
      observations: gateObservations(views, labelsSettled),
      clocks: new GateClocks({ monotonic: () => clock.monotonic(), trusting: true }),
      idle({ metadata }, ignored) {
        const name = metadata?.name ?? "";
        asked.add(name);
        const busy = listed.get(name)?.find((pod) => !ignored.includes(pod.metadata?.namespace ?? ""));
        if (busy !== undefined) return { idle: false, pod: pathOf(busy.metadata) };
        return listed.has(name) ? { idle: true } : "unknown";
      },
      mayHoldAgain: () => true,
    },
  });
  return {
    capability,
    daemonSets: views.daemonSets,
    async lookUp(node) {
      capability.look({ node, owned: ownedMarks(recordOf(node), installation) }, clock.now());
      const { name = "" } = node.metadata ?? {};
      if (!asked.has(name) || listed.has(name)) return;
      const read = await readPodNames(run, { fieldSelector: `spec.nodeName=${name}` });
      if (read !== undefined) listed.set(name, read);
    },
  };
}

/** The names of pods, and their nodes: whether a node is idle. */
export function readPodNames(
  run: Pick<OneShotRun, "informers" | "log">,
  scope: CollectionScope = {},
): Promise<readonly KubeObject[] | undefined> {
  const project = keepFields<Pod>(["spec.nodeName"]);
  return readObjects({ name: "pod-names", resource: pods, scope, project, consequence: UNKNOWN }, run);
}

export const gatesOnce: NodeOnce<Gates> = {
  ...gatesClean,
  explainPod,
  async plan(gates, at) {
    const { capability, lookUp, daemonSets } = await viewGates(gates, at, true);
    const inForce = { gates: gates?.gates ?? [] };
    const forecast = new GateForecast(inForce, [...daemonSets.list()]);
    return {
      capability,
      lookUp,
      add: (plan) => forecast.add(plan),
      section({ diff, isWhole }) {
        if (inForce.gates.length === 0) return undefined;
        const blocked = daemonSets.synced && { daemonSets: forecast.blocked() };
        const plan = { gates: forecast.gates(), ...blocked, autoscaler: autoscalerHints(inForce) };
        return {
          data: { startupGates: plan },
          blocks: (style) => [formatGatePlan(plan, style)],
          advice: autoscalerText(plan),
          notes: isWhole ? idleNotes(diff) : [],
          warnings: daemonSets.synced
            ? [
                ...neverOpening(inForce, [...daemonSets.list()]),
                ...(isWhole ? misplaced(forecast.awaited()) : []),
              ]
            : [],
        };
      },
    };
  },
  async explain(gates, at) {
    const { capability, lookUp } = await viewGates(gates, at);
    return {
      capability,
      lookUp,
      section(view, now) {
        const said = explainGates(capability.look(view, now));
        return {
          data: gates === undefined ? {} : { gates: said.map(withWaits) },
          blocks: (style) => said.map((it) => formatGate(it, now, style)),
          tells: ({ severity, subject, reason }) =>
            severity === "info" &&
            reason !== reasons.BackfillPending &&
            said.some(({ gate, held }) => gate === subject && held),
        };
      },
    };
  },
};

/** Without signals: they need more of each node than this command reads. */
function explainPod(gates: Gates | undefined, { pod, nodes }: PodAt): Promise<Section | undefined> {
  const heldNodes = heldNodesFor(pod, nodes, gates?.gates ?? []);
  const section = { data: { heldNodes }, blocks: (style: Style) => [formatHeldNodes(heldNodes, style)] };
  return Promise.resolve(heldNodes.length === 0 ? undefined : section);
}

/** Contradictions in the document itself are faults of it. */
function neverOpening(
  { gates }: Pick<Gates, "gates">,
  all: readonly DaemonSet[],
): readonly DocumentWarning[] {
  const names = new Set(all.map(({ metadata }) => pathOf(metadata)));
  return gates.flatMap((gate) => {
    if (neverOpens(gate.spec) !== undefined) return [];
    const why = neverOpens(gate.spec, ({ namespace, name }) => names.has(`${namespace}/${name}`));
    return warn(gate, reasons.GateNeverOpens, why && `no node can pass ${gate.rule}: ${why}`);
  });
}

/** DaemonSets that a gate waits for and that do not come, and those that it never waits for. */
function misplaced(awaited: readonly AwaitedDaemonSet[]): readonly DocumentWarning[] {
  return awaited.flatMap(({ gate, name, selected, meant, blocked, why }) => {
    const isBlocked = `the DaemonSet ${name} does not tolerate the taint of ${gate.rule}, which waits for its pod on ${blocked} of ${counted(selected, "node")}: new ones stay held. \`berth gate tolerate ${name}\` adds it`;
    const isElsewhere = `${gate.rule} waits for the DaemonSet ${name} on none of its ${counted(selected, "node")}: ${why}`;
    return [
      ...warn(gate, reasons.DaemonSetBlocked, blocked > 0 ? isBlocked : undefined),
      ...warn(gate, reasons.DaemonSetNotExpected, selected > 0 && meant === 0 ? isElsewhere : undefined),
    ];
  });
}

function idleNotes({ nodes }: PlanDiff): readonly string[] {
  const open = nodes.filter(({ findings }) => findings.some((it) => it.reason === reasons.BackfillPending));
  const [first] = open;
  if (first === undefined) return [];
  return [
    `${open.length} ${open.length === 1 ? "node" : "nodes"} joined without the taint of a startup gate. This command did not check ` +
      `whether pods run there: \`berth plan ${first.node}\` does.`,
  ];
}

/** For decisions that need no signal: it reads nothing but the nodes themselves. */
export function bindUnseeing(gates: Gates, clock: Pick<Clock, "monotonic">): GateCapability {
  return bindGates({
    gates: () => gates,
    sources: {
      observations: { pods: () => undefined, daemonSet: () => undefined, labelsSettled: () => undefined },
      clocks: new GateClocks({ monotonic: () => clock.monotonic(), trusting: true }),
      idle: () => "unknown",
      mayHoldAgain: () => false,
    },
  });
}

/** `undefined` if the command was not given the rule that has set a label of the node. */
function isSettled(
  node: Node,
  { capability, isGiven }: NodeFacts,
  at: { readonly installation: string; readonly now: number },
): boolean | undefined {
  if (!isGiven) return undefined;
  const owned = ownedMarks(recordOf(node), at.installation);
  const { policy } = capability.contribute({ node, owned }, at.now);
  const ours = [...owned.values()].filter((recorded) => recorded.capability === capability.name);
  if (ours.some(({ rule }) => !isRuleKnown(policy, rule))) return undefined;
  return marksSettled(capability, node, at);
}
