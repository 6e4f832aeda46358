import { formatFault } from "@berth/host";
import { isApiError, type Node, type Pod, pods } from "@berth/kube";
import {
  architectureRules,
  explainPod,
  type Footprints,
  footprintRules,
  ownedMarks,
  recordOf,
} from "@berth/placement";
import {
  type ArchitectureViewOptions,
  ownNamespaceOf,
  readNamespaceLabels,
  slimNode,
  viewImages,
} from "../architecture-session.ts";
import { readDocuments } from "../document-session.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { explainPodFootprints, type FootprintOfPod } from "../footprint/explanation.ts";
import { viewFootprints } from "../footprint/session.ts";
import { formatPod } from "../output/architecture.ts";
import { printData } from "../output/data.ts";
import { formatPodFootprints } from "../output/footprints.ts";
import { styleFor } from "../output/style.ts";
import { openSession, readNodes, readRuleFiles, type Session } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";
import type { ExplainOptions } from "./explain.ts";

/**
 * Explains where a pod can run: which image excludes which architecture, which nodes are left, what holds it; and which
 * footprints count it, or why not.
 */
export async function explainOnePod(options: ExplainOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr, clock } = surroundings;
  const { installation, output } = options;
  const [namespace, name] = parseName(options.name);
  const files = await readRuleFiles(options, surroundings);
  await using session = await openSession(options, surroundings);
  const { inForce: policies, faults } = await readDocuments(architectureRules, files, {
    session,
    surroundings,
  });
  const pod = await readPod(namespace, name, session, surroundings);
  const view: ArchitectureViewOptions = { session, surroundings, files, installation };
  const nodes: Node[] = [];
  for await (const node of readNodes(session, surroundings, slimNode)) nodes.push(node);
  const namespaceLabels = await readNamespaceLabels(namespace, session, surroundings);
  const governed = { policies, namespaceLabels: () => namespaceLabels };
  const explanation = explainPod({
    pod,
    policies,
    namespaceLabels,
    sight: await viewImages([pod], governed, view),
    nodes,
    now: clock.now(),
    ownNamespace: await ownNamespaceOf(view),
  });
  const ofFootprints = await readDocuments(footprintRules, files, { session, surroundings });
  const { inForce: footprints } = ofFootprints;
  const its = nodes.find(({ metadata }) => metadata?.name === pod.spec?.nodeName);
  const said =
    footprints && (await explainNeeds(pod, footprints, { node: its, session, options, surroundings }));
  for (const fault of [...faults, ...ofFootprints.faults]) stderr.write(`${formatFault(fault)}\n`);
  if (output) printData(stdout, { ...explanation, ...(said && { footprints: said }) }, output);
  else {
    const style = styleFor(stdout);
    stdout.write(`${formatPod(explanation, style)}${formatPodFootprints(said ?? [], style)}`);
  }
  return exitCodes.done;
}

interface NeedsAround {
  readonly node: Node | undefined;
  readonly session: Session;
  readonly options: ExplainOptions;
  readonly surroundings: Surroundings;
}

/** Reads the pods of its node alone, and of a pod without a node none. */
async function explainNeeds(
  pod: Pod,
  footprints: Footprints,
  { node, session, options: { installation }, surroundings }: NeedsAround,
): Promise<readonly FootprintOfPod[]> {
  const name = pod.spec?.nodeName ?? "";
  await using needs = await viewFootprints(footprints, { session, surroundings, node: name });
  await needs.settle(pod);
  const view = node && { node, owned: ownedMarks(recordOf(node), installation) };
  const contribution = view && needs.capability.contribute(view, surroundings.clock.now());
  const outcomes = contribution?.decision.outcomes ?? [];
  return explainPodFootprints(pod, footprints, { node, sight: needs.sight, installation, outcomes });
}

/** `default/web-1`, or `web-1` of the namespace default. */
function parseName(given: string): readonly [string, string] {
  const [first = "", second, ...rest] = given.split("/");
  if (first === "" || second === "" || rest.length > 0)
    throw new CommandError(`${given}: expected NAMESPACE/NAME`, exitCodes.usage);
  return second === undefined ? ["default", first] : [first, second];
}

async function readPod(
  namespace: string,
  name: string,
  { client }: Session,
  { signal }: Surroundings,
): Promise<Pod> {
  try {
    return await client.get(pods, { namespace, name }, { signal });
  } catch (error) {
    if (!isApiError(error, "notFound")) throw error;
    throw new CommandError(`there is no pod ${namespace}/${name} on ${client.server}`);
  }
}
