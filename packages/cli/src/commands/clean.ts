import { type FleetSpec, findFleetWork, fleet, fleetKind } from "@berth/fleet";
import {
  carryOutUndos,
  counted,
  describeUndos,
  formatFault,
  formatUndos,
  Progress,
  styleFor,
  type Undo,
} from "@berth/host";
import { type Node, nodes, type Patch } from "@berth/kube";
import {
  type CleaningCapability,
  findTemplateParts,
  type MarkId,
  type NodePlan,
  planClean,
  readDeclaredPlaces,
  reasons,
  slimNode,
  toPlanDiff,
} from "@berth/placement";
import { admissionName, deleteAdmission, findAdmission, findState } from "../admission-cleanup.ts";
import { nodeCapabilities } from "../capabilities.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { describeApiError } from "../failure-text.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatPlan } from "../output/plan.ts";
import { readCapabilities } from "../read-capabilities.ts";
import { openSession, patchAsRead, readNodes, readRuleFiles, type Session } from "../session.ts";
import { stopInstallation } from "../stop-installation.ts";

export interface CleanOptions extends ConnectionOptions, Pick<RuleOptions, "config"> {
  readonly installation: string;
  readonly yes?: boolean;
  /** Stops the Deployment of the installation first. Default false. */
  readonly stop?: boolean;
  readonly key?: readonly string[];
  /** Also removes recorded taints and cordons that no rule of the installation has declared. Default false. */
  readonly recorded?: boolean;
  /** Removes only the marks of this capability. Default: of all capabilities. */
  readonly capability?: string;
  /** Namespace of Berth's own state. Default as for `run`. */
  readonly namespace?: string;
  /** Restarts pods that carry a change of the capability. Default false. */
  readonly restartPods?: boolean;
  readonly output?: DataFormat;
}

/** Number of concurrent writes, the same as in the controller. */
const PARALLEL_WRITES = 16;

/**
 * Removes every mark that this installation has recorded, and the record itself. Each node gets one guarded patch with
 * both, so an interruption leaves every node either unchanged or clean. Admission objects are deleted first: then the
 * API server holds no more new nodes and pods. At the end each capability reverts its changes on other objects.
 */
export async function clean(options: CleanOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr } = deps;
  const { yes = false, output, capability: only, restartPods = false } = options;
  const restarting = nodeCapabilities.flatMap((it) => (it.restartsPods ? [it.name] : []));
  if (restartPods && only !== undefined && !restarting.includes(only))
    throw new CommandError(`--restart-pods is for --capability ${restarting.join(", ")}`, exitCodes.usage);
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  if (yes && options.stop) await stopInstallation(session);
  const admission = await findAdmission(options, session);
  const left = yes ? await deleteAdmission(admission, session) : new Map<never, never>();
  if (!output) {
    const said = yes ? "deleted" : "would be deleted";
    for (const one of admission) if (!left.has(one)) stdout.write(`${admissionName(one)}: ${said}\n`);
  }
  const read = await readCapabilities({ files, session, waiting: "wait" }, "clean");
  const declared = await readDeclaredPlaces(session);
  const cleaning: CleaningCapability[] = [];
  for (const one of read) {
    const isWanted = only === undefined || one.name === only;
    const { hasConfig } = files;
    const at = { run: session, isWanted, isOnly: one.name === only, hasConfig, restartPods };
    const found = await one.clean?.(at);
    if (found === undefined) continue;
    cleaning.push(found);
    // Berth does not know what a document with a fault put on objects, so those changes stay.
    if (isWanted && found.find !== undefined)
      for (const fault of one.faults) stderr.write(`${formatFault(fault)}\n`);
  }
  const work: Work = {
    options,
    cleaning,
    fleet: only === undefined || only === fleet.name ? files.settings.specOf(fleetKind) : undefined,
    declared: cleaning.reduce((all, one) => all.union(one.declared ?? new Set()), declared),
  };
  const plans: NodePlan[] = [];
  for await (const node of readNodes(session, slimNode)) {
    const plan = planOf(node, work);
    for (const { add } of cleaning) add?.(node, plan);
    const { name = "" } = node.metadata ?? {};
    const isIdle = plan.patch === undefined && plan.stays.length === 0;
    plans.push(isIdle ? { ...plan, node: { metadata: { name } } } : plan);
  }
  const { first, later, state } = await findUndos(work, session);
  const undos = [...first, ...later, ...state];
  const beside = cleaning.flatMap((it) => it.work ?? []);
  const verb = yes ? "will" : "would";
  const diff = toPlanDiff(plans);
  if (output) {
    const data = Object.fromEntries(beside.flatMap((it) => Object.entries(it.data)));
    const objects = undos.length === 0 ? {} : { objects: describeUndos(undos) };
    const all = { ...diff, admission: admission.map(admissionName), ...data, ...objects, done: yes };
    printData(stdout, all, output);
  } else {
    if (diff.nodes.length > 0) stdout.write(formatPlan(diff, styleFor(stdout), verb));
    for (const it of beside) stdout.write(it.format(verb));
    stdout.write(formatUndos(undos, verb));
  }
  for (const { remarks } of cleaning) stderr.write(remarks?.() ?? "");
  const undeclared = plans.filter(({ stays }) =>
    stays.some(({ reason }) => reason === reasons.PlaceNotDeclared),
  ).length;
  if (undeclared > 0) {
    stderr.write(
      `${undeclared} ${undeclared === 1 ? "node has" : "nodes have"} a record of taints or cordons that no rule of this installation ` +
        "has declared, above with PlaceNotDeclared. A kubelet can forge it: --recorded removes them.\n",
    );
  }
  // Objects that the user may not read may still have marks.
  const isWhole = session.leftOut.isEmpty;
  const end = isWhole ? exitCodes.done : exitCodes.cluster;
  const written = plans.filter(({ patch }) => patch !== undefined);
  const isNothing = beside.every(({ isEmpty }) => isEmpty) && undos.length === 0;
  if (written.length === 0 && admission.length === 0 && isNothing) {
    if (!output) stdout.write(`There is nothing to clean${isWhole ? "" : " in what may be read"}.\n`);
    return end;
  }
  if (!yes) {
    stderr.write("Nothing was written: add --yes to act. Stop berth first, or it sets its marks again.\n");
    return end;
  }
  const undo = (some: readonly Undo[]): Promise<readonly string[]> =>
    carryOutUndos(some, session, describeApiError);
  // A failure on one object does not stop the others.
  const failures = [...left.values(), ...(await undo(first)), ...(await cleanNodes(written, session, work))];
  for (const it of beside) failures.push(...(await it.carryOut()));
  if (session.signal.aborted) throw new CommandError("interrupted", exitCodes.interrupted);
  failures.push(...(await undo(later)));
  // The state says which records are valid, so it stays for a second run after a failure.
  if (failures.length === 0) failures.push(...(await undo(state)));
  // The API server uses its caches for another second.
  if (admission.length > 0)
    stderr.write(
      "Nodes and pods created just now may still have a taint or a gate: run it once more in a moment.\n",
    );
  if (failures.length > 0) throw new CommandError(`${failures.join("\n")}\nRun it once more.`);
  return end;
}

