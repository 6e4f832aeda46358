/** `berth gate`: shows the nodes that startup gates hold, and lets a user act on them. */

import { formatAge, formatColumns, formatFault, readInForce } from "@berth/host";
import { isApiError, type Node, nodes, pathOf } from "@berth/kube";
import {
  bindUnseeing,
  explainGates,
  factsOf,
  GATES,
  type Gates,
  type GateWaits,
  gateRules,
  MAX_NOTE,
  missingTolerations,
  ownedMarks,
  planRelease,
  product,
  type ReleasePlan,
  reasons,
  recordOf,
  signalGroups,
  tolerationText,
  viewGates,
  withWaits,
} from "@berth/placement";
import { createSilentLogger, EventRecorder, referenceTo } from "@berth/runtime";
import type { CommandDeps } from "../command-deps.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { addTolerations, type DaemonSetScope, findLacking } from "../daemonset-tolerations.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { readCapabilities } from "../read-capabilities.ts";
import {
  nothingToGoBy,
  openSession,
  type RuleFiles,
  readNode,
  readNodes,
  readRuleFiles,
  type Session,
} from "../session.ts";

export interface GateListOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly output?: DataFormat;
}

/** Lists the held nodes, and the first condition that each gate waits for. */
export async function list(options: GateListOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, clock } = deps;
  const { installation, output } = options;
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  await using owned = new AsyncDisposableStack();
  const gates = await readGates(files, session);
  const wantsLabels = gates.gates.some(({ spec }) => signalGroups(spec).some((group) => group.labelsSettled));
  const facts = factsOf(
    await readCapabilities({ files, ...(wantsLabels && { session }), waiting: "wait" }, "facts"),
  );
  const { capability } = await viewGates(gates, { run: session, owned, facts });
  const held: HeldNode[] = [];
  const strangers = new Set<string>();
  for await (const node of readNodes(session)) {
    for (const rule of strangersOn(node, gates, installation)) strangers.add(rule);
    const looks = capability.look(viewOf(node, installation), clock.now());
    for (const it of explainGates(looks)) {
      if (it.held) held.push({ node: node.metadata?.name ?? "", ...withWaits(it) });
    }
  }
  held.sort((a, b) => (a.node < b.node ? -1 : a.node > b.node ? 1 : 0));
  const names = held.map(({ node }) => `node/${node}`);
  if (output) printData(stdout, { gates: gates.gates.map(({ rule }) => rule), held }, output, names);
  else if (held.length === 0) stdout.write("No startup gate holds a node.\n");
  else stdout.write(formatHeld(held, clock.now()));
  if (strangers.size > 0) deps.stderr.write(`Other nodes are held by ${unread([...strangers])}.\n`);
  return exitCodes.done;
}

/** Gates that hold the node by its record, but that this command has not read. */
function strangersOn(node: Node, { gates }: Gates, installation: string): readonly string[] {
  const known = new Set(gates.map(({ rule }) => rule));
  return [...ownedMarks(recordOf(node), installation)].flatMap(([id, { capability, rule }]) =>
    capability === GATES && id.startsWith("taint/") && !known.has(rule) ? [rule] : [],
  );
}

function unread(rules: readonly string[]): string {
  return `gates that were not read: ${rules.join(", ")}. Give the files of running Berths with --config`;
}

type HeldNode = GateWaits & { readonly node: string };

function formatHeld(held: readonly HeldNode[], now: number): string {
  const rows = held.map((it) => {
    const age = it.since === undefined ? "unknown" : formatAge(now - Date.parse(it.since));
    return [it.node, it.gate, age, it.phase, it.waitsFor[0] ?? ""];
  });
  return formatColumns([["NODE", "GATE", "AGE", "PHASE", "WAITS FOR"], ...rows]);
}

export interface GateReleaseOptions extends ConnectionOptions, Pick<RuleOptions, "config"> {
  readonly installation: string;
  readonly node: string;
  /** Name of the gate to release. Default: all gates that hold the node. */
  readonly gate?: string;
  readonly reason: string;
}

/** Number of tries on a node that other clients keep changing, such as a node that boots. */
const MAX_TRIES = 20;

/** Releases a node at once, whatever its signals say, as the controller would. A running Berth keeps the release. */
export async function release(options: GateReleaseOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const { reason } = options;
  if (reason.trim() === "" || reason.length > MAX_NOTE || /\p{Cc}/u.test(reason)) {
    throw new CommandError(
      `--reason: expected one line of 1 to ${MAX_NOTE} characters; it is written on the node`,
      exitCodes.usage,
    );
  }
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  const gates = await readGates(files, session);
  if (options.gate !== undefined && !gates.gates.some(({ name }) => name === options.gate)) {
    const names = gates.gates.map(({ name }) => name).join(", ");
    throw new CommandError(
      `there is no startup gate ${options.gate}${names === "" ? "" : `; there are: ${names}`}`,
    );
  }
  const done = await releaseNode({ gates, options }, session);
  for (const { rule, taintId } of done.released)
    stdout.write(`${rule} releases ${options.node}: ${taintId.replace("taint/", "")} is removed.\n`);
  await recordEvents(done, reason, session);
  return exitCodes.done;
}

/** The gates that released the node, and the node as it was before. */
interface Released {
  readonly released: Gates["gates"];
  readonly node: Node;
}

