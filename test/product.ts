/** `berth run` as a process of its own, as `make build` has bundled it, and what it says about itself. */
import { type ChildProcess, spawn } from "node:child_process";
import { globSync, statSync } from "node:fs";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually, type KubeconfigChoice, type TestCluster } from "@berth/testcluster";

const root = path.join(import.meta.dirname, "..");
const program = path.join(root, "packages/cli/dist/bin/berth.js");

/** @throws Error when the bundle is older than a source: the test would be about an earlier program. */
function assertBuilt(): void {
  const builtAt = statSync(program, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isNewer = (file: string): boolean =>
    !/\.test\.ts$|\/testing\//.test(file) && statSync(path.join(root, file)).mtimeMs > builtAt;
  const newer = globSync("packages/{kube,registry,runtime,host,placement,fleet,cli}/src/**/*.ts", {
    cwd: root,
  }).find(isNewer);
  if (newer !== undefined) throw new Error(`${newer} is newer than the bundle: run \`make build\` first`);
}
let isBuilt = false;

/** One line of the log; the fields are part of what Berth promises, the texts are not. */
export type LogEntry = Readonly<Record<string, unknown>> & { readonly level: string; readonly msg: string };

export interface BerthProcessOptions {
  /** After `berth`, `run` included. */
  readonly args: readonly string[];
  /** Where relative paths start. Default: the repository. */
  readonly folder?: string;
  /** What the arguments are for. Default: the pinned Node with the bundle. */
  readonly command?: readonly [string, ...string[]];
  /** Added to an environment that names no cluster. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Goes when the process has ended. */
  readonly owned?: AsyncDisposable;
}

/** Disposing asks it to stop, and fails when it does not stop in order. */
export interface BerthProcess extends AsyncDisposable {
  /** Everything it has logged so far. */
  readonly log: readonly LogEntry[];
  /** Everything it has printed so far, for the message of a failing test. */
  readonly output: string;
  /** Exit code or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** `undefined` while it runs. */
  readonly exit: number | NodeJS.Signals | undefined;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** Resolves once `/readyz` says ok, and warns of nothing. */
  ready(): Promise<void>;
  /** What `/readyz` says; a warning is not `ok`. */
  readiness(): Promise<{ readonly ok: boolean; readonly text: string }>;
  /** Whether it answers 2xx at this path of its health server, as a probe asks. */
  answers(path: string): Promise<boolean>;
  /** The sum of the samples of a metric that carry these labels. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>;
}

/** Enough for any test here; a test that logs more looks at the end. */
const MOST_LOG_ENTRIES = 20_000;

/** Starts it and does not wait for anything. */
export function startBerthProcess(options: BerthProcessOptions): BerthProcess {
  if (!isBuilt) assertBuilt();
  isBuilt = true;
  const [command, ...before] = options.command ?? [process.execPath, program];
  const child: ChildProcess = spawn(command, [...before, ...options.args], {
    cwd: options.folder ?? root,
    env: { PATH: process.env["PATH"], HOME: "/nonexistent", ...options.environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const log: LogEntry[] = [];
  let output = "";
  let unfinished = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    const lines = (unfinished + chunk.toString("utf8")).split("\n");
    unfinished = lines.pop() ?? "";
    for (const line of lines) log.push(JSON.parse(line) as LogEntry);
    log.splice(0, log.length - MOST_LOG_ENTRIES);
    output = (output + chunk.toString("utf8")).slice(-16_384);
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString("utf8")).slice(-16_384);
  });
  let exit: number | NodeJS.Signals | undefined;
  const ended = new Promise<number | NodeJS.Signals>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      exit = code ?? signal ?? 0;
      resolve(exit);
    });
  });
  const urlOf = async (server: "metrics" | "health"): Promise<string> => {
    const url = log.find((entry) => typeof entry[server] === "string")?.[server];
    if (typeof url !== "string") throw new Error(`it serves no ${server} yet:\n${output}`);
    return url;
  };
  const readiness: BerthProcess["readiness"] = async () => {
    const answer = await fetch(`${await urlOf("health")}/readyz?verbose`);
    const text = await answer.text();
    return { ok: answer.ok && !/^\[!\]/m.test(text), text };
  };
  return {
    log,
    get output() {
      return output;
    },
    ended,
    get exit() {
      return exit;
    },
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    readiness,
    ready: () =>
      eventually(
        async () => {
          const { ok, text } = await readiness();
          if (!ok) throw new Error(`it is not ready:\n${text}\n${output}`);
        },
        { everyMs: 25 },
      ),
    answers: async (probe) => (await fetch(`${await urlOf("health")}${probe}`)).ok,
    async metric(name, labels = {}) {
      const text = await (await fetch(`${await urlOf("metrics")}/metrics`)).text();
      return sumOfSamples(text, name, labels);
    },
    async [Symbol.asyncDispose]() {
      await using _last = options.owned;
      if (exit !== undefined) return;
      child.kill("SIGTERM");
      const overdue = setTimeout(() => child.kill("SIGKILL"), 10_000);
      const how = await ended;
      clearTimeout(overdue);
      if (how !== 0) throw new Error(`berth ended with ${how} when asked to stop:\n${output}`);
    },
  };
}

/** A document of Berth, as a file has it. */
export interface FileDocument {
  readonly kind: string;
  /** Default one that no other document of the file has. */
  readonly name?: string;
  readonly spec: object;
}

export interface BerthOnCluster extends KubeconfigChoice {
  /** Text of the whole kubeconfig, instead of `server` and `user`. */
  readonly kubeconfig?: string | undefined;
  readonly documents?: readonly FileDocument[];
  /** Options of `berth run`. */
  readonly args?: readonly string[];
  /** Added to an environment that names no cluster. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** `berth run` on a cluster. It waits for nothing, and serves metrics and probes at addresses that no other process has. */
export async function startBerthOn(
  cluster: TestCluster,
  { kubeconfig, documents = [], args = [], environment = {}, ...choice }: BerthOnCluster = {},
): Promise<BerthProcess> {
  const owned = await mkdtempDisposable(path.join(tmpdir(), "berth-process-"));
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(path.join(owned.path, name), text, { mode: 0o600 });
    return path.join(owned.path, name);
  };
  const connection = ["--kubeconfig", await file("kubeconfig", kubeconfig ?? cluster.kubeconfig(choice))];
  const config =
    documents.length === 0 ? [] : ["--config", await file("berth.yaml", documentsText(documents))];
  const addresses = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
  return startBerthProcess({
    args: ["run", ...connection, ...config, ...addresses, ...args],
    environment,
    owned,
  });
}

/** The text of a file with these documents. */
export function documentsText(documents: readonly FileDocument[]): string {
  const texts = documents.map(({ kind, name, spec }, at) =>
    JSON.stringify({
      apiVersion: "berth.dev/v1alpha1",
      kind,
      metadata: { name: name ?? `document-${at}` },
      spec,
    }),
  );
  return texts.join("\n---\n");
}

/** Of the Prometheus text format: every sample of the name whose labels include these. */
export function sumOfSamples(
  text: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
  const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  return text
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => wanted.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}
