import { execFile } from "node:child_process";
import { chmod, chown, mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkProgram } from "./architectures.ts";
import { type Index, type Layer, writeIndex, writeLayer } from "./layout.ts";

const run = promisify(execFile);
const A_YEAR_S = 365 * 24 * 3600;
const settings = { created: "2026-01-01T00:00:00.000Z", version: "1.0.0", config: { User: "65532:65532" } };

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "berth-layout-"));
});
afterAll(() => rm(scratch, { recursive: true }));

/** A machine of its own: folders, cache and layout. */
async function machine(): Promise<{
  readonly folder: string;
  readonly layout: string;
  readonly cache: string;
}> {
  const folder = await mkdtemp(join(scratch, "machine-"));
  const [root, layout, cache] = ["root", "layout", "cache"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [root, layout, cache]) await mkdir(path);
  return { folder: root, layout, cache };
}

async function fill(folder: string, names: readonly string[], clock: number, mode: number): Promise<void> {
  for (const name of names) {
    await writeFile(join(folder, name), `content of ${name}`);
    await chmod(join(folder, name), mode);
    await utimes(join(folder, name), clock, clock);
    // Root alone may give files away; others have their own user on them.
    if (process.getuid?.() === 0) await chown(join(folder, name), 12345, 12345);
  }
  await symlink("a", join(folder, "link"));
  await utimes(folder, clock, clock);
}

async function image(code: string): Promise<{ readonly layers: readonly Layer[]; readonly index: Index }> {
  const { folder, layout, cache } = await machine();
  const layers: Layer[] = [];
  for (const [name, content] of Object.entries({ debian: "libc", node: "node", berth: code })) {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, "file"), content);
    layers.push(await writeLayer(join(folder, name), layout, cache));
  }
  return { layers, index: await writeIndex(layout, [{ architecture: "arm64", layers }], settings) };
}

describe("a layer", () => {
  it("is the same when the clock is a year off, files come in another order, and the umask is another", async () => {
    const now = Date.now() / 1000;
    const [one, other] = [await machine(), await machine()];
    await fill(one.folder, ["a", "b", "c"], now, 0o755);
    await fill(other.folder, ["c", "a", "b"], now - A_YEAR_S, 0o700);
    const layer = await writeLayer(one.folder, one.layout, one.cache);
    expect(await writeLayer(other.folder, other.layout, other.cache)).toEqual(layer);
    await writeFile(join(other.folder, "a"), "another content");
    expect(await writeLayer(other.folder, other.layout, other.cache)).not.toEqual(layer);
  });

  it("belongs to root, and only root may write", async () => {
    const { folder, layout, cache } = await machine();
    await fill(folder, ["a"], 1, 0o777);
    await chmod(folder, 0o777);
    const { descriptor } = await writeLayer(folder, layout, cache);
    const blob = join(layout, "blobs", descriptor.digest.replace(":", "/"));
    const { stdout } = await run("tar", ["--list", "--verbose", "--numeric-owner", "--file", blob]);
    expect(
      stdout
        .trim()
        .split("\n")
        .map((line) => line.split(/\s+/).slice(0, 2).join(" ")),
    ).toEqual(["drwxr-xr-x 0/0", "-rwxr-xr-x 0/0", "lrwxr-xr-x 0/0"]);
  });
});

describe("an image", () => {
  it("has the same digest when it is made again, and shares all layers but one with other code", async () => {
    const [one, again, next] = [await image("code"), await image("code"), await image("other code")];
    expect(again).toEqual(one);
    expect(next.index.index.digest).not.toBe(one.index.index.digest);
    expect(next.layers.slice(0, -1)).toEqual(one.layers.slice(0, -1));
    expect(next.layers.at(-1)).not.toEqual(one.layers.at(-1));
  });
});

describe("a program of another architecture", () => {
  const node = readFile(process.execPath).then((bytes) => bytes.subarray(0, 20));
  const own = process.arch === "x64" ? "amd64" : "arm64";
  const other = own === "amd64" ? "arm64" : "amd64";

  it("is named with both", async () => {
    expect(() => checkProgram("node.tgz", Buffer.from("#!/bin/sh\nexec true\n\n"), own)).toThrow(
      `node.tgz is built for no architecture of the image, not for ${own}`,
    );
    const header = await node;
    expect(() => checkProgram("node.tgz", header, own)).not.toThrow();
    expect(() => checkProgram("node.tgz", header, other)).toThrow(`is built for ${own}, not for ${other}`);
  });
});
