/** Commands that check, convert and print documents. */
import { Argument, type Command, Option } from "commander";
import {
  collect,
  does,
  type ProgramOptions,
  prints,
  takesFleet,
  takesInstallation,
  takesOriginal,
  takesRuleOptions,
} from "./shared-options.ts";

export function declareValidate(root: Command, program: ProgramOptions): void {
  const validate = takesRuleOptions(prints(root.command("validate")))
    .description("Check rule folders and configuration files; list all faults with line and column")
    .argument("<files...>", "label folders, rule files, configuration files or folders of them")
    .option("--silence <code>", "a warning that is not shown; repeatable", collect);
  does(validate, program, async () => (await import("../commands/validate.ts")).validate);
}

export function declareTest(root: Command, program: ProgramOptions): void {
  const test = root
    .command("test")
    .description(
      "Compare what documents do on sample nodes and pods with what tests expect; needs no cluster",
    )
    .argument("<files...>", "files or folders of tests")
    .option("--update", "write into the files what is")
    .addOption(
      new Option("-o, --output <format>", "print the results for scripts").choices(["json", "yaml", "junit"]),
    );
  does(test, program, async () => (await import("../commands/test.ts")).test);
}

export function declareConvert(root: Command, program: ProgramOptions): void {
  const convert = prints(root.command("convert"))
    .description(
      "Print documents that do what NodeFeatureRules, NodeReadinessRules, DeschedulerPolicies or a folder of label rules do",
    )
    .argument(
      "<files...>",
      "files with NodeFeatureRules, NodeReadinessRules or DeschedulerPolicies, folders of label rules",
    )
    .option("--skip", "print what can be converted, and the rest as comments")
    .option("--features", "print the NodeFeatureRules with which NFD publishes what the LabelRules read")
    .option(
      "--allow-reserved <key>",
      "label key or domain under kubernetes.io that rules of a folder may write; repeatable",
      collect,
    );
  does(convert, program, async () => (await import("../commands/convert.ts")).convert);
}

export function declareManifests(root: Command, program: ProgramOptions): void {
  const manifests = prints(
    takesRuleOptions(takesFleet(takesOriginal(takesInstallation(root.command("manifests"))))),
  )
    .description(
      "Print what installs Berth: Namespace, RBAC, an admission policy that confines it, ConfigMap, Service, Deployment; or the CRDs, which are applied before it; or RuntimeClasses for pods of one architecture; or what lets a hub use a cell",
    )
    .addArgument(
      new Argument(
        "[what]",
        "Berth itself, the kinds that it adds to the API (their deletion deletes all their objects), RuntimeClasses, or an account for a hub with its rights",
      )
        .choices(["install", "crds", "runtime-class", "access"])
        .default("install"),
    )
    .argument("[architectures...]", "of RuntimeClasses: amd64, arm64, …")
    .option("--image <image>", "container image to run, best with its digest; required to install")
    .option("-n, --namespace <name>", "namespace to install into", "berth-system")
    .option("--label-dir <folder>", "put the rules of this folder into the ConfigMap")
    .option(
      "--config <path>",
      "put the configuration documents of this file or folder into a ConfigMap of their own, and print the rights that they take",
    )
    .option(
      "--quota-secret <name>",
      "the Secret with the kubeconfig that the Fleet or --server-config names for quota; its key is the name of that file",
      "compute-quota-credentials",
    )
    .option(
      "--federation-secret <name>",
      "the Secret with the kubeconfigs that a Fleet of mode management names for its hub and its projects; its keys are the names of those files",
      "berth-federation",
    )
    .option("--replicas <number>", "more than one turns leader election on", "2")
    .option(
      "--capabilities <list>",
      `print the rights of these alone: ${program.names.optional.join()}; default all`,
    )
    .option(
      "--no-confinement",
      "leave out the ValidatingAdmissionPolicy that confines its account to the fields which it writes; Kubernetes before 1.30 has none",
    )
    .option(
      "--patch <file>",
      "merge this into the pod template of the Deployment: labels, annotations, service account, scheduling, resources, volumes",
    )
    .option(
      "--pull-secrets",
      "let it read pull secrets of pods, which means any Secret, to look up private images",
    )
    .option(
      "--worker-pool, --worker-pools",
      "with crds: print that of WorkerPool too, which belongs to agent-substrate (deleting it deletes all WorkerPools); else let it delete the Deployments of WorkerPools and hold WorkerPools, as footprints with a preset of agent-substrate do; a document WorkerPools, given by --config, says which Deployments it may make",
    )
    .option(
      "--fleet",
      "with crds: print those of the fleet too (Workload, WorkloadDeployment, Instance, Cell, Withdrawal); a document Fleet, given by --config, says which rights they take",
    )
    .option(
      "--api-server-cidr <cidr>",
      "print a NetworkPolicy too, by which only these addresses reach the webhook; repeatable. None by default: the addresses of the API servers are not known",
      collect,
    )
    .addOption(
      new Option(
        "--to <plane>",
        "with access: what the cluster is for the hub (karmada: the hub, with that driver; write-back: that hub, for a cell)",
      )
        .choices(["cell", "project", "hub", "karmada", "write-back"])
        .default("cell"),
    )
    .option("--handler <name>", "of RuntimeClasses: the handler of the container runtime")
    .option("--taint-key <key>", "of RuntimeClasses: their pods tolerate this key; repeatable", collect);
  does(manifests, program, async () => (await import("../commands/manifests.ts")).manifests);
}
