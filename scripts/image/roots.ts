/**
 * The folders that become the layers of the image, and that the Dockerfile copies. What changes seldom comes first, and
 * is a layer of its own: releases that change only the code of Berth share all but the last.
 */
import { chmod, cp, glob, mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { run } from "../run.ts";
import { root } from "../run-tool.ts";
import { type Architecture, checkProgram } from "./architectures.ts";
import { unpackDeb } from "./deb.ts";
import { type DebianPackage, fileOf } from "./debian.ts";

/** As the Dockerfile names them. */
export function layersOf(architecture: Architecture): readonly string[] {
  return [`debian-${architecture}`, `node-${architecture}`, "berth"];
}

/** Of the packages only what a program loads, and the licences: no program, and so no shell. */
const KEPT = [
  "lib/{*.so*,*/*.so*}",
  "lib64/*",
  "usr/lib/*/*.so*",
  "{etc,usr/lib}/os-release",
  "usr/share/common-licenses/*",
  // The links to the documents of another package, and each copyright file.
  "usr/share/doc/{libgcc-s1,libstdc++6}",
  "usr/share/doc/*/copyright",
];

/** @throws Error for a package of another architecture. */
export async function writeDebianRoot(
  folder: string,
  packages: readonly DebianPackage[],
  downloads: string,
): Promise<void> {
  const unpacked = await mkdtemp(join(downloads, "unpacked-"));
  try {
    for (const one of packages) {
      const file = join(downloads, fileOf(one));
      const control = `${await unpackDeb(file, unpacked)}\n`;
      // Scanners of images look here for what is installed.
      await write(join(folder, "var/lib/dpkg/status.d", one.name), control);
      if (!control.includes(`\nArchitecture: ${one.build}\n`))
        throw new Error(`${file} is not built for ${one.build}:\n${control}`);
    }
    for await (const path of glob(KEPT, { cwd: unpacked }))
      await cp(join(unpacked, path), join(folder, path), { recursive: true, verbatimSymlinks: true });
    const authorities = join(unpacked, "usr/share/ca-certificates/mozilla");
    const bundle = (await readdir(authorities))
      .sort()
      .map((name) => readFile(join(authorities, name), "utf8"));
    await write(join(folder, "etc/ssl/certs/ca-certificates.crt"), (await Promise.all(bundle)).join(""));
    await write(join(folder, "etc/nsswitch.conf"), "hosts: files dns\n");
    await mkdir(join(folder, "labels"));
  } finally {
    await rm(unpacked, { recursive: true });
  }
}

/** @throws Error for a Node of another architecture. */
export async function writeNodeRoot(
  folder: string,
  archive: string,
  architecture: Architecture,
): Promise<void> {
  await mkdir(join(folder, "usr/bin"), { recursive: true });
  await mkdir(join(folder, "usr/share/doc/node"), { recursive: true });
  const unpack = (file: string, to: string): Promise<unknown> =>
    run("tar", [
      "-xzf",
      archive,
      "-C",
      join(folder, to),
      "--strip-components",
      String(file.split("/").length - 1),
      file,
    ]);
  await unpack("package/bin/node", "usr/bin");
  await unpack("package/LICENSE", "usr/share/doc/node");
  await using node = await open(join(folder, "usr/bin/node"));
  const { buffer } = await node.read(Buffer.alloc(20));
  checkProgram(archive, buffer, architecture);
}

/** The folder that `make build` made, with the licence and the notices in it. */
export async function writeBerthRoot(folder: string): Promise<void> {
  await cp(join(root, "packages/cli/dist/bin"), join(folder, "berth"), { recursive: true });
  await chmod(join(folder, "berth/berth.js"), 0o755);
}

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}
