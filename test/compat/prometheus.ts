/** Prometheus and promtool, built on demand from their module, and the CRDs of the operator. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { findFreePort } from "@berth/testcluster";
import { stringify } from "yaml";
import { patiently } from "../patience.ts";

const run = promisify(execFile);
const MODULE = path.join(import.meta.dirname, "../../tools/prometheus");
const CACHE = path.join(process.env["XDG_CACHE_HOME"] ?? path.join(homedir(), ".cache"), "berth/prometheus");

/** Takes minutes the first time, and a second when Go finds that they are up to date. */
export async function buildPrometheus(): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  // Without the libraries of all clouds: the tests name the targets.
  const flags = ["-tags=remove_all_sd", "-ldflags=-s -w", "-o", `${CACHE}/`];
  const programs = ["promtool", "prometheus"].map((name) => `github.com/prometheus/prometheus/cmd/${name}`);
  const env = { ...process.env, CGO_ENABLED: "0" };
  await run("go", ["build", ...flags, ...programs], { cwd: MODULE, env });
}

/** @throws an error with its output when it fails. */
export async function promtool(...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await run(path.join(CACHE, "promtool"), args);
  return stdout + stderr;
}

const OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0";
const OPERATOR_SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=";

/** The folder with the CRDs of the operator of Prometheus, from its module. */
export async function operatorCrds(): Promise<string> {
  const { stdout } = await run("go", ["mod", "download", "-json", OPERATOR], { cwd: tmpdir() });
  const { Dir, Sum } = JSON.parse(stdout) as { readonly Dir: string; readonly Sum: string };
  if (Sum !== OPERATOR_SUM)
    throw new Error(`${OPERATOR} has the hash ${Sum}, and is pinned to ${OPERATOR_SUM}`);
  return path.join(Dir, "example/prometheus-operator-crd");
}

/** An alert as Prometheus tells Alertmanager. */
export interface Alert {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly state: "pending" | "firing";
}

export interface Prometheus extends AsyncDisposable {
  /** Those that are pending or firing. */
  alerts(): Promise<readonly Alert[]>;
  /** The values of an expression now. */
  query(expr: string): Promise<readonly { readonly value: readonly [number, string] }[]>;
}

/** Scrapes the targets and evaluates the rules every second. Resolves when it is ready. */
export async function startPrometheus(targets: readonly string[], rules: object): Promise<Prometheus> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-prometheus-"))).path;
  const config = {
    global: { scrape_interval: "1s", evaluation_interval: "1s" },
    rule_files: ["rules.yaml"],
    scrape_configs: [{ job_name: "berth", static_configs: [{ targets }] }],
  };
  await writeFile(path.join(folder, "rules.yaml"), stringify(rules));
  await writeFile(path.join(folder, "prometheus.yaml"), stringify(config));
  const address = `127.0.0.1:${await findFreePort()}`;
  const args = [
    "--config.file=prometheus.yaml",
    "--storage.tsdb.path=data",
    `--web.listen-address=${address}`,
  ];
  const child = spawn(path.join(CACHE, "prometheus"), args, {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log = (log + chunk.toString()).slice(-8192)));
  const gone = once(child, "close");
  owned.defer(async () => {
    child.kill("SIGKILL");
    await gone;
  });
  const get = async (api: string): Promise<unknown> => {
    const answer = await fetch(`http://${address}${api}`);
    if (!answer.ok) throw new Error(`${api}: ${answer.status} ${await answer.text()}\n${log}`);
    return api.startsWith("/api/") ? ((await answer.json()) as { readonly data: unknown }).data : undefined;
  };
  await patiently(() => get("/-/ready"));
  const end = owned.move();
  return {
    alerts: async () => ((await get("/api/v1/alerts")) as { readonly alerts: readonly Alert[] }).alerts,
    query: async (expr) =>
      ((await get(`/api/v1/query?query=${encodeURIComponent(expr)}`)) as { readonly result: [] }).result,
    [Symbol.asyncDispose]: () => end.disposeAsync(),
  };
}
