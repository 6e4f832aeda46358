/** The declarations of all commands. Long because they are read side by side: one table of words for the whole command line. */
import { Argument, Command, Option } from "commander";
import type { CommandLine } from "./arguments.ts";
import type { ManifestsOptions } from "./commands/manifests.ts";
import { type ExitCode, exitCodeMeanings, exitCodes } from "./exit-codes.ts";
import { type Outside, withClock } from "./surroundings.ts";

export interface ProgramOptions {
  readonly outside: Outside;
  /** There was no subcommand: the label folder defaults to `labels`. */
  readonly originalForm: boolean;
  /** Gets the exit code of the command that ran. */
  readonly onEnd: (code: ExitCode) => void;
}

type Declare = (parent: Command, program: ProgramOptions) => void;

/**
 * The whole command line as data for the parser. The modules that do the work are loaded by the command that needs
 * them, so that `--help` costs nothing else.
 */
export function createProgram(options: ProgramOptions): Command {
  const root = new Command("berth")
    .description(
      "Keeps true where things may run on a Kubernetes cluster: labels derived on nodes, nodes held until they are ready, pods kept where their images run.",
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

function rootNotes(): string {
  const codes = exitCodeMeanings.map(({ code, meaning }) => `  ${String(code).padEnd(4)} ${meaning}`);
  return [
    "",
    "Without a command, berth runs like k8s-auto-labeller: -label-dir (default labels), -kubeconfig, -master.",
    "The cluster is found by --kubeconfig, then KUBECONFIG, then the pod's service account, then ~/.kube/config.",
    "",
    "Exit codes:",
    ...codes,
  ].join("\n");
}

/** The root and all commands below it, hidden ones included. */
export function everyCommand(root: Command): readonly Command[] {
  return [root, ...root.commands.flatMap(everyCommand)];
}

/** What `normalizeArguments` needs to know, read from the declarations themselves. */
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

const collect = (value: string, earlier: readonly string[] | undefined): readonly string[] => [
  ...(earlier ?? []),
  value,
];

function takesCluster(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "kubeconfig file; default KUBECONFIG, the pod's own, ~/.kube/config")
    .option("--context <name>", "context of the kubeconfig; default its current one")
    .addOption(new Option("--master <url>", "server to use instead of the kubeconfig's").hideHelp());
}

function takesInstallation(command: Command): Command {
  return command.option(
    "--installation <name>",
    "whose marks are ours; two on one cluster need different names",
    "berth",
  );
}

function takesNamespace(command: Command): Command {
  return command.option(
    "-n, --namespace <name>",
    "namespace of Berth's own state; default the pod's, berth-system",
  );
}

function takesRules(command: Command): Command {
  return takesRuleOptions(
    takesConfig(
      command.option(
        "--label-dir <folder>",
        "folder of label rules: <namespace>/<label>, a label key a line",
      ),
    ),
  );
}

function takesConfig(command: Command): Command {
  return command.option("--config <path>", "file or folder of configuration documents; repeatable", collect);
}

function takesRuleOptions(command: Command): Command {
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

function prints(command: Command, formats: readonly string[] = ["json", "yaml"]): Command {
  return command.addOption(
    new Option("-o, --output <format>", "print data for scripts").choices([...formats]),
  );
}

/** As the schema of NodeFootprint has them; it is not loaded for `--help`, and a test compares the two. */
export const FOOTPRINT_PRESETS: readonly NonNullable<ManifestsOptions["preset"]>[] = [
  "agent-substrate/pr-134",
  "agent-substrate/owner-uid",
  "csi",
  "gpu",
  "log",
  "image-warmer",
];

const DECLARATIONS: readonly Declare[] = [
  declareRun,
  declarePlan,
  declareExplain,
  declareGate,
  declareImage,
  declareValidate,
  declareConvert,
  declareClean,
  declareManifests,
  declareCluster,
  declareDemo,
  declareVersion,
  declareCompletion,
];

function declareRun(root: Command, { outside, originalForm, onEnd }: ProgramOptions): void {
  takesNamespace(takesInstallation(takesRules(takesCluster(root.command("run")))))
    .description("Watch the cluster and the rules, and keep the marks on nodes true until stopped")
    .option("--metrics-bind-address <address>", "where /metrics is served; 0 is off", ":8080")
    .option(
      "--health-probe-bind-address <address>",
      "where /healthz and /readyz are served; 0 is off",
      ":8081",
    )
    .option("--leader-elect", "only one of several replicas acts, through a Lease in the namespace")
    .addOption(
      new Option("--log-level <level>", "lines below it are left out")
        .choices(["error", "warn", "info", "debug"])
        .default("info"),
    )
    .action(async (options: object) => {
      const { run } = await import("./commands/run.ts");
      onEnd(await run({ ...(options as Parameters<typeof run>[0]), originalForm }, await withClock(outside)));
    });
}

function declarePlan(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(takesInstallation(takesRules(takesCluster(root.command("plan")))))
    .description("Show what would change on nodes, pods and DaemonSets, and why, without writing")
    .argument("[nodes...]", "names of nodes; default all")
    .option(
      "--try <path>",
      "file of rules, gates and policies to plan with as if they were applied; repeatable",
      collect,
    )
    .option("--confirm <rule>", "let a LabelRule act that waits because it would change many nodes")
    .option("--exit-code", `end with ${exitCodes.changes} when something would change`)
    .action(async (nodes: readonly string[], options: object) => {
      const { plan } = await import("./commands/plan.ts");
      onEnd(await plan({ ...(options as Parameters<typeof plan>[0]), nodes }, await withClock(outside)));
    });
}

function declareExplain(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(takesInstallation(takesRules(takesCluster(root.command("explain")))))
    .description(
      "Explain each mark on a node: rule, inputs, since when, who else holds the key; what each startup gate waits for, and which pods need which agents. Of a pod: which image excludes which architecture, which nodes are left, what holds it",
    )
    .addArgument(new Argument("<kind>", "kind of the object").choices(["node", "pod"]))
    .argument("<name>", "its name; of a pod NAMESPACE/NAME")
    .action(async (kind: string, name: string, options: object) => {
      const { explain } = await import("./commands/explain.ts");
      const { explainOnePod } = await import("./commands/explain-pod.ts");
      const given = { ...(options as Parameters<typeof explain>[0]), name };
      onEnd(await (kind === "pod" ? explainOnePod : explain)(given, await withClock(outside)));
    });
}

function declareGate(root: Command, { outside, onEnd }: ProgramOptions): void {
  const gate = root
    .command("gate")
    .description("See which nodes startup gates hold, and let them go by hand");
  prints(takesInstallation(takesRules(takesCluster(gate.command("list")))))
    .description("List the nodes that startup gates hold, and the first thing that each waits for")
    .action(async (options: object) => {
      const { list } = await import("./commands/gate.ts");
      onEnd(await list(options as Parameters<typeof list>[0], await withClock(outside)));
    });
  takesInstallation(takesConfig(takesCluster(gate.command("release"))))
    .description("Let a node go now, whatever its signals say; a running Berth keeps to it")
    .argument("<node>", "its name")
    .option("--gate <name>", "the gate that lets go; default all that hold the node")
    .requiredOption("--reason <text>", "why, for those who come later; is written on the node")
    .action(async (node: string, options: object) => {
      const { release } = await import("./commands/gate.ts");
      const given = { ...(options as Parameters<typeof release>[0]), node };
      onEnd(await release(given, await withClock(outside)));
    });
  takesConfig(takesCluster(gate.command("tolerate")))
    .description(
      "Let the pods of DaemonSets tolerate all startup gates; shows what it would do unless --yes is given",
    )
    .option("-n, --namespace <name>", "only DaemonSets of this namespace; repeatable", collect)
    .option("--yes", "act: the pods of each changed DaemonSet are rolled out anew")
    .action(async (options: object) => {
      const { tolerate } = await import("./commands/gate.ts");
      onEnd(await tolerate(options, await withClock(outside)));
    });
}

function declareImage(root: Command, { outside, onEnd }: ProgramOptions): void {
  const image = root.command("image").description("See which platforms images run on");
  prints(takesConfig(takesCluster(image.command("inspect"))))
    .description("Ask the registry of an image what it runs on, as a running Berth does; needs no cluster")
    .argument(
      "<image>",
      "its name, as in a pod: nginx, ghcr.io/team/app:1, registry.example:5000/app@sha256:…",
    )
    .option(
      "--pull-secret <namespace/name>",
      "Secret of the cluster with credentials for the registry; repeatable",
      collect,
    )
    .action(async (name: string, options: object) => {
      const { inspect } = await import("./commands/image.ts");
      const given = { ...(options as Parameters<typeof inspect>[0]), image: name };
      onEnd(await inspect(given, await withClock(outside)));
    });
}

function declareValidate(root: Command, { outside, onEnd }: ProgramOptions): void {
  takesRuleOptions(prints(root.command("validate")))
    .description("Check rule folders and configuration files; list all faults with line and column")
    .argument("<files...>", "label folders, rule files, configuration files or folders of them")
    .action(async (files: readonly string[], options: object) => {
      const { validate } = await import("./commands/validate.ts");
      onEnd(
        await validate({ ...(options as Parameters<typeof validate>[0]), files }, await withClock(outside)),
      );
    });
}

function declareConvert(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(root.command("convert"))
    .description("Print LabelRules that do what NodeFeatureRules or a folder of label rules do")
    .argument("<files...>", "files with NodeFeatureRules, folders of label rules")
    .option("--skip", "print what can be converted, and the rest as comments")
    .option(
      "--allow-reserved <key>",
      "label key or domain under kubernetes.io that rules of a folder may write; repeatable",
      collect,
    )
    .action(async (files: readonly string[], options: object) => {
      const { convert } = await import("./commands/convert.ts");
      onEnd(
        await convert({ ...(options as Parameters<typeof convert>[0]), files }, await withClock(outside)),
      );
    });
}

function declareClean(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(takesInstallation(takesConfig(takesCluster(root.command("clean")))))
    .description(
      "Remove every mark that Berth has set, and what holds new nodes for it; shows what it would do unless --yes is given",
    )
    .option("--yes", "act")
    .addOption(
      new Option("--capability <name>", "only what this part of Berth has set").choices([
        "labels",
        "gates",
        "architecture",
        "footprint",
      ]),
    )
    .option(
      "--restart-pods",
      "evict pods that carry a toleration of an architecture policy and are made anew by a controller",
    )
    .option(
      "--key <key>",
      "also remove this label, annotation or taint key, recorded or not; repeatable",
      collect,
    )
    .action(async (options: object) => {
      const { clean } = await import("./commands/clean.ts");
      onEnd(await clean(options as Parameters<typeof clean>[0], await withClock(outside)));
    });
}

function declareManifests(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(takesInstallation(root.command("manifests")))
    .description(
      "Print what installs Berth: Namespace, RBAC, ConfigMap, Service, Deployment; or the CRDs, which are applied before it; or RuntimeClasses for pods of one architecture; or a NodeFootprint with all that its preset says",
    )
    .addArgument(
      new Argument(
        "[what]",
        "what runs Berth, the kinds that it adds to the API, RuntimeClasses, or a NodeFootprint",
      )
        .choices(["install", "crds", "runtime-class", "footprint"])
        .default("install"),
    )
    .argument("[architectures...]", "of RuntimeClasses: amd64, arm64, …")
    .option("--image <image>", "container image to run; required to install")
    .option("-n, --namespace <name>", "namespace to install into", "berth-system")
    .option("--label-dir <folder>", "put the rules of this folder into the ConfigMap")
    .option(
      "--config <folder>",
      "put the configuration documents of this folder into a ConfigMap of their own",
    )
    .option("--replicas <number>", "more than one turns leader election on", "1")
    .option(
      "--pull-secrets",
      "let it read pull secrets of pods, which is any Secret, to look up private images",
    )
    .option("--worker-pools", "let it make and delete Deployments for WorkerPools, which are any Deployments")
    .option("--handler <name>", "of RuntimeClasses: the handler of the container runtime")
    .option("--taint-key <key>", "of RuntimeClasses: their pods tolerate this key; repeatable", collect)
    .addOption(
      new Option("--preset <name>", "of a NodeFootprint: what it is for").choices([...FOOTPRINT_PRESETS]),
    )
    .option("--name <name>", "of a NodeFootprint: its name; default by the preset")
    .option(
      "--pod-labels <labels>",
      "of a NodeFootprint: labels of the pods that need the agent, app=web,tier=front",
    )
    .option(
      "--csi-driver <name>",
      "of a NodeFootprint: driver whose volumes need the agent; repeatable",
      collect,
    )
    .action(async (what: ManifestsOptions["what"], architectures: readonly string[], options: object) => {
      const { manifests } = await import("./commands/manifests.ts");
      const given = { ...(options as ManifestsOptions), what, architectures };
      onEnd(await manifests(given, await withClock(outside)));
    });
}

function declareCluster(root: Command, { outside, onEnd }: ProgramOptions): void {
  const cluster = root.command("cluster").description("Run a real Kubernetes control plane on this machine");
  cluster
    .command("start")
    .description("Start one that outlives this command; the last line printed is the path of its kubeconfig")
    .requiredOption("--dir <folder>", "where its data, logs and kubeconfig are kept")
    .option("--port <number>", "port of the API server on 127.0.0.1; default a free one")
    .option("--nodes <number>", "nodes played by kwok", "0")
    .option("--with <list>", "what runs beside the API server: scheduler,controller-manager,kwok")
    .action(async (options: object) => {
      const { start } = await import("./commands/cluster.ts");
      onEnd(await start(options as Parameters<typeof start>[0], await withClock(outside)));
    });
  cluster
    .command("stop")
    .description("Stop it; its data stays")
    .requiredOption("--dir <folder>", "its folder")
    .action(async (options: object) => {
      const { stop } = await import("./commands/cluster.ts");
      onEnd(await stop(options as Parameters<typeof stop>[0], await withClock(outside)));
    });
  prints(cluster.command("status"))
    .description("Show whether it runs")
    .requiredOption("--dir <folder>", "its folder")
    .action(async (options: object) => {
      const { status } = await import("./commands/cluster.ts");
      onEnd(await status(options as Parameters<typeof status>[0], await withClock(outside)));
    });
}

function declareDemo(root: Command, { outside, onEnd }: ProgramOptions): void {
  root
    .command("demo")
    .description("Start a real cluster, run Berth on it, make changes happen and tell what it does")
    .option("--exit", "end once all was seen to converge, instead of staying up")
    .action(async (options: object) => {
      const { demo } = await import("./commands/demo.ts");
      onEnd(await demo(options as Parameters<typeof demo>[0], await withClock(outside)));
    });
}

function declareVersion(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(root.command("version"))
    .description("Print the version")
    .action(async (options: object) => {
      const { version } = await import("./commands/version.ts");
      onEnd(await version(options, outside));
    });
}

function declareCompletion(root: Command, { outside, onEnd }: ProgramOptions): void {
  root
    .command("completion")
    .description("Print the script that makes a shell complete berth's commands and options")
    .addArgument(new Argument("<shell>", "which shell").choices(["bash", "zsh", "fish"]))
    .action(async (shell: "bash" | "zsh" | "fish") => {
      const { completion } = await import("./commands/completion.ts");
      onEnd(await completion({ shell }, outside));
    });
  root
    .command("__complete", { hidden: true })
    .argument("[words...]")
    .allowUnknownOption()
    .helpOption(false)
    .action(async (words: readonly string[]) => {
      const { complete } = await import("./commands/complete.ts");
      onEnd(await complete({ words, root }, outside));
    });
}
