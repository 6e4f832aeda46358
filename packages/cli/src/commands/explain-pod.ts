import { isApiError, type Node, type Pod, pods } from "@berth/kube";
import { explainPod } from "@berth/placement";
import { architectureDocuments } from "../architecture-policies.ts";
import {
  type ArchitectureViewOptions,
  ownNamespaceOf,
  readNamespaceLabels,
  slimNode,
  viewImages,
} from "../architecture-session.ts";
import { formatFault } from "../config/fault.ts";
import { readDocuments } from "../document-session.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { formatPod } from "../output/architecture.ts";
import { printData } from "../output/data.ts";
import { styleFor } from "../output/style.ts";
import { openSession, readNodes, readRuleFiles, type Session } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";
import type { ExplainOptions } from "./explain.ts";

/** Explains where a pod can run: which image excludes which architecture, which nodes are left, what holds it. */
export async function explainOnePod(options: ExplainOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr, clock } = surroundings;
  const { installation, output } = options;
  const [namespace, name] = parseName(options.name);
  const files = await readRuleFiles(options, surroundings);
  await using session = await openSession(options, surroundings);
  const { inForce: policies, faults } = await readDocuments(architectureDocuments, files, {
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
  for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
  if (output) printData(stdout, explanation, output);
  else stdout.write(formatPod(explanation, styleFor(stdout)));
  return exitCodes.done;
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
