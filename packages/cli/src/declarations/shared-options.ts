/** Options that several commands share, with the same text in each. */
import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { type CommandDeps, type Outside, withClock } from "../command-deps.ts";
import type { ExitCode } from "../exit-codes.ts";
import { parseJsonPath } from "../output/jsonpath.ts";
import { watching } from "../output/watch.ts";

/** Input of all commands. */
export interface ProgramOptions {
  readonly outside: Outside;
  /** True without a subcommand: the label folder defaults to `labels`. */
  readonly originalForm: boolean;
  /** Called with the exit code of the command. */
  readonly onEnd: (code: ExitCode) => void;
  readonly names: CapabilityNames;
}

/** Names of capabilities for the help of commands. To load the capabilities takes as long as all the rest of the help. */
export interface CapabilityNames {
  readonly all: readonly string[];
  /** Those that an installation may leave out. */
  readonly optional: readonly string[];
}

/** Adds a command to `parent`. The command loads its implementation when it runs. */
export type Declare = (parent: Command, program: ProgramOptions) => void;

type Act<O> = (options: O, deps: CommandDeps) => Promise<ExitCode>;

/** Sets the action of a command. It gets the options, and the arguments by name. The module is loaded on demand. */
export function does<O>(
  command: Command,
  { outside, onEnd }: ProgramOptions,
  load: (options: O) => Promise<Act<O>>,
): void {
  command.action(async () => {
    const given = command.registeredArguments.map((it, at) => [it.name(), command.processedArgs[at]]);
    const options = splitObject({ ...command.opts(), ...Object.fromEntries(given) }) as O;
    const act = await load(options);
    const deps = await withClock(outside);
    const isWatched = Reflect.get(Object(options), "watch") === true;
    onEnd(isWatched ? await watching((it) => act(options, it), deps) : await act(options, deps));
  });
}

/** For options that are repeatable. */
export function collect(value: string, earlier: readonly string[] | undefined): readonly string[] {
  return [...(earlier ?? []), value];
}

/** Adds the options for the cluster and the identity of the user. */
export function takesCluster(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "kubeconfig file; default KUBECONFIG, the pod's own, ~/.kube/config")
    .option("--context <name>", "context of the kubeconfig; default its current one")
    .addOption(new Option("--as <user>", "act for this user, if you may impersonate").argParser(headerText))
    .addOption(
      new Option("--as-group <group>", "with --as: a group of the user; repeatable").argParser(
        (value, earlier: readonly string[] | undefined) => collect(headerText(value), earlier),
      ),
    )
    .option("--request-timeout <time>", "limit of each request, such as 5s; default 30s, and 2m for lists")
    .addOption(new Option("--master <url>", "server to use instead of the kubeconfig's").hideHelp());
}

/** @throws InvalidArgumentError for what no HTTP header can hold. */
function headerText(value: string): string {
  if (/^[\x20-\x7e]+$/.test(value)) return value;
  throw new InvalidArgumentError("It has characters that no HTTP header can hold, or none.");
}

/** Adds the arguments for one object: `KIND NAME`, or `KIND/NAME` as kubectl has it. `does` splits the latter. */
export function takesObject(command: Command, kinds: readonly string[], name: string): Command {
  const kind = new Argument("<kind>", "kind of the object, or KIND/NAME").choices(kinds);
  kind.argParser((value: string) => {
    const [first = ""] = value.split("/");
    if (kinds.includes(first)) return value;
    throw new InvalidArgumentError(`Allowed choices are ${kinds.join(", ")}.`);
  });
  return command.addArgument(kind).argument("[name]", name);
}

/** @throws CommanderError when the user gave no name. */
export function requireName(command: Command, name: string | undefined): void {
  if (name === undefined) command.error("error: missing required argument 'name'");
}

function splitObject(options: Record<string, unknown>): Record<string, unknown> {
  const { kind, name } = options;
  const at = typeof kind === "string" ? kind.indexOf("/") : -1;
  if (typeof kind !== "string" || at < 0 || name !== undefined) return options;
  return { ...options, kind: kind.slice(0, at), name: kind.slice(at + 1) };
}

/** Adds the option to read a snapshot in place of a cluster. */
export function takesSnapshot(command: Command): Command {
  return command.option("--from <file>", "snapshot (berth snapshot) to read in place of a cluster");
}

/** Adds the option for the installation, where one cluster has several. */
export function takesInstallation(command: Command): Command {
  return command.option(
    "--installation <name>",
    "name of this installation of Berth; two on one cluster need different names",
    "berth",
  );
}

/** Adds the option for the namespace of Berth's own state. */
export function takesNamespace(command: Command): Command {
  return command.option(
    "-n, --namespace <name>",
    "namespace of Berth's own state; default the pod's, berth-system",
  );
}

/** Adds the same option to a command that is also about Workloads. */
export function takesNamespaceOrOwn(command: Command): Command {
  return command.option(
    "-n, --namespace <name>",
    "of a Workload or Instance: its namespace; otherwise that of Berth's own state; default the pod's, berth-system",
  );
}

/** Adds the options for all files with rules. */
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

/** Adds the option for configuration documents. */
export function takesConfig(command: Command): Command {
  return command.option("--config <path>", "file or folder of configuration documents; repeatable", collect);
}

/** Adds the options for reading label rules. */
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

/** Adds the option to print data instead of text for people. */
export function prints(command: Command): Command {
  return command.addOption(outputOption(["json", "yaml"]));
}

/** Adds the options of a command that lists objects: as `prints`, `-o name|wide`, and to watch them. */
export function lists(command: Command): Command {
  return watches(command.addOption(outputOption(["json", "yaml", "name", "wide"])));
}

const JSON_PATH = "jsonpath=";

function outputOption(formats: readonly string[]): Option {
  const option = new Option("-o, --output <format>", "print data for scripts");
  option.choices([...formats, `${JSON_PATH}TEMPLATE`]);
  return option.argParser((value) => {
    // Tables always have all columns.
    if (value === "wide" && formats.includes(value)) return undefined;
    if (formats.includes(value)) return value;
    if (!value.startsWith(JSON_PATH))
      throw new InvalidArgumentError(`Allowed choices are ${option.argChoices?.join(", ")}.`);
    try {
      return parseJsonPath(value.slice(JSON_PATH.length));
    } catch (error) {
      throw new InvalidArgumentError(String(error));
    }
  });
}

/** Adds the option to show again what changed. */
export function watches(command: Command): Command {
  return command.option("-w, --watch", "show it again whenever it changes, until Ctrl-C");
}

/** Adds the options for a fleet without a document. */
export function takesFleet(command: Command): Command {
  return command
    .addOption(
      new Option("--mode <mode>", "run Workloads too; a document Fleet says more").choices([
        "single",
        "cell",
        "management",
      ]),
    )
    .option("--cell <name>", "with --mode cell: the name of this cell")
    .option(
      "--federation-kubeconfig <file>",
      "with --mode management: the connection to the hub, or self where it is this cluster. Workloads are in this cluster. In a cell: where it writes its Instances, for a hub that Karmada carries",
    );
}

/** Adds the options for the configuration of datum-cloud/compute. A Fleet takes the last two as well. */
export function takesOriginal(command: Command): Command {
  return command
    .option("--server-config <file>", "a WorkloadOperator of datum-cloud/compute, in place of a Fleet")
    .option("--enable-cell-controllers", "with --server-config: this is a cell")
    .option("--feature-gates <list>", "NetworkingIntegration=false: without networks")
    .option("--project <id>", "in mode single: the project that pays for quota");
}
