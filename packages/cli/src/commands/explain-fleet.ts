import {
  explainInstance,
  explainWorkload,
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
  const facts = { ...given, run: session, namespace: of.namespace };
  const explanation =
    options.kind === "workload"
      ? explainWorkload(
          await readOne(workloads, of, session),
          await readFleetFacts(facts, { withPods: true }),
        )
      : explainInstance(
          await readOne(instances, of, session),
          await readFleetFacts(facts, { withPods: true }),
        );
  if (given.fleet === undefined)
    deps.stderr.write(
      "ResourceClaims are left out: the document Fleet says where they are; give it with --config\n",
    );
  if (options.output) printData(stdout, explanation, options.output);
  else stdout.write(formatExplanation(explanation, deps.clock.now(), styleFor(stdout)));
  return exitCodes.done;
}
