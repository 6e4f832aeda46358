/** Commands for this machine: a local test cluster, the program itself, and shells. */
import { Argument, type Command } from "commander";
import type { DemoOptions } from "../commands/demo.ts";
import type { Shell } from "../completion.ts";
import { does, type ProgramOptions, prints } from "./shared-options.ts";

const DEFAULT = "default ~/.berth/cluster";

export function declareCluster(root: Command, program: ProgramOptions): void {
  const cluster = root.command("cluster").description("Run a real Kubernetes control plane on this machine");
  const start = cluster
    .command("start")
    .description("Start one that outlives this command; the last line printed is the path of its kubeconfig")
    .option("--dir <folder>", `where its data, logs and kubeconfig are kept; ${DEFAULT}`)
    .option("--port <number>", "port of the API server on 127.0.0.1; default a free one")
    .option("--nodes <number>", "nodes played by kwok; default 0")
    .option("--with <list>", "components beside the API server: scheduler,controller-manager,kwok")
    .option(
      "--fleet <names>",
      "several clusters in place of one, the hub first: hub,dfw-01,ord-01. Prints NAME KUBECONFIG for each. A cell has a scheduler and two nodes",
    );
  does(start, program, async () => (await import("../commands/cluster.ts")).start);
  const stop = cluster
    .command("stop")
    .description("Stop it, or all clusters of a fleet; the data stay")
    .option("--dir <folder>", `its folder; ${DEFAULT}`);
  does(stop, program, async () => (await import("../commands/cluster.ts")).stop);
  const status = prints(cluster.command("status"))
    .description("Show whether it runs")
    .option("--dir <folder>", `its folder; ${DEFAULT}`);
  does(status, program, async () => (await import("../commands/cluster.ts")).status);
  const save = cluster
    .command("save")
    .description("Copy the data of one cluster of a fleet to a file")
    .argument("<plane>", "its name")
    .argument("<file>", "the file; replaced when it exists")
    .option("--dir <folder>", `folder of the fleet; ${DEFAULT}`);
  does(save, program, async () => (await import("../commands/cluster.ts")).save);
  const restore = cluster
    .command("restore")
    .description("Put one cluster of a fleet back to such a copy, as after a disaster, and start it again")
    .argument("<plane>", "its name")
    .argument("<file>", "the copy")
    .option("--dir <folder>", `folder of the fleet; ${DEFAULT}`);
  does(restore, program, async () => (await import("../commands/cluster.ts")).restore);
}

export function declareDemo(root: Command, program: ProgramOptions): void {
  const demo = root
    .command("demo")
    .description("Start a real cluster, run Berth on it, make changes and show what it does")
    .option("--exit", "end once everything has converged, instead of staying up")
    .option("--fleet", "show a hub and three cells instead: four clusters, about 2 GB");
  does(demo, program, async ({ fleet }: DemoOptions & { readonly fleet?: boolean }) =>
    fleet
      ? (await import("../commands/demo-fleet.ts")).demoFleet
      : (await import("../commands/demo.ts")).demo,
  );
}

export function declareVersion(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(root.command("version"))
    .description("Print the version, the commit, and the versions of Kubernetes that were tested")
    .action(async (options: object) => {
      const { version } = await import("../commands/version.ts");
      onEnd(await version(options, outside));
    });
}

export function declareCompletion(root: Command, { outside }: ProgramOptions): void {
  root
    .command("completion")
    .description(
      "Print the script that makes a shell, or kubectl for its plugin, complete berth's commands and options",
    )
    .addArgument(new Argument("<shell>", "which shell").choices(["bash", "zsh", "fish", "kubectl"]))
    .action(async (shell: Shell) => {
      const { SCRIPTS } = await import("../completion.ts");
      outside.stdout.write(SCRIPTS[shell]);
    });
  root
    .command("__complete", { hidden: true })
    .argument("[words...]")
    .allowUnknownOption()
    .helpOption(false)
    .action(async (words: readonly string[]) => {
      const { complete } = await import("../completion.ts");
      outside.stdout.write(
        await complete(root, words, async (question) => {
          const { namesFor } = await import("../completion-names.ts");
          return await namesFor(question, outside);
        }),
      );
    });
}
