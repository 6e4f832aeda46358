import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { readFolder } from "./folder-reader.ts";

interface TempFolder extends AsyncDisposable {
  readonly root: string;
}

async function folder(files: Readonly<Record<string, string | Buffer>>): Promise<TempFolder> {
  const root = await mkdtemp(join(tmpdir(), "berth-read-"));
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
  return { root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) };
}

describe("readFolder", () => {
  it("lists files in order of path, hidden files included, names with two leading dots left out", async () => {
    await using f = await folder({
      "b/2": "x",
      "b/1": "y",
      a: "z",
      ".hidden": "h",
      "..data/a": "no",
      "..tmp": "no",
    });
    const read = await readFolder(f.root);
    expect([...read.files.keys()]).toEqual([".hidden", "a", "b/1", "b/2"]);
    expect(read).toMatchObject({ root: "read", complete: true, problems: [] });
  });

  it("reads one file under its base name, and drops its byte order mark", async () => {
    await using f = await folder({ "config.yaml": "\uFEFFkind: X" });
    const read = await readFolder(join(f.root, "config.yaml"));
    expect([...read.files.values()]).toEqual([{ path: "config.yaml", text: "kind: X" }]);
  });

  it("says missing for a path that is not there", async () => {
    await using f = await folder({});
    expect(await readFolder(join(f.root, "no", "where"))).toMatchObject({ root: "missing", complete: false });
  });

  it("opens only what is included", async () => {
    await using f = await folder({ "a.yaml": "1", "a.txt": Buffer.from([0xff]) });
    const read = await readFolder(f.root, { include: (path) => path.endsWith(".yaml") });
    expect(read).toMatchObject({ problems: [] });
    expect([...read.files.keys()]).toEqual(["a.yaml"]);
  });

  it("follows links to files and folders and refuses a link back to a folder above", async () => {
    await using f = await folder({ "real/rule": "1" });
    await symlink(join(f.root, "real"), join(f.root, "linked"));
    await symlink("..", join(f.root, "real", "loop"));
    await symlink("linked/rule", join(f.root, "file"));
    const read = await readFolder(f.root);
    expect([...read.files.values()].flatMap(({ path, text }) => (text === undefined ? [] : [path]))).toEqual([
      "file",
      "linked/rule",
      "real/rule",
    ]);
    expect(read.problems.map(({ path }) => path)).toEqual(["linked/loop", "real/loop"]);
    expect(read.complete).toBe(true);
  });

  it("is incomplete while a link leads nowhere, as a folder may be behind it", async () => {
    await using f = await folder({ a: "1" });
    await symlink("gone", join(f.root, "link"));
    const read = await readFolder(f.root);
    expect(read).toMatchObject({
      complete: false,
      problems: [{ path: "link", problem: "the link leads nowhere" }],
    });
  });

  it("reports files above the size limits, each and together, and reads the rest", async () => {
    await using f = await folder({ a: "12345", b: "123", c: "123", d: "1" });
    const read = await readFolder(f.root, { limits: { maxFileBytes: 4, maxTotalBytes: 5 } });
    expect(read.files.get("a")?.problem).toContain("larger than 4");
    expect(read.files.get("c")?.problem).toContain("together");
    expect(read.files.get("d")?.text).toBe("1");
    expect(read.complete).toBe(true);
  });

  it("is incomplete beyond the limits on entries and depth", async () => {
    await using many = await folder({ a: "", b: "", c: "" });
    const few = await readFolder(many.root, { limits: { maxFiles: 2 } });
    expect(few.files.size).toBe(2);
    expect(few.complete).toBe(false);
    await using deep = await folder({ "1/2/3/rule": "x", "1/2/rule": "y" });
    const shallow = await readFolder(deep.root, { limits: { maxDepth: 2 } });
    expect([...shallow.files.keys()]).toEqual(["1/2/rule"]);
    expect(shallow).toMatchObject({ complete: false, problems: [{ path: "1/2/3" }] });
  });

  it("never opens a named pipe, which would wait for a writer", async () => {
    await using f = await folder({ a: "1" });
    execFileSync("mkfifo", [join(f.root, "pipe")]);
    const read = await readFolder(f.root);
    expect(read.files.get("pipe")).toEqual({ path: "pipe", problem: "not a regular file" });
    expect(read.files.get("a")?.text).toBe("1");
  });
});
