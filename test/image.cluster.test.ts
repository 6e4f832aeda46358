/** The Dockerfile, carried out without an engine: the folder that it copies has to be all that the program needs. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
const run = promisify(execFile);

it("runs from the folder that the image holds, and nothing else", async () => {
  const dockerfile = await readFile(join(root, "Dockerfile"), "utf8");
  const [, from = "", to = ""] = /^COPY (\S+) (\S+)$/m.exec(dockerfile) ?? [];
  const [, entry = ""] = /^ENTRYPOINT (.+)$/m.exec(dockerfile) ?? [];
  const [program, ...options] = JSON.parse(entry) as string[];
  const path = options.pop() ?? "";
  expect([program, path.startsWith(`${to}/`)]).toEqual(["node", true]);
  expect(await readFile(join(root, ".dockerignore"), "utf8")).toContain(`!${from}\n`);
  const folder = await mkdtemp(join(tmpdir(), "berth-image-"));
  try {
    await cp(join(root, from), folder, { recursive: true });
    const berth = join(folder, path.slice(to.length));
    const printed = async (...args: readonly string[]): Promise<string> =>
      (await run(process.execPath, [...options, berth, ...args], { cwd: folder, env: {} })).stdout;
    expect(await printed("version")).toMatch(/^berth \d/);
    // What it loads only then comes along as well.
    const definitions = await printed("manifests", "crds");
    expect(definitions).toContain("kind: CustomResourceDefinition");
    expect(definitions).toContain("kind: NodeFootprint");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it("S-11 takes its base image as an argument, and CI writes no file whose name can be guessed", async () => {
  const dockerfile = await readFile(join(root, "Dockerfile"), "utf8");
  expect(dockerfile).toMatch(/^ARG NODE_IMAGE=(\S+)\nFROM \$\{NODE_IMAGE\}$/m);
  expect(await readFile(join(root, ".ci/run"), "utf8")).not.toMatch(/\/tmp|\$\$/);
});
