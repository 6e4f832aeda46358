import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { run } from "../run.ts";
import { unpackDeb } from "./deb.ts";

const header = (name: string, size: number): string =>
  `${name.padEnd(16)}${"0".padEnd(12)}${"0".padEnd(6)}${"0".padEnd(6)}${"100644".padEnd(8)}${String(size).padEnd(10)}\`\n`;

function ar(members: Readonly<Record<string, Buffer>>): Buffer {
  const parts = Object.entries(members).flatMap(([name, bytes]) => [
    Buffer.from(header(name, bytes.length)),
    bytes,
    Buffer.from(bytes.length % 2 === 1 ? "\n" : ""),
  ]);
  return Buffer.concat([Buffer.from("!<arch>\n"), ...parts]);
}

describe("a package of Debian", () => {
  it("gives its files with their modes, and its control file", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "berth-deb-"));
    const at = (path: string): string => join(folder.path, path);
    await mkdir(at("in/usr/bin"), { recursive: true });
    await mkdir(at("out"));
    await writeFile(at("in/usr/bin/a"), "program", { mode: 0o755 });
    await writeFile(at("in/control"), "Package: a\nArchitecture: all\n");
    await run("tar", ["-cJf", at("data.tar.xz"), "-C", at("in"), "./usr"]);
    await run("tar", ["-cJf", at("control.tar.xz"), "-C", at("in"), "./control"]);
    // An odd size, so that a byte of padding follows.
    const members = { "debian-binary": Buffer.from("2.0") };
    for (const name of ["control.tar.xz", "data.tar.xz"])
      Object.assign(members, { [name]: await readFile(at(name)) });
    await writeFile(at("a.deb"), ar(members));
    expect(await unpackDeb(at("a.deb"), at("out"))).toBe("Package: a\nArchitecture: all");
    expect(await readFile(at("out/usr/bin/a"), "utf8")).toBe("program");
  });

  it.each([
    ["is cut", Buffer.from("!<arch>\ndebian-bin"), ""],
    ["is none", Buffer.from("<html>"), ""],
    ["is packed with another program", ar({ "data.tar.zst": Buffer.from("x") }), "data.tar.zst"],
  ])("that %s is refused", async (_, bytes, has) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "berth-deb-"));
    await writeFile(join(folder.path, "a.deb"), bytes);
    await expect(unpackDeb(join(folder.path, "a.deb"), folder.path)).rejects.toThrow(
      `a.deb is no package of Debian packed with xz: it has ${has}`,
    );
  });
});
