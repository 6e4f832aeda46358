/** Finds the platforms of an image with as few requests as possible. */
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

/** A manifest as received, checked against its digests. */
export interface Content {
  readonly bytes: Buffer;
  readonly digest: string;
  /** From the header. Empty without one. */
  readonly mediaType: string;
}

/** The source of content. It checks all content against its digest. */
export interface ContentReader {
  readonly host: string;
  /** @param name a digest or a tag. */
  manifest(name: string): Promise<Content>;
  config(digest: string): Promise<Buffer>;
}

/**
 * One request for an index that names platforms, and two for a single manifest. At most nine for an index without
 * platforms, because its children have to be read.
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
    // Deeper indexes and artifacts do not run either.
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

/** The media type of the header if it is one of the known four, else the OCI type of the parsed manifest. */
function mediaTypeOf({ mediaType }: Content, manifest: ParsedManifest): string {
  const stated = (mediaType.split(";", 1)[0] ?? "").trim().toLowerCase();
  if (MANIFEST_MEDIA_TYPES.includes(stated)) return stated;
  const kind = manifest.kind === "index" ? "index" : "manifest";
  return `application/vnd.oci.image.${kind}.v1+json`;
}
