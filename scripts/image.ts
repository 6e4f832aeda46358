/** `make image`: the image of Berth for amd64 and arm64 as an OCI layout, without a container engine. */
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { ARCHITECTURES } from "./image/architectures.ts";
import { debianPackages, fetchPackages, MIRROR, PINS, readPins, renewPins } from "./image/debian.ts";
import { configOf } from "./image/dockerfile.ts";
import { type Platform, writeIndex, writeLayer } from "./image/layout.ts";
import { fetchNode } from "./image/node.ts";
import { readOrigin } from "./image/origin.ts";
import { push } from "./image/push.ts";
import { layersOf, writeBerthRoot, writeDebianRoot, writeNodeRoot } from "./image/roots.ts";
import { writeStatements } from "./image/statements.ts";
import { run } from "./run.ts";
import { root } from "./run-tool.ts";

/** Downloads and compressed layers, by their hashes. */
const cache = join(root, ".cache/image");
const build = join(root, "build");

try {
  const { values } = parseArgs({
    options: {
      output: { type: "string", default: join(build, "image") },
      push: { type: "string" },
      mirror: { type: "string", default: MIRROR },
      "renew-packages": { type: "boolean", default: false },
    },
  });
  await mkdir(cache, { recursive: true });
  if (values["renew-packages"])
    for (const file of [PINS, join(root, "tools/real-node/debian.json")]) await renewPins(file, cache);
  const layout = resolve(values.output);
  await makeImage(layout, values.mirror);
  if (values.push !== undefined) console.log(await push(layout, values.push));
  console.log(layout);
} catch (error) {
  console.error(`image: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

/** A layout that is there is replaced as a whole, at the end. */
async function makeImage(output: string, mirror: string): Promise<void> {
  await checkReplaceable(output);
  await mkdir(build, { recursive: true });
  await mkdir(dirname(output), { recursive: true });
  const layout = await mkdtemp(`${output}-`);
  const roots = await mkdtemp(join(build, "root-"));
  try {
    const pins = await readPins();
    await fetchPackages(debianPackages(pins, [...ARCHITECTURES, "all"]), cache, mirror);
    await writeBerthRoot(join(roots, "berth"));
    const platforms = await Promise.all(
      ARCHITECTURES.map(async (architecture): Promise<Platform> => {
        const [debian = "", node = ""] = layersOf(architecture).map((name) => join(roots, name));
        await writeDebianRoot(debian, debianPackages(pins, [architecture, "all"]), cache);
        await writeNodeRoot(node, await fetchNode(architecture, cache), architecture);
        const layers = layersOf(architecture).map((name) => writeLayer(join(roots, name), layout, cache));
        return { architecture, layers: await Promise.all(layers) };
      }),
    );
    const origin = await readOrigin(process.env["SOURCE_DATE_EPOCH"]);
    const Labels = {
      "org.opencontainers.image.source": origin.source,
      "org.opencontainers.image.revision": origin.revision,
      "org.opencontainers.image.version": origin.version,
      "org.opencontainers.image.licenses": origin.license,
    };
    const config = { ...configOf(await readFile(join(root, "Dockerfile"), "utf8")), Labels };
    const { created, version } = origin;
    const index = await writeIndex(layout, platforms, { created, version, config });
    await writeStatements(layout, { index, origin, pins });
    // An engine copies modes as they are, whatever the umask was.
    await run("chmod", ["-R", "u=rwX,go=rX", roots, layout]);
    await replace(roots, join(build, "root"));
    await replace(layout, output);
  } finally {
    // After a failure the other architecture may still be writing.
    const gone = { recursive: true, force: true, maxRetries: 5 };
    await Promise.all([layout, roots].map((folder) => rm(folder, gone)));
  }
}

/** Else a wrong `--output` would remove a folder with other things in it. */
async function checkReplaceable(output: string): Promise<void> {
  const files = await readdir(output).catch((): string[] => []);
  if (files.length > 0 && !files.includes("oci-layout"))
    throw new Error(`${output} is not empty, and no OCI layout`);
}

async function replace(from: string, to: string): Promise<void> {
  await rm(to, { recursive: true, force: true });
  await rename(from, to);
}
