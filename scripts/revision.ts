import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./run.ts";
import { root } from "./run-tool.ts";

/** The address of the source, from package.json. Every address that we publish begins with it. */
export function repository(): string {
  const json = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly repository: string;
  };
  return json.repository;
}

/** The commit that is checked out, with `-modified` if a file differs from it; `unknown` outside of a clone. */
export async function readRevision(): Promise<string> {
  const git = (...args: readonly string[]): Promise<string> => run("git", args);
  try {
    return `${await git("rev-parse", "HEAD")}${(await git("status", "--porcelain")) === "" ? "" : "-modified"}`;
  } catch {
    return "unknown";
  }
}
