/**
 * Parses the formats of a registry: OCI index and manifest (github.com/opencontainers/image-spec), Docker's list and
 * manifest of schema 2, and the config that a manifest points to. Pure; the bytes are untrusted.
 */
import { fieldOf, isRecord, type JsonLimits, parseJson } from "./json-document.ts";
import { platformKey, statesPlatform, toPlatform } from "./normal-platform.ts";
import type { Platform } from "./platform.ts";
import { isDigest } from "./reference.ts";

/** The media types to request, best first. */
export const MANIFEST_MEDIA_TYPES: readonly string[] = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];

/** 4 MiB: the least that the distribution specification asks of registries. 64 levels: real ones have six. */
export const MANIFEST_LIMITS: JsonLimits = { maxBytes: 4 * 1024 * 1024, maxDepth: 64 };
/** Configs hold the history of a build and the labels of the image, so they may be larger than manifests. */
export const CONFIG_LIMITS: JsonLimits = { maxBytes: 4 * 1024 * 1024, maxDepth: 64 };
/** Entries of an index. The largest real ones have some dozens. */
export const MAX_INDEX_ENTRIES = 1_000;
/** Go builds for fifty. All namespaces share the memory for facts. */
export const MAX_PLATFORMS = 64;
/** Children of an index without platforms that are requested. */
export const MAX_CHILDREN = 4;

/** Content that a manifest points to. */
export interface ContentDescriptor {
  readonly digest: string;
  readonly mediaType: string;
  /** Bytes. */
  readonly size: number;
}

/** A parsed manifest of any format. */
export type ParsedManifest =
  | {
      readonly kind: "index";
      /** Normalised, without duplicates, in the order of the index. */
      readonly platforms: readonly Platform[];
      /**
       * Only where no entry names a platform: digests of the manifests (at most `MAX_CHILDREN`) whose configs state the
       * platform. Empty if there are none either.
       */
      readonly children: readonly string[];
    }
  | {
      readonly kind: "image";
      readonly config: ContentDescriptor;
      /** Stated by some builders in the manifest itself. Otherwise the config must be read. */
      readonly platform?: Platform;
    }
  /** A manifest, but not of an image: a chart, a signature, an attestation. */
  | { readonly kind: "artifact"; readonly mediaType: string }
  /** `why` is half a sentence for the user, and quotes none of the bytes. */
  | { readonly kind: "malformed"; readonly why: string };

const INDEX_TYPES: ReadonlySet<string> = new Set(MANIFEST_MEDIA_TYPES.slice(0, 2));
const IMAGE_TYPES: ReadonlySet<string> = new Set(MANIFEST_MEDIA_TYPES.slice(2));
const CONFIG_TYPES: ReadonlySet<string> = new Set([
  "application/vnd.oci.image.config.v1+json",
  "application/vnd.docker.container.image.v1+json",
  // As Docker 1.10 pushed them.
  "application/octet-stream",
]);
const SCHEMA_1 =
  "it is a manifest of Docker's schema 1, which is not supported: build and push the image again";

/**
 * Parses the answer of a registry. Total: every input has a result.
 *
 * @param mediaType the `Content-Type` of the answer; one that names no kind of manifest is no contradiction.
 */
export function parseManifest(bytes: Uint8Array, mediaType: string): ParsedManifest {
  const stated = bareType(mediaType);
  if (isSchema1(stated)) return malformed(SCHEMA_1);
  const document = parseJson(bytes, MANIFEST_LIMITS);
  if (!document.ok) return malformed(`its manifest is ${document.why}`);
  if (!isRecord(document.value)) return malformed("its manifest is no JSON object");
  const manifest = document.value;
  if (fieldOf(manifest, "schemaVersion") === 1) return malformed(SCHEMA_1);
  const kind = kindOf(manifest, stated);
  if (kind === "index") return parseIndex(fieldOf(manifest, "manifests"));
  if (kind === "image") return parseImage(manifest);
  return malformed(kind.why);
}

/** The statements of an image's config about where the image runs. */
export interface ImageConfig {
  /** Absent where the config states none, or is invalid. */
  readonly platform?: Platform;
  /** It carries a label of an operator bundle (operator-registry, docs/design/operator-bundle.md). */
  readonly isBundle?: true;
}

/** Each of them is enough for multiarch-tuning-operator (`isBundleImage`, pkg/image/inspector.go). */
const BUNDLE_LABEL =
  /^operators\.operatorframework\.io\.(?:bundle\.(?:mediatype|manifests|metadata|package|channels|channel\.default)\.v1|metrics\.builder)$/;

/** Total. The caller has checked the bytes against the digest in the manifest. */
export function parseImageConfig(bytes: Uint8Array): ImageConfig {
  const document = parseJson(bytes, CONFIG_LIMITS);
  if (!document.ok) return {};
  const platform = toPlatform(document.value);
  const labels = fieldOf(fieldOf(document.value, "config"), "Labels");
  const isBundle = isRecord(labels) && Object.keys(labels).some((label) => BUNDLE_LABEL.test(label));
  return { ...(platform && { platform }), ...(isBundle && { isBundle }) };
}

