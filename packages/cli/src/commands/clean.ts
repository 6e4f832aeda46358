import { formatFault } from "@berth/host";
import { isApiError, type Node, nodes } from "@berth/kube";
import {
  ARCHITECTURE,
  architectureRules,
  FOOTPRINT,
  type Footprints,
  footprintRules,
  GATES,
  type Gates,
  gateRules,
  holdsMark,
  type MarkId,
  type NodePlan,
  ORIGINAL_ARCHITECTURE_KEY,
  originalGate,
  ownedMarks,
  planClean,
  reasons,
  recordOf,
  type StayingMark,
  standingValue,
  taintId,
  toPlanDiff,
  withoutSelector,
  withoutTolerations,
  workerPoolsKind,
} from "@berth/placement";
import { admissionName, deleteAdmission, findAdmission } from "../admission-cleanup.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { readDocuments } from "../document-session.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import {
  FootprintKeepers,
  findBereftAgents,
  findFootprintWork,
  formatBereftAgents,
} from "../footprint/cleanup.ts";
import {
  describeLeftovers,
  findDeploymentWork,
  findState,
  findTemplateWork,
  formatLeftovers,
  type Leftover,
  type TemplatePart,
  undoLeftovers,
} from "../leftovers.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatPlan } from "../output/plan.ts";
import { Progress } from "../output/progress.ts";
import { styleFor } from "../output/style.ts";
import { readDeclaredPlaces } from "../place-config-map.ts";
import {
  carryOutPodWork,
  describePodWork,
  findPodWork,
  formatPodWork,
  isNothing,
  type PodCleaning,
} from "../pod-cleanup.ts";
import { openSession, type RuleFiles, readNodes, readRuleFiles, type Session } from "../session.ts";
import { findStateNamespace } from "../state-namespace.ts";
import type { Surroundings } from "../surroundings.ts";

export interface CleanOptions extends ConnectionOptions, Pick<RuleOptions, "config"> {
  readonly installation: string;
  readonly yes?: boolean;
  readonly key?: readonly string[];
  /** Takes off recorded taints and cordons that no rule of the installation has declared. Default false. */
  readonly recorded?: boolean;
  /** Only what this capability has set. Default all. */
  readonly capability?: "labels" | "gates" | "architecture" | "footprint" | "worker-pools";
  /** Of Berth's own state. Default as of `run`. */
  readonly namespace?: string;
  /** Has pods made anew that carry a toleration of an architecture policy. Default false. */
  readonly restartPods?: boolean;
  readonly output?: DataFormat;
}

/** Writes in flight, as many as the controller has. */
const PARALLEL_WRITES = 16;
/** A node that keeps changing under us: read and planned again this often. */
const MAX_TRIES = 5;

/**
 * Takes off every mark that this installation has recorded, and its record. Each node is one guarded patch: its marks
 * and their record go together, so an interruption leaves every node either as it was or clean. What puts the taints of
 * startup gates on new nodes goes first: from then on none is held any more. Pods that wait for an architecture policy are
 * let go; the others keep their tolerations, which mean nothing without the taints, unless they are restarted. Owners are
 * let go that footprints hold, and pods wait for no agent any more.
 */
