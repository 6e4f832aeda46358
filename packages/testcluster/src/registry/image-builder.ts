import { type ImageDescription, parseImageName, parsePlatform } from "./image-content.ts";

/**
 * Describes an image step by step; immutable and deterministic like `NodeBuilder`. One platform makes a manifest with its
 * config, any other number an index of such. The layers are there and hold no files.
 */
export interface ImageBuilder {
  /** Replaces the platforms: `linux/amd64`, `linux/arm/v7`, `windows(10.0.20348.2031)/amd64`. Default `linux/amd64`. */
  platforms(...platforms: readonly string[]): ImageBuilder;
  /** An index even for one platform. */
  asIndex(): ImageBuilder;
  /** The media types of Docker: image manifest version 2, schema 2, and its manifest list. Default those of OCI. */
  docker(): ImageBuilder;
  /** Adds to the index what BuildKit adds for each platform: a provenance attestation, `unknown/unknown`. */
  withAttestation(): ImageBuilder;
  /** Adds an artifact to the index, as signing tools do: an entry with an `artifactType` and no platform. */
  withArtifact(): ImageBuilder;
  /** Adds an image of this platform to the index, in an entry that does not say so. */
  withoutPlatform(platform: string): ImageBuilder;
  /** No image at all but an artifact, such as a chart: a manifest with an `artifactType` and the empty config. */
  asArtifact(): ImageBuilder;
  /**
   * What makes it different from others: images of the same content, platforms and media types have the same digests,
   * whatever their names. Default: the name.
   */
  content(content: string): ImageBuilder;
  /** Adds labels to the config of each platform. */
  labelled(labels: Readonly<Record<string, string>>): ImageBuilder;
  /** What it consists of. */
  build(): ImageDescription;
}

/**
 * An image of this repository and tag, such as `team/app:1`, for `linux/amd64`.
 *
 * @throws TypeError for a name without a tag, with a host, or with characters that no registry takes.
 */
export function anImage(name: string): ImageBuilder {
  return imageBuilder({
    ...parseImageName(name),
    content: name,
    labels: {},
    platforms: [parsePlatform("linux/amd64")],
    unlabelled: [],
    format: "oci",
    isIndex: false,
    isArtifact: false,
    attested: false,
    withArtifact: false,
  });
}

function imageBuilder(image: ImageDescription): ImageBuilder {
  const but = (change: Partial<ImageDescription>): ImageBuilder => imageBuilder({ ...image, ...change });
  return {
    platforms: (...platforms) =>
      but({ platforms: platforms.map(parsePlatform), isIndex: image.isIndex || platforms.length !== 1 }),
    asIndex: () => but({ isIndex: true }),
    docker: () => but({ format: "docker" }),
    withAttestation: () => but({ attested: true, isIndex: true }),
    withArtifact: () => but({ withArtifact: true, isIndex: true }),
    withoutPlatform: (platform) =>
      but({ unlabelled: [...image.unlabelled, parsePlatform(platform)], isIndex: true }),
    asArtifact: () => but({ isArtifact: true }),
    content: (content) => but({ content }),
    labelled: (labels) => but({ labels: { ...image.labels, ...labels } }),
    build: () => structuredClone(image),
  };
}
