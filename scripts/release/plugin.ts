/** `kubectl berth`: an archive for each platform, and the manifest by which Krew installs it. */
import { hash } from "node:crypto";
import { copyFile, cp, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { stringify } from "yaml";
import { pack } from "../image/layout.ts";
import { repository } from "../revision.ts";
import { root } from "../run-tool.ts";

export interface Plugin {
  readonly version: string;
  /** The folder of addresses that the files of the release will have. */
  readonly downloads: string;
}

/** By what Krew selects on. On Linux an archive brings its own Node, that of the image; elsewhere it takes the user's. */
const PLATFORMS = [
  { name: "linux-amd64", node: "node-amd64", selector: { matchLabels: { os: "linux", arch: "amd64" } } },
  { name: "linux-arm64", node: "node-arm64", selector: { matchLabels: { os: "linux", arch: "arm64" } } },
  { name: "any", selector: { matchLabels: { os: "darwin" } } },
] as const;

/** @param roots the root folders that `make image` has left: what the archives hold is what the image holds. */
export async function packPlugin(
  output: string,
  roots: string,
  scratch: string,
  date: Date,
  plugin: Plugin,
): Promise<void> {
  const platforms: object[] = [];
  for (const platform of PLATFORMS) {
    const folder = join(scratch, platform.name);
    await mkdir(folder);
    await cp(join(roots, "berth/berth"), join(folder, "berth"), { recursive: true });
    await rename(join(folder, "berth/LICENSE"), join(folder, "LICENSE"));
    await copyFile(join(root, "scripts/release/kubectl-berth"), join(folder, "kubectl-berth"));
    if ("node" in platform) await copyFile(join(roots, platform.node, "usr/bin/node"), join(folder, "node"));
    const archive = join(output, `kubectl-berth-${plugin.version}-${platform.name}.tar.gz`);
    await pack(archive, folder, date);
    platforms.push({
      selector: platform.selector,
      uri: `${plugin.downloads}/${basename(archive)}`,
      sha256: hash("sha256", await readFile(archive)),
      bin: "kubectl-berth",
    });
  }
  await writeManifest(join(output, "krew-berth.yaml"), platforms, plugin);
}

async function writeManifest(file: string, platforms: readonly object[], { version }: Plugin): Promise<void> {
  const manifest = {
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "berth" },
    spec: {
      version: `v${version}`,
      homepage: repository(),
      shortDescription: "Explain and plan where pods run",
      description:
        "Berth decides which labels and taints nodes carry and where pods run. The plugin\nshows why a node or pod is stuck, and what a rule would change.\n",
      caveats:
        "On macOS the plugin needs Node.js 24 on the PATH.\nCompletion: kubectl berth completion kubectl >kubectl_complete-berth, on the PATH and executable.\n",
      platforms,
    },
  };
  await writeFile(file, stringify(manifest, { lineWidth: 0 }));
}
