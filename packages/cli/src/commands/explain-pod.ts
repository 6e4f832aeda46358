import { formatFault, type Section, styleFor } from "@berth/host";
import { type Node, type Pod, pathOf } from "@berth/kube";
import { type Comparison, explainedPods, factsOf, type PodAt, placementCheck } from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { printData } from "../output/data.ts";
import { formatComparisons } from "../output/trace.ts";
import { type NamedCapability, readCapabilities } from "../read-capabilities.ts";
import { explainedNodes, listNodes, openSession, readExplained, readRuleFiles } from "../session.ts";
import type { ExplainOptions } from "./explain.ts";

export interface ExplainPodOptions extends ExplainOptions {
  /** Only whether it can run on this node. */
  readonly on?: string;
}

/** Explains where a pod can run, what holds it, and its effect on nodes. */
export async function explainOnePod(options: ExplainPodOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr } = deps;
  const [namespace, name] = parseName(options.name);
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  await using owned = new AsyncDisposableStack();
  const given = { files, session, waiting: "wait" } as const;
  const read = await readCapabilities(given, "pods");
  const facts = factsOf(await readCapabilities(given, "facts"));
  const pod = await readExplained(explainedPods, { namespace, name }, session);
  if (options.on !== undefined) {
    const on = await readExplained(explainedNodes(), { name: options.on }, session);
    const at = { run: session, owned, facts, pod, nodes: [on] };
    return await showPlacement({ pod, on, read, at }, options, deps);
  }
  const all = listNodes(session, owned);
  await session.informers.settled();
  const nodes = [...all()];
  const sections: Section[] = [];
  for (const one of read) {
    const section = await one.explainPod?.({ run: session, owned, facts, pod, nodes });
    if (section !== undefined) sections.push(section);
  }
  for (const fault of read.flatMap(({ faults }) => faults)) stderr.write(`${formatFault(fault)}\n`);
  if (options.output) {
    const data = sections.flatMap((it) => Object.entries(it.data));
    printData(stdout, Object.fromEntries(data), options.output);
  } else {
    const style = styleFor(stdout);
    stdout.write(sections.flatMap(({ blocks }) => blocks(style)).join("\n"));
  }
  return exitCodes.done;
}

interface Placing {
  readonly pod: Pod;
  readonly on: Node;
  readonly read: readonly NamedCapability[];
  readonly at: PodAt;
}

/** Why the node does not take the pod: the criteria of the scheduler, and those of Berth. */
async function showPlacement(
  { pod, on, read, at }: Placing,
  { output }: ExplainOptions,
  { stdout }: CommandDeps,
): Promise<ExitCode> {
  const comparisons: Comparison[] = [];
  placementCheck(pod)(on, (comparison) => void comparisons.push(comparison));
  for (const one of read) comparisons.push(...((await one.placePod?.(at, on)) ?? []));
  const { name: node = "" } = on.metadata ?? {};
  const takes = comparisons.every(({ holds }) => holds === true);
  if (output) printData(stdout, { pod: pathOf(pod.metadata), node, takes, comparisons }, output);
  else {
    const heading = styleFor(stdout).heading(`pod ${pathOf(pod.metadata)} on node ${node}`);
    stdout.write(`${heading}\n${formatComparisons(comparisons)}`);
  }
  return exitCodes.done;
}

/** `default/web-1`; without a namespace, the pod is in the namespace default. */
function parseName(given: string): readonly [string, string] {
  const [first = "", second, ...rest] = given.split("/");
  if (first === "" || second === "" || rest.length > 0)
    throw new CommandError(`${given}: expected NAMESPACE/NAME`, exitCodes.usage);
  return second === undefined ? ["default", first] : [first, second];
}