interface Work {
  readonly options: CleanOptions;
  /** Absent: its objects are left alone. */
  readonly fleet: FleetSpec | undefined;
  readonly cleaning: readonly CleaningCapability[];
  readonly declared: ReadonlySet<MarkId>;
}

interface Undos {
  /** Reverted before the nodes: without the marks of the nodes, a DaemonSet that selects them would lose its pods. */
  readonly first: readonly Undo[];
  /** Reverted after the nodes: until the taints are gone, pods without the toleration could not start. */
  readonly later: readonly Undo[];
  /** Berth's own state, deleted at the end. */
  readonly state: readonly Undo[];
}

async function findUndos({ options, cleaning, fleet }: Work, session: Session): Promise<Undos> {
  const parts = cleaning.flatMap(({ templates = [] }) => templates);
  const first = await findTemplateParts(
    parts.filter(({ isFirst }) => isFirst),
    session,
  );
  const later: Undo[] = [];
  for (const { find } of cleaning) later.push(...((await find?.(options.yes ?? false)) ?? []));
  if (fleet !== undefined) later.push(...(await findFleetWork(fleet, session)));
  const after = parts.filter(({ isFirst }) => !isFirst);
  later.push(...(await findTemplateParts(after, session)));
  const own = options.capability === undefined ? await session.ownNamespace() : undefined;
  return { first, later, state: own === undefined ? [] : await findState(own, session) };
}

function planOf(node: Node, { options, cleaning, declared }: Work): NodePlan {
  const { installation, key = [], capability, recorded = false } = options;
  return planClean({
    node,
    installation,
    keys: [...key, ...cleaning.flatMap(({ keysOn }) => keysOn?.(node) ?? [])],
    capability,
    declared,
    recorded,
    unrecorded: cleaning.flatMap(({ unrecorded }) => unrecorded ?? []),
  });
}

/** Returns one line for each node that could not be cleaned, after a line with their number. */
async function cleanNodes(
  plans: readonly NodePlan[],
  session: Session,
  work: Work,
): Promise<readonly string[]> {
  const { stderr, clock, signal } = session;
  using progress = new Progress(stderr, clock, `cleaning ${plans.length} nodes`);
  const patchOf = (node: Node): Patch | undefined => {
    const { patch: body } = planOf(node, work);
    return body && { type: "merge", body };
  };
  const failures = new Map<NodePlan, string>();
  const left = plans.values();
  let done = 0;
  const worker = async (): Promise<void> => {
    for (const plan of left) {
      if (signal.aborted) throw new CommandError("interrupted", exitCodes.interrupted);
      try {
        await patchAsRead(nodes, plan.node, patchOf, session);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        failures.set(plan, `  ${plan.node.metadata?.name ?? ""}: ${why}`);
      }
      done += 1;
      progress.update(`cleaning nodes: ${done} of ${plans.length}`);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL_WRITES }, worker));
  if (failures.size > 0)
    return [
      `${failures.size} of ${plans.length} nodes could not be cleaned:`,
      // In the order of the nodes: answers come in any order.
      ...plans.flatMap((plan) => failures.get(plan) ?? []),
    ];
  if (plans.length > 0) stderr.write(`${counted(plans.length, "node")} cleaned.\n`);
  return [];
}
