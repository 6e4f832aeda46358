/** Which packages of npm are part of the bundle, and what their licences want to be said. */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import { root } from "./run-tool.ts";

/** The files beside a bundle. */
export const NOTICES = "THIRD-PARTY-NOTICES.txt";

/** Their paths as in package-lock.json, such as `node_modules/zod`. */
export function bundledPackages({ outputs }: Pick<Metafile, "outputs">): readonly string[] {
  const inputs = Object.values(outputs).flatMap((output) => Object.keys(output.inputs));
  const paths = inputs.flatMap((input) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input) ?? []);
  return [...new Set(paths)].sort();
}

/**
 * One text: of each package its name, version, licence, and the files that must go with it.
 * @throws Error for a package without such a file.
 */
export async function noticesOf(paths: readonly string[], folder: string = root): Promise<string> {
  const parts = await Promise.all(paths.map((path) => noticeOf(join(folder, path))));
  return ["Berth contains these packages of npm.\n", ...parts].join(`\n${"-".repeat(80)}\n\n`);
}

async function noticeOf(folder: string): Promise<string> {
  const { name, version, license } = JSON.parse(
    await readFile(join(folder, "package.json"), "utf8"),
  ) as Record<string, string>;
  const files = (await readdir(folder)).filter((file) =>
    /^(?:licen[cs]e|copying|copyright|notice)/i.test(file),
  );
  if (files.length === 0) throw new Error(`${name} ${version} is in the bundle and has no licence file`);
  const texts = await Promise.all(files.sort().map((file) => readFile(join(folder, file), "utf8")));
  return [`${name} ${version} (${license})`, ...texts.map((text) => text.trim())].join("\n\n").concat("\n");
}

/** Beside the bundle, with the list of what is in it for the bill of materials. */
export async function writeNotices(metafile: Metafile, bundle: string): Promise<void> {
  const paths = bundledPackages(metafile);
  await writeFile(join(bundle, NOTICES), await noticesOf(paths));
  await writeFile(join(bundle, "../bundled.json"), `${JSON.stringify(paths, null, 2)}\n`);
}
