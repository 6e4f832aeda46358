/** From folders to an OCI image layout (image specification 1.1), byte for byte the same each time. */
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../run.ts";
import type { Architecture } from "./architectures.ts";
import { digestOf } from "./hash.ts";

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

export interface Layer {
  readonly descriptor: Descriptor;
  /** The digest of the archive before it was compressed. */
  readonly diffId: string;
}

/** One image of the index. */
export interface Platform {
  readonly architecture: Architecture;
  readonly layers: readonly Layer[];
}

/** What the config says besides the platform and its layers. */
export interface ImageSettings {
  readonly created: string;
  /** As in the Dockerfile. */
  readonly config: object;
  readonly version: string;
}

/** The index and, in the order of the platforms, what it lists. */
export interface Index {
  readonly index: Descriptor;
  readonly manifests: readonly Descriptor[];
}

const OCI = "application/vnd.oci.image";
/** For tar: order, owner and modes are not those of this machine. Only root may write. */
const SAME_EVERYWHERE = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];

/** Packs a folder: the same bytes whenever it is done. A name that ends in gz is compressed. */
export async function pack(archive: string, folder: string, date: Date): Promise<void> {
  const filter = archive.endsWith("gz") ? ["--use-compress-program=gzip --no-name"] : [];
  const options = [`--mtime=@${date.getTime() / 1000}`, ...SAME_EVERYWHERE, ...filter];
  await run("tar", ["--create", "--file", archive, "--directory", folder, ...options, "."]);
}

/**
 * One folder as a layer among the blobs of the layout. Compressing costs seconds, so the result stays in the cache, by the digest of the archive.
 */
export async function writeLayer(folder: string, layout: string, cache: string): Promise<Layer> {
  const scratch = await mkdtemp(join(cache, "layer-"));
  try {
    const archive = join(scratch, "layer.tar");
    const options = ["--format=ustar", "--mtime=@0", ...SAME_EVERYWHERE];
    await run("tar", ["--create", "--file", archive, "--directory", folder, ...options, "."]);
    const diffId = digestOf(await readFile(archive));
    const compressed = join(cache, `${diffId.replace(":", "-")}.tar.gz`);
    if ((await stat(compressed).catch(() => undefined)) === undefined) {
      // GNU gzip: zlib takes other ways on other processors, and its results differ.
      await run("gzip", ["--no-name", archive]);
      await rename(`${archive}.gz`, compressed);
    }
    const bytes = await readFile(compressed);
    const digest = digestOf(bytes);
    await mkdir(join(layout, "blobs/sha256"), { recursive: true });
    await copyFile(compressed, blobPath(layout, digest));
    return { descriptor: { mediaType: `${OCI}.layer.v1.tar+gzip`, digest, size: bytes.length }, diffId };
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** The configs, the manifests, and the index with its name. */
export async function writeIndex(
  layout: string,
  platforms: readonly Platform[],
  { created, config, version }: ImageSettings,
): Promise<Index> {
  const store = async (type: string, content: object): Promise<Descriptor> => {
    const bytes = Buffer.from(JSON.stringify(content));
    const digest = digestOf(bytes);
    await writeFile(blobPath(layout, digest), bytes);
    return { mediaType: `${OCI}.${type}.v1+json`, digest, size: bytes.length };
  };
  const entries: (Descriptor & { readonly platform: object })[] = [];
  for (const { architecture, layers } of platforms) {
    const platform = { architecture, os: "linux" };
    const rootfs = { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) };
    const manifest = await store("manifest", {
      schemaVersion: 2,
      mediaType: `${OCI}.manifest.v1+json`,
      config: await store("config", { created, ...platform, config, rootfs }),
      layers: layers.map(({ descriptor }) => descriptor),
    });
    entries.push({ ...manifest, platform });
  }
  const index = await store("index", {
    schemaVersion: 2,
    mediaType: `${OCI}.index.v1+json`,
    manifests: entries,
  });
  const named = { ...index, annotations: { "org.opencontainers.image.ref.name": version } };
  const top = { schemaVersion: 2, mediaType: `${OCI}.index.v1+json`, manifests: [named] };
  await writeFile(join(layout, "index.json"), JSON.stringify(top));
  await writeFile(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return { index, manifests: entries };
}

function blobPath(layout: string, digest: string): string {
  return join(layout, "blobs", digest.replace(":", "/"));
}
