import { formatFault, type Section, styleFor } from "@berth/host";
import { explainedPods, factsOf } from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { printData } from "../output/data.ts";
import { readCapabilities } from "../read-capabilities.ts";
import { listNodes, openSession, readExplained, readRuleFiles } from "../session.ts";
import type { ExplainOptions } from "./explain.ts";

/** Explains where a pod can run, what holds it, and its effect on nodes. */
export async function explainOnePod(options: ExplainOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr } = deps;
  const [namespace, name] = parseName(options.name);
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  await using owned = new AsyncDisposableStack();
  const given = { files, session, waiting: "wait" } as const;
  const read = await readCapabilities(given, "pods");
  const facts = factsOf(await readCapabilities(given, "facts"));
  const pod = await readExplained(explainedPods, { namespace, name }, session);
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

/** `default/web-1`; without a namespace, the pod is in the namespace default. */
function parseName(given: string): readonly [string, string] {
  const [first = "", second, ...rest] = given.split("/");
  if (first === "" || second === "" || rest.length > 0)
    throw new CommandError(`${given}: expected NAMESPACE/NAME`, exitCodes.usage);
  return second === undefined ? ["default", first] : [first, second];
}
