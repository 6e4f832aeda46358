/** What an image was made from: the commit, and its date in place of the clock. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readRevision, repository } from "../revision.ts";
import { run } from "../run.ts";
import { root } from "../run-tool.ts";

export interface Origin {
  /** Of packages/cli. */
  readonly version: string;
  readonly license: string;
  /** The address of the source. */
  readonly source: string;
  /** The commit, with `-modified` if the folder has other files than it. */
  readonly revision: string;
  /** Of the commit, or SOURCE_DATE_EPOCH. */
  readonly created: string;
}

/** @throws Error outside of a clone, without SOURCE_DATE_EPOCH. */
export async function readOrigin(epoch: string | undefined): Promise<Origin> {
  const { version, license } = JSON.parse(
    await readFile(join(root, "packages/cli/package.json"), "utf8"),
  ) as Readonly<Record<"version" | "license", string>>;
  const seconds = epoch ?? (await run("git", ["log", "-1", "--format=%ct"]));
  const created = new Date(Number(seconds) * 1000).toISOString();
  return { version, license, source: repository(), revision: await readRevision(), created };
}
