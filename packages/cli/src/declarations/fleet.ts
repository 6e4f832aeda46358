/** Commands about Workloads. */
import { Argument, type Command } from "commander";
import { does, type ProgramOptions, prints, takesCluster } from "./shared-options.ts";

export function declareWorkloads(root: Command, program: ProgramOptions): void {
  const workloads = takesObjectNamespace(prints(takesCluster(root.command("workloads"))))
    .description("List Workloads: how many Instances are ready, and the one reason that blocks each")
    .option("-A, --all-namespaces", "those of all namespaces");
  does(workloads, program, async () => (await import("../commands/workloads.ts")).workloads);
}

export function declareRestart(root: Command, program: ProgramOptions): void {
  const restart = takesWorkload(takesCluster(root.command("restart"))).description(
    "Replace all Instances of a Workload, one after the other; shows in which order",
  );
  does(restart, program, async () => (await import("../commands/restart.ts")).restart);
}

export function declareScale(root: Command, program: ProgramOptions): void {
  const scale = takesWorkload(takesCluster(root.command("scale")))
    .description("Change how many Instances a Workload runs in each city; shows which come or go")
    .requiredOption("--replicas <number>", "Instances in each city of the placement, from 1 to 1000")
    .option("--placement <name>", "the placement; default the only one");
  does(scale, program, async () => (await import("../commands/scale.ts")).scale);
}

function takesWorkload(command: Command): Command {
  return takesObjectNamespace(command)
    .addArgument(new Argument("<kind>", "kind of the object").choices(["workload"]))
    .argument("<name>", "its name, or NAMESPACE/NAME");
}

function takesObjectNamespace(command: Command): Command {
  return command.option("-n, --namespace <name>", "namespace; default that of the context, default");
}
