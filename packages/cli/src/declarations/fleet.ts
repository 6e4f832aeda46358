/** Commands about Workloads. */
import type { Command } from "commander";
import type { ScaleOptions } from "../commands/scale.ts";
import type { FleetObjectOptions } from "../fleet-session.ts";
import {
  does,
  lists,
  type ProgramOptions,
  prints,
  requireName,
  takesCluster,
  takesConfig,
  takesNamespace,
  takesObject,
} from "./shared-options.ts";

export function declareWorkloads(root: Command, program: ProgramOptions): void {
  const workloads = takesObjectNamespace(lists(takesCluster(root.command("workloads"))))
    .description("List Workloads: how many Instances are ready, and the one reason that blocks each")
    .option("-A, --all-namespaces", "those of all namespaces");
  does(workloads, program, async () => (await import("../commands/workloads.ts")).workloads);
}

export function declareFleet(root: Command, program: ProgramOptions): void {
  const fleet = lists(takesCluster(root.command("fleet"))).description(
    "Show what runs in each city: how many Instances of each Workload are wanted, ready, of the present template, and in a cell that is not heard",
  );
  does(fleet, program, async () => (await import("../commands/fleet.ts")).fleet);
}

export function declareCell(root: Command, program: ProgramOptions): void {
  const cell = root.command("cell").description("Give the management plane clusters for its cities");
  const add = takesNamespace(prints(cell.command("add")))
    .description(
      "Make a Cell of a cluster: checks its API, its identity, and what the credential may do there; then writes the Secret and the Cell",
    )
    .argument("<name>", "of the Cell, as `berth run --cell` has it there")
    .requiredOption("--city <code>", "the city that it serves");
  takesCellConnection(add).option(
    "--cell-namespace <name>",
    "Berth's namespace in the cell; default the same name as here",
  );
  does(add, program, async () => (await import("../commands/cell.ts")).add);
  const rotate = takesNamespace(prints(cell.command("rotate")))
    .description(
      "Replace the credential of a Cell: checks the new one as `berth cell add` does, then swaps it. A running Berth goes on without a gap",
    )
    .argument("<name>", "of the Cell");
  takesCellConnection(rotate);
  does(rotate, program, async () => (await import("../commands/cell.ts")).add);
  const list = lists(takesCluster(cell.command("list")))
    .description("List the Cells: whether each is reached and takes new deployments, and why not")
    .option("--orphans", "list deployments in cells that this hub made, and that nothing stands for now");
  does(list, program, async () => (await import("../commands/cell.ts")).list);
  const drain = takesConfig(prints(takesCluster(cell.command("drain"))))
    .description(
      "Move the deployments of a Cell to other cells of its city: each is ready there before it leaves. Shows how far it is until Ctrl-C, which does not end the drain",
    )
    .argument("<name>", "its name")
    .option("--plan", "show the order, the cells and the quota that it takes, and write nothing")
    .option("--no-wait", "do not wait until the cell is empty");
  does(drain, program, async () => (await import("../commands/cell.ts")).drain);
  const undrain = prints(takesCluster(cell.command("undrain")))
    .description("End the drain of a Cell: deployments that are not ready elsewhere stay in it")
    .argument("<name>", "its name");
  does(undrain, program, async () => (await import("../commands/cell.ts")).undrain);
  const adopt = takesCluster(cell.command("adopt"))
    .description(
      "Give an orphan to the deployment of its name in the project, now or as soon as there is one: its Instances run on",
    )
    .argument("<name>", "of the Cell")
    .argument("<deployment>", "NAMESPACE/NAME, as `berth cell list --orphans` has it");
  does(adopt, program, async () => (await import("../commands/cell.ts")).adopt);
  const forget = prints(takesCluster(cell.command("forget")))
    .description(
      "Give up a Cell that never comes back: its deployments go to other cells. Shows them, and the ResourceClaims that stay granted, unless --yes is given. With an orphan, give up that one alone: it is deleted in the cell",
    )
    .argument("<name>", "of the Cell")
    .argument("[deployment]", "an orphan: NAMESPACE/NAME, as `berth cell list --orphans` has it")
    .option("--yes", "act: it cannot be taken back");
  does(forget, program, async () => (await import("../commands/cell.ts")).forget);
}

function takesCellConnection(command: Command): Command {
  return command
    .requiredOption(
      "--kubeconfig <file>",
      "connection to the cell, for the management plane: a token or a certificate, no programs or files",
    )
    .option("--context <name>", "context of that kubeconfig; default its current one")
    .option(
      "--hub-kubeconfig <file>",
      "the cluster that the management plane runs in; default KUBECONFIG, the pod's own, ~/.kube/config",
    );
}

export function declareRestart(root: Command, program: ProgramOptions): void {
  const restart = takesWorkload(takesCluster(root.command("restart"))).description(
    "Replace all Instances of a Workload, one after the other; shows in which order",
  );
  does(restart, program, async ({ name }: FleetObjectOptions) => {
    requireName(restart, name);
    return (await import("../commands/restart.ts")).restart;
  });
}

export function declareScale(root: Command, program: ProgramOptions): void {
  const scale = takesWorkload(takesCluster(root.command("scale")))
    .description("Change how many Instances a Workload runs in each city; shows which come or go")
    .requiredOption("--replicas <number>", "Instances in each city of the placement, from 1 to 1000")
    .option("--placement <name>", "the placement; default the only one");
  does(scale, program, async ({ name }: ScaleOptions) => {
    requireName(scale, name);
    return (await import("../commands/scale.ts")).scale;
  });
}

function takesWorkload(command: Command): Command {
  return takesObject(takesObjectNamespace(command), ["workload"], "its name, or NAMESPACE/NAME");
}

function takesObjectNamespace(command: Command): Command {
  return command.option("-n, --namespace <name>", "namespace; default that of the context, default");
}
