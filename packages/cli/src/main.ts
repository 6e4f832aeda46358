#!/usr/bin/env node
/** The process: its arguments, environment, streams and signals are touched here and nowhere else. */
import { enableCompileCache } from "node:module";
import { homedir } from "node:os";
import { runCli } from "./cli.ts";
import { exitCodes } from "./exit-codes.ts";
import { createStopSignals } from "./stop-signals.ts";
import type { Output } from "./surroundings.ts";

/** Compiled code is kept in the user's temporary folder: the next start saves about a third of its time. */
enableCompileCache();

const stop = createStopSignals((code) => process.exit(code));

function toOutput(stream: NodeJS.WriteStream): Output {
  // The reader has gone (`berth plan | head`): nobody is left to write for.
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

// The runtime's timers do not keep a process alive; this does until the command has ended.
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
// Whatever still holds the event loop open (a socket closing, a timer) has no work left to do.
await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
process.exit();
