/** Manifests and indexes as registries send them, and what is read from them in short, for tests. */
import { type ParsedManifest, parseManifest } from "../manifest.ts";
import { platformText } from "../platform.ts";

export const OCI_INDEX: string = "application/vnd.oci.image.index.v1+json";
export const OCI_MANIFEST: string = "application/vnd.oci.image.manifest.v1+json";
export const OCI_CONFIG: string = "application/vnd.oci.image.config.v1+json";
export const SCHEMA_1: string = "application/vnd.docker.distribution.manifest.v1";
export const HELM_CONFIG: string = "application/vnd.cncf.helm.config.v1+json";
export const DOCKER_LIST: string = "application/vnd.docker.distribution.manifest.list.v2+json";
export const DOCKER_MANIFEST: string = "application/vnd.docker.distribution.manifest.v2+json";
export const DOCKER_CONFIG: string = "application/vnd.docker.container.image.v1+json";

export const bytesOf = (value: unknown): Uint8Array =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
export const digestOf = (digit: number): string => `sha256:${`${digit % 10}`.repeat(64)}`;

interface EntryOptions {
  readonly type?: string;
  readonly digit?: number;
  readonly more?: object;
}
export const entry = (
  platform: unknown,
  { type = OCI_MANIFEST, digit = 1, more = {} }: EntryOptions = {},
): object => ({
  mediaType: type,
  digest: digestOf(digit),
  size: 7,
  ...(platform === undefined ? {} : { platform }),
  ...more,
});
export const linux = (architecture: string, variant?: string): object => ({
  os: "linux",
  architecture,
  variant,
});
export const indexOf = (manifests: readonly unknown[], more: object = {}): object => ({
  schemaVersion: 2,
  mediaType: OCI_INDEX,
  manifests,
  ...more,
});
export const imageOf = (config: object, more: object = {}): object => ({
  schemaVersion: 2,
  mediaType: OCI_MANIFEST,
  config: { mediaType: OCI_CONFIG, digest: digestOf(2), size: 100, ...config },
  layers: [],
  ...more,
});
export const platformsOf = (value: unknown): readonly string[] => {
  const parsed = parseManifest(bytesOf(value), OCI_INDEX);
  if (parsed.kind !== "index") throw new Error(JSON.stringify(parsed));
  return parsed.platforms.map(platformText);
};
export const whyOf = (parsed: ParsedManifest): string =>
  parsed.kind === "malformed" ? parsed.why : parsed.kind;
