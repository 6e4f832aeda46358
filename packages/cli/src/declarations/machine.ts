/** Commands for this machine: a local test cluster, the program itself, and shells. */
import { Argument, type Command } from "commander";
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
    .option("--nodes <number>", "nodes played by kwok", "0")
    .option("--with <list>", "components beside the API server: scheduler,controller-manager,kwok");
  does(start, program, async () => (await import("../commands/cluster.ts")).start);
  const stop = cluster
    .command("stop")
    .description("Stop it; its data stays")
    .option("--dir <folder>", `its folder; ${DEFAULT}`);
  does(stop, program, async () => (await import("../commands/cluster.ts")).stop);
  const status = prints(cluster.command("status"))
    .description("Show whether it runs")
    .option("--dir <folder>", `its folder; ${DEFAULT}`);
  does(status, program, async () => (await import("../commands/cluster.ts")).status);
}

export function declareDemo(root: Command, program: ProgramOptions): void {
  const demo = root
    .command("demo")
    .description("Start a real cluster, run Berth on it, make changes and show what it does")
    .option("--exit", "end once everything has converged, instead of staying up");
  does(demo, program, async () => (await import("../commands/demo.ts")).demo);
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
      outside.stdout.write(complete(root, words));
    });
}
