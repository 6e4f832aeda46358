/** Images by code: what registries hold for one or several platforms, byte for byte the same for the same words. */
import { createHash } from "node:crypto";

/** Bytes under a digest. */
export interface Content {
  readonly bytes: Buffer;
  readonly mediaType: string;
  readonly digest: string;
}

export type ImageFormat = "oci" | "docker";

/** Several pieces that belong together; the first is what a tag names. */
export interface ImageParts {
  readonly top: Content;
  /** Manifests that the top one points to. */
  readonly manifests: readonly Content[];
  readonly blobs: readonly Content[];
}

export interface ImageOptions {
  readonly format?: ImageFormat;
  /** Makes images of the same platforms differ. Default: the repository. */
  readonly seed?: string;
  /** Of an index: an attestation of BuildKit for each platform, with the platform `unknown/unknown`. */
  readonly attestations?: boolean;
  /** Of an index: an artifact (a chart) between the images. */
  readonly artifact?: boolean;
  /** Of an index: no entry names its platform; of a manifest: its config names none. */
  readonly silent?: boolean;
}

const TYPES = {
  oci: {
    index: "application/vnd.oci.image.index.v1+json",
    manifest: "application/vnd.oci.image.manifest.v1+json",
    config: "application/vnd.oci.image.config.v1+json",
    layer: "application/vnd.oci.image.layer.v1.tar+gzip",
  },
  docker: {
    index: "application/vnd.docker.distribution.manifest.list.v2+json",
    manifest: "application/vnd.docker.distribution.manifest.v2+json",
    config: "application/vnd.docker.container.image.v1+json",
    layer: "application/vnd.docker.image.rootfs.diff.tar.gzip",
  },
} as const;

export function toContent(value: unknown, mediaType: string): Content {
  const bytes = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
  return { bytes, mediaType, digest: `sha256:${createHash("sha256").update(bytes).digest("hex")}` };
}

/** A manifest of one platform (`linux/arm/v7`), with its config. */
export function aManifest(platform: string, options: ImageOptions = {}): ImageParts {
  const { format = "oci", seed = "" } = options;
  const types = TYPES[format];
  const stated = options.silent ? {} : fieldsOf(platform);
  const config = toContent(
    { ...stated, config: { Labels: { seed, platform } }, rootfs: { type: "layers", diff_ids: [] } },
    types.config,
  );
  const layer = toContent({ layer: `${seed} ${platform}` }, types.layer);
  const manifest = {
    schemaVersion: 2,
    mediaType: types.manifest,
    config: descriptorOf(config),
    layers: [descriptorOf(layer)],
  };
  return { top: toContent(manifest, types.manifest), manifests: [], blobs: [config, layer] };
}

/** An index of these platforms, in this order. */
export function anIndex(platforms: readonly string[], options: ImageOptions = {}): ImageParts {
  const { format = "oci" } = options;
  const types = TYPES[format];
  const images = platforms.map((platform) => ({
    platform,
    parts: aManifest(platform, { ...options, silent: false }),
  }));
  const entries = images.map(({ platform, parts }) =>
    descriptorOf(parts.top, options.silent ? {} : { platform: fieldsOf(platform) }),
  );
  const attestations = (options.attestations ? images : []).map(({ platform, parts }) =>
    descriptorOf(toContent({ attestation: platform }, types.manifest), {
      annotations: {
        "vnd.docker.reference.digest": parts.top.digest,
        "vnd.docker.reference.type": "attestation-manifest",
      },
      platform: { architecture: "unknown", os: "unknown" },
    }),
  );
  const artifacts = (options.artifact ? ["chart"] : []).map((name) =>
    descriptorOf(toContent({ artifact: name }, types.manifest), {
      artifactType: "application/vnd.cncf.helm.config.v1+json",
    }),
  );
  const manifests = [...entries, ...artifacts, ...attestations];
  return {
    top: toContent({ schemaVersion: 2, mediaType: types.index, manifests }, types.index),
    manifests: images.map(({ parts }) => parts.top),
    blobs: images.flatMap(({ parts }) => parts.blobs),
  };
}

function descriptorOf({ mediaType, digest, bytes }: Content, more: object = {}): object {
  return { mediaType, digest, size: bytes.length, ...more };
}

function fieldsOf(platform: string): object {
  const [os, architecture, variant] = platform.split("/");
  return { os, architecture, ...(variant === undefined ? {} : { variant }) };
}
