/** From what an image is to the bytes that a registry stores. Pure: the same description has the same digests. */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

/** As image configs and the entries of an index write it (OCI image specification 1.1, image-index.md). */
export interface ImagePlatform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
  readonly "os.version"?: string;
}

/** What an image consists of; made by `anImage`. */
export interface ImageDescription {
  readonly repository: string;
  readonly tag: string;
  readonly content: string;
  /** In the config of each platform. */
  readonly labels: Readonly<Record<string, string>>;
  readonly platforms: readonly ImagePlatform[];
  /** Platforms of images whose entry in the index names none. */
  readonly unlabelled: readonly ImagePlatform[];
  readonly format: "oci" | "docker";
  readonly isIndex: boolean;
  readonly isArtifact: boolean;
  readonly attested: boolean;
  readonly withArtifact: boolean;
}

/** Bytes under their digest. */
export interface Stored {
  readonly mediaType: string;
  /** `sha256:…` */
  readonly digest: string;
  readonly bytes: Buffer;
}

/** Everything to store, in the order in which a registry takes it. */
export interface ImageContent {
  readonly blobs: readonly Stored[];
  /** Children before the index. */
  readonly children: readonly Stored[];
  /** What the tag names. */
  readonly root: Stored;
}

const MEDIA = {
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

/** An archive without files: two blocks of zeros (POSIX ustar). */
const EMPTY_TAR: Buffer = Buffer.alloc(1024);
/** The empty descriptor's content (OCI image specification 1.1, manifest.md). */
const EMPTY_JSON = "application/vnd.oci.empty.v1+json";
const ARTIFACT_TYPE = "application/vnd.berth.test.artifact";
const BUILT_AT = "2026-01-01T00:00:00Z";

/** An entry of an index: a manifest and what is said about it. */
interface Entry {
  readonly manifest: Stored;
  readonly says: object;
}

/** @throws TypeError when an artifact is asked to be an index too. */
export function toContent(image: ImageDescription): ImageContent {
  const blobs = new Map<string, Stored>();
  const store = (mediaType: string, content: Buffer | object): Stored => {
    const stored = toStored(mediaType, content);
    blobs.set(stored.digest, stored);
    return stored;
  };
  const media = MEDIA[image.format];
  const done = (root: Stored, children: readonly Stored[] = []): ImageContent => ({
    blobs: [...blobs.values()],
    children,
    root,
  });
  if (image.isArtifact) {
    if (image.isIndex) throw new TypeError("an artifact is one manifest: it has no platforms");
    return done(artifact(image, store));
  }
  const manifestOf = (platform: ImagePlatform): Stored => platformManifest(image, platform, store);
  const [only] = image.platforms;
  if (!image.isIndex && only !== undefined) return done(manifestOf(only));
  const labelled = image.platforms.map((platform): Entry => {
    return { manifest: manifestOf(platform), says: { platform } };
  });
  const entries: readonly Entry[] = [
    ...labelled,
    ...image.unlabelled.map((platform) => ({ manifest: manifestOf(platform), says: {} })),
    ...(image.attested ? labelled.map(({ manifest }) => attestation(manifest, store)) : []),
    ...(image.withArtifact
      ? [{ manifest: artifact(image, store), says: { artifactType: ARTIFACT_TYPE } }]
      : []),
  ];
  const manifests = entries.map(({ manifest, says }) => ({ ...descriptor(manifest), ...says }));
  const root = toStored(media.index, { schemaVersion: 2, mediaType: media.index, manifests });
  return done(
    root,
    entries.map(({ manifest }) => manifest),
  );
}

type Store = (mediaType: string, content: Buffer | object) => Stored;

function platformManifest(image: ImageDescription, platform: ImagePlatform, store: Store): Stored {
  const media = MEDIA[image.format];
  const layer = store(media.layer, gzipSync(EMPTY_TAR));
  const config = store(media.config, {
    ...platform,
    created: BUILT_AT,
    config: { Labels: { "dev.berth.test/content": image.content, ...image.labels } },
    rootfs: { type: "layers", diff_ids: [digestOf(EMPTY_TAR)] },
    history: [{ created: BUILT_AT, created_by: "berth-testcluster" }],
  });
  return manifest(media.manifest, config, [descriptor(layer)]);
}

/** As BuildKit attaches it to an image: docs/attestations/attestation-storage.md there. */
function attestation(subject: Stored, store: Store): Entry {
  const statement = store("application/vnd.in-toto+json", {
    _type: "https://in-toto.io/Statement/v0.1",
    predicateType: "https://slsa.dev/provenance/v0.2",
    subject: [{ name: "_", digest: { sha256: subject.digest.slice("sha256:".length) } }],
    predicate: {},
  });
  const config = store(MEDIA.oci.config, {
    architecture: "unknown",
    os: "unknown",
    config: {},
    rootfs: { type: "layers", diff_ids: [statement.digest] },
  });
  const annotations = { "in-toto.io/predicate-type": "https://slsa.dev/provenance/v0.2" };
  return {
    manifest: manifest(MEDIA.oci.manifest, config, [{ ...descriptor(statement), annotations }]),
    says: {
      annotations: {
        "vnd.docker.reference.digest": subject.digest,
        "vnd.docker.reference.type": "attestation-manifest",
      },
      platform: { architecture: "unknown", os: "unknown" },
    },
  };
}

/** OCI's whatever the image's format: Docker has no artifacts. */
function artifact(image: ImageDescription, store: Store): Stored {
  const empty = store(EMPTY_JSON, {});
  const payload = store("text/plain", Buffer.from(image.content));
  return manifest(MEDIA.oci.manifest, empty, [descriptor(payload)], { artifactType: ARTIFACT_TYPE });
}

function manifest(mediaType: string, config: Stored, layers: readonly object[], more: object = {}): Stored {
  return toStored(mediaType, { schemaVersion: 2, mediaType, ...more, config: descriptor(config), layers });
}

function descriptor({ mediaType, digest, bytes }: Stored): object {
  return { mediaType, digest, size: bytes.length };
}

function toStored(mediaType: string, content: Buffer | object): Stored {
  const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
  return { mediaType, digest: digestOf(bytes), bytes };
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** Repository and tag as OCI distribution specification 1.1 allows them. */
const NAME =
  /^([a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*):(\w[\w.-]{0,127})$/;

export function parseImageName(name: string): Pick<ImageDescription, "repository" | "tag"> {
  const [, repository, tag] = NAME.exec(name) ?? [];
  if (repository === undefined || tag === undefined) {
    throw new TypeError(`"${name}" is no image of a registry: write repository:tag`);
  }
  return { repository, tag };
}

export function parsePlatform(text: string): ImagePlatform {
  const match =
    /^(?<os>[a-z0-9]+)(?:\((?<version>[\d.]+)\))?\/(?<architecture>[a-z0-9]+)(?:\/(?<variant>\w+))?$/;
  const { os, version, architecture, variant } = match.exec(text)?.groups ?? {};
  if (os === undefined || architecture === undefined) {
    throw new TypeError(`"${text}" is no platform: write os/architecture[/variant]`);
  }
  return {
    architecture,
    os,
    ...(version === undefined ? {} : { "os.version": version }),
    ...(variant === undefined ? {} : { variant }),
  };
}
