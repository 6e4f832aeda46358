/** Commands about all marks of Berth: maintain, preview and remove them. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { PlanOptions } from "../commands/plan.ts";
import type { PlanWorkloadOptions } from "../commands/plan-workload.ts";
import { exitCodes } from "../exit-codes.ts";
import {
  collect,
  does,
  lists,
  type ProgramOptions,
  prints,
  takesCluster,
  takesConfig,
  takesFleet,
  takesInstallation,
  takesNamespace,
  takesNamespaceOrOwn,
  takesOriginal,
  takesRules,
  takesSnapshot,
} from "./shared-options.ts";

export function declareRun(root: Command, program: ProgramOptions): void {
  const command = takesFleet(
    takesOriginal(takesNamespace(takesInstallation(takesRules(takesCluster(root.command("run")))))),
  )
    .description("Watch the cluster and the rules, and keep the marks on nodes correct until stopped")
    .option("--metrics-bind-address <address>", "where /metrics is served; 0 is off", ":8080")
    .option(
      "--health-probe-bind-address <address>",
      "where /healthz and /readyz are served; 0 is off",
      ":8081",
    )
    .option(
      "--leader-elect",
      "only one of several replicas acts, through a Lease in the namespace; always so with --mode cell",
    )
    .addOption(new Option("--enable-management-controllers").hideHelp())
    .addOption(new Option("--federation-context <name>").hideHelp())
    .addOption(new Option("--leader-elect-namespace <name>", "as --namespace").hideHelp())
    .option("--crd-grace <duration>", "how long nothing changes while the CRD of a kind is not served", "10m")
    .addOption(
      new Option("--log-level <level>", "lines below it are left out")
        .choices(["error", "warn", "info", "debug"])
        .default("info"),
    );
  does(command, program, async () => {
    const { run } = await import("../commands/run.ts");
    return (options: Parameters<typeof run>[0], deps) =>
      run({ ...options, originalForm: program.originalForm }, deps);
  });
}

export function declareStatus(root: Command, program: ProgramOptions): void {
  const status = lists(takesNamespace(takesInstallation(takesCluster(root.command("status"))))).description(
    `Show how Berth is: who leads, documents in force and faulty, what is held and since when, and what needs a person; ends with ${exitCodes.needsPerson} when something does`,
  );
  does(status, program, async () => (await import("../commands/status.ts")).status);
}

export function declarePlan(root: Command, program: ProgramOptions): void {
  const plan = prints(
    takesNamespaceOrOwn(takesInstallation(takesRules(takesSnapshot(takesCluster(root.command("plan")))))),
  )
    .description("Show what would change on nodes, pods, workloads and owners, and why, without writing")
    .argument("[nodes...]", "names of nodes; default all")
    .option(
      "-f, --filename <file>",
      "file of Workloads: show their Instances to create, roll and delete instead",
    )
    .option("--try <path>", "file of documents to plan with as if they were applied; repeatable", collect)
    .option("--silence <code>", "a warning that is not shown; repeatable", collect)
    .addOption(new Option("--confirm <rule>").hideHelp().argParser(refuseConfirm))
    .option(
      "--exit-code",
      `end with ${exitCodes.changes} when something would change, or cease to be in force`,
    );
  does(plan, program, async ({ filename }: PlanOptions & PlanWorkloadOptions) =>
    filename === undefined
      ? (await import("../commands/plan.ts")).plan
      : (await import("../commands/plan-workload.ts")).planWorkloads,
  );
}

export function declareSnapshot(root: Command, program: ProgramOptions): void {
  const snapshot = takesNamespace(takesInstallation(takesRules(takesCluster(root.command("snapshot")))))
    .description(
      "Write what plan and explain read of the cluster to a file, without secrets and values of environments. They read it with --from, on a machine without access to the cluster",
    )
    .argument("<file>", "file to write; one that exists is replaced");
  does(snapshot, program, async () => (await import("../commands/snapshot.ts")).snapshot);
}

function refuseConfirm(rule: string): never {
  throw new InvalidArgumentError(`plan does not write; run: berth confirm ${rule}`);
}

export function declareConfirm(root: Command, program: ProgramOptions): void {
  const confirm = takesConfig(takesCluster(root.command("confirm")))
    .description("Let a LabelRule act that waits because it would change many nodes; berth plan shows which")
    .argument("<rule>", "its name; for a rule in a file the command prints what to write there");
  does(confirm, program, async () => (await import("../commands/confirm.ts")).confirm);
}

export function declareClean(root: Command, program: ProgramOptions): void {
  const clean = prints(takesInstallation(takesNamespace(takesConfig(takesCluster(root.command("clean"))))))
    .description(
      "Remove every mark that Berth has set, and everything that holds new nodes, pods and owners for it; shows what it would do unless --yes is given",
    )
    .option("--yes", "act")
    .option("--stop", "first stop the Deployment of the installation, and wait until its pods are gone")
    .addOption(
      new Option("--capability <name>", "only what this part of Berth has set").choices(program.names.all),
    )
    .option(
      "--restart-pods",
      "evict pods with a toleration of an architecture policy, if a controller creates them again",
    )
    .option(
      "--key <key>",
      "also remove this label, annotation or taint key, recorded or not; repeatable",
      collect,
    )
    .option("--recorded", "also remove recorded taints and cordons that no rule has declared");
  does(clean, program, async () => (await import("../commands/clean.ts")).clean);
}