export async function clean(options: CleanOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr } = surroundings;
  const { yes = false, output, capability, restartPods = false } = options;
  if (restartPods && capability !== undefined && capability !== ARCHITECTURE)
    throw new CommandError("--restart-pods is for --capability architecture", exitCodes.usage);
  const files = await readRuleFiles(options, surroundings);
  await using session = await openSession(options, surroundings);
  const admission = await findAdmission(options, session, surroundings);
  const left = yes ? await deleteAdmission(admission, session, surroundings) : new Map<never, never>();
  if (!output) {
    const said = yes ? "deleted" : "would be deleted";
    for (const one of admission) if (!left.has(one)) stdout.write(`${admissionName(one)}: ${said}\n`);
  }
  const at = { session, surroundings };
  const { inForce: gates } = await readDocuments(gateRules, files, at);
  const { inForce: policies } = await readDocuments(architectureRules, files, at);
  const { inForce: footprints, faults } = await readDocuments(footprintRules, files, at);
  const declared = await readDeclaredPlaces(options, at);
  const work: Work = {
    options,
    surroundings,
    declared: declared.union(gates?.policy.places ?? none).union(policies?.policy.places ?? none),
    ...(gates && { gates }),
    ...(policies && { policies }),
    ...(footprints && { footprints }),
  };
  const podWork = await findPodWork(work, session);
  const isFootprint = capability === undefined || capability === FOOTPRINT;
  // What such a document has put on owners is not known, and stays.
  if (isFootprint) for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
  const known = isFootprint ? footprints : undefined;
  if (!files.hasConfig && (known !== undefined || capability === FOOTPRINT)) stderr.write(FOOTPRINT_LIMIT);
  const keepers = new FootprintKeepers(options.installation);
  const plans: NodePlan[] = [];
  let unclaimed = 0;
  for await (const node of readNodes(session, surroundings, slim)) {
    const plan = planOf(node, work);
    keepers.add(node);
    if (options.capability === undefined && isUnclaimed(node, plan)) unclaimed += 1;
    const { name = "" } = node.metadata ?? {};
    const isIdle = plan.patch === undefined && plan.stays.length === 0;
    plans.push(isIdle ? { ...plan, node: { metadata: { name } } } : plan);
  }
  const { first, later, state } = await findLeftovers(work, files, at);
  later.unshift(...(await findFootprintWork(known, keepers, at)));
  const leftovers = [...first, ...later, ...state];
  stderr.write(formatBereftAgents(await findBereftAgents(known, plans, at), yes));
  const diff = toPlanDiff(plans);
  const more = {
    admission: admission.map(admissionName),
    ...describePodWork(podWork),
    ...describeLeftovers(leftovers),
  };
  if (output) printData(stdout, { ...diff, ...more, done: yes }, output);
  else {
    if (diff.nodes.length > 0) stdout.write(formatPlan(diff, styleFor(stdout), yes ? "will" : "would"));
    stdout.write(formatPodWork(podWork, yes ? "will" : "would"));
    stdout.write(formatLeftovers(leftovers, yes ? "will" : "would"));
  }
  if (unclaimed > 0) {
    stderr.write(
      `${unclaimed} ${unclaimed === 1 ? "node has" : "nodes have"} the taint ${GATE_KEY} without a record, and no gate ` +
        `that is known wants it: unless another controller uses it, --key ${GATE_KEY} takes it off.\n`,
    );
  }
  const undeclared = plans.filter(({ stays }) => stays.some(isUndeclared)).length;
  if (undeclared > 0) {
    stderr.write(
      `${undeclared} ${undeclared === 1 ? "node has" : "nodes have"} a record of taints or cordons that no rule of this installation ` +
        "has declared, above with PlaceNotDeclared. A kubelet can forge it: --recorded takes them off.\n",
    );
  }
  // What may not be read may still hold marks of ours.
  const isWhole = session.leftOut.isEmpty;
  const end = isWhole ? exitCodes.done : exitCodes.cluster;
  const written = plans.filter(({ patch }) => patch !== undefined);
  const isMore = !isNothing(podWork) || leftovers.length > 0;
  if (written.length === 0 && admission.length === 0 && !isMore) {
    if (!output) stdout.write(`There is nothing to clean${isWhole ? "" : " in what may be read"}.\n`);
    return end;
  }
  if (!yes) {
    stderr.write("Nothing was written: add --yes to act. Stop berth first, or it sets its marks again.\n");
    return end;
  }
  // What could not be done of one keeps nobody from the others.
  const failures = [
    ...left.values(),
    ...(await undoLeftovers(first, surroundings)),
    ...(await cleanNodes(written, session, work)),
    ...(await carryOutPodWork(podWork, session, surroundings)),
    ...(await undoLeftovers(later, surroundings)),
  ];
  // It tells which records to believe when it is run once more.
  if (failures.length === 0) failures.push(...(await undoLeftovers(state, surroundings)));
  // The API server goes by its caches for a second or so.
  if (admission.length > 0)
    stderr.write(
      "Nodes and pods made just now may have got a taint or a gate still: run it once more in a moment.\n",
    );
  if (failures.length > 0) throw new CommandError(`${failures.join("\n")}\nRun it once more.`);
  return end;
}

const FOOTPRINT_LIMIT =
  "Finalizers of footprints that are deleted are not found: give their documents by --config FILE.\n";

interface Leftovers {
  /** Before the nodes: without their label pods of a DaemonSet that asks for it would end. */
  readonly first: readonly Leftover[];
  /** After the nodes: with their taints pods without the toleration would not come. */
  readonly later: Leftover[];
  /** Berth's own, after all else. */
  readonly state: readonly Leftover[];
}

const none: ReadonlySet<MarkId> = new Set();

function isUndeclared({ reason }: StayingMark): boolean {
  return reason === reasons.PlaceNotDeclared;
}

async function findLeftovers(
  { options }: Work,
  { settings }: RuleFiles,
  at: { readonly session: Session; readonly surroundings: Surroundings },
): Promise<Leftovers> {
  const { installation, capability } = options;
  const isOf = (name: string): boolean => capability === undefined || capability === name;
  const selector: TemplatePart = {
    what: "its request for the label of a footprint",
    remove: withoutSelector,
  };
  const tolerations = [GATES, ARCHITECTURE].filter(isOf).map(
    (name): TemplatePart => ({
      what: `tolerations of ${name}`,
      remove: (daemonSet) => withoutTolerations(daemonSet, name),
    }),
  );
  const pools = settings.specOf(workerPoolsKind) === undefined ? "tell" : "delete";
  const state = capability === undefined ? await stateNamespace(options, at) : undefined;
  return {
    first: isOf(FOOTPRINT) ? await findTemplateWork([selector], at) : [],
    later: [
      ...(await findDeploymentWork(
        { installation, waits: isOf(FOOTPRINT), pools: isOf("worker-pools") ? pools : undefined },
        at,
      )),
      ...(await findTemplateWork(tolerations, at)),
    ],
    state: state?.exists === true ? await findState({ namespace: state.name, installation }, at) : [],
  };
}

