/** `berth cell`: the clusters of the management plane. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import {
  addCell,
  adoptPatch,
  type CandidateFault,
  type Cell,
  cellLine,
  cells,
  type FleetSpec,
  fleetKind,
  formatCells,
  formatDrainPlan,
  formatForgetting,
  formatOrphans,
  isSeen,
  nameFaults,
  type Orphan,
  orphanIn,
  orphanLines,
  readDrainPlan,
  readForgetting,
  whenCell,
  whenDrained,
  withdrawOrphan,
} from "@berth/fleet";
import { Progress } from "@berth/host";
import { fingerprintOf, isApiError, type ParsedKubeconfig, type Patch, parseKubeconfig } from "@berth/kube";
import type { CommandDeps } from "../command-deps.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { readGivenFleet } from "../fleet-session.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { nothingToGoBy, openSession, patchAsRead, readOne, type Session } from "../session.ts";
import { VERSION } from "../version.ts";

export interface CellAddOptions {
  readonly name: string;
  /** Default: that of the Cell, which is there. */
  readonly city?: string;
  /** Of the cell. */
  readonly kubeconfig: string;
  readonly context?: string;
  /** Of Berth's cluster. */
  readonly hubKubeconfig?: string;
  readonly namespace?: string;
  /** Of Berth in the cell. */
  readonly cellNamespace?: string;
  readonly output?: DataFormat;
}

/** How long it waits for a running Berth to look at the Cell. Milliseconds. */
const SEEN_MS = 10_000;
/** The same for an orphan to adopt: most often its Workload is not there yet. */
const ADOPTED_MS = 3_000;

/** Checks a cluster, and makes it a Cell, or gives the Cell another credential. Repeating it writes only what differs. */
export async function add(options: CellAddOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const { name, hubKubeconfig, namespace: wanted, cellNamespace, output } = options;
  if (options.city !== undefined) refuse(name, nameFaults({ name, city: options.city }));
  const kubeconfig = await readCellKubeconfig(options, deps);
  const connection = {
    ...(hubKubeconfig !== undefined && { kubeconfig: hubKubeconfig }),
    ...(wanted !== undefined && { namespace: wanted }),
  };
  await using session = await openSession(connection, deps);
  const city = options.city ?? (await readOne(cells, { name }, session)).spec?.city ?? "";
  const ownFingerprint = fingerprintOf(await session.choice.connect.credential.material(session.signal));
  const { name: namespace } = await session.stateNamespace();
  const userAgent = `berth/${VERSION}`;
  const request = { name, city, kubeconfig, userAgent, ownFingerprint, namespace, cellNamespace };
  const done = await addCell(request, session).catch((error: unknown) => explainMissing(error, session));
  if ("faults" in done) return refuse(name, done.faults);
  const { server, version, uid, secret, wrote } = done.added;
  // What was said of a Cell that is there is about the credential that it had.
  const isNews = (it: Cell): boolean => cellLine(it).reachable === "True";
  const seen = await waitFor(name, options.city === undefined ? isNews : isSeen, session);
  if (output) printData(stdout, { ...cellLine(seen), server, version, secret, wrote }, output);
  else {
    stdout.write(`${name} is ${server}, Kubernetes ${version}, uid ${uid}\n`);
    stdout.write(`Secret ${secret}: ${wrote.secret}\nCell ${name}: ${wrote.cell}\n`);
    stdout.write(`${stateOf(seen)}\n`);
  }
  return exitCodes.done;
}

async function readCellKubeconfig(
  { kubeconfig: file, context }: CellAddOptions,
  { folder }: CommandDeps,
): Promise<ParsedKubeconfig> {
  const text = await readFile(path.resolve(folder, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`the kubeconfig ${file} cannot be read: ${error.code ?? error.message}`);
  });
  return await parseKubeconfig(text, { origin: file, ...(context !== undefined && { context }) });
}

function refuse(name: string, faults: readonly CandidateFault[]): ExitCode {
  const [only, ...more] = faults.map(({ reason, message }) => `${reason}: ${message}`);
  if (only === undefined) return exitCodes.done;
  const list = more.length === 0 ? ` ${only}` : [only, ...more].map((it) => `\n  ${it}`).join("");
  throw new CommandError(`nothing is written for cell ${name}:${list}`, exitCodes.failed);
}

/** @throws CommandError when Berth's cluster does not serve the kind, and the error itself otherwise. */
function explainMissing(error: unknown, { client: { server } }: Session): never {
  if (!isApiError(error, "notFound") || error.request.resource !== `${cells.plural}.${cells.group}`)
    throw error;
  throw new CommandError(NOT_SERVED(server), exitCodes.failed, { cause: error });
}

