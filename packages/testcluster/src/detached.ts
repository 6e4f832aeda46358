/** Clusters that outlive the process that starts them: `berth cluster start`, `stop` and `status`. */
import { execFile } from "node:child_process";
import { access, chmod, mkdir, mkdtempDisposable, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { bearerToken, connect } from "@berth/kube";
import type { ComponentName } from "./assets.ts";
import {
  type ClusterRecord,
  claim,
  readRecord,
  removeRecord,
  runningOf,
  writeRecord,
} from "./cluster-record.ts";
import { FILES, logFileOf, type OptionalComponent } from "./components.ts";
import { type ControlPlane, connectionTo, type StartProgress, startControlPlane } from "./control-plane.ts";
import { eventually } from "./eventually.ts";
import { renderKubeconfig } from "./kubeconfig.ts";
import { createNodes } from "./nodes.ts";
import { type Component, startComponent } from "./process.ts";
import { identify, type ProcessIdentity } from "./process-identity.ts";
import { callServer } from "./server-call.ts";

/** Where a cluster lives, and how large it is. */
export interface DetachedClusterOptions {
  /** Folder of the cluster. Data of a stopped cluster there is used again. */
  readonly dir: string;
  /** Port of the API server on 127.0.0.1. Default: a free one. */
  readonly port?: number;
  /** How many fake nodes it has from the start; more than none implies kwok. Default 0. */
  readonly nodes?: number;
  readonly with?: readonly OptionalComponent[];
  /** Environment to find the programs in (see `assets.ts`). Default that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Told while the control plane is built and started. */
  readonly onProgress?: (progress: DetachedProgress) => void;
  /** For the API server to become ready, not counting a first build. Milliseconds, default 60,000. */
  readonly timeoutMs?: number;
  /** Ends an unfinished start; a finished one is ended by `stopDetachedCluster`. */
  readonly signal?: AbortSignal;
}

/** How far a start has come. */
export type DetachedProgress =
  | StartProgress
  | { readonly step: "nodes"; readonly ready: number; readonly of: number };

/** A cluster that outlives the process that started it. */
export interface DetachedCluster {
  readonly dir: string;
  /** `https://127.0.0.1:port`. */
  readonly url: string;
  /** Path of the kubeconfig, which holds the admin's token: mode 0600. */
  readonly kubeconfig: string;
}

/** What of a detached cluster runs. */
export interface DetachedClusterStatus {
  readonly dir: string;
  /**
   * - `stopped`: nothing runs;
   * - `starting`: another process is starting it;
   * - `running`: every component runs and the API server is ready;
   * - `degraded`: a component has ended, or the API server is not ready.
   */
  readonly state: "stopped" | "starting" | "running" | "degraded";
  readonly url?: string;
  readonly kubeconfig?: string;
  readonly components: readonly {
    readonly name: ComponentName;
    readonly pid: number;
    readonly running: boolean;
  }[];
}

/** A cluster already runs, or is being started, in this folder. */
export class ClusterExistsError extends Error {
  override readonly name = "ClusterExistsError";
}

const STOP_GRACE_MS = 10_000;
const runFile = promisify(execFile);

/**
 * Starts a cluster that goes on running. Resolves when the API server is ready and all `nodes` are Ready; until then
 * the processes die with this one, so a start that fails or is killed leaves none behind.
 *
 * @throws ClusterExistsError, and what `startTestCluster` throws.
 */
export async function startDetachedCluster(options: DetachedClusterOptions): Promise<DetachedCluster> {
  const dir = path.resolve(options.dir);
  const made = await mkdir(dir, { recursive: true, mode: 0o700 });
  await claimOrExplain(dir);
  await using undo = new AsyncDisposableStack();
  undo.defer(async () => {
    await removeRecord(dir);
    if (made !== undefined) await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  });
  await dropUnfinishedData(dir);
  const count = options.nodes ?? 0;
  const wanted = new Set(options.with);
  if (count > 0) wanted.add("kwok");
  const { signal, onProgress } = options;
  const plane = undo.use(
    await startControlPlane({
      folder: dir,
      with: wanted,
      audit: false,
      users: [],
      flags: {},
      env: options.env ?? process.env,
      timeoutMs: options.timeoutMs ?? 60_000,
      ...(options.port === undefined ? {} : { port: options.port }),
      ...(onProgress ? { onProgress } : {}),
      ...(signal ? { signal } : {}),
    }),
  );
  await using client = connect({
    ...connectionTo(plane),
    credential: bearerToken(plane.credentials.admin.token),
  });
  await createNodes(client, count, {
    fake: wanted.has("kwok"),
    ...(signal ? { signal } : {}),
    ...(onProgress ? { onReady: (ready) => onProgress({ step: "nodes", ready, of: count }) } : {}),
  });
  const kubeconfig = await writeKubeconfig(plane);
  await release(dir, plane.url, [...plane.components.values()]);
  undo.move();
  return { dir, url: plane.url, kubeconfig };
}

/** @throws ClusterExistsError */
async function claimOrExplain(dir: string): Promise<void> {
  while (!(await claim(dir))) {
    const record = await readRecord(dir);
    if (record === undefined) continue;
    if (record.state === "starting" && (await runningOf([record.starter])).length > 0) {
      throw new ClusterExistsError(`process ${record.starter.pid} is starting a cluster in ${dir}`);
    }
    if (record.state === "started") {
      const running = await runningOf(record.components);
      if (running.length > 0) {
        const names = running.map(({ name }) => name).join(", ");
        throw new ClusterExistsError(`a cluster runs in ${dir} (${record.url}; ${names}): stop it first`);
      }
    }
    await removeRecord(dir);
  }
}

/** Stands while the first start of a cluster is under way. */
const UNFINISHED = "unfinished";

/**
 * An etcd that is killed while it makes its data never elects a leader with it. Data whose first start did not come to
 * its end holds nothing of anybody, and is made again.
 */
async function dropUnfinishedData(dir: string): Promise<void> {
  const [data, mark] = [path.join(dir, FILES.data), path.join(dir, UNFINISHED)];
  if (await isThere(mark)) await rm(data, { recursive: true, force: true, maxRetries: 5 });
  else if (!(await isThere(data))) await writeFile(mark, "");
}

function isThere(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

async function writeKubeconfig({ layout, url, credentials }: ControlPlane): Promise<string> {
  const file = path.join(layout.folder, FILES.kubeconfig);
  const { authority, admin } = credentials;
  const text = renderKubeconfig({ server: url, ca: authority.certificate, user: admin, name: "berth" });
  await writeFile(file, text, { mode: 0o600 });
  await chmod(file, 0o600); // the mode above is only for a file that did not exist
  return file;
}

/** The record is written before anything is let go: whatever runs without us can be found. */
async function release(dir: string, url: string, running: readonly Component[]): Promise<void> {
  const components = await Promise.all(
    running.map(async ({ name, pid, program, flags }) => {
      const identity = await identify(pid);
      if (identity === undefined) throw new Error(`${name} ended before the cluster was complete`);
      return { name, pid, startedAt: identity.startedAt, program, flags };
    }),
  );
  await writeRecord(dir, { version: 1, state: "started", url, components });
  await rm(path.join(dir, UNFINISHED), { force: true });
  await Promise.all(running.map((component) => component.release()));
}

/** Where a copy of a cluster's data is, or is to be. */
export interface CopyOptions {
  /** Folder of the cluster, which runs. */
  readonly dir: string;
  readonly file: string;
}

/**
 * Copies the data of a running cluster to a file, which it replaces. The cluster answers nothing for that moment, some
 * tenths of a second.
 *
 * @throws Error when no cluster runs there.
 */
export async function saveDetachedCluster({ dir, file }: CopyOptions): Promise<void> {
  const { components } = await runningIn(dir);
  const etcd = components.find(({ name }) => name === "etcd");
  if (etcd === undefined || (await runningOf([etcd])).length === 0)
    throw new Error(`etcd has ended in ${dir}: stop the cluster, and start it again`);
  // What a frozen process has written is what a killed one would leave, which etcd reads again.
  process.kill(etcd.pid, "SIGSTOP");
  try {
    await runFile("tar", ["-czf", `${file}.new`, "-C", path.resolve(dir), FILES.data]);
  } finally {
    process.kill(etcd.pid, "SIGCONT");
  }
  await rename(`${file}.new`, file);
}

/**
 * Puts the data of a running cluster back to a copy, as after a disaster: also resourceVersions go back. All components
 * start again, with the same address and credentials. Resolves when the API server is ready.
 *
 * @throws Error when no cluster runs there, or the file is no copy; the cluster goes on as it was then.
 */
export async function restoreDetachedCluster({ dir, file }: CopyOptions): Promise<void> {
  const folder = path.resolve(dir);
  const { url, components } = await runningIn(folder);
  await using copy = await mkdtempDisposable(path.join(folder, "restore-"));
  await runFile("tar", ["-xzf", file, "-C", copy.path]);
  const data = path.join(copy.path, FILES.data);
  if (!(await isThere(path.join(data, "member")))) throw new Error(`${file} is no copy of a cluster`);
  for (const component of (await runningOf(components)).toReversed()) await end(component);
  await rm(path.join(folder, FILES.data), { recursive: true, force: true, maxRetries: 5 });
  await rename(data, path.join(folder, FILES.data));
  await using undo = new AsyncDisposableStack();
  const started: Component[] = [];
  for (const { name, program, flags } of components) {
    const logFile = logFileOf(folder, name);
    started.push(undo.use(await startComponent({ name, program, flags, logFile })));
    // The others give up on a missing server.
    if (name === "kube-apiserver")
      await eventually(
        async () => {
          if (!(await isReady(folder, url))) throw new Error(`the API server in ${folder} is not ready`);
        },
        { timeoutMs: 60_000 },
      );
  }
  await release(folder, url, started);
  undo.move();
}

async function runningIn(dir: string): Promise<Extract<ClusterRecord, { state: "started" }>> {
  const record = await readRecord(dir);
  if (record?.state === "started") return record;
  throw new Error(`no cluster runs in ${dir}`);
}

/**
 * Ends the processes that the folder's record names, each verified to be the recorded one by when it was started, the
 * API server's clients first. Its data stays.
 *
 * @returns the names of those that were running; none when there was nothing to stop.
 * @throws ClusterExistsError while another process is starting the cluster.
 */
export async function stopDetachedCluster(options: {
  readonly dir: string;
}): Promise<readonly ComponentName[]> {
  const dir = path.resolve(options.dir);
  const record = await readRecord(dir);
  if (record?.state === "starting" && (await runningOf([record.starter])).length > 0) {
    throw new ClusterExistsError(
      `process ${record.starter.pid} is starting a cluster in ${dir}: end that instead`,
    );
  }
  const components = record?.state === "started" ? record.components : [];
  const running = await runningOf(components);
  for (const component of running.toReversed()) await end(component);
  await removeRecord(dir);
  await rm(path.join(dir, FILES.kubeconfig), { force: true });
  return running.map(({ name }) => name);
}

/** SIGTERM, and SIGKILL after ten seconds. */
async function end(known: ProcessIdentity): Promise<void> {
  const expectGone = async (): Promise<void> => {
    if ((await runningOf([known])).length > 0) throw new Error(`process ${known.pid} has not ended`);
  };
  if ((await runningOf([known])).length > 0) process.kill(known.pid, "SIGTERM");
  try {
    await eventually(expectGone, { timeoutMs: STOP_GRACE_MS });
  } catch {
    if ((await runningOf([known])).length > 0) process.kill(known.pid, "SIGKILL");
    await eventually(expectGone, { timeoutMs: STOP_GRACE_MS });
  }
}

/** Looks at the processes and asks the API server whether it is ready. */
export async function detachedClusterStatus(options: {
  readonly dir: string;
}): Promise<DetachedClusterStatus> {
  const dir = path.resolve(options.dir);
  const record = await readRecord(dir);
  if (record?.state === "started") return statusOfStarted(dir, record);
  const starting = record !== undefined && (await runningOf([record.starter])).length > 0;
  return { dir, state: starting ? "starting" : "stopped", components: [] };
}

async function statusOfStarted(
  dir: string,
  { url, components }: Extract<ClusterRecord, { state: "started" }>,
): Promise<DetachedClusterStatus> {
  const running = new Set(await runningOf(components));
  const listed = components.map((component) => ({
    name: component.name,
    pid: component.pid,
    running: running.has(component),
  }));
  if (running.size === 0) return { dir, state: "stopped", components: listed };
  const healthy = running.size === components.length && (await isReady(dir, url));
  return {
    dir,
    state: healthy ? "running" : "degraded",
    url,
    kubeconfig: path.join(dir, FILES.kubeconfig),
    components: listed,
  };
}

/** Everybody may read /readyz (ClusterRole system:public-info-viewer). */
async function isReady(dir: string, url: string): Promise<boolean> {
  const ca = await readFile(path.join(dir, FILES.ca), "utf8");
  return callServer({ url: `${url}/readyz`, ca, signal: AbortSignal.timeout(5000) }).then(
    () => true,
    () => false,
  );
}
