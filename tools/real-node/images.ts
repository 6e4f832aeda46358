/** Images without an engine: each is assembled as an OCI layout, and pushed to the local registry. */
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { request } from "undici";
import { run, shell } from "./shell.ts";

interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** What an image runs by default. */
export interface ImageConfig {
  readonly Entrypoint?: readonly string[];
  readonly Cmd?: readonly string[];
  readonly Env?: readonly string[];
  readonly User?: string;
  readonly StopSignal?: string;
}

export interface LayoutOptions {
  /** Everything in the image. */
  readonly root: string;
  readonly config: ImageConfig;
  /** Platforms in its index, by architecture as Go calls them. All have the same content. */
  readonly architectures: readonly string[];
}

const OCI = "application/vnd.oci.image";

/** Assembles an image of one layer in `folder`. @returns the folder, which is an OCI layout then. */
export async function assemble(
  folder: string,
  { root, config, architectures }: LayoutOptions,
): Promise<string> {
  const blobs = join(folder, "blobs/sha256");
  await mkdir(blobs, { recursive: true });
  const store = async (content: Buffer | object, mediaType: string): Promise<Blob> => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
    const hex = createHash("sha256").update(bytes).digest("hex");
    await writeFile(join(blobs, hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const tar = join(folder, "layer.tar");
  await run("tar", ["-cf", tar, "--owner=0", "--group=0", "--numeric-owner", "-C", root, "."]);
  const layer = await store(await readFile(tar), `${OCI}.layer.v1.tar`);
  const manifests: object[] = [];
  for (const architecture of architectures) {
    const platform = { architecture, os: "linux" };
    const image = { ...platform, config, rootfs: { type: "layers", diff_ids: [layer.digest] } };
    const own = await store(image, `${OCI}.config.v1+json`);
    const manifest = { schemaVersion: 2, mediaType: `${OCI}.manifest.v1+json`, config: own, layers: [layer] };
    manifests.push({ ...(await store(manifest, manifest.mediaType)), platform });
  }
  const index = { schemaVersion: 2, mediaType: `${OCI}.index.v1+json`, manifests };
  const named = { ...index, manifests: [await store(index, index.mediaType)] };
  await writeFile(join(folder, "index.json"), JSON.stringify(named));
  await writeFile(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return folder;
}

/** What an index, or the manifest of one platform, refers to. */
interface Manifest {
  readonly manifests?: readonly Blob[];
  readonly config?: Blob;
  readonly layers?: readonly Blob[];
}

/** Pushes the first image of an OCI layout under `repository:tag`. */
export async function push(layout: string, name: string, registry: string): Promise<void> {
  const [repository = "", tag = ""] = name.split(":");
  const api = `${registry}/v2/${repository}`;
  const bytesOf = ({ digest }: Blob): Promise<Buffer> =>
    readFile(join(layout, "blobs", digest.replace(":", "/")));
  const send = async (method: "POST" | "PUT", url: string, type: string, body?: Buffer): Promise<URL> => {
    const headers = { "content-type": type };
    const answer = await request(url, { method, headers, body: body ?? null });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${method} ${url} answered ${answer.statusCode}: ${text}`);
    return new URL(String(answer.headers["location"]), url);
  };
  const pushManifest = async (manifest: Blob, reference: string): Promise<void> => {
    const bytes = await bytesOf(manifest);
    const { manifests = [], config, layers = [] } = JSON.parse(bytes.toString()) as Manifest;
    for (const child of manifests) await pushManifest(child, child.digest);
    for (const blob of config === undefined ? [] : [config, ...layers]) {
      const to = await send("POST", `${api}/blobs/uploads/`, "text/plain");
      to.searchParams.set("digest", blob.digest);
      await send("PUT", to.href, "application/octet-stream", await bytesOf(blob));
    }
    await send("PUT", `${api}/manifests/${reference}`, manifest.mediaType, bytes);
  };
  const index = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as Manifest;
  for (const image of index.manifests?.slice(0, 1) ?? []) await pushManifest(image, tag);
}

/** Berth as `make build` leaves it, with the Node that runs this, and the libraries that this Node asks for. */
export async function berthLayout(folder: string, architecture: string): Promise<string> {
  const root = join(folder, "root");
  await mkdir(join(root, "usr/bin"), { recursive: true });
  await copyFile(process.execPath, join(root, "usr/bin/node"));
  const libraries = await run("ldd", [process.execPath]);
  for (const [path] of libraries.matchAll(/(?<=\s)\/\S+/g)) {
    await mkdir(join(root, dirname(path)), { recursive: true });
    await copyFile(path, join(root, path));
  }
  const built = join(import.meta.dirname, "../../packages/cli/dist/bin");
  await shell(`cp -r "${built}" "${root}/berth"`);
  const Entrypoint = ["/usr/bin/node", "--max-semi-space-size=4", "/berth/berth.js"];
  return assemble(join(folder, "layout"), {
    root,
    config: { Entrypoint, Cmd: ["run"], User: "65532:65532" },
    architectures: [architecture],
  });
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
