import path from "node:path";
import { formatColumns, Progress } from "@berth/host";
import {
  type DetachedProgress,
  detachedClusterStatus,
  type OptionalComponent,
  startDetachedCluster,
  stopDetachedCluster,
} from "@berth/testcluster";
import type { CommandDeps } from "../command-deps.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";

export interface ClusterOptions {
  /** Default: `.berth/cluster` in the user's home folder. */
  readonly dir?: string;
}

export interface StartOptions extends ClusterOptions {
  readonly port?: string;
  readonly nodes: string;
  readonly with?: string;
}

export interface StatusOptions extends ClusterOptions {
  readonly output?: DataFormat;
}

/** Prints the path of the kubeconfig as the last line on standard output, and everything else on standard error. */
export async function start(options: StartOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr, clock, signal, environment } = deps;
  using progress = new Progress(stderr, clock, "looking for the control plane");
  const cluster = await startDetachedCluster({
    dir: folderOf(options, deps),
    nodes: toNumber("--nodes", options.nodes, 10_000),
    with: toComponents(options.with ?? ""),
    ...(options.port === undefined ? {} : { port: toNumber("--port", options.port, 65_535) }),
    env: environment,
    signal,
    onProgress: (step) => progress.update(describeProgress(step)),
  });
  stdout.write(`${cluster.kubeconfig}\n`);
  return exitCodes.done;
}

export async function stop(options: ClusterOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const dir = folderOf(options, deps);
  const stopped = await stopDetachedCluster({ dir });
  stdout.write(stopped.length === 0 ? `no cluster runs in ${dir}\n` : `stopped ${stopped.join(", ")}\n`);
  return exitCodes.done;
}

/** Ends with 1 unless the cluster runs and is ready, for use in scripts. */
export async function status(options: StatusOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const found = await detachedClusterStatus({ dir: folderOf(options, deps) });
  if (options.output) printData(stdout, found, options.output);
  else {
    const rows: (readonly string[])[] = [["state", found.state]];
    if (found.url) rows.push(["server", found.url]);
    if (found.kubeconfig) rows.push(["kubeconfig", found.kubeconfig]);
    for (const { name, pid, running } of found.components) {
      rows.push([name, running ? `running (pid ${pid})` : `ended (was pid ${pid})`]);
    }
    stdout.write(formatColumns(rows));
  }
  return found.state === "running" ? exitCodes.done : exitCodes.failed;
}

function folderOf({ dir }: ClusterOptions, { folder, home }: CommandDeps): string {
  if (dir !== undefined) return path.resolve(folder, dir);
  if (home !== undefined) return path.join(home, ".berth", "cluster");
  throw new CommandError("there is no home folder for the cluster: give --dir", exitCodes.usage);
}

const COMPONENTS: readonly OptionalComponent[] = ["scheduler", "controller-manager", "kwok"];

function toComponents(list: string): readonly OptionalComponent[] {
  const names = list.split(",").map((name) => name.trim());
  return names.filter((name) => name !== "").map(toComponent);
}

function toComponent(name: string): OptionalComponent {
  const component = COMPONENTS.find((known) => known === name);
  if (component !== undefined) return component;
  throw new CommandError(`--with ${name}: there is ${COMPONENTS.join(", ")}`, exitCodes.usage);
}

function toNumber(flag: string, text: string, most: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number <= most) return number;
  throw new CommandError(`${flag} ${text}: expected a whole number from 0 to ${most}`, exitCodes.usage);
}

/** Describes the current step of a start for the user. `berth demo` prints the same. */
export function describeProgress(step: DetachedProgress): string {
  if (step.step === "build") {
    const now = step.current === "" ? "" : `, now ${step.current}`;
    return `building the control plane, once, some 6 minutes on two cores: ${step.packages} of about 2,400 packages${now}`;
  }
  if (step.step === "nodes") return `${step.ready} of ${step.of} nodes are Ready`;
  return step.step === "start" ? `starting ${step.component}` : `${step.component} is ready`;
}