async function releaseNode(
  { gates, options }: { readonly gates: Gates; readonly options: GateReleaseOptions },
  session: Session,
): Promise<Released> {
  const { client, clock, signal } = session;
  const capability = bindUnseeing(gates, clock);
  const { installation, gate: only, reason: note } = options;
  for (let tries = 1; ; tries++) {
    const node = await readNode(session, options.node);
    const now = clock.now();
    const view = viewOf(node, installation);
    const looks = capability.look(view, now);
    const given = { view, gates, looks, note, installation, now, ...(only !== undefined && { only }) };
    const strangers = strangersOn(node, gates, installation);
    const { released, plan } = checked(planRelease(given), { ...options, strangers });
    try {
      if (plan.patch !== undefined) {
        await client.patch(nodes, { name: options.node }, { type: "merge", body: plan.patch }, { signal });
      }
      return { node, released: gates.gates.filter(({ rule }) => released.includes(rule)) };
    } catch (error) {
      if (!isApiError(error, "conflict") || tries === MAX_TRIES) throw error;
    }
  }
}

/** @throws CommandError when there is nothing to release, or the release would leave the taint. */
function checked(
  planned: ReleasePlan,
  { node, gate, strangers }: GateReleaseOptions & { readonly strangers: readonly string[] },
): ReleasePlan {
  if (planned.released.length === 0 && strangers.length > 0)
    throw new CommandError(`${node} is held by ${unread(strangers)}`);
  const holder = gate === undefined ? "a startup gate" : `the gate ${gate}`;
  if (planned.released.length === 0) throw new CommandError(`${node} is not held by ${holder}`);
  if (planned.problem !== undefined) throw new CommandError(`${node} cannot be released: ${planned.problem}`);
  return planned;
}

/** Writes the Events of a running Berth. The node is released already, so a failure is only reported. */
async function recordEvents(
  { node, released }: Released,
  reason: string,
  { client, clock, stderr }: Session,
): Promise<void> {
  const log = createSilentLogger();
  const recorder = new EventRecorder({
    client,
    clock,
    log,
    reportingController: `${product.domain}/controller`,
    reportingInstance: "berth-gate-release",
  });
  for (const { rule, taintId } of released) {
    recorder.record({
      regarding: referenceTo(nodes, node),
      reason: reasons.ReleasedByHand,
      note: `${taintId} removed (${rule}): ${reason}`,
      type: "Normal",
      action: "SetMarks",
    });
  }
  await recorder.run(AbortSignal.abort());
  if (recorder.dropped > 0) stderr.write("The Event about it could not be written.\n");
}

export interface GateTolerateOptions extends ConnectionOptions, Pick<RuleOptions, "config"> {
  /** `NAMESPACE/NAME`. Default: all. */
  readonly daemonsets?: readonly string[];
  /** Default: all namespaces. */
  readonly namespace?: readonly string[];
  readonly yes?: boolean;
}

/** Adds tolerations for the taints of all gates to existing DaemonSets. Without `yes` it only shows them. */
export async function tolerate(options: GateTolerateOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr, signal } = deps;
  const { namespace: namespaces = [], daemonsets: named = [], ...connection } = options;
  const scopes = named.length > 0 ? named.map(toScope) : namespaces.map((namespace) => ({ namespace }));
  if (named.length > 0 && namespaces.length > 0)
    throw new CommandError("--namespace: DaemonSets are given as NAMESPACE/NAME already", exitCodes.usage);
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(connection, deps);
  const gates = await readGates(files, session);
  const work = { client: session.client, gates, signal };
  const { lacking, looked } = await findLacking(scopes, work);
  const rows = lacking.map((it) => [
    pathOf(it.metadata),
    missingTolerations(it, gates).map(tolerationText).join(", "),
  ]);
  if (lacking.length === 0) {
    stdout.write(`All of ${looked} DaemonSets tolerate every startup gate.\n`);
    return exitCodes.done;
  }
  stdout.write(formatColumns([["DAEMONSET", "LACKS"], ...rows]));
  if (!options.yes) {
    stderr.write(
      `Nothing was written: add --yes to act on ${lacking.length} of ${looked}. This rolls out the pods of each. ` +
        "The tool that deploys them may undo it: then add it to their manifests.\n",
    );
    return exitCodes.done;
  }
  let written = 0;
  for (const daemonSet of lacking) if (await addTolerations(daemonSet, work)) written += 1;
  stderr.write(
    `${written} ${written === 1 ? "DaemonSet" : "DaemonSets"} written, which rolls out their pods.\n`,
  );
  return exitCodes.done;
}

function toScope(given: string): DaemonSetScope {
  const [namespace = "", name = "", ...more] = given.split("/");
  if (namespace === "" || name === "" || more.length > 0)
    throw new CommandError(`${given}: expected NAMESPACE/NAME of a DaemonSet`, exitCodes.usage);
  return { namespace, name };
}

/** @throws CommandError without any source of gates. */
export async function readGates(files: RuleFiles, session: Session): Promise<Gates> {
  const { inForce: gates, faults } = await readInForce(gateRules, files, session);
  if (gates === undefined)
    throw nothingToGoBy(
      session,
      "startup gates cannot be read",
      "there are no startup gates: give --config, or install the CRDs (`berth manifests crds`)",
    );
  for (const fault of [...files.faults, ...faults]) session.stderr.write(`${formatFault(fault)}\n`);
  return gates;
}

function viewOf(node: Node, installation: string): Parameters<ReturnType<typeof bindUnseeing>["look"]>[0] {
  return { node, owned: ownedMarks(recordOf(node), installation) };
}
