import path from "node:path";
import { formatColumns, Progress } from "@berth/host";
import {
  type DetachedClusterStatus,
  type DetachedProgress,
  detachedClusterStatus,
  detachedClustersIn,
  type OptionalComponent,
  restoreDetachedCluster,
  saveDetachedCluster,
  startDetachedCluster,
  startDetachedFleet,
  stopDetachedClusters,
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
  readonly nodes?: string;
  readonly with?: string;
  /** Names of planes, the hub first, separated by commas. */
  readonly fleet?: string;
}

export interface CopyOptions extends ClusterOptions {
  /** A cluster of the fleet in the folder. */
  readonly plane: string;
  readonly file: string;
}

export interface StatusOptions extends ClusterOptions {
  readonly output?: DataFormat;
}

/** Prints the path of the kubeconfig as the last line on standard output, and everything else on standard error. */
export async function start(options: StartOptions, deps: CommandDeps): Promise<ExitCode> {
  if (options.fleet !== undefined) return startFleet(options.fleet, options, deps);
  const { stdout, stderr, clock, signal, environment } = deps;
  using progress = new Progress(stderr, clock, "looking for the control plane");
  const cluster = await startDetachedCluster({
    dir: folderOf(options, deps),
    nodes: toNumber("--nodes", options.nodes ?? "0", 10_000),
    with: toComponents(options.with ?? ""),
    ...(options.port === undefined ? {} : { port: toNumber("--port", options.port, 65_535) }),
    env: environment,
    signal,
    onProgress: (step) => progress.update(describeProgress(step)),
  });
  stdout.write(`${cluster.kubeconfig}\n`);
  return exitCodes.done;
}

/** Prints a line `NAME KUBECONFIG` for each plane on standard output, and everything else on standard error. */
async function startFleet(names: string, options: StartOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr, clock, signal, environment } = deps;
  const other = (["port", "nodes", "with"] as const).find((it) => options[it] !== undefined);
  if (other !== undefined)
    throw new CommandError(`--${other} is for one cluster, and --fleet starts several`, exitCodes.usage);
  using progress = new Progress(stderr, clock, "looking for the control plane");
  const clusters = await startDetachedFleet({
    dir: folderOf(options, deps),
    planes: toList(names),
    env: environment,
    signal,
    onProgress: (plane, step) => progress.update(`${plane}: ${describeProgress(step)}`),
  });
  for (const [name, { kubeconfig }] of clusters) stdout.write(`${name} ${kubeconfig}\n`);
  return exitCodes.done;
}

export async function stop(options: ClusterOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const dir = folderOf(options, deps);
  const stopped = await stopDetachedClusters(dir);
  const all = [...stopped].filter(([, components]) => components.length > 0);
  for (const [name, components] of all)
    stdout.write(`stopped ${name === "" ? "" : `${name}: `}${components.join(", ")}\n`);
  if (all.length === 0) stdout.write(`no cluster runs in ${dir}\n`);
  return exitCodes.done;
}

export async function save(options: CopyOptions, deps: CommandDeps): Promise<ExitCode> {
  await saveDetachedCluster(await copyOf(options, deps));
  deps.stdout.write(`the data of ${options.plane} are in ${options.file}\n`);
  return exitCodes.done;
}

export async function restore(options: CopyOptions, deps: CommandDeps): Promise<ExitCode> {
  const { plane, file } = options;
  using _progress = new Progress(deps.stderr, deps.clock, `${plane} starts again`);
  await restoreDetachedCluster(await copyOf(options, deps));
  deps.stdout.write(`${plane} has the data of ${file} again\n`);
  return exitCodes.done;
}

async function copyOf(options: CopyOptions, deps: CommandDeps): Promise<{ dir: string; file: string }> {
  const { plane, file } = options;
  const dir = folderOf(options, deps);
  const running = await detachedClustersIn(dir);
  const found = running.get(plane);
  if (found !== undefined && plane !== "") return { dir: found, file: path.resolve(deps.folder, file) };
  const names = [...running.keys()].filter((name) => name !== "").join(", ");
  throw new CommandError(
    `no plane "${plane}" runs in ${dir}: ${names === "" ? "start a fleet first" : `there is ${names}`}`,
    exitCodes.usage,
  );
}

/** Ends with 1 unless each cluster runs and is ready, for use in scripts. */
export async function status(options: StatusOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const dir = folderOf(options, deps);
  const folders = await detachedClustersIn(dir);
  const isFleet = [...folders.keys()].some((name) => name !== "");
  const found = await Promise.all(
    [...(isFleet ? folders : new Map([["", dir]]))].map(
      async ([name, folder]) => [name, await detachedClusterStatus({ dir: folder })] as const,
    ),
  );
  if (options.output) printData(stdout, isFleet ? Object.fromEntries(found) : found[0]?.[1], options.output);
  else for (const [name, of] of found) stdout.write(formatColumns(rowsOf(name, of)));
  return found.every(([, { state }]) => state === "running") ? exitCodes.done : exitCodes.failed;
}

function rowsOf(plane: string, { state, url, kubeconfig, components }: DetachedClusterStatus): string[][] {
  return [
    ...(plane === "" ? [] : [["plane", plane]]),
    ["state", state],
    ...(url === undefined ? [] : [["server", url]]),
    ...(kubeconfig === undefined ? [] : [["kubeconfig", kubeconfig]]),
    ...components.map(({ name, pid, running }) => [
      name,
      running ? `running (pid ${pid})` : `ended (was pid ${pid})`,
    ]),
  ];
}

function folderOf({ dir }: ClusterOptions, { folder, home }: CommandDeps): string {
  if (dir !== undefined) return path.resolve(folder, dir);
  if (home !== undefined) return path.join(home, ".berth", "cluster");
  throw new CommandError("there is no home folder for the cluster: give --dir", exitCodes.usage);
}

const COMPONENTS: readonly OptionalComponent[] = ["scheduler", "controller-manager", "kwok"];

function toComponents(list: string): readonly OptionalComponent[] {
  return toList(list).map(toComponent);
}

function toList(text: string): readonly string[] {
  const names = text.split(",").map((name) => name.trim());
  return names.filter((name) => name !== "");
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
