import { type DocumentRules, formatFault } from "@berth/host";
import type { Node } from "@berth/kube";
import {
  architectureRules,
  autoscalerHints,
  type BoundCapability,
  FOOTPRINT,
  type FootprintChanges,
  FootprintForecast,
  footprintRules,
  GateForecast,
  gateRules,
  type MarkId,
  mergeContributions,
  type NodePlan,
  ownedMarks,
  type PlanDiff,
  type PlanInput,
  type Policy,
  planNode,
  RemovalForecast,
  type RuleForecast,
  type RuleOutcome,
  reasons,
  recordOf,
  toPlanDiff,
} from "@berth/placement";
import { type ArchitectureView, viewArchitecture } from "../architecture-session.ts";
import { loadSettings, type RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import {
  assembleReadRules,
  fetchClusterDocuments,
  fetchClusterRules,
  type ReadDocuments,
  type ReadRules,
} from "../document-session.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { findFootprintEffects } from "../footprint/owners.ts";
import { type FootprintView, viewFootprints } from "../footprint/session.ts";
import { type GateView, viewGates } from "../gate-session.ts";
import { formatArchitecturePlan } from "../output/architecture.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatFootprintEffects, formatFootprintPlan } from "../output/footprints.ts";
import { formatGatePlan, type GatePlan } from "../output/gates.ts";
import { formatPlan } from "../output/plan.ts";
import { styleFor } from "../output/style.ts";
import { readDeclaredPlaces } from "../place-config-map.ts";
import { ruleNotes, rulesByName } from "../rule-confirmation.ts";
import { openSession, readNodes, readRuleFiles, type Session } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";
import { isTried, readTried, tryRules } from "./plan-trial.ts";

export interface PlanOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly namespace?: string;
  readonly nodes: readonly string[];
  readonly exitCode?: boolean;
  /** Files of documents that stand in for those of the same kind and name in the cluster. */
  readonly try?: readonly string[];
  readonly output?: DataFormat;
}

/** Shows what `run` would write, and writes nothing. */
export async function plan(options: PlanOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr } = surroundings;
  const files = await readRuleFiles(options, surroundings);
  await using session = await openSession(options, surroundings);
  const tried = options.try && (await loadSettings({ config: options.try }, surroundings.folder));
  const cluster = tryRules(tried, await fetchClusterRules(session, surroundings));
  const rules = assembleReadRules(files, cluster, "act");
  const readAll = async <S, T>(kind: DocumentRules<S, T>): Promise<ReadDocuments<T>> =>
    readTried(kind, { files, tried, cluster: await fetchClusterDocuments(kind, session, surroundings) });
  const read = {
    gates: await readAll(gateRules),
    architecture: await readAll(architectureRules),
    footprints: await readAll(footprintRules),
  };
  const isGiven = Object.values(read).some(({ inForce }) => inForce !== undefined);
  if (!rules.given && !isGiven) {
    if (!session.leftOut.isEmpty) throw session.leftOut.refuse("there is nothing to plan from");
    throw new CommandError(
      "there is nothing to plan from: give --label-dir or --config, or install the CRDs (`berth manifests crds`)",
      exitCodes.usage,
    );
  }
  const [only, ...more] = options.nodes;
  const gates = await viewGates(read.gates.inForce, {
    session,
    surroundings,
    installation: options.installation,
    labels: { capability: rules.capabilities[0], known: rules.given },
    ...(only !== undefined && more.length === 0 && { node: only }),
    allDaemonSets: true,
  });
  const view = { session, surroundings, files, installation: options.installation };
  const seen = await viewArchitecture(read.architecture.inForce, view);
  await using footprints = await viewFootprints(read.footprints.inForce, {
    session,
    surroundings,
    ...(only !== undefined && more.length === 0 && { node: only }),
  });
  const effects =
    footprints.footprints && (await findFootprintEffects(footprints.footprints, { session, surroundings }));
  const declared = await readDeclaredPlaces(options, { session, surroundings });
  const deciding = { declared, rules, gates, architecture: seen, footprints };
  const { diff, forecasts, gatePlan, footprintPlan } = await planNodes(session, deciding, {
    options,
    surroundings,
  });
  const { forecast } = seen;
  const faults = [...rules.faults, ...Object.values(read).flatMap((it) => it.faults)];
  // Of a few nodes nothing can be said about a share of all.
  const ofAll = { nodes: diff.looked, now: surroundings.clock.now() };
  const notes =
    options.nodes.length > 0
      ? []
      : [...ruleNotes(forecasts, rulesByName(files, cluster), ofAll), ...idleNotes(diff)];
  if (options.output) {
    const startupGates = gatePlan && { startupGates: gatePlan };
    const more = {
      ...startupGates,
      ...(forecast && { architecture: forecast }),
      ...(footprintPlan.length > 0 && { footprints: footprintPlan, footprintEffects: effects }),
    };
    printData(stdout, { ...diff, rules: forecasts, notes, ...more, faults }, options.output);
  } else {
    const style = styleFor(stdout);
    for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
    stdout.write(formatPlan(diff, style));
    for (const note of notes) stdout.write(`${note}\n`);
    if (gatePlan !== undefined) stdout.write(`\n${formatGatePlan(gatePlan, style)}`);
    if (forecast !== undefined) stdout.write(`\n${formatArchitecturePlan(forecast, style)}`);
    if (footprintPlan.length > 0) stdout.write(`\n${formatFootprintPlan(footprintPlan, style)}`);
    if (effects) stdout.write(formatFootprintEffects(effects));
  }
  // Rules with a fault are told of alone; the files of documents that cannot be used are those of `run`.
  const ofConfig = Object.values(read).flatMap((it) => it.faults.filter(({ line }) => line !== undefined));
  if (ofConfig.length > 0 || faults.some((fault) => isTried(fault, tried))) return exitCodes.faults;
  const isChanging = [
    diff.written > 0,
    forecast !== undefined && forecast.pods.length + forecast.daemonSets.length > 0,
    footprintPlan.some(({ agent }) => agent?.selector !== undefined && agent.selector.waits === undefined),
    effects !== undefined && effects.owners.length > 0,
  ].includes(true);
  return options.exitCode && isChanging ? exitCodes.changes : exitCodes.done;
}

