import {
  explainInstance,
  explainWorkload,
  type FleetExplanation,
  type FleetFacts,
  type FleetReading,
  formatExplanation,
  instances,
  readFleetFacts,
  workloads,
} from "@berth/fleet";
import { styleFor } from "@berth/host";
import type { CommandDeps } from "../command-deps.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { type FleetObjectOptions, objectOf, readGivenFleet } from "../fleet-session.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { openSession, readOne } from "../session.ts";

export interface ExplainFleetOptions extends FleetObjectOptions {
  readonly kind: string;
  readonly config?: readonly string[];
  readonly output?: DataFormat;
}

/** Explains why a Workload or an Instance does not run, from its objects down to its pods. */
export async function explainFleet(options: ExplainFleetOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  await using owned = new AsyncDisposableStack();
  const given = await readGivenFleet(options, deps, owned);
  await using session = await openSession(options, deps);
  const of = objectOf(options, session);
  const reading = { ...given, run: session, namespace: of.namespace };
  const { explanation, facts } =
    options.kind === "workload"
      ? await withFacts(explainWorkload, await readOne(workloads, of, session), reading)
      : await withFacts(explainInstance, await readOne(instances, of, session), reading);
  // Cells ask for quota, each where its own Fleet says.
  if (given.fleet === undefined && facts.planes === undefined)
    deps.stderr.write(
      "ResourceClaims are left out: the document Fleet says where they are; give it with --config\n",
    );
  if (options.output) printData(stdout, explanation, options.output);
  else stdout.write(formatExplanation(explanation, deps.clock.now(), styleFor(stdout)));
  return exitCodes.done;
}

async function withFacts<T>(
  explain: (object: T, facts: FleetFacts) => FleetExplanation,
  object: T,
  reading: FleetReading,
): Promise<{ readonly explanation: FleetExplanation; readonly facts: FleetFacts }> {
  const facts = await readFleetFacts(reading, { withPods: true });
  return { explanation: explain(object, facts), facts };
}
