/**
 * `make release VERSION=x`: everything that is published, in `build/release-x`, and the commands that publish it. It
 * commits the version, tags the commit at the end, and sends nothing anywhere. `--image NAME` is where the image will be.
 */
import { hash } from "node:crypto";
import { cp, mkdir, mkdtempDisposable, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { pack } from "./image/layout.ts";
import { packChart, publishChart } from "./release/chart.ts";
import { packLibraries, tryLibraries } from "./release/libraries.ts";
import { packPlugin } from "./release/plugin.ts";
import { checkRelease, prepareRelease } from "./release/prepare.ts";
import { uploadScript } from "./release/upload.ts";
import { repository } from "./revision.ts";
import { run } from "./run.ts";
import { root } from "./run-tool.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { image: { type: "string", default: "localhost/berth" } },
});
const [version = ""] = positionals;
const output = join(root, "build", `release-${version}`);
const berth = (...args: readonly string[]): Promise<string> => run(join(root, "bin/berth"), args);

try {
  await checkRelease(version);
  const notes = await prepareRelease(version, new Date().toISOString().slice(0, 10));
  await rm(output, { recursive: true, force: true });
  await mkdir(output, { recursive: true });
  await using scratch = await mkdtempDisposable(join(tmpdir(), "berth-release-"));
  await makeRelease(notes, scratch.path);
  await run("git", ["tag", "--annotate", `v${version}`, "--message", `Berth ${version}`]);
  console.log(`\nTo publish, run ${relative(root, join(output, "upload.sh"))}:\n`);
  console.log(await readFile(join(output, "upload.sh"), "utf8"));
  console.log(output);
} catch (error) {
  console.error(`release: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

async function makeRelease(notes: string, scratch: string): Promise<void> {
  const folder = async (name: string): Promise<string> => {
    await mkdir(join(scratch, name));
    return join(scratch, name);
  };
  const write = (name: string, text: string, mode = 0o644): Promise<void> =>
    writeFile(join(output, name), text, { mode });
  const downloads = `${repository()}/releases/download/v${version}`;
  const date = new Date(Number(await run("git", ["log", "-1", "--format=%ct"])) * 1000);

  const layout = await made("image");
  await checkProgram();
  const { manifests } = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as {
    readonly manifests: readonly { readonly digest: string }[];
  };
  const [{ digest } = { digest: "" }] = manifests;
  await pack(join(output, `berth-image-${version}.oci.tar`), layout, date);
  for (const name of await readdir(layout))
    if (/^(?:sbom-.+|provenance)\.json$/.test(name))
      await cp(join(layout, name), join(output, `berth-image-${version}-${name}`));

  const image = `${values.image}:${version}@${digest}`;
  const chart = await packChart(await made("chart"), output, await folder("chart"), {
    repository: values.image,
    digest,
  });
  const url = `${downloads}/berth-${version}.tgz`;
  await publishChart(chart, output, await folder("artifact"), { url, date });

  await writeManifests(image, await folder("fleet"));
  await packBases(image, await folder("bases"), date);
  const completions = {
    bash: "berth.bash",
    zsh: "_berth",
    fish: "berth.fish",
    kubectl: "kubectl_complete-berth",
  };
  for (const [shell, name] of Object.entries(completions))
    await write(name, `${await berth("completion", shell)}\n`, shell === "kubectl" ? 0o755 : 0o644);

  await packPlugin(output, join(root, "build/root"), await folder("plugin"), date, { version, downloads });
  const libraries = await packLibraries(output, await folder("libraries"));
  await write(
    `berth-libraries-${version}-sbom.spdx.json`,
    await tryLibraries(libraries, await folder("installed"), version),
  );

  await write("notes.md", `${notes}\n`);
  const files = (await readdir(output)).filter((name) => name !== "notes.md").sort();
  const sums = files.map(async (name) => `${hash("sha256", await readFile(join(output, name)))}  ${name}\n`);
  await write("SHA256SUMS", (await Promise.all(sums)).join(""));
  await write(
    "upload.sh",
    uploadScript({ version, image: values.image, files: [...files, "SHA256SUMS"] }),
    0o755,
  );
}

/** Runs a target that prints the path of what it made as its last line. */
async function made(target: "image" | "chart"): Promise<string> {
  // ARGS are those of this target, and would reach the other with the rest of the environment.
  const printed = await run("make", ["--no-print-directory", "ARGS=", target], { isShown: true });
  const path = printed.split("\n").at(-1) ?? "";
  if (!path.startsWith("/")) throw new Error(`make ${target} ended with "${path}", not with a path`);
  return path;
}

/** @throws Error unless the program says that it is this version, of this commit. */
async function checkProgram(): Promise<void> {
  const told = JSON.parse(await berth("version", "-o", "json")) as { version: string; revision: string };
  const commit = await run("git", ["rev-parse", "HEAD"]);
  if (told.version !== version || told.revision !== commit)
    throw new Error(`berth version says ${told.version} of ${told.revision}, not ${version} of ${commit}`);
}

/** All that runs beside nodes, and a fleet in each of its modes with the cities and the cell of the example. */
async function writeManifests(image: string, scratch: string): Promise<void> {
  const print = async (name: string, ...args: readonly string[]): Promise<void> =>
    writeFile(join(output, name), `${await berth("manifests", ...args)}\n`);
  await print("berth-crds.yaml", "crds");
  await print("berth-crds-fleet.yaml", "crds", "--fleet");
  await print("berth.yaml", "--image", image);
  for (const mode of ["single", "cell"]) {
    const [fleet = ""] = (await readFile(join(root, `examples/fleet/${mode}.yaml`), "utf8")).split(/^---$/m);
    const config = join(scratch, `${mode}.yaml`);
    await writeFile(config, fleet);
    await print(`berth-fleet-${mode}.yaml`, "--image", image, "--config", config);
  }
}

/** The bases and components of kustomize, with the image of this release. */
async function packBases(image: string, scratch: string, date: Date): Promise<void> {
  const folder = join(scratch, "kustomize");
  await cp(join(root, "kustomize"), folder, { recursive: true });
  const objects = join(folder, "base/objects.yaml");
  const text = await readFile(objects, "utf8");
  await writeFile(objects, text.replace(`localhost/berth:${version}`, image));
  await pack(join(output, `berth-kustomize-${version}.tar.gz`), scratch, date);
}