const NOT_SERVED = (server: string): string =>
  `${server} serves no Cells: install the CRDs (\`berth manifests crds --fleet\`), or choose the cluster that Berth runs in`;

async function waitFor(
  name: string,
  isSo: (cell: Cell) => boolean,
  session: Session,
  timeoutMs: number = SEEN_MS,
): Promise<Cell> {
  using _progress = new Progress(
    session.stderr,
    session.clock,
    "waiting for a running Berth to look at the Cell",
  );
  return await whenCell(name, isSo, session, timeoutMs);
}

function stateOf(cell: Cell): string {
  const { city, reachable, reason, message } = cellLine(cell);
  if (reachable === "Unknown")
    return "No running Berth has looked at it yet: is there a `berth run` with a Fleet in mode management?";
  const now = `Workloads may name ${city} now`;
  return reason === "" ? `It is reached. ${now}.` : `${now}. ${reason}: ${message}`;
}

export interface CellListOptions extends ConnectionOptions {
  /** In place of the Cells: what is in them that nothing stands for. */
  readonly orphans?: boolean;
  readonly output?: DataFormat;
}

export async function list(options: CellListOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, clock } = deps;
  await using session = await openSession(options, deps);
  const found = await readCells(session);
  if (options.orphans === true) {
    const orphans = orphanLines(found);
    const names = orphans.map(({ namespace, name }) => `${namespace}/${name}`);
    if (options.output) printData(stdout, { orphans }, options.output, names);
    else stdout.write(formatOrphans(found));
    return exitCodes.done;
  }
  const lines = found.map(cellLine);
  const names = lines.map(({ name }) => `cell/${name}`);
  if (options.output) printData(stdout, { cells: lines }, options.output, names);
  else stdout.write(lines.length === 0 ? "There is no Cell.\n" : formatCells(lines, clock.now()));
  return exitCodes.done;
}

async function readCells(session: Session): Promise<readonly Cell[]> {
  const { client, signal } = session;
  try {
    return (await client.list(cells, { signal })).items;
  } catch (error) {
    if (isApiError(error, "notFound")) throw nothingToGoBy(session, "", NOT_SERVED(client.server));
    throw error;
  }
}

export interface CellAdoptOptions extends ConnectionOptions {
  /** Of the Cell. */
  readonly name: string;
  /** An orphan: `NAMESPACE/NAME`. */
  readonly deployment: string;
}

/** The deployment of the project that has the name of the orphan takes it over, now or when there is one. */
export async function adopt(options: CellAdoptOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const { name, deployment } = options;
  await using session = await openSession(options, deps);
  const cell = await readOne(cells, { name }, session);
  const orphan = requireOrphan(cell, deployment);
  await patchAsRead(cells, cell, (present) => adoptPatch(present, orphan), session);
  const of = orphan.of ?? deployment;
  const isDone = (it: Cell): boolean => orphanIn(it, deployment) === undefined;
  stdout.write(
    isDone(await waitFor(name, isDone, session, ADOPTED_MS))
      ? `${deployment} in cell ${name} is ${of} now.\n`
      : `${deployment} in cell ${name} waits: there is no ${of} yet, or it is in another cell.\n`,
  );
  return exitCodes.done;
}

function requireOrphan(cell: Cell, text: string): Orphan {
  const orphan = orphanIn(cell, text);
  if (orphan !== undefined) return orphan;
  const why = `cell ${cell.metadata?.name} has no orphan ${text}: \`berth cell list --orphans\` has their names`;
  throw new CommandError(why, exitCodes.failed);
}

export interface CellDrainOptions extends CellListOptions {
  readonly name: string;
  /** Shows what follows, and writes nothing. */
  readonly plan?: boolean;
  /** Follows the drain until it is over. */
  readonly wait: boolean;
  readonly config?: readonly string[];
}

/** Has the deployments of a Cell move, and says how far that is. What ends this command does not end the drain. */
export async function drain(options: CellDrainOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const { name, output, wait } = options;
  await using owned = new AsyncDisposableStack();
  await using session = await openSession(options, deps);
  const cell = await readOne(cells, { name }, session);
  if (options.plan) {
    const { fleet } = await readGivenFleet(options, deps, owned);
    const { atOnce } = (fleet?.spec ?? DEFAULT_FLEET).moves;
    const plan = await readDrainPlan(cell, session, { atOnce, toHub: fleet?.hub?.hub });
    if (output) printData(stdout, plan, output);
    else stdout.write(formatDrainPlan(plan));
    return exitCodes.done;
  }
  if (cell.spec?.forgotten) throw new CommandError(`Cell ${name} is forgotten: its deployments go elsewhere`);
  await patchAsRead(cells, cell, drainPatch(true), session);
  if (!output)
    stdout.write(`Cell ${name} is being drained. \`berth cell undrain ${name}\` takes that back.\n`);
  const end = wait ? await watched(name, session, deps, output === undefined) : "stopped";
  if (output) printData(stdout, cellLine(await readOne(cells, { name }, session)), output);
  return end === "drained" || end === "stopped" ? exitCodes.done : exitCodes.failed;
}

