/** Options that several commands have, each in the same words everywhere. */
import { type Command, Option } from "commander";
import type { ExitCode } from "../exit-codes.ts";
import { type Outside, type Surroundings, withClock } from "../surroundings.ts";

/** What all commands get. */
export interface ProgramOptions {
  readonly outside: Outside;
  /** There was no subcommand: the label folder defaults to `labels`. */
  readonly originalForm: boolean;
  /** Gets the exit code of the command that ran. */
  readonly onEnd: (code: ExitCode) => void;
}

/** Adds a command to `parent`. What it does is loaded when it is run. */
export type Declare = (parent: Command, program: ProgramOptions) => void;

type Act<O> = (options: O, surroundings: Surroundings) => Promise<ExitCode>;

/** What the command does is loaded when it is run. It gets the options, and the arguments by their names. */
export function does<O>(
  command: Command,
  { outside, onEnd }: ProgramOptions,
  load: (options: O) => Promise<Act<O>>,
): void {
  command.action(async () => {
    const given = command.registeredArguments.map((it, at) => [it.name(), command.processedArgs[at]]);
    const options = { ...command.opts(), ...Object.fromEntries(given) } as O;
    const act = await load(options);
    onEnd(await act(options, await withClock(outside)));
  });
}

/** For options that are repeatable. */
export function collect(value: string, earlier: readonly string[] | undefined): readonly string[] {
  return [...(earlier ?? []), value];
}

/** Which cluster, and as whom. */
export function takesCluster(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "kubeconfig file; default KUBECONFIG, the pod's own, ~/.kube/config")
    .option("--context <name>", "context of the kubeconfig; default its current one")
    .addOption(new Option("--master <url>", "server to use instead of the kubeconfig's").hideHelp());
}

/** Which Berth, where one cluster has several. */
export function takesInstallation(command: Command): Command {
  return command.option(
    "--installation <name>",
    "whose marks are ours; two on one cluster need different names",
    "berth",
  );
}

/** Where Berth's own state is. */
export function takesNamespace(command: Command): Command {
  return command.option(
    "-n, --namespace <name>",
    "namespace of Berth's own state; default the pod's, berth-system",
  );
}

/** All files that say what Berth is to do. */
export function takesRules(command: Command): Command {
  return takesRuleOptions(
    takesConfig(
      command.option(
        "--label-dir <folder>",
        "folder of label rules: <namespace>/<label>, a label key a line",
      ),
    ),
  );
}

/** The documents among these files. */
export function takesConfig(command: Command): Command {
  return command.option("--config <path>", "file or folder of configuration documents; repeatable", collect);
}

/** How label rules are read. */
export function takesRuleOptions(command: Command): Command {
  return command
    .option(
      "--allow-reserved <key>",
      "label key or domain under kubernetes.io that rules may write; repeatable",
      collect,
    )
    .addOption(
      new Option(
        "--label-format <format>",
        "how rule files are read: a label key a line, or a selector a line",
      )
        .choices(["plain", "extended"])
        .default("plain"),
    );
}

/** Print data instead of text for people. */
export function prints(command: Command): Command {
  return command.addOption(
    new Option("-o, --output <format>", "print data for scripts").choices(["json", "yaml"]),
  );
}
