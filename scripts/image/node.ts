/** Node in the image: byte for byte what npm has under the versions and hashes of package-lock.json. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../run.ts";
import { root } from "../run-tool.ts";
import { type Architecture, CPUS } from "./architectures.ts";
import { hasHash } from "./hash.ts";

/** An entry of package-lock.json. */
export interface LockedPackage {
  readonly version: string;
  /** `sha512-…` */
  readonly integrity?: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly link?: boolean;
}

/** By path, such as `node_modules/zod`. */
export async function readLock(): Promise<Readonly<Record<string, LockedPackage>>> {
  const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, LockedPackage>>;
  };
  return lock.packages;
}

export function nodePackage(architecture: Architecture): string {
  return `node-linux-${CPUS[architecture]}`;
}

/**
 * Has the archive of one architecture in the folder, and resolves with its path. npm is asked only if it is not there.
 * @throws Error for an archive with another hash than the lockfile's.
 */
export async function fetchNode(architecture: Architecture, folder: string): Promise<string> {
  const name = nodePackage(architecture);
  const { version, integrity = "" } = (await readLock())[`node_modules/${name}`] ?? { version: "" };
  const archive = join(folder, `${name}-${version}.tgz`);
  const isRight = (): Promise<boolean> => hasHash(archive, "sha512", integrity.replace(/^sha512-/, ""));
  if (await isRight()) return archive;
  await run("npm", ["pack", `${name}@${version}`, "--silent", "--pack-destination", folder], { cwd: folder });
  if (!(await isRight())) throw new Error(`${name} ${version} of npm is not as package-lock.json pins it`);
  return archive;
}