async function watched(name: string, session: Session, { stdout, signal }: CommandDeps, isShown: boolean) {
  const say = (line: string): void => void (isShown && stdout.write(`${line}\n`));
  const end = await whenDrained(name, session, { onNews: say, unseenMs: SEEN_MS }).catch((error: unknown) => {
    if (signal.aborted) return "stopped" as const;
    throw error;
  });
  if (end === "drained") say(`Cell ${name} is drained.`);
  if (end === "stopped") say(`The drain goes on: \`berth cell list\` shows how far it is.`);
  if (end === "ended") say(`The drain was taken back.`);
  if (end === "unseen")
    say(
      "No running Berth has looked at it yet: is there a `berth run` with a Fleet in mode management? The drain begins with it.",
    );
  return end;
}

export interface CellUndrainOptions extends CellListOptions {
  readonly name: string;
}

export async function undrain(options: CellUndrainOptions, deps: CommandDeps): Promise<ExitCode> {
  const { name, output } = options;
  await using session = await openSession(options, deps);
  const cell = await readOne(cells, { name }, session);
  const was = cell.spec?.drain === true;
  await patchAsRead(cells, cell, drainPatch(false), session);
  if (output) printData(deps.stdout, cellLine(await readOne(cells, { name }, session)), output);
  else
    deps.stdout.write(
      was
        ? `Cell ${name} is not drained any more. Deployments that were not ready elsewhere stay.\n`
        : `Cell ${name} is not drained.\n`,
    );
  return exitCodes.done;
}

function drainPatch(wanted: boolean): (cell: Cell) => Patch | undefined {
  return ({ metadata: { uid, resourceVersion } = {}, spec }) =>
    (spec?.drain === true) === wanted
      ? undefined
      : { type: "merge", body: { metadata: { uid, resourceVersion }, spec: { drain: wanted || null } } };
}

/** As `berth run` takes it without a document. */
const DEFAULT_FLEET: FleetSpec = fleetKind.spec.parse({ mode: "single" });

export interface CellForgetOptions extends CellListOptions {
  readonly name: string;
  /** An orphan to forget in place of the Cell: `NAMESPACE/NAME`. */
  readonly deployment?: string;
  readonly yes?: boolean;
}

/** Without `yes` it only shows what follows. */
export async function forget(options: CellForgetOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr, clock } = deps;
  const { name, deployment, yes = false, output } = options;
  await using session = await openSession(options, deps);
  const cell = await readOne(cells, { name }, session);
  if (deployment !== undefined)
    return await forgetOrphan(cell, requireOrphan(cell, deployment), options, { session, stdout });
  const done = cell.spec?.forgotten === true;
  const forgetting = await readForgetting(cell, session);
  if (output) printData(stdout, { ...forgetting, done: done || yes }, output);
  else if (done) stdout.write(`Cell ${name} is forgotten already.\n`);
  else stdout.write(formatForgetting(forgetting, clock.now(), yes ? "will" : "would"));
  if (done) return exitCodes.done;
  if (!yes) {
    stderr.write("Nothing was written: add --yes to act. It cannot be taken back.\n");
    return exitCodes.done;
  }
  await patchAsRead(cells, cell, forgottenPatch, session);
  if (!output) stdout.write(`Cell ${name} is forgotten. A running Berth moves its deployments.\n`);
  return exitCodes.done;
}

async function forgetOrphan(
  cell: Cell,
  orphan: Orphan,
  { name, yes = false, output }: CellForgetOptions,
  { session, stdout }: Pick<CommandDeps, "stdout"> & { readonly session: Session },
): Promise<ExitCode> {
  const { namespace, of } = orphan;
  const what = `Deployment ${namespace}/${orphan.name} in cell ${name}${of === undefined ? "" : ` (${of})`}`;
  if (output) printData(stdout, { cell: name, ...orphan, done: yes }, output);
  if (!yes) {
    if (!output) stdout.write(`${what} would be deleted, with its Instances.\n`);
    session.stderr.write("Nothing was written: add --yes to act. It cannot be taken back.\n");
    return exitCodes.done;
  }
  const isNew = await withdrawOrphan(cell, orphan, session);
  if (!output)
    stdout.write(`${what} ${isNew ? "is deleted by a running Berth" : "is being deleted already"}.\n`);
  return exitCodes.done;
}

function forgottenPatch({ metadata: { uid, resourceVersion } = {} }: Cell): Patch {
  return { type: "merge", body: { metadata: { uid, resourceVersion }, spec: { forgotten: true } } };
}
