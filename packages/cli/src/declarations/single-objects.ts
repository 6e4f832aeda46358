/** Commands about one object: a node or pod, startup gates, an image. */
import { type Command, Option } from "commander";
import type { ExplainFleetOptions } from "../commands/explain-fleet.ts";
import type { ExplainPodOptions } from "../commands/explain-pod.ts";
import type { ExplainRuleOptions } from "../commands/explain-rule.ts";
import {
  collect,
  does,
  lists,
  type ProgramOptions,
  prints,
  requireName,
  takesCluster,
  takesConfig,
  takesInstallation,
  takesNamespaceOrOwn,
  takesObject,
  takesRules,
  takesSnapshot,
  watches,
} from "./shared-options.ts";

/** The options of `explain node` that name a document, and how the kinds end that each is for. */
const DOCUMENTS = [
  ["rule", ""],
  ["gate", "Gate"],
  ["policy", "Policy"],
  ["footprint", "Footprint"],
] as const;

type Explaining = ExplainPodOptions &
  ExplainFleetOptions &
  Pick<ExplainRuleOptions, "summary" | "selector"> & {
    readonly [option in (typeof DOCUMENTS)[number][0]]?: string;
  };

export function declareExplain(root: Command, program: ProgramOptions): void {
  const explain = takesObject(
    watches(
      prints(
        takesNamespaceOrOwn(
          takesInstallation(takesRules(takesSnapshot(takesCluster(root.command("explain"))))),
        ),
      ),
    ),
    ["node", "pod", "workload", "instance"],
    "its name; for a pod, workload or instance NAMESPACE/NAME",
  )
    .description(
      "Explain each mark on a node: rule, inputs, since when, which other writers hold the key; what each startup gate waits for, and which pods need which agents. For a pod: which image excludes which architecture, which nodes are left, what holds it. For a workload or instance: what blocks it, what would change that, and when Berth looks next",
    )
    .option("--rule <name>", "of a node: why this document of any kind acts on it or not: each comparison")
    .option("--gate <name>", "the same of a StartupGate")
    .option("--policy <name>", "the same of an ArchitecturePolicy")
    .option("--footprint <name>", "the same of a NodeFootprint")
    .option("--summary", "with one of these: count what keeps it from how many nodes; no name is needed")
    .option("-l, --selector <selector>", "with --summary: only nodes with these labels")
    .option("--on <node>", "of a pod: whether this node takes it: each criterion");
  does(explain, program, async (options: Explaining) => {
    const { kind, name, summary, selector, on } = options;
    const [asked] = DOCUMENTS.flatMap(([option, ending]) => {
      const document = options[option];
      return document === undefined ? [] : [{ document, kind: ending }];
    });
    if (asked !== undefined && kind === "node") {
      const { explainRule } = await import("../commands/explain-rule.ts");
      return (given: Explaining, deps) => explainRule({ ...given, ...asked }, deps);
    }
    if (asked !== undefined || summary || selector !== undefined || (on !== undefined && kind !== "pod"))
      explain.error(
        "error: --rule, --gate, --policy, --footprint and --summary are for nodes, --on is for pods",
      );
    requireName(explain, name);
    if (kind === "pod") return (await import("../commands/explain-pod.ts")).explainOnePod;
    if (kind === "node") return (await import("../commands/explain.ts")).explain;
    return (await import("../commands/explain-fleet.ts")).explainFleet;
  });
}

export function declareGate(root: Command, program: ProgramOptions): void {
  const gate = root
    .command("gate")
    .description("See which nodes startup gates hold, and release them by hand");
  const list = lists(takesInstallation(takesRules(takesCluster(gate.command("list"))))).description(
    "List the nodes that startup gates hold, and the first thing that each waits for",
  );
  does(list, program, async () => (await import("../commands/gate.ts")).list);
  const release = takesInstallation(takesConfig(takesCluster(gate.command("release"))))
    .description("Release a node now, whatever its signals report; a running Berth respects it")
    .argument("<node>", "its name")
    .option("--gate <name>", "the gate that releases the node; default all that hold it")
    .requiredOption("--reason <text>", "why, as a note for other users; Berth writes it on the node");
  does(release, program, async () => (await import("../commands/gate.ts")).release);
  const tolerate = takesConfig(takesCluster(gate.command("tolerate")))
    .description(
      "Let the pods of DaemonSets tolerate all startup gates; shows what it would do unless --yes is given",
    )
    .argument("[daemonsets...]", "only these, as NAMESPACE/NAME")
    .option("-n, --namespace <name>", "only DaemonSets of this namespace; repeatable", collect)
    .option("--yes", "act: this rolls out the pods of each changed DaemonSet");
  does(tolerate, program, async () => (await import("../commands/gate.ts")).tolerate);
}

export function declareNodeTemplate(root: Command, program: ProgramOptions): void {
  const template = takesInstallation(takesRules(takesCluster(root.command("node-template"))))
    .description("Print what templates of nodes need, so that autoscalers know the gates and labels of Berth")
    .addOption(
      new Option("--for <tool>", "the tool that makes the nodes").choices([
        "karpenter",
        "cluster-api",
        "node-group",
      ]),
    )
    .option("--like <node>", "only what is for nodes like this one, with the labels that Berth derives on it")
    .option("--check", "say instead which NodePools of Karpenter in the cluster lack the taint of a gate");
  does(template, program, async () => (await import("../commands/node-template.ts")).nodeTemplate);
}

export function declareImage(root: Command, program: ProgramOptions): void {
  const image = root.command("image").description("See which platforms images run on");
  const inspect = prints(takesConfig(takesCluster(image.command("inspect"))))
    .description("Ask the registry of an image what it runs on, as a running Berth does; needs no cluster")
    .argument(
      "<image>",
      "its name, as in a pod: nginx, ghcr.io/team/app:1, registry.example:5000/app@sha256:…",
    )
    .option(
      "--pull-secret <namespace/name>",
      "Secret of the cluster with credentials for the registry; repeatable",
      collect,
    );
  does(inspect, program, async () => (await import("../commands/image.ts")).inspect);
}
