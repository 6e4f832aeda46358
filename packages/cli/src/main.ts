#!/usr/bin/env node
/** The process. Only this file uses the real arguments, environment, streams and signals. */
import { enableCompileCache } from "node:module";
import { homedir } from "node:os";
import { runCli } from "./cli.ts";
import type { Output } from "./command-deps.ts";
import { exitCodes } from "./exit-codes.ts";
import { createStopSignals } from "./stop-signals.ts";

/** Keeps compiled code in the user's temporary folder, which saves about a third of the next start. */
enableCompileCache();

const stop = createStopSignals((code) => process.exit(code));

function toOutput(stream: NodeJS.WriteStream): Output {
  // The reader closed the pipe (`berth plan | head`), so more output is useless.
  stream.on("error", () => process.exit(exitCodes.failed));
  return {
    write: (text) => void stream.write(text),
    get isTerminal() {
      return stream.isTTY && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";
    },
    get columns() {
      return stream.isTTY ? stream.columns : undefined;
    },
  };
}

process.on("SIGINT", () => stop.on("SIGINT"));
process.on("SIGTERM", () => stop.on("SIGTERM"));

// The timers of the runtime do not keep the process alive. This one does, until the command has ended.
const alive = setInterval(() => {}, 2 ** 31 - 1);

process.exitCode = await runCli(process.argv.slice(2), {
  environment: process.env,
  folder: process.cwd(),
  home: homedir(),
  stdout: toOutput(process.stdout),
  stderr: toOutput(process.stderr),
  signal: stop.signal,
  self: process.env["BERTH_COMMAND"] || (process.argv[1] ?? "berth"),
});
clearInterval(alive);
// Other handles (a closing socket, a timer) have no work left.
await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
process.exit();
