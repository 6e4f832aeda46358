import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import path from "node:path";
import type { TestFolder } from "./harness.ts";

const root = path.join(import.meta.dirname, "../../../..");
export const program: string = path.join(root, "bin/berth");

interface Started extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly pid: number;
  stdout(): string;
  stderr(): string;
  /** Exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
}

/** With an environment that names no cluster, and finds the control plane where it is kept. */
export function start(given: string, folder: TestFolder, file: string = program): Started {
  const args = given.split(" ");
  const environment = { ...process.env, KUBECONFIG: "" };
  const child = spawn(file, args, { cwd: folder.path, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  const written = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (written.stdout += chunk.toString("utf8")));
  child.stderr.on("data", (chunk: Buffer) => (written.stderr += chunk.toString("utf8")));
  const ended = once(child, "close").then(([code, signal]: unknown[]) => (code ?? signal) as number | string);
  return {
    child,
    pid: child.pid ?? 0,
    stdout: () => written.stdout,
    stderr: () => written.stderr,
    ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Takes connections and says nothing. */
export async function silentServer(): Promise<
  { readonly url: string; readonly connected: Promise<unknown> } & AsyncDisposable
> {
  const server = createServer();
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connected: once(server, "connection"),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
