/** The libraries as archives of npm, and what they consist of. */
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { repository } from "../revision.ts";
import { run } from "../run.ts";
import { root } from "../run-tool.ts";

export const LIBRARIES: readonly string[] = ["kube", "registry", "runtime", "host", "testcluster"];

interface PackageJson {
  readonly files: readonly string[];
  readonly exports: { readonly ".": Readonly<Record<string, string>> };
}

/**
 * Packs each from a folder of its own, as the licence belongs in it, and our sources and test dependencies do not.
 * @returns the archives.
 */
export async function packLibraries(output: string, scratch: string): Promise<readonly string[]> {
  const archives: string[] = [];
  for (const name of LIBRARIES) {
    const source = join(root, "packages", name);
    const folder = join(scratch, name);
    await mkdir(folder);
    const { devDependencies: _, ...json } = await readJson<
      PackageJson & { readonly devDependencies: object }
    >(join(source, "package.json"));
    for (const file of json.files) await cp(join(source, file), join(folder, file), { recursive: true });
    await cp(join(root, "LICENSE"), join(folder, "LICENSE"));
    const readme = await readFile(join(source, "README.md"), "utf8");
    await writeFile(join(folder, "README.md"), withWholeLinks(readme, `packages/${name}`));
    const { "berth-source": _source, ...entry } = json.exports["."];
    const published = { ...json, repository: repository(), exports: { ".": entry } };
    await writeFile(join(folder, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
    archives.push(
      join(output, await run("npm", ["pack", "--silent", "--pack-destination", output], { cwd: folder })),
    );
  }
  return archives;
}

/** What the links of a page lead to is not in the archive. @param folder where the page is in the repository. */
export function withWholeLinks(page: string, folder: string): string {
  return page.replaceAll(/\]\((?!https?:|#)([^)]+)\)/g, (_, link: string) => {
    return `](${repository()}/blob/main/${posix.join(folder, link)})`;
  });
}

/**
 * Installs the archives together, as a user does, and loads each. @returns what was installed, as SPDX.
 * @throws Error when npm refuses one, or it does not load.
 */
export async function tryLibraries(
  archives: readonly string[],
  scratch: string,
  version: string,
): Promise<string> {
  const json = { name: "berth-libraries", version, private: true, type: "module" };
  await writeFile(join(scratch, "package.json"), JSON.stringify(json));
  const install = ["install", "--ignore-scripts", "--omit=dev", "--loglevel=error"];
  await run("npm", [...install, ...archives], { cwd: scratch });
  const imports = LIBRARIES.map((name) => `await import("@berth/${name}");`).join("");
  await run(process.execPath, ["--input-type=module", "--eval", imports], { cwd: scratch });
  const told = await run("npm", ["sbom", "--sbom-format=spdx", "--sbom-type=library"], { cwd: scratch });
  // npm says where the archives are on this machine.
  return `${told.replaceAll(/"file:[^"]*"/g, '"NOASSERTION"')}\n`;
}

async function readJson<T>(file: string): Promise<T> {
  return JSON.parse(await readFile(file, "utf8")) as T;
}