/**
 * Index or image, by the header, by the document's own type, and by its fields. Each may be absent, but they must not
 * contradict. Different readers would take an ambiguous document for different content, so that a check and a runtime
 * could disagree (CVE-2021-41190).
 */
function kindOf(manifest: object, stated: string): "index" | "image" | { readonly why: string } {
  const own = fieldOf(manifest, "mediaType");
  const hasEntries = fieldOf(manifest, "manifests") !== undefined;
  const hasContent = fieldOf(manifest, "config") !== undefined || fieldOf(manifest, "layers") !== undefined;
  if (isSchema1(typeof own === "string" ? own : "")) return { why: SCHEMA_1 };
  const kinds = new Set<"index" | "image">();
  for (const type of [stated, own]) {
    if (typeof type === "string" && INDEX_TYPES.has(type)) kinds.add("index");
    if (typeof type === "string" && IMAGE_TYPES.has(type)) kinds.add("image");
  }
  if (hasEntries) kinds.add("index");
  if (hasContent) kinds.add("image");
  if (kinds.size > 1) return { why: "its manifest can be read both as an index and as one image" };
  const [kind] = kinds;
  return kind ?? { why: "the answer of the registry is neither an index nor a manifest" };
}

function parseIndex(entries: unknown): ParsedManifest {
  if (!Array.isArray(entries)) return malformed("its index has no list of manifests");
  if (entries.length > MAX_INDEX_ENTRIES) {
    return malformed(
      `its index has ${entries.length} entries, more than the ${MAX_INDEX_ENTRIES} that are read`,
    );
  }
  const images = entries.filter(isImageEntry);
  const platforms = new Map<string, Platform>();
  for (const entry of images) {
    const platform = toPlatform(fieldOf(entry, "platform"));
    if (platform !== undefined && !platforms.has(platformKey(platform))) {
      platforms.set(platformKey(platform), platform);
    }
  }
  if (platforms.size > MAX_PLATFORMS) {
    return malformed(
      `its index is for ${platforms.size} platforms, more than the ${MAX_PLATFORMS} that are read`,
    );
  }
  const silent = images.every((entry) => !statesPlatform(fieldOf(entry, "platform")));
  return {
    kind: "index",
    platforms: [...platforms.values()],
    children: silent ? childrenOf(images) : [],
  };
}

/** Neither an attestation of BuildKit nor another artifact. */
function isImageEntry(entry: unknown): boolean {
  if (fieldOf(fieldOf(entry, "annotations"), "vnd.docker.reference.type") !== undefined) return false;
  const artifact = fieldOf(entry, "artifactType");
  return (
    artifact === undefined || artifact === "" || (typeof artifact === "string" && CONFIG_TYPES.has(artifact))
  );
}

function childrenOf(entries: readonly unknown[]): readonly string[] {
  const digests = entries
    .filter((entry) => {
      const type = fieldOf(entry, "mediaType");
      return typeof type === "string" && IMAGE_TYPES.has(type);
    })
    .map((entry) => fieldOf(entry, "digest"))
    .filter((digest) => typeof digest === "string")
    .filter(isDigest);
  return [...new Set(digests)].slice(0, MAX_CHILDREN);
}

function parseImage(manifest: object): ParsedManifest {
  const config = fieldOf(manifest, "config");
  const mediaType = fieldOf(config, "mediaType");
  const digest = fieldOf(config, "digest");
  const size = fieldOf(config, "size");
  if (typeof mediaType !== "string" || mediaType === "") return malformed("its manifest has no config");
  const artifactType = fieldOf(manifest, "artifactType");
  if (!CONFIG_TYPES.has(mediaType)) {
    const named = typeof artifactType === "string" && artifactType !== "" ? artifactType : mediaType;
    return { kind: "artifact", mediaType: shown(named) };
  }
  if (typeof digest !== "string" || !isDigest(digest))
    return malformed("the digest of its config is not valid");
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) {
    return malformed("the size of its config is not valid");
  }
  const platform = toPlatform(fieldOf(config, "platform"));
  return {
    kind: "image",
    config: { digest, mediaType, size },
    ...(platform === undefined ? {} : { platform }),
  };
}

/** Without parameters, in lower case: `application/json; charset=utf-8` is `application/json`. */
function bareType(mediaType: string): string {
  return (mediaType.split(";", 1)[0] ?? "").trim().toLowerCase();
}

function isSchema1(mediaType: string): boolean {
  return /^application\/vnd\.docker\.distribution\.manifest\.v1\+(?:json|prettyjws)$/.test(mediaType);
}

/** A media type (RFC 6838) as a message may show it. Other text is not shown. */
function shown(mediaType: string): string {
  return /^[\w.+-]{1,127}\/[\w.+-]{1,127}$/.test(mediaType) ? mediaType : "unknown";
}

function malformed(why: string): ParsedManifest {
  return { kind: "malformed", why };
}
