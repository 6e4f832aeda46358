/** From a name to what the image runs on, with as few questions as it takes. */
import { ExchangeError } from "./exchange-error.ts";
import {
  CONFIG_LIMITS,
  type ContentDescriptor,
  type ImageConfig,
  MANIFEST_MEDIA_TYPES,
  type ParsedManifest,
  parseImageConfig,
  parseManifest,
} from "./manifest.ts";
import { platformKey } from "./normal-platform.ts";
import type { Platform } from "./platform.ts";
import type { ImageFacts } from "./types.ts";

/** A manifest as it was sent, checked against its digests. */
export interface Content {
  readonly bytes: Buffer;
  readonly digest: string;
  /** Of the header. Empty when there was none. */
  readonly mediaType: string;
}

/** Where content comes from. Gives nothing that is not what its digest says. */
export interface ContentReader {
  readonly host: string;
  /** @param name a digest or a tag. */
  manifest(name: string): Promise<Content>;
  config(digest: string): Promise<Buffer>;
}

/**
 * One request for an index that names platforms, two for a single manifest, and at most nine for an index that names
 * none and whose children have to be read.
 *
 * @throws ExchangeError
 */
export async function factsOf(reader: ContentReader, name: string): Promise<ImageFacts> {
  const content = await reader.manifest(name);
  const manifest = parseManifest(content.bytes, content.mediaType);
  const said = await platformsOf(manifest, reader);
  if (said.platforms.length === 0)
    throw new ExchangeError("noPlatform", "it names no platform that it runs on");
  return { digest: content.digest, mediaType: mediaTypeOf(content, manifest), ...said };
}

async function platformsOf(
  manifest: ParsedManifest,
  reader: ContentReader,
): Promise<Pick<ImageFacts, "platforms" | "isBundle">> {
  if (manifest.kind === "malformed") throw new ExchangeError("malformed", manifest.why);
  if (manifest.kind === "artifact")
    throw new ExchangeError("noPlatform", `it is no image that can run, but ${manifest.mediaType}`);
  if (manifest.kind === "image") {
    const { platform, ...more } = await configOf(manifest, reader);
    return { platforms: platform === undefined ? [] : [platform], ...more };
  }
  if (manifest.platforms.length > 0) return { platforms: manifest.platforms };
  const found = new Map<string, Platform>();
  for (const digest of manifest.children) {
    const child = await reader.manifest(digest);
    const parsed = parseManifest(child.bytes, child.mediaType);
    if (parsed.kind === "malformed") throw new ExchangeError("malformed", parsed.why);
    // What is deeper, or no image, does not run either.
    if (parsed.kind !== "image") continue;
    const { platform } = await configOf(parsed, reader);
    if (platform !== undefined) found.set(platformKey(platform), platform);
  }
  return { platforms: [...found.values()] };
}

async function configOf(
  image: { readonly config: ContentDescriptor; readonly platform?: Platform },
  reader: ContentReader,
): Promise<ImageConfig> {
  if (image.platform !== undefined) return { platform: image.platform };
  if (image.config.size > CONFIG_LIMITS.maxBytes)
    throw new ExchangeError("malformed", `its config has more than ${CONFIG_LIMITS.maxBytes} bytes`);
  return parseImageConfig(await reader.config(image.config.digest));
}

/** That of the header where it is one of the known four, else that of OCI for what it turned out to be. */
function mediaTypeOf({ mediaType }: Content, manifest: ParsedManifest): string {
  const stated = (mediaType.split(";", 1)[0] ?? "").trim().toLowerCase();
  if (MANIFEST_MEDIA_TYPES.includes(stated)) return stated;
  const kind = manifest.kind === "index" ? "index" : "manifest";
  return `application/vnd.oci.image.${kind}.v1+json`;
}