/** What of a DaemonSet is decided by all nodes cannot be told by some. */
function withoutSelector({ agent, ...rest }: FootprintChanges): FootprintChanges {
  if (agent === undefined) return rest;
  const { selector: _, ...others } = agent;
  return { ...rest, agent: others };
}

function idleNotes({ nodes }: PlanDiff): readonly string[] {
  const open = nodes.filter(({ findings }) => findings.some((it) => it.reason === reasons.BackfillPending));
  const [first] = open;
  if (first === undefined) return [];
  return [
    `${open.length} ${open.length === 1 ? "node" : "nodes"} came without the taint of a startup gate. Whether pods run there, ` +
      `so that it is left as it is, was not looked up: \`berth plan ${first.node}\` does.`,
  ];
}

interface Work {
  readonly options: PlanOptions;
  readonly surroundings: Surroundings;
}

interface Deciding {
  readonly declared: ReadonlySet<MarkId>;
  readonly rules: ReadRules;
  readonly gates: GateView;
  readonly architecture: ArchitectureView;
  readonly footprints: FootprintView;
}

interface PlannedNodes {
  readonly diff: PlanDiff;
  readonly forecasts: readonly RuleForecast[];
  /** Absent without gates. */
  readonly gatePlan?: GatePlan;
  /** Of the nodes that were asked about. */
  readonly footprintPlan: readonly FootprintChanges[];
}

async function planNodes(
  session: Session,
  { declared, rules, gates, architecture, footprints }: Deciding,
  { options, surroundings }: Work,
): Promise<PlannedNodes> {
  const { installation } = options;
  const capabilities = [
    ...rules.capabilities,
    gates.capability,
    architecture.capability,
    footprints.capability,
  ];
  const forecast = new RemovalForecast();
  const inForce = gates.gates?.gates ?? [];
  const gateForecast = new GateForecast({ gates: inForce }, gates.daemonSets ?? []);
  const footprintForecast = new FootprintForecast(
    footprints.footprints ?? { footprints: [], faults: [] },
    footprints.sight,
  );
  const missing = new Set(options.nodes);
  const plans: NodePlan[] = [];
  /** By node and mark: what made a change wanted. */
  const inputs = new Map<string, readonly string[]>();
  for await (const node of readNodes(session, surroundings)) {
    const { name = "" } = node.metadata ?? {};
    if (options.nodes.length > 0 && !options.nodes.includes(name)) continue;
    missing.delete(name);
    // A list of pods for each node of a large cluster is too much to ask.
    if (options.nodes.length > 0) await gates.askIdle(node);
    const planned = planOne(node, capabilities, { declared, installation, now: surroundings.clock.now() });
    for (const [id, found] of planned.inputs) inputs.set(`${name} ${id}`, found);
    forecast.add(planned.plan, planned.policies);
    gateForecast.add(planned.plan);
    footprintForecast.add(planned.plan, planned.outcomes);
    // Only the name is shown: thousands of whole nodes are not kept for it.
    plans.push({ ...planned.plan, node: { metadata: { name } } });
  }
  if (missing.size > 0) throw new CommandError(`there is no node ${[...missing].join(", ")}`);
  const diff = toPlanDiff(plans);
  const nodes = diff.nodes.map((one) => {
    const changes = one.changes.map((change) => {
      const found = inputs.get(`${one.node} ${change.id}`);
      return found === undefined ? change : Object.assign(change, { inputs: found });
    });
    return Object.assign(one, { changes });
  });
  const gatePlan: GatePlan | undefined =
    inForce.length === 0
      ? undefined
      : {
          gates: gateForecast.gates(),
          ...(gates.daemonSets && { daemonSets: gateForecast.blocked() }),
          autoscaler: autoscalerHints({ gates: inForce }),
        };
  const changes = footprintForecast.footprints();
  return {
    diff: { ...diff, nodes },
    forecasts: forecast.rules(),
    ...(gatePlan && { gatePlan }),
    footprintPlan: options.nodes.length === 0 ? changes : changes.map(withoutSelector),
  };
}

interface Planned {
  readonly plan: NodePlan;
  readonly inputs: ReadonlyMap<MarkId, readonly string[]>;
  readonly policies: ReadonlyMap<string, Policy>;
  /** Of the footprints. */
  readonly outcomes: readonly RuleOutcome[];
}

function planOne(
  node: Node,
  capabilities: readonly BoundCapability[],
  { installation, ...more }: Pick<PlanInput, "installation" | "now" | "declared">,
): Planned {
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const contributions = capabilities.map((capability) => capability.contribute(view, more.now));
  const merged = mergeContributions(contributions);
  const planned = planNode({ node, merged, installation, ...more, listUnrecorded: true });
  const inputs = new Map<MarkId, readonly string[]>();
  for (const { id } of planned.changes) {
    const wanted = merged.wanted.get(id);
    const owner = capabilities.find(({ name }) => name === wanted?.capability);
    if (wanted !== undefined && owner !== undefined) inputs.set(id, owner.inputs(view, wanted.mark));
  }
  const ours = contributions.find(({ capability }) => capability === FOOTPRINT);
  return { plan: planned, inputs, policies: merged.policies, outcomes: ours?.decision.outcomes ?? [] };
}
