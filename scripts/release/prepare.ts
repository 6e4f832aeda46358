/** The commit of a release: its version in every file that has one, and its section in the changelog. */
import { glob, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../run.ts";
import { root } from "../run-tool.ts";
import { releaseNotes } from "./changelog.ts";
import { isVersion, VERSIONED, withVersion } from "./version.ts";

const git = (...args: readonly string[]): Promise<string> => run("git", args);

/** @throws Error for what cannot be released. Nothing was changed then. */
export async function checkRelease(version: string): Promise<void> {
  if (!isVersion(version))
    throw new Error(
      `"${version}" is no version: make release VERSION=1.2.3 (semver.org, without build metadata)`,
    );
  const changed = await git("status", "--porcelain");
  if (changed !== "") throw new Error(`commit or remove these first:\n${changed}`);
  const tag = `refs/tags/v${version}`;
  const known = await git("for-each-ref", tag);
  const remotes = (await git("remote")).split("\n").filter(Boolean);
  const published = await Promise.all(remotes.map((remote) => git("ls-remote", remote, tag)));
  if ([known, ...published].some((found) => found !== ""))
    throw new Error(`${version} exists: git has the tag v${version}`);
}

/** Commits what changes, if anything does: a release that was interrupted goes on. @returns the notes of the release. */
export async function prepareRelease(version: string, today: string): Promise<string> {
  const changelog = join(root, "CHANGELOG.md");
  const { text, notes } = releaseNotes(await readFile(changelog, "utf8"), version, today);
  await writeFile(changelog, text);
  for await (const file of glob(VERSIONED, { cwd: root }))
    await writeFile(join(root, file), withVersion(file, await readFile(join(root, file), "utf8"), version));
  if ((await git("status", "--porcelain")) !== "")
    await git("commit", "--quiet", "--all", "--message", `Release ${version}`);
  return notes;
}