function stateNamespace(
  { namespace: wanted }: CleanOptions,
  { session, surroundings: { signal } }: { readonly session: Session; readonly surroundings: Surroundings },
): ReturnType<typeof findStateNamespace> {
  return findStateNamespace(session.client, { wanted, cluster: session.cluster, signal });
}

const { key: GATE_KEY, effect: GATE_EFFECT } = originalGate.taint;

/** A taint that admission may have put on it for a gate that nobody knows any more. */
function isUnclaimed(node: Node, { changes }: NodePlan): boolean {
  const id = taintId(GATE_KEY, GATE_EFFECT);
  return standingValue(node, id) !== undefined && !changes.some((change) => change.id === id);
}

function planOf(node: Node, { options, declared, gates, footprints }: Work): NodePlan {
  const { installation, key = [], capability, recorded = false } = options;
  const restricted =
    capability === undefined || capability === FOOTPRINT
      ? footprintMarks(node, footprints, installation)
      : [];
  return planClean({
    node,
    installation,
    // The contract gives the original key to whoever keeps to it, whatever value and effect stand there.
    keys: [...key, ...restricted, ...(capability === ARCHITECTURE ? ORIGINAL_TAINTS : [])],
    capability,
    declared,
    recorded,
    ...(gates && { gates }),
  });
}

/** Recorded as ours, and places of a footprint that is known: also under `node-restriction.kubernetes.io`. */
function footprintMarks(
  node: Node,
  footprints: Footprints | undefined,
  installation: string,
): readonly string[] {
  if (footprints === undefined) return [];
  const { declared } = footprints.policy;
  const owned = ownedMarks(recordOf(node), installation);
  return [...owned].flatMap(([id, { capability }]) =>
    capability === FOOTPRINT && holdsMark(declared, id) ? [id] : [],
  );
}

const ORIGINAL_TAINTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map((effect) =>
  taintId(ORIGINAL_ARCHITECTURE_KEY, effect),
);

/** What is kept of each node until it is cleaned: what a plan looks at. */
function slim({ metadata, spec }: Node): Node {
  const { managedFields: _, ...kept } = metadata ?? {};
  return { metadata: kept, ...(spec && { spec }) };
}

interface Work extends PodCleaning {
  readonly options: CleanOptions;
  readonly surroundings: Surroundings;
  readonly declared: ReadonlySet<MarkId>;
  readonly gates?: Gates;
  readonly footprints?: Footprints;
}

/** Returns one line for each node that could not be cleaned, below one that counts them. */
async function cleanNodes(
  plans: readonly NodePlan[],
  session: Session,
  work: Work,
): Promise<readonly string[]> {
  const { stderr, clock, signal } = work.surroundings;
  using progress = new Progress(stderr, clock, `cleaning ${plans.length} nodes`);
  const failures: string[] = [];
  const left = plans.values();
  let done = 0;
  const worker = async (): Promise<void> => {
    for (const plan of left) {
      if (signal.aborted) throw new CommandError("interrupted", exitCodes.interrupted);
      try {
        await cleanOne(plan, session, work);
      } catch (error) {
        failures.push(
          `${plan.node.metadata?.name ?? ""}: ${error instanceof Error ? error.message : String(error)}`,
        );
      }
      done += 1;
      progress.update(`cleaning nodes: ${done} of ${plans.length}`);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL_WRITES }, worker));
  if (failures.length > 0)
    return [
      `${failures.length} of ${plans.length} nodes could not be cleaned:`,
      ...failures.map((line) => `  ${line}`),
    ];
  if (plans.length > 0) stderr.write(`${plans.length} ${plans.length === 1 ? "node" : "nodes"} cleaned.\n`);
  return [];
}

async function cleanOne(first: NodePlan, { client }: Session, work: Work): Promise<void> {
  const { signal } = work.surroundings;
  let plan = first;
  for (let tries = 1; plan.patch !== undefined; tries++) {
    const name = plan.node.metadata?.name ?? "";
    try {
      await client.patch(nodes, { name }, { type: "merge", body: plan.patch }, { signal });
      return;
    } catch (error) {
      if (isApiError(error, "notFound")) return;
      if (!isApiError(error, "conflict", "uidMismatch") || tries === MAX_TRIES) throw error;
      plan = planOf(await client.get(nodes, { name }, { signal }), work);
    }
  }
}
