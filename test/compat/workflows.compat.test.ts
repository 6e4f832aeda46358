/** The workflows of the forge: right by its linter, and nothing in them that the Makefile does not have. */
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";

const root = join(import.meta.dirname, "../..");
const folder = join(root, ".github/workflows");
const files = (await readdir(folder)).map((name) => join(folder, name));

it("pass actionlint", async () => {
  const args = ["-C", join(root, "scripts/release"), "tool", "actionlint", ...files];
  expect(await promisify(execFile)("go", args)).toEqual({ stdout: "", stderr: "" });
});

interface Workflow {
  readonly jobs: Readonly<Record<string, { readonly steps: readonly { readonly uses?: string }[] }>>;
}

describe.each(files)("%s", (file) => {
  it("uses three actions of the forge itself, each by its major version", async () => {
    const { jobs } = parse(await readFile(file, "utf8")) as Workflow;
    const actions = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ uses }) => uses ?? []));
    expect(actions).not.toEqual([]);
    for (const action of actions) expect(action).toMatch(/^actions\/(?:checkout|setup-node|setup-go)@v\d+$/);
  });
});
