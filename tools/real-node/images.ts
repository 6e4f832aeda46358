/** The images of the scenes, made and pushed as `make image` makes and pushes that of Berth. */
import { copyFile, mkdir, mkdtemp } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Architecture } from "../../scripts/image/architectures.ts";
import { writeIndex, writeLayer } from "../../scripts/image/layout.ts";
import { shell } from "../../scripts/run.ts";

/** What an image runs by default. */
export interface ImageConfig {
  readonly Cmd: readonly string[];
  readonly Env: readonly string[];
  readonly User: string;
  readonly StopSignal: string;
}

export interface LayoutOptions {
  /** Everything in the image. */
  readonly root: string;
  readonly config: ImageConfig;
  /** The platforms in its index. All have the same content. */
  readonly architectures: readonly Architecture[];
}

/** Assembles an image of one layer in a new folder below `folder`. @returns the OCI layout. */
export async function assemble(
  folder: string,
  { root, config, architectures }: LayoutOptions,
): Promise<string> {
  const layout = await mkdtemp(join(folder, "image-"));
  const layers = [await writeLayer(root, layout, folder)];
  const platforms = architectures.map((architecture) => ({ architecture, layers }));
  await writeIndex(layout, platforms, { created: "1970-01-01T00:00:00Z", version: "1", config });
  return layout;
}

/** A shell with its tools, and a page for `httpd`. */
export async function busyboxRoot(folder: string, busybox: string): Promise<string> {
  await mkdir(join(folder, "bin"), { recursive: true });
  await copyFile(busybox, join(folder, "bin", basename(busybox)));
  await shell(`
    mkdir -p "${folder}/tmp" "${folder}/www"
    echo "served by busybox" > "${folder}/www/index.html"
    for applet in $("${busybox}" --list); do [ -e "${folder}/bin/$applet" ] || ln -s busybox "${folder}/bin/$applet"; done`);
  return folder;
}
