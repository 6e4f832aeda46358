/** The command line. Names and options of commands are in `declarations/`, implementations in `commands/`. */
import { Command } from "commander";
import type { CommandLine } from "./arguments.ts";
import { declareConvert, declareManifests, declareTest, declareValidate } from "./declarations/documents.ts";
import {
  declareCell,
  declareFleet,
  declareRestart,
  declareScale,
  declareWorkloads,
} from "./declarations/fleet.ts";
import { declareCluster, declareCompletion, declareDemo, declareVersion } from "./declarations/machine.ts";
import {
  declareClean,
  declareConfirm,
  declarePlan,
  declareRun,
  declareSnapshot,
  declareStatus,
} from "./declarations/marks.ts";
import type { CapabilityNames, Declare, ProgramOptions } from "./declarations/shared-options.ts";
import {
  declareExplain,
  declareGate,
  declareImage,
  declareNodeTemplate,
} from "./declarations/single-objects.ts";
import { exitCodeMeanings } from "./exit-codes.ts";

/** In the order of the help text. */
const DECLARATIONS: readonly Declare[] = [
  declareRun,
  declareStatus,
  declarePlan,
  declareSnapshot,
  declareConfirm,
  declareExplain,
  declareWorkloads,
  declareFleet,
  declareRestart,
  declareScale,
  declareCell,
  declareGate,
  declareNodeTemplate,
  declareImage,
  declareValidate,
  declareTest,
  declareConvert,
  declareClean,
  declareManifests,
  declareCluster,
  declareDemo,
  declareVersion,
  declareCompletion,
];

/**
 * The whole command line as data for the parser. Each command loads its implementation on demand, so that `--help` is
 * fast.
 */
export function createProgram(options: ProgramOptions): Command {
  // kubectl finds its plugin by this name of the file.
  const isPlugin = /(?:^|\/)kubectl-berth$/.test(options.outside.self);
  const root = new Command(isPlugin ? "kubectl berth" : "berth")
    .description(
      "Controls where pods run on a Kubernetes cluster: derives labels on nodes, holds nodes until they are ready, keeps pods where their images run.",
    )
    .usage("[command] [options]")
    .helpCommand("help [command]", "Show what a command does")
    .helpOption("-h, --help", "Show what a command does")
    .addHelpText("after", rootNotes())
    .configureHelp({ sortSubcommands: false, showGlobalOptions: false })
    .showHelpAfterError("(--help shows what there is)")
    .exitOverride();
  const { stdout, stderr } = options.outside;
  root.configureOutput({
    writeOut: (text) => stdout.write(text),
    writeErr: (text) => stderr.write(text),
    getOutHelpWidth: () => stdout.columns ?? 100,
    getErrHelpWidth: () => stderr.columns ?? 100,
    getOutHasColors: () => stdout.isTerminal,
    getErrHasColors: () => stderr.isTerminal,
  });
  for (const declare of DECLARATIONS) declare(root, options);
  for (const command of everyCommand(root)) command.copyInheritedSettings(root);
  return root;
}

/** Does this command line show or check names of capabilities? */
export function asksForCapabilities(words: readonly string[]): boolean {
  return ["clean", "manifests"].some((command) => words.includes(command));
}

/** A program for inspection: it runs nothing and prints nothing. @param columns width of its help. */
export function createSilentProgram(names: CapabilityNames, columns?: number): Command {
  const nowhere = { write: () => undefined, isTerminal: false, columns };
  return createProgram({
    outside: {
      environment: {},
      folder: "/",
      home: undefined,
      stdout: nowhere,
      stderr: nowhere,
      signal: new AbortController().signal,
      self: "berth",
    },
    originalForm: false,
    onEnd: () => undefined,
    names,
  });
}

function rootNotes(): string {
  const codes = exitCodeMeanings.map(({ code, meaning }) => `  ${String(code).padEnd(4)} ${meaning}`);
  return [
    "",
    "With -label-dir, -kubeconfig or -master and no command, berth runs like k8s-auto-labeller;",
    "with --server-config and no command, like datum-cloud/compute.",
    "The cluster is found by --kubeconfig, then KUBECONFIG, then the pod's service account, then ~/.kube/config.",
    "",
    "Exit codes:",
    ...codes,
  ].join("\n");
}

/** The root and all commands below it, also hidden ones. */
export function everyCommand(root: Command): readonly Command[] {
  return [root, ...root.commands.flatMap(everyCommand)];
}

/** The input of `normalizeArguments`, read from the declarations. */
export function commandLineOf(root: Command): CommandLine {
  const valued = new Set<string>();
  const flags = new Set<string>();
  for (const { options } of everyCommand(root)) {
    for (const { long, short, required, optional } of options) {
      for (const name of [long, short]) {
        if (name) (required || optional ? valued : flags).add(name.replace(/^--?/, ""));
      }
    }
  }
  flags.add("help");
  return { commands: new Set(["help", ...root.commands.map((command) => command.name())]), valued, flags };
}
