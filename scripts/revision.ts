import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { root } from "./run-tool.ts";

const run = promisify(execFile);

/** The commit that is checked out, with `-modified` if a file differs from it; `unknown` outside of a clone. */
export async function readRevision(): Promise<string> {
  const git = async (...args: readonly string[]): Promise<string> =>
    (await run("git", args, { cwd: root })).stdout.trim();
  try {
    return `${await git("rev-parse", "HEAD")}${(await git("status", "--porcelain")) === "" ? "" : "-modified"}`;
  } catch {
    return "unknown";
  }
}
