/**
 * `make build`: JavaScript and declarations of every package into its `dist`, in order of dependency, and the command
 * line as one bundle, split so that each command loads only what it needs.
 */
import { chmod, copyFile, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { build, type Plugin } from "esbuild";
import { writeNotices } from "./notices.ts";
import { readRevision } from "./revision.ts";
import { root, runTool } from "./run-tool.ts";

/** Packages of one stage do not depend on each other. */
const STAGES: readonly (readonly string[])[] = [
  ["kube", "registry"],
  ["runtime", "testcluster"],
  ["host"],
  ["placement", "fleet"],
  ["cli"],
];

const packages = join(root, "packages");

/** File times have whole ticks: what is as old as the start counts as new. */
const startedAt = Date.now() - 20;

for (const stage of STAGES) {
  const codes = await Promise.all(
    stage.map((name) => runTool("tsc", ["-p", join(packages, name, "tsconfig.build.json")])),
  );
  if (codes.some((code) => code !== 0)) {
    console.error(`build: types are wrong in ${stage.filter((_, index) => codes[index] !== 0).join(", ")}`);
    process.exit(1);
  }
}

/**
 * A file of the test cluster finds its Go module beside itself. In a bundle it is somewhere else, so there it asks
 * where the package is installed; sources and `dist` are both one level below it.
 */
const installedFiles: Plugin = {
  name: "installed-files",
  setup(bundling) {
    bundling.onLoad({ filter: /[\\/]testcluster[\\/]src[\\/][^\\/]+\.ts$/ }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replaceAll(
        "import.meta.url",
        'import.meta.resolve("@berth/testcluster")',
      ),
      loader: "ts",
    }));
  },
};

/** `import { z }` takes all of zod along, its texts in fifty languages included; as a namespace it is taken apart. */
const zodInParts: Plugin = {
  name: "zod-in-parts",
  setup(bundling) {
    bundling.onLoad({ filter: /[\\/](?:host|placement|fleet)[\\/]src[\\/].+\.ts$/ }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replace('import { z } from "zod"', 'import * as z from "zod"'),
      loader: "ts",
    }));
  },
};

/**
 * A CommonJS package loads all its parts: of undici fetch, WebSocket, mocks and caches, of prom-client what sends to a
 * gateway and what counts for a cluster of processes. Our packages use some, which halves the time and memory of the
 * import. Another name imported from one of them makes the build fail: add it here.
 */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  undici: [
    'import Dispatcher from "./lib/dispatcher/dispatcher.js";',
    'import Client from "./lib/dispatcher/client.js";',
    'import Pool from "./lib/dispatcher/pool.js";',
    'import Agent from "./lib/dispatcher/agent.js";',
    'import ProxyAgent from "./lib/dispatcher/proxy-agent.js";',
    'import errors from "./lib/core/errors.js";',
    'import buildConnector from "./lib/core/connect.js";',
    'import api from "./lib/api/index.js";',
    "Object.assign(Dispatcher.prototype, api);",
    "export { Agent, Client, Dispatcher, Pool, ProxyAgent, buildConnector, errors };",
  ],
  "prom-client": [
    'import Registry from "./lib/registry.js";',
    'import Counter from "./lib/counter.js";',
    'import Gauge from "./lib/gauge.js";',
    'import Histogram from "./lib/histogram.js";',
    'import collectDefaultMetrics from "./lib/defaultMetrics.js";',
    "export { Counter, Gauge, Histogram, Registry, collectDefaultMetrics };",
  ],
  // prom-client asks it for the span of an exemplar, and there are no exemplars.
  "@opentelemetry/api": ["export {};"],
};

const packagesInParts: Plugin = {
  name: "packages-in-parts",
  setup(bundling) {
    bundling.onResolve({ filter: /^(?:undici|prom-client|@opentelemetry\/api)$/ }, ({ path, importer }) =>
      /[\\/]testcluster[\\/]src[\\/]/.test(importer) ? undefined : { path, namespace: "packages-in-parts" },
    );
    bundling.onLoad({ filter: /.*/, namespace: "packages-in-parts" }, ({ path }) => ({
      resolveDir: join(root, "node_modules", path),
      contents: PARTS[path]?.join("\n") ?? "",
    }));
  },
};

async function bundle(): Promise<void> {
  const outdir = join(packages, "cli/dist/bin");
  const { metafile } = await build({
    entryPoints: { berth: join(packages, "cli/src/main.ts") },
    outdir,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    conditions: ["berth-source"],
    chunkNames: "[name]-[hash]",
    // Names stay, so that stack traces can be read; blanks and comments cost start-up time.
    minifyWhitespace: true,
    minifySyntax: true,
    // undici leaves its experimental HTTP parser out then.
    define: { esbuildDetection: "true", BERTH_REVISION: JSON.stringify(await readRevision()) },
    legalComments: "linked",
    metafile: true,
    absWorkingDir: root,
    logLevel: "warning",
    plugins: [installedFiles, zodInParts, packagesInParts],
    banner: {
      // Some dependencies are CommonJS and load Node's own modules with `require`.
      js: 'import{createRequire as __createRequire}from"node:module";const require=__createRequire(import.meta.url);',
    },
  });
  const program = join(outdir, "berth.js");
  await chmod(program, 0o755);
  await copyFile(join(root, "LICENSE"), join(outdir, "LICENSE"));
  await writeNotices(metafile, outdir);
}

await bundle();
await Promise.all(STAGES.flat().map((name) => prune(join(packages, name, "dist"))));

/** Removes what an earlier build left behind. Afterwards and not before, so that a failed build breaks nothing. */
async function prune(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && (await stat(path)).mtimeMs < startedAt) await rm(path);
  }
}
