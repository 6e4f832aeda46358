/** Commands about one thing at a time: a node or pod, startup gates, an image. */
import { Argument, type Command } from "commander";
import { withClock } from "../surroundings.ts";
import {
  collect,
  type ProgramOptions,
  prints,
  takesCluster,
  takesConfig,
  takesInstallation,
  takesNamespace,
  takesRules,
} from "./shared-options.ts";

export function declareExplain(root: Command, { outside, onEnd }: ProgramOptions): void {
  prints(takesNamespace(takesInstallation(takesRules(takesCluster(root.command("explain"))))))
    .description(
      "Explain each mark on a node: rule, inputs, since when, who else holds the key; what each startup gate waits for, and which pods need which agents. Of a pod: which image excludes which architecture, which nodes are left, what holds it",
    )
    .addArgument(new Argument("<kind>", "kind of the object").choices(["node", "pod"]))
    .argument("<name>", "its name; of a pod NAMESPACE/NAME")
    .action(async (kind: string, name: string, options: object) => {
      const { explain } = await import("../commands/explain.ts");
      const { explainOnePod } = await import("../commands/explain-pod.ts");
      const given = { ...(options as Parameters<typeof explain>[0]), name };
      onEnd(await (kind === "pod" ? explainOnePod : explain)(given, await withClock(outside)));
    });
}

export function declareGate(root: Command, { outside, onEnd }: ProgramOptions): void {
  const gate = root
    .command("gate")
    .description("See which nodes startup gates hold, and let them go by hand");
  prints(takesInstallation(takesRules(takesCluster(gate.command("list")))))
    .description("List the nodes that startup gates hold, and the first thing that each waits for")
    .action(async (options: object) => {
      const { list } = await import("../commands/gate.ts");
      onEnd(await list(options as Parameters<typeof list>[0], await withClock(outside)));
    });
  takesInstallation(takesConfig(takesCluster(gate.command("release"))))
    .description("Let a node go now, whatever its signals say; a running Berth keeps to it")
    .argument("<node>", "its name")
    .option("--gate <name>", "the gate that lets go; default all that hold the node")
    .requiredOption("--reason <text>", "why, for those who come later; is written on the node")
    .action(async (node: string, options: object) => {
      const { release } = await import("../commands/gate.ts");
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
      const { tolerate } = await import("../commands/gate.ts");
      onEnd(await tolerate(options, await withClock(outside)));
    });
}

export function declareImage(root: Command, { outside, onEnd }: ProgramOptions): void {
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
      const { inspect } = await import("../commands/image.ts");
      const given = { ...(options as Parameters<typeof inspect>[0]), image: name };
      onEnd(await inspect(given, await withClock(outside)));
    });
}
