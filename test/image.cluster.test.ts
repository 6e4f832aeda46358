/** The image, carried out without an engine: the folder that it holds has to be all that the program needs. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { configOf } from "../scripts/image/dockerfile.ts";
import { layersOf, writeBerthRoot } from "../scripts/image/roots.ts";

const root = join(import.meta.dirname, "..");
const run = promisify(execFile);
const dockerfile = await readFile(join(root, "Dockerfile"), "utf8");

it("runs from the folder that the image holds, and nothing else", async () => {
  const [program, ...options] = configOf(dockerfile)["Entrypoint"] as string[];
  const path = options.pop() ?? "";
  const folder = await mkdtemp(join(tmpdir(), "berth-image-"));
  try {
    await writeBerthRoot(folder);
    const printed = async (...args: readonly string[]): Promise<string> =>
      (await run(process.execPath, [...options, join(folder, path), ...args], { cwd: folder, env: {} }))
        .stdout;
    expect(program).toBe("node");
    expect(await printed("version")).toMatch(/^berth \d/);
    // What it loads only then comes along as well.
    const definitions = await printed("manifests", "crds");
    expect(definitions).toContain("kind: CustomResourceDefinition");
    expect(definitions).toContain("kind: NodeFootprint");
    expect(await readFile(join(folder, "berth/LICENSE"))).toEqual(await readFile(join(root, "LICENSE")));
    expect(await readFile(join(folder, "berth/THIRD-PARTY-NOTICES.txt"), "utf8")).toMatch(
      /^zod \d.* \(MIT\)$/m,
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it("S-11 is made by an engine from the layers of `make image` alone: no base that moves", async () => {
  const copied = [...dockerfile.matchAll(/^COPY build\/root\/(\S+)\/ \/$/gm)].map(([, layer = ""]) => layer);
  expect(copied.map((layer) => layer.replace("${TARGETARCH}", "arm64"))).toEqual(layersOf("arm64"));
  expect(dockerfile.match(/^(?:FROM|COPY|ADD|RUN) .*$/gm)).toHaveLength(1 + copied.length);
  expect(dockerfile).toMatch(/^FROM scratch$/m);
  expect(await readFile(join(root, ".dockerignore"), "utf8")).toBe("*\n!build/root\n");
});

it("S-11 has CI write no file whose name can be guessed", async () => {
  expect(await readFile(join(root, ".ci/run"), "utf8")).not.toMatch(/\/tmp|\$\$/);
});
