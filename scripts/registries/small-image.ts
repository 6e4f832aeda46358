/** A small image for both architectures, to push to a registry. */
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ARCHITECTURES } from "../image/architectures.ts";
import { writeIndex, writeLayer } from "../image/layout.ts";

/** Writes a layout of two images with two layers each, of this content. @returns digests of the index and of its images. */
export async function writeSmallImage(
  folder: string,
  content: string,
): Promise<{ readonly layout: string; readonly digest: string; readonly images: readonly string[] }> {
  const layout = await mkdtemp(join(folder, "layout-"));
  const platforms = ARCHITECTURES.map(async (architecture) => {
    const layers = ["base", "code"].map(async (name) => {
      const root = join(layout, "roots", architecture, name);
      await mkdir(root, { recursive: true });
      await writeFile(join(root, name), `${content} for ${architecture}`);
      return writeLayer(root, layout, folder);
    });
    return { architecture, layers: await Promise.all(layers) };
  });
  const settings = { created: "2026-01-01T00:00:00.000Z", version: "1.0.0", config: {} };
  const { index } = await writeIndex(layout, await Promise.all(platforms), settings);
  const { digest } = index;
  const text = await readFile(join(layout, "blobs", digest.replace(":", "/")), "utf8");
  const { manifests } = JSON.parse(text) as { readonly manifests: readonly { readonly digest: string }[] };
  return { layout, digest, images: manifests.map((it) => it.digest) };
}
