/** Commands about this machine: a cluster on it to try things, the program itself, its shells. */
import { Argument, type Command } from "commander";
import { withClock } from "../surroundings.ts";
import { type ProgramOptions, prints } from "./shared-options.ts";

export function declareCluster(root: Command, { outside, onEnd }: ProgramOptions): void {
  const cluster = root.command("cluster").description("Run a real Kubernetes control plane on this machine");
  cluster
    .command("start")
    .description("Start one that outlives this command; the last line printed is the path of its kubeconfig")
    .requiredOption("--dir <folder>", "where its data, logs and kubeconfig are kept")
    .option("--port <number>", "port of the API server on 127.0.0.1; default a free one")
    .option("--nodes <number>", "nodes played by kwok", "0")
    .option("--with <list>", "what runs beside the API server: scheduler,controller-manager,kwok")
    .action(async (options: object) => {
      const { start } = await import("../commands/cluster.ts");
      onEnd(await start(options as Parameters<typeof start>[0], await withClock(outside)));
    });
  cluster
    .command("stop")
    .description("Stop it; its data stays")
    .requiredOption("--dir <folder>", "its folder")
    .action(async (options: object) => {
      const { stop } = await import("../commands/cluster.ts");
      onEnd(await stop(options as Parameters<typeof stop>[0], await withClock(outside)));
    });
  prints(cluster.command("status"))
    .description("Show whether it runs")
    .requiredOption("--dir <folder>", "its folder")
    .action(async (options: object) => {
      const { status } = await import("../commands/cluster.ts");
      onEnd(await status(options as Parameters<typeof status>[0], await withClock(outside)));
    });
}

export function declareDemo(root: Command, { outside, onEnd }: ProgramOptions): void {
  root
    .command("demo")
    .description("Start a real cluster, run Berth on it, make changes happen and tell what it does")
    .option("--exit", "end once all was seen to converge, instead of staying up")
    .action(async (options: object) => {
      const { demo } = await import("../commands/demo.ts");
      onEnd(await demo(options as Parameters<typeof demo>[0], await withClock(outside)));
    });
}

export function declareVersion(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(root.command("version"))
    .description("Print the version")
    .action(async (options: object) => {
      const { version } = await import("../commands/version.ts");
      onEnd(await version(options, outside));
    });
}

export function declareCompletion(root: Command, { outside, onEnd }: ProgramOptions): void {
  root
    .command("completion")
    .description("Print the script that makes a shell complete berth's commands and options")
    .addArgument(new Argument("<shell>", "which shell").choices(["bash", "zsh", "fish"]))
    .action(async (shell: "bash" | "zsh" | "fish") => {
      const { completion } = await import("../commands/completion.ts");
      onEnd(await completion({ shell }, outside));
    });
  root
    .command("__complete", { hidden: true })
    .argument("[words...]")
    .allowUnknownOption()
    .helpOption(false)
    .action(async (words: readonly string[]) => {
      const { complete } = await import("../commands/complete.ts");
      onEnd(await complete({ words, root }, outside));
    });
}
