/** How long a person waits for the command, and a controller until it talks to its cluster. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { berthProgram, startProgram } from "./process.ts";
import { type Figure, median } from "./report.ts";

const root = join(import.meta.dirname, "..");
const RUNS = 9;
const MB = 1024 * 1024;

export async function benchStart(): Promise<readonly Figure[]> {
  const help: number[] = [];
  const bare: number[] = [];
  const imports: ControllerStart[] = [];
  const controllers: ControllerStart[] = [];
  // Taken in turns, so that a busy moment of the machine meets all of them.
  for (let run = 0; run < RUNS; run++) {
    bare.push(timeCommand(process.execPath, ["-e", "0"]));
    help.push(timeCommand(join(root, "bin/berth"), ["--help"]));
    imports.push(importController());
    controllers.push(await startController());
  }
  const times = controllers.map(({ tookMs }) => tookMs);
  const beside = `bare Node ${median(bare).toFixed(0)} ms; median of ${RUNS}`;
  return [
    {
      id: "start-help",
      what: "berth --help",
      value: median(help),
      unit: "ms",
      budget: 150,
      detail: beside,
      samples: help,
    },
    {
      id: "start-import",
      what: "import of the controller",
      value: median(imports.map(({ tookMs }) => tookMs)),
      unit: "ms",
      budget: 150,
      detail: `with the compile cache that berth keeps; median of ${RUNS}`,
      samples: imports.map(({ tookMs }) => tookMs),
    },
    {
      id: "start-import-memory",
      what: "resident once the controller is imported",
      value: median(imports.map(({ resident }) => resident / MB)),
      unit: "MB",
      budget: 70,
      samples: imports.map(({ resident }) => resident / MB),
    },
    {
      id: "start-controller",
      what: "berth run: spawn to first connection",
      value: median(times),
      unit: "ms",
      detail: beside,
      samples: times,
    },
    {
      id: "start-controller-memory",
      what: "berth run: resident at the first connection",
      value: median(controllers.map(({ resident }) => resident / MB)),
      unit: "MB",
      samples: controllers.map(({ resident }) => resident / MB),
    },
  ];
}

interface ControllerStart {
  readonly tookMs: number;
  /** Bytes. */
  readonly resident: number;
}

/** Imports what `berth run` imports, in a process of its own. */
function importController(): ControllerStart {
  const [module] = globSync(join(root, "packages/cli/dist/bin/run-*.js"));
  if (module === undefined) throw new Error("berth is not built: run make build");
  const program = [
    'import { enableCompileCache } from "node:module";',
    "enableCompileCache();",
    "const startedAt = performance.now();",
    `await import(${JSON.stringify(module)});`,
    "const tookMs = performance.now() - startedAt;",
    "console.log(JSON.stringify({ tookMs, resident: process.memoryUsage.rss() }));",
  ].join("\n");
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", program], {
    encoding: "utf8",
  });
  return JSON.parse(printed) as ControllerStart;
}

/** `berth run` against a server that accepts and says nothing, up to its first connection. */
async function startController(): Promise<ControllerStart> {
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-start-"));
  const open = new Set<Socket>();
  const server = createServer((socket) => open.add(socket.on("error", () => undefined)));
  try {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, silentServer(port));
    const connected = once(server, "connection");
    const off = ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"];
    const startedAt = performance.now();
    await using berth = startProgram(berthProgram(["--kubeconfig", kubeconfig, ...off]));
    await connected;
    return { tookMs: performance.now() - startedAt, resident: (await berth.memory()).resident };
  } finally {
    for (const socket of open) socket.destroy();
    server.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function silentServer(port: number): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "silent",
    contexts: [{ name: "silent", context: { cluster: "silent", user: "silent" } }],
    clusters: [{ name: "silent", cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: "silent", user: {} }],
  });
}

function timeCommand(command: string, args: readonly string[]): number {
  const startedAt = performance.now();
  execFileSync(command, args, { stdio: "ignore" });
  return performance.now() - startedAt;
}
