import { spawn } from "node:child_process";
import { join } from "node:path";

export const root: string = join(import.meta.dirname, "..");

/**
 * Runs a program of `node_modules/.bin` on the pinned Node; its output goes to ours, and `env` is added to ours. Resolves
 * with its exit code.
 */
export function runTool(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<number> {
  const bin = join(root, "node_modules/.bin");
  const child = spawn(join(bin, name), args, {
    cwd: root,
    stdio: "inherit",
    // The tools start with `#!/usr/bin/env node`: the pinned Node must be the first one found.
    env: { ...process.env, ...env, PATH: `${bin}:${process.env["PATH"] ?? ""}` },
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => resolve(code ?? 1));
  });
}
